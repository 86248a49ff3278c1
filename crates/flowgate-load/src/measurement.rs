//! What a run counts and measures, in bounded memory.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock_offset::ServerClock;
use crate::connection::Answer;
use crate::counts::RequestCounts;
use crate::detail::{self, Detail};
use crate::event::{Batch, Event, Outcome};
use crate::failure::Failure;
use crate::find::blocks::Blocks;
use crate::pacing::Sends;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::{Asked, Curves, nanos};
use crate::spread::Durations;
use crate::timeline::{Slot, Timeline};
use crate::verdict::too_many_errors;

/// Maximum number of slots that are shorter than one second: enough for a chart.
const FINE_SLOTS: u64 = 120;
/// Number of sends that a slot should have, so that a chart shows the rate and not single requests.
const SENDS_A_SLOT: f64 = 20.0;
/// Lengths of the slots of short runs, which divide one second.
const FINE_NS: [u64; 6] = [
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
];
/// Shortest slots of a run without a rate.
const UNPACED_NS: u64 = 100_000_000;
/// Number of planned seconds beyond which slots become longer than one second.
const MAX_PLANNED: u64 = 3600;
/// Maximum number of slots: twice the planned ones, because responses may arrive long after the last scheduled time.
const MAX_SLOTS: u64 = 2 * MAX_PLANNED;
const SECOND_NS: u64 = 1_000_000_000;
/// Resolution and duration of the recent counts.
const TICK_NS: u64 = 100_000_000;
const RECENT_TICKS: usize = 600;
const TICKS_A_SECOND: usize = (SECOND_NS / TICK_NS) as usize;

/// Everything recorded during a run.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) counts: RequestCounts,
    max_error_share: f64,
    pub(crate) sends: Sends,
    pub(crate) longest_queued: Duration,
    /// The same counts in parts, for a search.
    pub(crate) blocks: Option<Blocks>,
    lag: Durations,
    service: Durations,
    /// Response times, and counts by time.
    detail: detail::Blocks,
    /// The clock of the server, if those of several machines are to be compared.
    server_clock: Option<ServerClock>,
    /// The earliest and the latest send.
    ends_ns: Option<(u64, u64)>,
    /// Sends of each thread that may still be preceded by others.
    ahead: Vec<(u64, VecDeque<(u64, u64)>)>,
    slots: Slots,
    /// Ticks since the start, or the last [`RECENT_TICKS`].
    recent: VecDeque<Tick>,
    /// Index of the first of these ticks.
    first_tick: u64,
    /// The current second, and the previous one.
    last_second: [Second; 2],
    in_flight: u64,
    /// Since when a request has been in flight.
    busy_since_ns: u64,
    last_done_ns: u64,
}

/// What happened in a tenth of a second.
#[derive(Clone, Copy, Debug, Default)]
struct Tick {
    sent: u64,
    longest_ns: u64,
}

/// Response times and lags of one second.
#[derive(Debug)]
struct Second {
    number: u64,
    response: Durations,
    lag: Durations,
}

/// The timeline so far.
#[derive(Debug)]
struct Slots {
    width_ns: u64,
    slots: Vec<Slot>,
    /// The slot that currently collects times.
    open: usize,
    response: Durations,
    lag: Durations,
}

impl Measurement {
    /// Creates a measurement of a run by this plan, by `threads` threads.
    pub(crate) fn new(plan: &Plan, asked: &Asked, threads: usize) -> Measurement {
        let pace = &plan.pace;
        let second = || Second {
            number: 0,
            response: Durations::new(),
            lag: Durations::new(),
        };
        Measurement {
            counts: RequestCounts {
                scheduled: plan.requests(),
                ..RequestCounts::default()
            },
            max_error_share: asked.max_error_share,
            sends: Sends::new(asked.mode, asked.window),
            longest_queued: Duration::ZERO,
            blocks: None,
            lag: Durations::new(),
            service: Durations::new(),
            detail: detail::Blocks::new(pace.span()),
            server_clock: plan.slice.map(|slice| ServerClock::new(slice.start_at)),
            ends_ns: None,
            ahead: (0..threads).map(|_| (0, VecDeque::new())).collect(),
            slots: Slots::new(slot_ns(pace.span(), asked.per_second)),
            recent: VecDeque::with_capacity(RECENT_TICKS),
            first_tick: 0,
            last_second: [second(), second()],
            in_flight: 0,
            busy_since_ns: 0,
            last_done_ns: 0,
        }
    }

    pub(crate) fn take_down(&mut self, batch: &Batch) {
        for &event in &batch.events {
            self.event(batch.shard, event);
        }
        if let Some(ahead) = self.ahead.get_mut(batch.shard) {
            ahead.0 = batch.until_ns;
        }
        self.settle();
    }

    /// Completes the measurement after all threads have ended.
    pub(crate) fn end(&mut self) {
        self.ahead.iter_mut().for_each(|ahead| ahead.0 = u64::MAX);
        self.settle();
        self.detail.end();
    }

    fn event(&mut self, shard: usize, event: Event) {
        match event {
            Event::Scheduled { scheduled_ns } => self.slots.at(scheduled_ns).scheduled += 1,
            Event::Skipped { scheduled_ns } => {
                self.counts.skipped += 1;
                self.slots.at(scheduled_ns).scheduled += 1;
            }
            Event::Queued { wait_ns } => {
                self.counts.queued += 1;
                let wait = Duration::from_nanos(wait_ns);
                self.longest_queued = self.longest_queued.max(wait);
            }
            Event::Resent => self.counts.resent += 1,
            Event::Sent {
                scheduled_ns,
                sent_ns,
            } => self.sent(shard, scheduled_ns, sent_ns),
            Event::Over {
                scheduled_ns,
                sent_ns,
                done_ns,
                outcome,
            } => self.over(scheduled_ns, sent_ns, done_ns, outcome),
        }
    }

    fn sent(&mut self, shard: usize, scheduled_ns: u64, sent_ns: u64) {
        self.counts.sent += 1;
        if self.in_flight == 0 {
            self.busy_since_ns = self.busy_since_ns.max(sent_ns);
        }
        self.in_flight += 1;
        let (first, last) = self.ends_ns.unwrap_or((sent_ns, sent_ns));
        self.ends_ns = Some((first.min(sent_ns), last.max(sent_ns)));
        let lag_ns = sent_ns.saturating_sub(scheduled_ns);
        self.lag.record_ns(lag_ns);
        self.second(sent_ns).lag.record_ns(lag_ns);
        self.slots.sent(sent_ns, lag_ns);
        self.detail.at(sent_ns).sent += 1;
        self.tick(sent_ns).sent += 1;
        if let Some(ahead) = self.ahead.get_mut(shard) {
            ahead.1.push_back((sent_ns, scheduled_ns));
        }
    }

    fn over(&mut self, scheduled_ns: u64, sent_ns: Option<u64>, done_ns: u64, outcome: Outcome) {
        match sent_ns {
            Some(_) => self.in_flight = self.in_flight.saturating_sub(1),
            None => self.counts.unsent += 1,
        }
        self.last_done_ns = self.last_done_ns.max(done_ns);
        if let Some(blocks) = &mut self.blocks {
            blocks.over(scheduled_ns, done_ns, outcome);
        }
        let is_timed = match outcome {
            Outcome::Answered(Answer {
                status,
                bytes,
                date,
                coding,
            }) => {
                if let (Some(clock), Some(sent_ns), Some(date)) =
                    (&mut self.server_clock, sent_ns, date)
                {
                    clock.answered(sent_ns, done_ns, date);
                }
                let before = self.counts.statuses;
                self.counts.statuses.count(status);
                *self.counts.codes.entry(status.as_u16()).or_default() += 1;
                self.counts.body_bytes += bytes;
                if let Some(coding) = coding.filter(|_| bytes > 0) {
                    *self.counts.encoded_bytes.entry(coding).or_default() += bytes;
                }
                let after = self.counts.statuses;
                let slot = self.slots.at(done_ns);
                slot.admitted += after.admitted() - before.admitted();
                slot.limited += after.limited - before.limited;
                slot.failed += after.errors() - before.errors();
                let block = self.detail.at(done_ns);
                block.done += 1;
                block.limited += after.limited - before.limited;
                block.failed += after.errors() - before.errors();
                true
            }
            Outcome::Failed(failure) => {
                *self.counts.failures.entry(failure).or_default() += 1;
                self.slots.at(done_ns).failed += 1;
                let block = self.detail.at(done_ns);
                block.done += 1;
                block.failed += 1;
                // A timed-out request took at least this long. Omitting it would cut the tail off.
                failure == Failure::Timeout
            }
            Outcome::Abandoned => {
                self.counts.unanswered += u64::from(sent_ns.is_some());
                false
            }
        };
        if is_timed {
            // A request that timed out before it could be sent was waited for as well.
            let response_ns = done_ns.saturating_sub(scheduled_ns);
            self.detail.answered(done_ns, response_ns);
            if let Some(sent_ns) = sent_ns {
                self.service.record_ns(done_ns.saturating_sub(sent_ns));
            }
            self.second(done_ns).response.record_ns(response_ns);
            let tick = self.tick(done_ns);
            tick.longest_ns = tick.longest_ns.max(response_ns);
            self.slots.answered(done_ns, response_ns);
        }
    }

    /// Processes, in order, the sends that no thread can precede any more.
    fn settle(&mut self) {
        let until_ns = self.ahead.iter().map(|(until, _)| *until).min();
        let until_ns = until_ns.unwrap_or(u64::MAX);
        loop {
            let fronts = self.ahead.iter_mut().map(|(_, sends)| sends);
            let earliest = fronts
                .filter(|sends| !sends.is_empty())
                .min_by_key(|sends| sends.front().map(|&(sent_ns, _)| sent_ns));
            let Some((sent_ns, scheduled_ns)) = earliest
                .filter(|sends| sends.front().is_some_and(|front| front.0 <= until_ns))
                .and_then(VecDeque::pop_front)
            else {
                return;
            };
            self.sends.push(scheduled_ns, sent_ns);
        }
    }

    /// Returns the tick of `at_ns`, or the oldest known one.
    fn tick(&mut self, at_ns: u64) -> &mut Tick {
        let tick = at_ns / TICK_NS;
        let mut index = usize::try_from(tick.saturating_sub(self.first_tick)).unwrap_or(usize::MAX);
        if index >= self.recent.len() {
            let new = (index + 1 - self.recent.len()).min(RECENT_TICKS);
            for _ in 0..new {
                if self.recent.len() == RECENT_TICKS {
                    self.recent.pop_front();
                }
                self.recent.push_back(Tick::default());
            }
            index = self.recent.len() - 1;
            self.first_tick = (tick + 1).saturating_sub(self.recent.len() as u64);
        }
        &mut self.recent[index]
    }

    /// Returns the second of `at_ns`, or the current one if it has passed.
    fn second(&mut self, at_ns: u64) -> &mut Second {
        let number = at_ns / SECOND_NS;
        if number > self.last_second[0].number {
            self.last_second.swap(0, 1);
            let newest = &mut self.last_second[0];
            newest.number = number;
            newest.response.reset();
            newest.lag.reset();
        }
        &mut self.last_second[0]
    }

    /// Returns the progress. `scheduled`: number of requests scheduled until now and their rate, if known.
    pub(crate) fn progress(
        &mut self,
        elapsed: Duration,
        planned: Option<Duration>,
        scheduled: Option<(u64, f64)>,
    ) -> Progress {
        let now_ns = nanos::of(elapsed);
        // Intervals without events advance, too.
        self.tick(now_ns);
        // The current tick is not complete yet.
        let now_tick = now_ns / TICK_NS;
        let told = usize::try_from(now_tick.saturating_sub(self.first_tick)).unwrap_or(usize::MAX);
        let told = told.min(self.recent.len());
        let ticks = || self.recent.iter().take(told).copied();
        let last_second = told.saturating_sub(TICKS_A_SECOND)..told;
        let in_last_second: u64 = ticks().skip(last_second.start).map(|tick| tick.sent).sum();
        let per_second =
            in_last_second as f64 * TICKS_A_SECOND as f64 / last_second.len().max(1) as f64;
        // At its start, the current second has few events.
        let second = now_ns / SECOND_NS;
        let recent = self
            .last_second
            .iter()
            .filter(|last| last.number + 1 >= second);
        let shown = recent.max_by_key(|last| last.response.len().max(last.lag.len()));
        let quantile = |of: fn(&Second) -> &Durations, share| {
            shown.map_or(Duration::ZERO, |shown| of(shown).at(share))
        };
        let done = self.counts.sent + self.counts.skipped + self.counts.unsent;
        let quiet_since_ns = self.busy_since_ns.max(self.last_done_ns);
        Progress {
            elapsed,
            warm_up_left: Duration::ZERO,
            planned,
            scheduled: self.counts.scheduled,
            scheduled_per_second: scheduled.map_or(per_second, |(_, per_second)| per_second),
            sent_per_second: per_second,
            sent: self.counts.sent,
            admitted: self.counts.statuses.admitted(),
            limited: self.counts.statuses.limited,
            failed: self.counts.errors(),
            errors: self.counts.errors_by_cause(),
            has_too_many_errors: too_many_errors(&self.counts, self.max_error_share).is_some(),
            skipped: self.counts.skipped,
            in_flight: self.in_flight,
            waiting: scheduled.map_or(0, |(scheduled, _)| scheduled.saturating_sub(done)),
            stalled: match self.in_flight {
                0 => Duration::ZERO,
                _ => Duration::from_nanos(now_ns.saturating_sub(quiet_since_ns)),
            },
            recent: ticks().map(|tick| tick.sent).collect(),
            recent_longest: ticks()
                .map(|tick| Duration::from_nanos(tick.longest_ns))
                .collect(),
            response_p50: quantile(|second| &second.response, 0.5),
            response_p99: quantile(|second| &second.response, 0.99),
            lag_p99: quantile(|second| &second.lag, 0.99),
        }
    }

    /// Returns the time from the first send to the last.
    pub(crate) fn span(&self) -> Duration {
        let (first, last) = self.ends_ns.unwrap_or_default();
        Duration::from_nanos(last - first)
    }

    /// Returns lag, response and service, after the end.
    pub(crate) fn durations(&self) -> [&Durations; 3] {
        [&self.lag, self.detail.total(), &self.service]
    }

    /// Returns the values of these shares.
    pub(crate) fn percentiles(&self, shares: &[f64]) -> Curves {
        let of = |durations: &Durations| durations.quantiles(shares);
        Curves {
            lag: of(&self.lag),
            response: of(self.detail.total()),
            service: of(&self.service),
        }
    }

    pub(crate) fn curves(&self) -> Curves {
        Curves {
            lag: self.lag.curve(),
            response: self.detail.total().curve(),
            service: self.service.curve(),
        }
    }

    /// Returns the distributions in full, after the end.
    pub(crate) fn detail(&self) -> Detail {
        let [lag, response, service] = self.durations().map(Durations::histogram);
        let (block, blocks) = self.detail.finished();
        let (first, last) = self.ends_ns.unwrap_or_default();
        Detail {
            first_sent: Duration::from_nanos(first),
            last_sent: Duration::from_nanos(last),
            lag,
            response,
            service,
            server_clock: (self.server_clock.as_ref()).and_then(ServerClock::offset),
            block,
            blocks,
        }
    }

    pub(crate) fn timeline(&mut self) -> Timeline {
        self.slots.timeline()
    }
}

/// Returns the length of the slots of a run of about `planned` at this mean rate: 10 ms to 1 s, or longer beyond an hour.
fn slot_ns(planned: Option<Duration>, per_second: Option<f64>) -> u64 {
    let planned = planned.unwrap_or(Duration::ZERO);
    let by_length_ns = nanos::of(planned) / FINE_SLOTS;
    let by_rate_ns = match per_second {
        Some(rate) => (SENDS_A_SLOT / rate * 1e9) as u64,
        None => UNPACED_NS,
    };
    let least_ns = by_length_ns.max(by_rate_ns);
    if let Some(fine_ns) = FINE_NS.into_iter().find(|width_ns| *width_ns >= least_ns) {
        return fine_ns;
    }
    let seconds = planned.as_secs().saturating_add(1);
    seconds.div_ceil(MAX_PLANNED).saturating_mul(SECOND_NS)
}

impl Slots {
    fn new(width_ns: u64) -> Slots {
        Slots {
            width_ns,
            slots: Vec::new(),
            open: 0,
            response: Durations::new(),
            lag: Durations::new(),
        }
    }

    /// Returns the slot of `at_ns`. If there would be too many, all become longer.
    fn at(&mut self, at_ns: u64) -> &mut Slot {
        while at_ns / self.width_ns >= self.most() {
            self.join();
        }
        let index = self.index(at_ns);
        if index >= self.slots.len() {
            self.slots.resize(index + 1, Slot::default());
        }
        &mut self.slots[index]
    }

    /// Returns the maximum number of slots of this length. Responses may arrive long after the last scheduled time.
    fn most(&self) -> u64 {
        match self.width_ns < SECOND_NS {
            true => 2 * FINE_SLOTS,
            false => MAX_SLOTS,
        }
    }

    /// Joins every two slots into one, or every five if only that divides a second.
    fn join(&mut self) {
        let joined = match self.width_ns {
            20_000_000 | 200_000_000 => 5,
            _ => 2,
        };
        let groups = self.slots.chunks(joined).map(Slot::joined);
        self.slots = groups.collect();
        self.width_ns *= joined as u64;
        // The times continue in the joined slot.
        self.open /= joined;
    }

    /// Returns the index of the slot of `at_ns`, after [`at`](Slots::at) has created it.
    fn index(&self, at_ns: u64) -> usize {
        (at_ns / self.width_ns) as usize
    }

    fn sent(&mut self, at_ns: u64, lag_ns: u64) {
        self.at(at_ns).sent += 1;
        self.open(at_ns);
        self.lag.record_ns(lag_ns);
    }

    fn answered(&mut self, at_ns: u64, response_ns: u64) {
        self.at(at_ns);
        self.open(at_ns);
        self.response.record_ns(response_ns);
    }

    /// Advances to the slot of `at_ns`, unless it has passed: late events count in the current slot.
    fn open(&mut self, at_ns: u64) {
        let index = self.index(at_ns);
        if index > self.open {
            self.close();
            self.open = index;
        }
    }

    fn close(&mut self) {
        if let Some(slot) = self.slots.get_mut(self.open) {
            *slot = slot.with(&Slot {
                response_p50: self.response.at(0.5),
                response_p99: self.response.at(0.99),
                response_max: self.response.at(1.0),
                lag_p99: self.lag.at(0.99),
                ..Slot::default()
            });
        }
        self.response.reset();
        self.lag.reset();
    }

    fn timeline(&mut self) -> Timeline {
        self.close();
        Timeline {
            width: Duration::from_nanos(self.width_ns),
            slots: self.slots.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One request every half second. Its response takes as many microseconds as its scheduled time has seconds.
    fn timeline(planned: Duration, seconds: u64) -> Timeline {
        let mut slots = Slots::new(slot_ns(Some(planned), Some(2.0)));
        for half in 0..2 * seconds {
            let at_ns = half * SECOND_NS / 2;
            slots.at(at_ns).scheduled += 1;
            slots.sent(at_ns, half / 2 * 1_000);
            slots.at(at_ns).admitted += 1;
            slots.answered(at_ns, half / 2 * 1_000);
        }
        slots.timeline()
    }

    #[test]
    fn a_run_of_unknown_length_gets_longer_slots_as_it_goes_on() {
        let lengths = [
            (7_201, 2, 3_601),
            (14_400, 2, 7_200),
            (7_200, 1, 7_200),
            (40_001, 8, 5_001),
        ];
        // The last two take half a minute without optimization: only in the long run.
        let tried = match std::env::var_os("FLOWGATE_LONG") {
            Some(_) => 4,
            None => 2,
        };
        for (seconds, width, len) in lengths.into_iter().take(tried) {
            let timeline = timeline(Duration::ZERO, seconds);
            assert_eq!(timeline.width, Duration::from_secs(width));
            assert_eq!(timeline.slots.len(), len);
            for (start, slot) in timeline.starts() {
                let start = start.as_secs();
                let end = (start + width).min(seconds);
                let count = 2 * (end - start);
                assert_eq!(
                    [slot.scheduled, slot.sent, slot.admitted],
                    [count; 3],
                    "{start} s of {seconds}"
                );
                let longest = Duration::from_micros(end - 1);
                // Durations have three significant digits.
                let is_near = |found: Duration| {
                    found.abs_diff(longest) <= longest.max(Duration::from_micros(1)) / 100
                };
                assert!(
                    is_near(slot.response_max),
                    "{start} s of {seconds}: {slot:?}"
                );
                assert!(
                    is_near(slot.response_p99) && is_near(slot.lag_p99),
                    "{slot:?}"
                );
            }
        }
    }

    #[test]
    fn slots_are_as_short_as_length_and_rate_allow() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (planned, per_second, width_ms) in [
            (Some(Duration::from_millis(500)), Some(10_000.0), 10),
            (seconds(1), Some(1_000.0), 20),
            (seconds(10), Some(1_000.0), 100),
            (seconds(30), Some(1_000.0), 500),
            (seconds(60), Some(1_000.0), 500),
            (seconds(61), Some(1_000.0), 1_000),
            (seconds(3_599), Some(1_000.0), 1_000),
            (seconds(3_600), Some(1_000.0), 2_000),
            // Few sends a slot would draw single requests.
            (seconds(10), Some(50.0), 500),
            (seconds(10), Some(2.0), 1_000),
            (seconds(10), Some(0.0), 1_000),
            (seconds(10), None, 100),
            (None, None, 100),
        ] {
            let width_ns = slot_ns(planned, per_second);
            assert_eq!(width_ns, width_ms * 1_000_000, "{planned:?} {per_second:?}");
        }
    }

    #[test]
    fn short_slots_that_become_too_many_are_joined_to_whole_seconds() {
        let mut slots = Slots::new(10_000_000);
        for tick in 0..600_u64 {
            slots.at(tick * SECOND_NS / 10).sent += 1;
        }
        let timeline = slots.timeline();
        assert_eq!(timeline.width, Duration::from_secs(1));
        assert_eq!(timeline.slots.len(), 60);
        assert!(timeline.slots.iter().all(|slot| slot.sent == 10));
    }

    #[test]
    fn a_slot_as_long_as_planned_stays_so() {
        let timeline = timeline(Duration::from_secs(5_000), 5_010);
        assert_eq!(timeline.width, Duration::from_secs(2));
        assert_eq!(timeline.slots.len(), 2_505);
        assert!(timeline.slots.iter().all(|slot| slot.sent == 4));
    }
}
