//! What one process asks for in advance: a leased limit's part that does no I/O.
//!
//! ```text
//!             ╭──────── asks ◀── fewer than `low` units are held, a request is missing some, or a lease is about to end
//!             ▼                                            ▲
//!   one call in flight ──┬─ tokens that are there ─────────┤
//!                        ├─ tokens of later ──▶ reserved ──┤
//!                        ├─ none ──▶ denied until ─────────┤
//!                        ╰─ no answer ──▶ alone until ─────╯
//! ```
//!
//! A lease ends a fixed time after it was asked for. So neither a message that is late nor a process that was stopped makes its
//! tokens last longer.
//!
//! When all processes together want more than the limit, they take turns. A call states a larger burst than the limit's, so the store
//! debits tokens that have not flowed in yet, one process after the other. Each waits until its own have flowed in, and then spends them.
//! So the order of the calls is the order of the turns, each turn is as large, and hardly a call is in vain. A process that
//! finds no room even there asks again later.
//!
//! One that is alone spends what it holds, and then fills the same limiter from its share.

use crate::call::{Call, Failure, Reply, Run, Seen};
use crate::cut_off::Alone;
use crate::overshoot::{Lending, MostLent, quickened, slowed};
use crate::record::Record;
use crate::tally::{Called, Shown, Silence, Tally, Trouble};
use crate::terms::{Kind, Terms};
use crate::view::{self, FleetBound, FleetCounts};
use crate::{CutOff, FleetError};
use flowgate::{Clock, Filler, Leased, Quota, Timestamp};
use std::sync::{Arc, Weak};
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
/// From the wish for tokens to their use, it takes at least this time: a thread is woken, and the store asked.
const SOONEST: Duration = Duration::from_millis(1);
/// A process that has seen others wait asks for no more than its turn, as long as this many turns of all may take.
const TURNS: u32 = 4;

/// Fills the [`Leased`] limiter of one limit.
#[derive(Debug)]
pub(crate) struct Leaser {
    leased: Weak<Leased>,
    record: Record,
    lending: Arc<Lending>,
    /// They take their place when no call is in flight.
    next: Option<Arc<Lending>>,
    most_lent: MostLent,
    alone: Arc<Alone>,
    tally: Arc<Tally>,
    /// Each request is counted where it is answered. Otherwise, units are counted here.
    is_of_key: bool,
    past: Past,
    demand: Demand,
    /// When this was looked at last.
    now: Timestamp,
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
    /// Tokens that were granted, and have not flowed in yet. No call is sent before they have.
    reserved: Option<Reserved>,
    /// How long it took from a call until its tokens could be used.
    turnaround: Duration,
    /// Others have reserved tokens, too, or the store had less than was asked for. That counts until then.
    contended_until: Timestamp,
    /// The most units to ask for while it is.
    turn: u64,
    /// The store is not asked before this.
    ask_at: Timestamp,
    /// Since when this process decides alone.
    alone_since: Option<Timestamp>,
    /// The share is not looked at before this.
    share_at: Timestamp,
    random: u64,
}

/// What a process knows of a record.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// What the store has stated last.
    pub(crate) seen: Seen,
    /// The last reset that the store has stated.
    pub(crate) reset_us: u64,
    /// What may have let the limit be exceeded. Most records never have any.
    pub(crate) trouble: Option<Box<Trouble>>,
}

/// A lease of tokens that flow in later.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    units: u64,
    from: Timestamp,
    until: Timestamp,
}

impl Leaser {
    /// Creates one for a limiter without tokens. `seed` makes processes differ in when they ask.
    pub(crate) fn new(
        leased: Weak<Leased>,
        record: Record,
        lending: impl Into<Arc<Lending>>,
        alone: impl Into<Arc<Alone>>,
        seed: u64,
    ) -> Self {
        let lending = lending.into();
        Self {
            leased,
            record,
            alone: alone.into(),
            tally: Arc::default(),
            is_of_key: false,
            past: Past::default(),
            demand: Demand::over(averaged(&lending)),
            now: Timestamp::ORIGIN,
            asked: None,
            last: (0, Timestamp::ORIGIN),
            missing: 0,
            largest: 0,
            is_waited_for: false,
            is_stuck: false,
            reserved: None,
            turnaround: SOONEST,
            contended_until: Timestamp::ORIGIN,
            turn: lending.turn,
            next: None,
            most_lent: MostLent::of(&lending),
            lending,
            ask_at: Timestamp::ORIGIN,
            alone_since: None,
            share_at: Timestamp::ORIGIN,
            random: seed,
        }
    }

    /// Goes on for a key of which the `past` is known, and which was asked for `per_second` units until now. What it does is counted with
    /// the other keys.
    pub(crate) fn of_key(
        mut self,
        tally: Arc<Tally>,
        past: Past,
        per_second: f64,
        now: Timestamp,
    ) -> Self {
        (self.tally, self.past, self.is_of_key) = (tally, past, true);
        (self.demand.per_second, self.demand.noted_at) = (per_second, now);
        self
    }

    pub(crate) fn past(&self) -> &Past {
        &self.past
    }

    pub(crate) fn past_mut(&mut self) -> &mut Past {
        &mut self.past
    }

    /// Returns whether a call is in flight.
    pub(crate) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns the call to send now. It is then in flight until [`answer`](Self::answer).
    pub(crate) fn call(&mut self, now: Timestamp) -> Option<Call> {
        let leased = self.leased.upgrade()?;
        self.release(&leased, now);
        if self.asked.is_some() {
            return None;
        }
        if let Some(next) = self.next.take() {
            self.restate(next);
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
            terms: self.lending.stated(),
            seen: self.past.seen,
            runs: run.into_iter().collect(),
        })
    }

    /// Replaces the quota and the terms of leases, from the next call on. Units that are held or reserved are spent as before.
    ///
    /// # Errors
    ///
    /// No limiter can keep the share of the new quota, or such leases. Nothing is changed.
    pub(crate) fn set_quota(
        &mut self,
        quota: Quota,
        lending: Arc<Lending>,
        leased: &Leased,
    ) -> Result<(), FleetError> {
        let kind = lending.limit.kind;
        self.alone.set_quota(kind, quota, leased.clock(), 1)?;
        let set = leased.filler().set_limit(lending.most);
        set.map_err(|error| FleetError::Quota(Box::new(error)))?;
        self.most_lent = self.most_lent.or(&MostLent::of(&lending));
        self.next = Some(lending);
        Ok(())
    }

    /// # Errors
    ///
    /// No limiter can keep the share of this quota.
    pub(crate) fn check_quota(&self, quota: Quota) -> Result<(), FleetError> {
        let clock = Clock::system();
        Alone::of_kind(Kind::Bucket, self.cut_off(), quota, &clock, 1).map(drop)
    }

    pub(crate) fn cut_off(&self) -> CutOff {
        self.alone.cut_off()
    }

    /// Takes other terms. By them, the debt that was seen has another meaning: the store is not reminded of it.
    fn restate(&mut self, lending: Arc<Lending>) {
        let of = |terms: &Terms| (terms.count, terms.period);
        if of(&lending.limit) != of(&self.lending.limit) {
            let at_us = self.past.seen.at_us;
            self.past.seen = Seen {
                at_us,
                ..Seen::default()
            };
        }
        self.turn = lending.turn;
        self.demand.average = averaged(&lending);
        self.contended_until = self.now;
        self.lending = lending;
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
                self.called(Called::Refused, sent, now);
                REFUSED
            }
            Err(Failure::Lost) => {
                self.called(Called::Lost, sent, now);
                LOST
            }
            Err(Failure::Unreachable) => LOST,
        };
        self.note_use(&leased, now);
        self.alone_since.get_or_insert(now);
        let trouble = &mut self.past.trouble;
        self.tally.decided_alone(trouble, now, 0, Silence::Lost);
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
        let is_all = taken == asked;
        self.called(
            if is_all {
                Called::Granted
            } else {
                Called::Denied
            },
            sent,
            now,
        );
        let stated = self.lending.stated();
        let past = &mut self.past;
        let shown = Shown::of(reply, taken, past.seen, past.reset_us, &stated);
        past.reset_us = past.reset_us.max(reply.reset_us);
        self.tally.replied(&mut past.trouble, now, shown);
        past.seen = reply.seen;
        // What was refused until now is decided by this answer, if it comes again.
        self.missing = 0;
        if !self.is_waited_for {
            self.largest = 0;
        }
        self.alone_since = None;
        let is_short = !is_all;
        let pause = self.pause(asked, taken, reply.seen.debt);
        let is_after_others = self.lending.of_others(reply.seen.debt, taken) > 0;
        self.turn = self
            .lending
            .turn_among(self.lending.of_others(reply.seen.debt, taken), self.turn);
        let is_contended = is_short || pause.is_some() || is_after_others;
        self.contended_until = match (is_contended, self.lending.ahead) {
            (true, 0) => Timestamp::from_nanos(u64::MAX),
            (true, _) => now + TURNS * self.lending.ahead_for(),
            (false, 0) => now,
            (false, _) => self.contended_until,
        };
        if taken > 0 {
            self.accept(filler, taken, sent, reply.seen.debt);
        }
        if let Some(reserved) = self.reserved {
            self.ask_at = reserved.from;
        } else if let Some(pause) = pause {
            self.ask_at = now + pause;
        } else {
            self.ask_at = now;
            if taken > 0 {
                return;
            }
        }
        filler.deny_until(self.ask_at);
    }

    /// Passes on the units of a reply now, or when they have flowed in.
    fn accept(&mut self, filler: Filler<'_>, taken: u64, sent: Timestamp, debt: u64) {
        let (now, lending) = (self.now, Arc::clone(&self.lending));
        let until = sent + lending.spent_for;
        let late = Duration::from_micros(lending.terms.wait_us(debt, 0));
        let usable = now + slowed(slowed(late));
        let took = usable.saturating_duration_since(sent).max(SOONEST);
        self.turnaround = took.max(self.turnaround.mul_f64(0.75) + took / 4);
        let is_reserved = lending.ahead > 0 && !late.is_zero();
        let later = if is_reserved {
            lending.not_yet(debt).min(taken)
        } else {
            0
        };
        // What is there can be used at once, unless it would take the place of a lease.
        let later = if filler.held().units > 0 && later > 0 {
            taken
        } else {
            later
        };
        if taken > later {
            self.last = (filler.grant(taken - later, until), until);
        }
        if later > 0 {
            let rounded = Duration::from_micros(1);
            self.reserved = Some(Reserved {
                units: later,
                from: usable,
                until: until + quickened(quickened(late - rounded)),
            });
        }
    }

    /// Returns after what time to ask again, if the store has no room.
    fn pause(&mut self, asked: u64, taken: u64, debt: u64) -> Option<Duration> {
        let lending = Arc::clone(&self.lending);
        if asked == 0 || taken > 0 && lending.ahead > 0 {
            return None;
        }
        let least = self.worth_asking();
        let wait_us = lending.stated().wait_us(debt, least);
        if taken == asked && wait_us == 0 {
            return None;
        }
        // It is the turn of the others first, of which each takes as much; unless they have just had theirs.
        let others = if taken > 0 { lending.nodes.into() } else { 1 };
        let others = (others * least).min(lending.terms.burst / 2);
        let others = lending.terms.time_of(others.into());
        let turn = others.mul_f64(0.5 + self.draw() / 2.0);
        Some(Duration::from_micros(wait_us) + turn)
    }

    /// Returns whether tokens that were reserved have flowed in.
    pub(crate) fn is_ripe(&self, now: Timestamp) -> bool {
        self.reserved.is_some_and(|reserved| reserved.from <= now)
    }

    /// Passes on what was reserved, if it has flowed in.
    pub(crate) fn release(&mut self, leased: &Leased, now: Timestamp) {
        self.note_use(leased, now);
        if let Some(reserved) = self.reserved.take_if(|reserved| reserved.from <= now) {
            let Reserved { units, until, .. } = reserved;
            self.last = (leased.filler().grant(units, until), until);
            // What was refused meanwhile is decided by these.
            self.missing = 0;
            if !self.is_waited_for {
                self.largest = 0;
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
        let trouble = &mut self.past.trouble;
        self.tally.decided_alone(trouble, now, taken, Silence::Lost);
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

    /// Decides on `n` units for a caller that waits no longer. Returns whether they are admitted.
    pub(crate) fn admits_late(&mut self, now: Timestamp, n: u64) -> bool {
        let is_admitted = self.alone.admits(self.record, n);
        let admitted = if is_admitted { n } else { 0 };
        let trouble = &mut self.past.trouble;
        self.tally
            .decided_alone(trouble, now, admitted, Silence::Late);
        self.tally.used(admitted, n - admitted, true);
        is_admitted
    }

    /// Notes what was used since the last look.
    pub(crate) fn note_use(&mut self, leased: &Leased, now: Timestamp) {
        self.now = now;
        let used = leased.filler().take_use();
        let is_alone = self.alone_since.is_some();
        if !self.is_of_key {
            self.tally.used(used.admitted, used.refused, is_alone);
        }
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
            self.missing.min(self.most_wanted()).max(kept + 1)
        } else {
            0
        };
        // Until the answer, some of it is spent.
        let usual = usual.saturating_sub(kept.saturating_sub(self.spent_meanwhile()));
        let want = usual.max(missing.max(self.largest).saturating_sub(kept));
        let want = want.min(self.lending.most.saturating_sub(held));
        self.is_stuck = self.is_waited_for && kept + want < self.largest;
        if self.is_stuck {
            return None;
        }

        let least = if self.is_contended() {
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
        let certain = (0.75 * used - 1.2 * used.sqrt()).max(0.0);
        let wanted = if self.is_waiting_its_turn() {
            // What is spent until its next turn. It is as long as a lease at most.
            certain.max(self.demand.units_within(self.turnaround))
        } else {
            certain
        };
        (wanted as u64).min(self.most_wanted())
    }

    fn is_waiting_its_turn(&self) -> bool {
        self.is_contended() && self.lending.ahead > 0
    }

    fn is_contended(&self) -> bool {
        self.now < self.contended_until
    }

    fn most_wanted(&self) -> u64 {
        if self.is_waiting_its_turn() {
            self.turn
        } else {
            self.lending.usual
        }
    }

    /// Returns the fewest units that are worth asking for while the store has too few for all. It is the same for all processes
    /// with the same demand, whatever they hold: otherwise, those that hold much would ask for little, and get it first.
    fn worth_asking(&self) -> u64 {
        (self.target() / 2).max(1)
    }

    /// Returns about how many units are spent until those that are asked for now can be used.
    fn spent_meanwhile(&self) -> u64 {
        let spent = self.demand.units_within(self.turnaround);
        (1.25 * spent + 2.0 * spent.sqrt()) as u64 + 1
    }

    /// Returns below how many units to ask.
    fn low_of(&self, target: u64) -> u64 {
        let most = if self.is_waiting_its_turn() {
            // It joins the others early, but not for little.
            target.min(self.lending.most - target / 2)
        } else {
            target / 2
        };
        self.spent_meanwhile().min(most).min(self.last.0)
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

    fn called(&self, what: Called, sent: Timestamp, now: Timestamp) {
        self.tally.called(what, now.saturating_duration_since(sent));
    }

    /// Returns what was counted, up to the last look.
    pub(crate) fn counts(&self) -> FleetCounts {
        self.tally.counts()
    }

    /// Returns how much the limit may have been exceeded by now.
    pub(crate) fn bound(&self, now: Timestamp) -> FleetBound {
        let cut_off = self.alone.cut_off();
        let worst = self.tally.worst();
        let trouble = self.past.trouble.as_ref();
        let worst = trouble.map_or(worst, |trouble| worst.or(&trouble.at(now)));
        let lent = &self.most_lent;
        let bursts = |count: u64| lent.forgotten().saturating_mul(count);
        FleetBound {
            in_flight: 0,
            leased: lent.over(),
            forgotten: bursts(worst.amnesias),
            reset: bursts(worst.resets),
            alone: worst.alone_units,
            others_alone: view::others_alone(cut_off, &lent.limit(), &worst),
        }
    }

    /// Returns the terms of the leases.
    pub(crate) fn lending(&self) -> &Arc<Lending> {
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

/// Returns over what time demand is averaged.
fn averaged(lending: &Lending) -> Duration {
    let [shortest, longest] = AVERAGES;
    (lending.spent_for / AVERAGED).clamp(shortest, longest)
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
mod goals;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trial;
