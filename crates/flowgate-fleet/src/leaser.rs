//! What one process asks for in advance: a leased limit's part that does no I/O.
//!
//! ```text
//!             ╭──────── asks ◀── fewer than `low` units are held, a request is missing some, or a lease is about to end
//!             ▼                                            ▲
//!   one call in flight ──┬─ all that was asked for ────────┤
//!                        ├─ less ──▶ scarce until ─────────┤
//!                        ╰─ no answer ──▶ alone until ─────╯
//! ```
//!
//! A lease ends a fixed time after it was asked for. So neither a message that is late nor a process that was stopped makes its
//! tokens last longer. A process that is scarce asks again when the store has enough for it. One that is alone spends what it
//! holds, and then fills the same limiter from its share.

use crate::call::{Call, Failure, Reply, Run, Seen};
use crate::cut_off::Alone;
use crate::overshoot::Lending;
use crate::record::Record;
use flowgate::{Leased, Timestamp};
use std::sync::Weak;
use std::time::Duration;

/// Demand is averaged over this part of a lease, within these bounds.
const AVERAGED: u32 = 3;
const AVERAGES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(300)];
/// A process that is alone asks the store again after this time.
const LOST: Duration = Duration::from_millis(50);
/// A store that refuses the calls of a limit, for example because its memory is full, is asked again after this time.
const REFUSED: Duration = Duration::from_secs(1);
/// A share that has run dry is looked at again after this time.
const SHARE_DRY: Duration = Duration::from_millis(5);
/// Tokens that are taken from the share in advance can be spent for this time.
const SHARE_SPENT_FOR: Duration = Duration::from_millis(50);

/// Fills the [`Leased`] limiter of one limit.
#[derive(Debug)]
pub(crate) struct Leaser {
    leased: Weak<Leased>,
    record: Record,
    lending: Lending,
    alone: Alone,
    demand: Demand,
    /// When this was looked at last.
    now: Timestamp,
    seen: Seen,
    /// The units of the call that is in flight.
    asked: Option<u64>,
    /// The units of the last lease, and until when it can be spent.
    last: (u64, Timestamp),
    /// Units that requests were refused since the last call.
    missing: u64,
    /// The units of the largest request among them, or of one that waits.
    largest: u64,
    is_waited_for: bool,
    /// Two leases are held, and the largest request that waits needs a third: it has to wait for an end.
    is_stuck: bool,
    /// The store had less than was asked for.
    is_scarce: bool,
    /// The store is not asked before this.
    ask_at: Timestamp,
    /// Since when this process decides alone.
    alone_since: Option<Timestamp>,
    /// The share is not looked at before this.
    share_at: Timestamp,
    random: u64,
}

impl Leaser {
    /// Creates one for a limiter without tokens. `seed` makes processes differ in when they ask.
    pub(crate) fn new(
        leased: Weak<Leased>,
        record: Record,
        lending: Lending,
        alone: Alone,
        seed: u64,
    ) -> Self {
        let average = lending.spent_for / AVERAGED;
        let [shortest, longest] = AVERAGES;
        Self {
            leased,
            record,
            lending,
            alone,
            demand: Demand::over(average.clamp(shortest, longest)),
            now: Timestamp::ORIGIN,
            seen: Seen::default(),
            asked: None,
            last: (0, Timestamp::ORIGIN),
            missing: 0,
            largest: 0,
            is_waited_for: false,
            is_stuck: false,
            is_scarce: false,
            ask_at: Timestamp::ORIGIN,
            alone_since: None,
            share_at: Timestamp::ORIGIN,
            random: seed,
        }
    }

    /// Returns the call to send now. It is then in flight until [`answer`](Self::answer).
    pub(crate) fn call(&mut self, now: Timestamp) -> Option<Call> {
        let leased = self.leased.upgrade()?;
        self.note_use(&leased, now);
        if self.asked.is_some() {
            return None;
        }
        let run = self.run(&leased);
        let times = run.map_or(0, |run| run.times);
        if now < self.ask_at {
            self.fill_alone(&leased, times);
            return None;
        }
        // A process that was alone tells the store what it has seen, and learns whether it is there.
        if run.is_none() && self.alone_since.is_none() {
            return None;
        }
        self.asked = Some(times);
        Some(Call {
            record: self.record,
            terms: self.lending.terms,
            seen: self.seen,
            runs: run.into_iter().collect(),
        })
    }

    /// Notes what has become of the call that was sent at `sent`. A reply that comes too late is a [`Failure::Lost`].
    pub(crate) fn answer(
        &mut self,
        sent: Timestamp,
        now: Timestamp,
        outcome: Result<Reply, Failure>,
    ) {
        let (Some(asked), Some(leased)) = (self.asked.take(), self.leased.upgrade()) else {
            return;
        };
        let pause = match outcome {
            Ok(reply) => return self.lend(&leased, asked, sent, now, &reply),
            Err(Failure::Refused(why)) => {
                tracing::warn!("the store refuses a limit: {why}");
                REFUSED
            }
            Err(Failure::Lost | Failure::Unreachable) => LOST,
        };
        self.note_use(&leased, now);
        self.alone_since.get_or_insert(now);
        self.ask_at = now + pause;
        let times = self.run(&leased).map_or(0, |run| run.times);
        self.fill_alone(&leased, times);
    }

    /// Passes on what the store has answered.
    fn lend(
        &mut self,
        leased: &Leased,
        asked: u64,
        sent: Timestamp,
        now: Timestamp,
        reply: &Reply,
    ) {
        let filler = leased.filler();
        let taken = reply.taken.first().map_or(0, |&taken| taken.min(asked));
        self.note_use(leased, now);
        self.seen = reply.seen;
        // What was refused until now is decided by this answer, if it comes again.
        self.missing = 0;
        if !self.is_waited_for {
            self.largest = 0;
        }
        self.alone_since = None;
        let least = self.worth_asking();
        let wait_us = self.lending.terms.wait_us(reply.seen.debt, least);
        self.is_scarce = taken < asked || wait_us > 0 && asked > 0;
        if taken > 0 {
            let until = sent + self.lending.spent_for;
            self.last = (filler.grant(taken, until), until);
        }
        if self.is_scarce {
            // It is the turn of the others first, of which each takes as much; unless they have just had theirs.
            let others = if taken > 0 {
                self.lending.nodes.into()
            } else {
                1
            };
            let others = (others * least).min(self.lending.terms.burst / 2);
            let others = self.lending.terms.time_of(others.into());
            let turn = others.mul_f64(0.5 + self.draw() / 2.0);
            self.ask_at = now + Duration::from_micros(wait_us) + turn;
            filler.deny_until(self.ask_at);
        } else {
            self.ask_at = now;
            if taken == 0 {
                filler.deny_until(now);
            }
        }
    }

    /// Takes up to `want` units from the share of this process, if the store cannot be asked.
    fn fill_alone(&mut self, leased: &Leased, want: u64) {
        let now = self.now;
        if self.alone_since.is_none() || now < self.share_at {
            return;
        }
        let filler = leased.filler();
        let taken = self.alone.take_up_to(self.record, want);
        if taken > 0 {
            let until = now + SHARE_SPENT_FOR;
            self.last = (filler.grant(taken, until), until);
            self.missing = 0;
        } else if want > 0 || self.alone.is_closed() {
            filler.cut_off();
            self.share_at = now + SHARE_DRY;
            self.missing = 0;
        }
    }

    /// Notes what was used since the last look.
    fn note_use(&mut self, leased: &Leased, now: Timestamp) {
        self.now = now;
        let used = leased.filler().take_use();
        self.demand.note(now, used.admitted + used.refused);
        self.missing = self.missing.saturating_add(used.refused);
        let waiting = u64::try_from(leased.queue().units()).unwrap_or(u64::MAX);
        self.missing = self.missing.max(waiting);
        self.is_waited_for = waiting > 0;
        self.largest = self.largest.max(used.largest);
    }

    /// Returns what to ask for. `None`: there is enough.
    fn run(&mut self, leased: &Leased) -> Option<Run> {
        let held = leased.filler().held().units;
        let (last, _) = self.last;
        let target = self.target();
        let (is_low, is_ending) = (held < self.low_of(target), self.is_ending());
        // Of two leases, the smaller one makes way for a third.
        let kept = if held > last {
            last.max(held - last)
        } else {
            held
        };
        let kept = if is_ending { 0 } else { kept };
        let usual = if is_low || is_ending { target } else { 0 };
        // What is held does not suffice for what is missing.
        let missing = if self.missing > 0 {
            self.missing.min(self.lending.usual).max(kept + 1)
        } else {
            0
        };
        let want = usual.max(missing).max(self.largest).saturating_sub(kept);
        let want = want.min(self.lending.most.saturating_sub(held));
        self.is_stuck = self.is_waited_for && kept + want < self.largest;
        if self.is_stuck {
            return None;
        }

        let least = if self.is_scarce {
            self.worth_asking()
        } else {
            1
        };
        let least = least.max(self.largest.saturating_sub(kept)).min(want);
        (want > 0).then_some(Run {
            times: want,
            units: 1,
            least,
        })
    }

    /// Returns how many units are held after asking.
    fn target(&self) -> u64 {
        let used = self.demand.units_within(self.lending.spent_for);
        // What is left over at the end of a lease is lost.
        let certain = (0.75 * used - used.sqrt()).max(0.0);
        (certain as u64).min(self.lending.usual)
    }

    /// Returns the fewest units that are worth asking for while the store has too few for all. It is the same for all processes
    /// with the same demand, whatever they hold: otherwise, those that hold much would ask for little, and get it first.
    fn worth_asking(&self) -> u64 {
        (self.target() / 2).max(1)
    }

    fn low_of(&self, target: u64) -> u64 {
        (target / 2).min(self.last.0)
    }

    /// Whether a lease that is in use ends soon.
    fn is_ending(&self) -> bool {
        let (units, _) = self.last;
        units > 0 && self.now >= self.renewed_at() && self.target() > 0
    }

    fn renewed_at(&self) -> Timestamp {
        let (_, until) = self.last;
        let before = self.lending.spent_for / 8;
        Timestamp::from_nanos(until.as_nanos().saturating_sub(nanos(before)))
    }

    /// Returns below how many units this has to be woken. `None`: not at all, it is woken by an answer or by the time.
    pub(crate) fn low(&self) -> Option<u64> {
        let is_waiting = self.asked.is_some() || self.is_stuck || self.now < self.look_at();
        (!is_waiting).then(|| self.low_of(self.target()))
    }

    fn look_at(&self) -> Timestamp {
        if self.alone_since.is_some() {
            self.ask_at.min(self.share_at)
        } else {
            self.ask_at
        }
    }

    /// Returns when to look again without being woken.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        if self.asked.is_some() {
            return None;
        }
        let (look_at, renewed_at) = (self.look_at(), self.renewed_at());
        if self.now < look_at {
            return Some(look_at);
        }
        if self.is_stuck {
            let (_, until) = self.last;
            return Some(until.max(self.now + SHARE_DRY));
        }
        let is_renewed = self.last.0 > 0 && self.now < renewed_at && self.target() > 0;
        is_renewed.then_some(renewed_at)
    }

    /// Returns whether the store is known to have no more now.
    pub(crate) fn is_dry(&self, now: Timestamp) -> bool {
        self.alone_since.is_none() && self.asked.is_none() && now < self.ask_at
    }

    /// Returns since when this process decides alone.
    pub(crate) fn alone_since(&self) -> Option<Timestamp> {
        self.alone_since
    }

    /// Returns the terms of the leases.
    pub(crate) fn lending(&self) -> &Lending {
        &self.lending
    }

    /// Returns a number from 0 to 1.
    fn draw(&mut self) -> f64 {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as f64 / u64::MAX as f64
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Units that are asked for per time, averaged with less and less weight.
#[derive(Debug)]
struct Demand {
    average: Duration,
    per_second: f64,
    noted_at: Timestamp,
}

impl Demand {
    fn over(average: Duration) -> Self {
        Self {
            average,
            per_second: 0.0,
            noted_at: Timestamp::ORIGIN,
        }
    }

    fn note(&mut self, now: Timestamp, units: u64) {
        let passed = now.saturating_duration_since(self.noted_at).as_secs_f64();
        let average = self.average.as_secs_f64();
        self.noted_at = self.noted_at.max(now);
        let old = (-passed / average).exp();
        // What a unit of a moment weighs does not depend on how often this is noted.
        let weight = if passed > 0.0 {
            (1.0 - old) / passed
        } else {
            1.0 / average
        };
        self.per_second = self.per_second * old + units as f64 * weight;
    }

    fn units_within(&self, time: Duration) -> f64 {
        self.per_second * time.as_secs_f64()
    }
}

#[cfg(test)]
mod tests;
