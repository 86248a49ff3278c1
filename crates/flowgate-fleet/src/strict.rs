//! A strict limit: nothing is held here, and each decision is the store's.
//!
//! Callers that come while a call is in flight wait, and share the next one. It asks for all of them, in their order. So the calls
//! per second depend on how long a call takes, and not on the callers.
//!
//! ```text
//!   ask ──▶ waiting ──▶ the call that is sent next ──▶ store
//!   ask ──▶    │                                        │ granted, debt
//!              ╰───────── answers, in order ◀───────────╯
//! ```
//!
//! A refusal states the debt. Until enough of it has flowed back, callers are refused here, with one call per second at most.
//!
//! A limit for each key may [lease](Leasing): a busy key then holds tokens in advance.

use crate::busy::{Heat, Lease, Leasing, Places};
use crate::call::{Call, Failure, Reply, Run, Seen};
use crate::cut_off::Alone;
use crate::delivery::{Answer, Delivery, Others, Receiver, Sender};
use crate::keys::{Forget, Keys};
use crate::leaser::Past;
use crate::overshoot::{Lending, MostLent};
use crate::record::Record;
use crate::tally::{Called, Shown, Silence, Tally};
use crate::terms::Terms;
use crate::view::{self, FleetBound, FleetCounts, FleetStanding};
use crate::{Admitted, CutOff, FleetError};
use flowgate::{Clock, Denied, Quota, Timestamp};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// More callers than this do not wait for a limit.
const MOST_WAITING: usize = 100_000;
/// More callers than this do not share a call: the store would be busy with it for milliseconds.
const MOST_IN_A_CALL: usize = 10_000;
/// A store that refuses the calls of a limit, for example because its memory is full, is asked again after this time.
const REFUSED: Duration = Duration::from_secs(1);

/// A refusal that is known here is used for this time. After it, the store is asked: another process may have set the limit back to full, or
/// have stated a larger quota.
const KNOWN: Duration = Duration::from_secs(1);

mod leases;

use leases::OfLease;

/// A limit for each key. A limit without keys has one, the empty text.
#[derive(Debug)]
pub(crate) struct Strict {
    stated: RwLock<Stated>,
    clock: Clock,
    alone: Arc<Alone>,
    capacity: usize,
    keys: Keys<State>,
    tally: Arc<Tally>,
    leasing: Option<Leasing>,
    places: Places,
    /// When idle keys that lease were looked for.
    looked_for_ns: AtomicU64,
    /// The most calls one after the other in which units of a request were taken.
    calls: AtomicU32,
}

/// What this process states.
#[derive(Clone, Debug)]
struct Stated {
    quota: Quota,
    terms: Terms,
    /// The terms of the quota that this one has replaced.
    before: Option<Terms>,
    /// The terms of the leases of busy keys.
    lending: Option<Arc<Lending>>,
    most_lent: Option<MostLent>,
    /// The largest burst and the largest rate that it has stated.
    most_burst: u64,
    fastest: Terms,
}

/// The state of a key, as far as this process knows it.
#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Asker>,
    /// Whether a call is about to be sent, or is in flight.
    is_calling: bool,
    /// When the call was sent.
    sent_at: Timestamp,
    /// The terms of that call.
    asked: Terms,
    /// The terms by which the store has stated what was seen.
    terms: Terms,
    /// The past of the key, unless its lease has it, and when the store stated it.
    past: Past,
    seen_at: Timestamp,
    /// The store refuses the calls of this limit until then.
    refused_until: Timestamp,
    heat: Heat,
    lease: Option<Box<Lease>>,
}

#[derive(Debug)]
pub(crate) struct Asker {
    n: u64,
    answer: Sender,
}

/// What becomes of a caller.
#[derive(Debug)]
pub(crate) enum Asked {
    /// It is decided.
    Now(Answer),
    /// It is decided, and a call has to be announced: few units are left.
    Ahead(Answer),
    /// It waits. `is_first`: no other caller has announced the call.
    Later { answer: Receiver, is_first: bool },
}

/// What has become of those who waited for a call.
#[derive(Debug)]
pub(crate) struct Answered {
    /// Whether others wait by now, for the next call.
    pub(crate) others_wait: bool,
    /// Answers that a caller passes on.
    pub(crate) passed: Vec<Others>,
}

#[cfg(test)]
impl Answered {
    /// Passes the answers on. Returns whether others wait by now.
    pub(crate) fn at_once(self) -> bool {
        self.passed.iter().for_each(Others::pass_on);
        self.others_wait
    }
}

/// What this process knows about a request, without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The limit refuses it for this time.
    Refused(Duration),
    /// The store cannot be asked.
    CutOff,
    /// The store decides.
    Open,
}

impl Forget for State {
    fn is_in_use(&self) -> bool {
        self.is_calling
    }

    fn is_dear(&self) -> bool {
        self.lease.is_some()
    }
}

/// Answers to callers that waited.
type Decided = Vec<(Asker, Answer)>;

impl Strict {
    /// Creates a limit that remembers about as many keys as `capacity`.
    pub(crate) fn new(
        quota: Quota,
        terms: Terms,
        clock: Clock,
        alone: Alone,
        capacity: usize,
    ) -> Self {
        let (most_burst, fastest) = (terms.burst, terms);
        Self {
            stated: RwLock::new(Stated {
                quota,
                terms,
                before: None,
                lending: None,
                most_lent: None,
                most_burst,
                fastest,
            }),
            clock,
            alone: Arc::new(alone),
            capacity,
            keys: Keys::new(capacity),
            tally: Arc::default(),
            leasing: None,
            places: Places::default(),
            looked_for_ns: AtomicU64::new(0),
            calls: AtomicU32::new(1),
        }
    }

    /// Lets busy keys lease.
    ///
    /// # Errors
    ///
    /// Leases cannot keep the overshoot.
    pub(crate) fn leasing(mut self, leasing: Leasing) -> Result<Self, FleetError> {
        let Stated { quota, terms, .. } = self.stated();
        self.leasing = Some(leasing);
        let stated = self.stated.get_mut();
        let stated = stated.unwrap_or_else(PoisonError::into_inner);
        stated.lend(leasing.lender.lending(quota, terms)?);
        Ok(self)
    }

    fn stated(&self) -> Stated {
        let stated = self.stated.read().unwrap_or_else(PoisonError::into_inner);
        stated.clone()
    }

    pub(crate) fn terms(&self) -> Terms {
        let stated = self.stated.read().unwrap_or_else(PoisonError::into_inner);
        stated.terms
    }

    pub(crate) fn quota(&self) -> Quota {
        self.stated().quota
    }

    /// Returns whether another process may state these terms: they are of the quota, or of the one before.
    #[cfg(feature = "server")]
    pub(crate) fn is_stated(&self, terms: &Terms) -> bool {
        let stated = self.stated.read().unwrap_or_else(PoisonError::into_inner);
        let is_before = |before: Terms| before.is_same_quota(terms);
        stated.terms.is_same_quota(terms) || stated.before.is_some_and(is_before)
    }

    /// # Errors
    ///
    /// The limit cannot have this quota.
    pub(crate) fn check_quota(&self, quota: Quota) -> Result<(), FleetError> {
        let kind = self.terms().kind;
        let terms = Terms::of_kind(quota, kind)?;
        if let Some(leasing) = self.leasing {
            leasing.lender.lending(quota, terms)?;
        }
        Alone::of_kind(kind, self.cut_off(), quota, &self.clock, 1).map(drop)
    }

    /// Replaces the quota, from the next call of each key on. A call that is in flight has the old one. What busy keys hold is spent or lost
    /// before that.
    ///
    /// # Errors
    ///
    /// The limit cannot have this quota. Nothing is changed.
    pub(crate) fn set_quota(&self, quota: Quota) -> Result<(), FleetError> {
        let kind = self.terms().kind;
        let terms = Terms::of_kind(quota, kind)?;
        let lender = self.leasing.map(|leasing| leasing.lender);
        let lending = lender.map(|lender| lender.lending(quota, terms));
        let lending = lending.transpose()?;
        self.alone
            .set_quota(kind, quota, &self.clock, self.capacity)?;
        let mut stated = self.stated.write().unwrap_or_else(PoisonError::into_inner);
        stated.before = Some(stated.terms);
        (stated.quota, stated.terms) = (quota, terms);
        stated.most_burst = stated.most_burst.max(terms.burst);
        stated.fastest = stated.fastest.faster(terms);
        if let Some(lending) = lending {
            stated.lend(lending);
        }
        Ok(())
    }

    pub(crate) fn counts(&self) -> FleetCounts {
        self.tally.counts()
    }

    pub(crate) fn cut_off(&self) -> CutOff {
        self.alone.cut_off()
    }

    pub(crate) fn share(&self) -> f64 {
        view::share(self.cut_off())
    }

    /// Returns how much this limit may have been exceeded, if a call ends within `timeout`.
    pub(crate) fn bound(&self, timeout: Duration) -> FleetBound {
        let now = self.clock.now();
        let worst = self.keys.fold(self.tally.worst(), |worst, state| {
            let trouble = state.past().trouble.as_ref();
            trouble.map_or(worst, |trouble| worst.or(&trouble.at(now)))
        });
        let Stated {
            most_burst,
            fastest,
            most_lent,
            ..
        } = self.stated();
        let forgotten = most_lent.map_or(most_burst, |lent| lent.forgotten());
        let bursts = |count: u64| forgotten.saturating_mul(count);
        let of_others = Terms {
            burst: most_burst,
            ..fastest
        };
        let longest = timeout.saturating_mul(self.calls.load(Ordering::Relaxed));
        FleetBound {
            in_flight: u64::try_from(view::flow(&fastest, longest)).unwrap_or(u64::MAX),
            leased: most_lent.map_or(0, |lent| lent.over()),
            forgotten: bursts(worst.amnesias),
            reset: bursts(worst.resets),
            alone: worst.alone_units,
            others_alone: view::others_alone(self.cut_off(), &of_others.bound(), &worst),
        }
    }

    /// Returns what is left of a key, as far as is known here.
    pub(crate) fn standing(&self, record: Record) -> FleetStanding {
        self.with(record, |state| {
            let (now, terms) = (self.clock.now(), self.terms());
            let burst = terms.burst;
            let held = state.lease.as_ref().map_or(0, |lease| lease.held());
            let wait = |n| state.wait_at(now, &terms, n);
            // Fewer units never wait longer: the most that do not wait are between the two.
            let (mut most, mut more) = (0, burst.saturating_add(1));
            while more - most > 1 {
                let middle = most + (more - most) / 2;
                match wait(middle).is_zero() {
                    true => most = middle,
                    false => more = middle,
                }
            }
            FleetStanding {
                limit: burst,
                remaining: most.saturating_add(held).min(burst),
                reset_after: wait(burst),
            }
        })
    }

    fn with<R>(&self, record: Record, with: impl FnOnce(&mut State) -> R) -> R {
        // Only asked of a table that is full.
        let is_stale = |state: &State| {
            let (now, terms) = (self.clock.now(), self.terms());
            let is_idle = state.lease.is_none() || state.heat.is_idle(now);
            is_idle && state.wait_at(now, &terms, terms.burst).is_zero()
        };
        self.keys.with(record, is_stale, with)
    }

    /// Decides on `n` units here, or puts the caller with those that wait for a call. With `is_down`, there is no connection.
    pub(crate) fn ask(&self, record: Record, n: u64, is_down: bool) -> Asked {
        let asked = self.decide(record, n, is_down);
        if let Asked::Now(answer) | Asked::Ahead(answer) = &asked {
            self.tally.answered(answer);
        }
        if self.leasing.is_some() {
            self.look_for_idle(record);
        }
        asked
    }

    fn decide(&self, record: Record, n: u64, is_down: bool) -> Asked {
        if n == 0 {
            return Asked::Now(Ok(Admitted::by_store()));
        }
        let terms = self.terms();
        if n > terms.burst {
            return Asked::Now(Err(Denied::never(n, terms.burst)));
        }
        self.with(record, |state| {
            let of_lease = match self.leasing {
                Some(leasing) => self.of_lease(state, record, n, is_down, leasing),
                None => OfLease::None,
            };
            match of_lease {
                OfLease::Decided(asked) => return asked,
                OfLease::Wait => {}
                OfLease::None => match self.known(state, n, is_down) {
                    Known::Refused(wait) => return Asked::Now(Err(Denied::retry_in(wait))),
                    Known::CutOff => {
                        let answer = self.alone(state, record, n, Silence::Lost);
                        return Asked::Now(answer);
                    }
                    Known::Open => {}
                },
            }
            if state.waiting.len() >= MOST_WAITING {
                return Asked::Now(Err(Denied::queue_full(None)));
            }
            let (sender, answer) = oneshot::channel();
            state.waiting.push_back(Asker { n, answer: sender });
            let is_first = !std::mem::replace(&mut state.is_calling, true);
            Asked::Later { answer, is_first }
        })
    }

    fn known(&self, state: &State, n: u64, is_down: bool) -> Known {
        let now = self.clock.now();
        let wait = state.wait_at(now, &self.terms(), n);
        let is_cut_off = is_down || now < state.refused_until;
        if !wait.is_zero() && (is_cut_off || state.is_fresh(now)) {
            Known::Refused(wait)
        } else if is_cut_off {
            Known::CutOff
        } else {
            Known::Open
        }
    }

    /// The decision of this process while the store does not answer.
    fn alone(&self, state: &mut State, record: Record, n: u64, silence: Silence) -> Answer {
        let is_admitted = self.alone.admits(record, n);
        let admitted = if is_admitted { n } else { 0 };
        self.decided_alone(state, admitted, silence);
        if is_admitted {
            Ok(Admitted::alone())
        } else {
            Err(Denied::outage())
        }
    }

    /// Notes that this process is cut off, and has `admitted` units.
    fn decided_alone(&self, state: &mut State, admitted: u64, silence: Silence) {
        let now = self.clock.now();
        let trouble = &mut state.past_mut().trouble;
        self.tally.decided_alone(trouble, now, admitted, silence);
    }

    /// Decides on `n` units for a caller that waits no longer.
    ///
    /// Its call may be in flight. What the store takes then stays taken, and is not asked for again.
    pub(crate) fn late(&self, record: Record, n: u64) -> Answer {
        let answer = self.with(record, |state| match self.known(state, n, true) {
            Known::Refused(wait) => Err(Denied::retry_in(wait)),
            Known::CutOff | Known::Open => self.alone(state, record, n, Silence::Late),
        });
        self.tally.answered(&answer);
        answer
    }

    /// Returns the call to send, with those that wait for it. Returns `None` if no caller waits any longer.
    pub(crate) fn call(&self, record: Record) -> Option<(Call, Vec<Asker>)> {
        let mut decided = Decided::new();
        let call = self.with(record, |state| {
            if let Some(call) = self.lease_call(state, &mut decided) {
                return call.map(|call| (call, Vec::new()));
            }
            let most = state.waiting.len().min(MOST_IN_A_CALL);
            let waiting = state.waiting.drain(..most);
            let waiting = waiting.filter(|asker| !asker.answer.is_closed());
            let terms = self.terms();
            // The quota may have been replaced since they came.
            let (askers, impossible): (Vec<Asker>, Vec<Asker>) =
                waiting.partition(|asker| asker.n <= terms.burst);
            let never = |asker: Asker| {
                let never = Denied::never(asker.n, terms.burst);
                (asker, Err(never))
            };
            decided.extend(impossible.into_iter().map(never));
            if askers.is_empty() && state.waiting.is_empty() {
                state.is_calling = false;
                return None;
            }
            (state.sent_at, state.asked) = (self.clock.now(), terms);
            state.restate(terms);
            let call = Call {
                record,
                terms,
                seen: state.past().seen,
                runs: runs(&askers).map(run_of).collect(),
            };
            Some((call, askers))
        });
        self.tell(record, decided);
        call
    }

    /// Answers callers that waited.
    fn tell(&self, record: Record, decided: Decided) {
        for (asker, answer) in decided {
            if !asker.answer.is_closed() {
                self.tally.answered(&answer);
            }
            // A caller that has given up receives nothing.
            let told = asker.answer.send(Delivery::alone(answer));
            if told.is_err() && answer == Ok(Admitted::by_store()) {
                self.refund_held(record, asker.n);
            }
        }
    }

    /// Answers those that waited for a call.
    pub(crate) fn answer(
        &self,
        record: Record,
        askers: Vec<Asker>,
        outcome: Result<Reply, Failure>,
    ) -> Answered {
        let mut decided = Decided::new();
        let (answers, others_wait) = self.with(record, |state| {
            if state.lease.as_ref().is_some_and(|lease| lease.is_asking()) {
                self.lease_answer(state, outcome, &mut decided);
                state.is_calling = !state.waiting.is_empty();
                return (Vec::new(), state.is_calling);
            }
            let answers = match outcome {
                Ok(reply) => self.answers(&askers, &reply, state),
                Err(failure) => {
                    self.unanswered(state, state.sent_at, failure);
                    self.decided_alone(state, 0, Silence::Lost);
                    let alone = askers.iter().map(|asker| {
                        // One that has given up, or has been answered without the store, has no part of the share.
                        match asker.answer.is_closed() {
                            true => Err(Denied::outage()),
                            false => self.alone(state, record, asker.n, Silence::Lost),
                        }
                    });
                    alone.collect()
                }
            };
            state.is_calling = !state.waiting.is_empty();
            (answers, state.is_calling)
        });
        let senders = askers.into_iter().map(|asker| asker.answer);
        let passed = Delivery::to_all(senders.zip(answers).inspect(|(asker, answer)| {
            if !asker.is_closed() {
                self.tally.answered(answer);
            }
        }));
        self.tell(record, decided);
        Answered {
            others_wait,
            passed,
        }
    }

    /// Notes that a call of `sent` has no reply.
    fn unanswered(&self, state: &mut State, sent: Timestamp, failure: Failure) {
        let now = self.clock.now();
        let took = now.saturating_duration_since(sent);
        match failure {
            Failure::Lost => self.tally.called(Called::Lost, took),
            Failure::Unreachable => {}
            Failure::Refused(why) => {
                tracing::warn!("the store refuses a limit: {why}");
                state.refused_until = now + REFUSED;
                self.tally.called(Called::Refused, took);
            }
        }
    }

    /// Notes what the reply to a call of `sent` states, which took `units` by these terms.
    fn learn(&self, state: &mut State, sent: Timestamp, terms: &Terms, units: u64, reply: &Reply) {
        let now = self.clock.now();
        // By other terms, what was seen has another meaning.
        let is_same = state.terms == *terms;
        let seen_at = state.seen_at;
        let past = state.past_mut();
        let before = if is_same { past.seen } else { Seen::default() };
        let shown = Shown::of(reply, units, before, past.reset_us, terms);
        self.tally.replied(&mut past.trouble, now, shown);
        if reply.reset_us > 0 {
            past.reset_us = reply.reset_us;
        }
        // The reply to a call that was sent later may have come first.
        let is_newer = sent >= seen_at || reply.seen.at_us >= past.seen.at_us;
        if is_same && is_newer {
            past.seen = reply.seen;
            state.seen_at = now;
        }
    }

    fn answers(&self, askers: &[Asker], reply: &Reply, state: &mut State) -> Vec<Answer> {
        let terms = state.asked;
        let taken = runs(askers).zip(&reply.taken);
        let units = taken.map(|(run, taken)| run[0].n * taken).sum();
        self.learn(state, state.sent_at, &terms, units, reply);
        let mut answers = Vec::with_capacity(askers.len());
        for (run, taken) in runs(askers).zip(&reply.taken) {
            let n = run[0].n;
            answers.extend((0..run.len() as u64).map(|caller| {
                if caller < *taken {
                    Ok(Admitted::by_store())
                } else {
                    Err(Denied::retry_in(wait_after(&terms, reply.seen, n)))
                }
            }));
        }
        let is_granted = answers.iter().all(Result::is_ok);
        let called = if is_granted {
            Called::Granted
        } else {
            Called::Denied
        };
        let took = self.clock.now().saturating_duration_since(state.sent_at);
        self.tally.called(called, took);
        answers
    }
}

impl Stated {
    /// Sets the terms of leases. The store's bucket may be smaller.
    fn lend(&mut self, lending: Arc<Lending>) {
        let lent = MostLent::of(&lending);
        self.most_lent = Some(self.most_lent.map_or(lent, |most| most.or(&lent)));
        self.terms = lending.terms;
        self.lending = Some(lending);
    }
}

impl State {
    fn past(&self) -> &Past {
        let of_lease = self.lease.as_ref().and_then(|lease| lease.past());
        of_lease.unwrap_or(&self.past)
    }

    fn past_mut(&mut self) -> &mut Past {
        let of_lease = self.lease.as_mut().and_then(|lease| lease.past_mut());
        of_lease.unwrap_or(&mut self.past)
    }

    /// Loses what is held.
    fn stop_leasing(&mut self) {
        if let Some(mut lease) = self.lease.take()
            && !lease.is_ending()
        {
            self.past = lease.end();
        }
    }

    /// Sets the terms of the next call. By other terms, what was seen has another meaning: the store is not reminded of it.
    fn restate(&mut self, terms: Terms) {
        if self.terms != terms {
            self.terms = terms;
            let seen = &mut self.past_mut().seen;
            let at_us = seen.at_us;
            *seen = Seen {
                at_us,
                ..Seen::default()
            };
        }
    }

    /// Returns whether the store has stated something a short while ago.
    fn is_fresh(&self, now: Timestamp) -> bool {
        now.saturating_duration_since(self.seen_at) < KNOWN
    }

    /// Returns how long `n` units still have to wait, as far as is known here.
    fn wait_at(&self, now: Timestamp, terms: &Terms, n: u64) -> Duration {
        if self.terms != *terms {
            return Duration::ZERO;
        }
        let passed = now.saturating_duration_since(self.seen_at);
        wait_after(terms, self.past().seen, n).saturating_sub(passed)
    }
}

/// Returns how long `n` units have to wait from the moment that the store stated this.
///
/// Counted from its arrival, that is at most one way of a message too long, and never too short.
fn wait_after(terms: &Terms, seen: Seen, n: u64) -> Duration {
    Duration::from_micros(seen.wait_us(terms, n))
}

/// The part of a limit in a request of several limits. Its calls are beside those that callers share.
impl Strict {
    /// Returns the most units that can be granted.
    pub(crate) fn burst(&self) -> u64 {
        self.terms().burst
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Notes that a request takes units in `calls` calls, one after the other. It is answered after the last one.
    pub(crate) fn takes_in(&self, calls: usize) {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        self.calls.fetch_max(calls, Ordering::Relaxed);
    }

    pub(crate) fn known_of(&self, record: Record, n: u64, is_down: bool) -> Known {
        self.with(record, |state| self.known(state, n, is_down))
    }

    /// Returns how long `n` units have to wait, as far as is known here.
    pub(crate) fn wait_of(&self, record: Record, n: u64) -> Duration {
        let terms = self.terms();
        self.with(record, |state| state.wait_at(self.clock.now(), &terms, n))
    }

    /// Returns how often there are `n` units. Returns `None` if the store has not stated it a short while ago.
    pub(crate) fn room_of(&self, record: Record, n: u64) -> Option<u64> {
        let terms = self.terms();
        self.with(record, |state| {
            let now = self.clock.now();
            let seen = state.past().seen;
            let is_known = seen.at_us > 0 && state.terms == terms && state.is_fresh(now);
            let passed = now.saturating_duration_since(state.seen_at);
            is_known.then(|| seen.room(&terms, passed) / n)
        })
    }

    /// Returns a call for these runs.
    pub(crate) fn call_of(&self, record: Record, runs: Vec<Run>) -> Call {
        let terms = self.terms();
        let seen = self.with(record, |state| {
            state.restate(terms);
            state.past().seen
        });
        Call {
            record,
            terms,
            seen,
            runs,
        }
    }

    /// Notes what the store has stated in a call of `sent`, which took `units` by these terms.
    pub(crate) fn learn_of(
        &self,
        record: Record,
        sent: Timestamp,
        (terms, units): (&Terms, u64),
        reply: &Reply,
    ) {
        self.with(record, |state| self.learn(state, sent, terms, units, reply));
    }

    /// Notes that a call of `sent` has granted its units, or not.
    pub(crate) fn called(&self, sent: Timestamp, is_granted: bool) {
        let called = if is_granted {
            Called::Granted
        } else {
            Called::Denied
        };
        let took = self.clock.now().saturating_duration_since(sent);
        self.tally.called(called, took);
    }

    /// Notes that a call of `sent` has no reply.
    pub(crate) fn unanswered_of(&self, record: Record, sent: Timestamp, failure: Failure) {
        self.with(record, |state| self.unanswered(state, sent, failure));
    }

    /// Decides on `n` units without the store.
    pub(crate) fn alone_of(&self, record: Record, n: u64, silence: Silence) -> Answer {
        self.with(record, |state| self.alone(state, record, n, silence))
    }

    /// Returns `n` units that were admitted without the store, and not used.
    pub(crate) fn refund_alone(&self, record: Record, n: u64) {
        self.alone.refund(record, n);
    }

    /// Notes an answer to a caller.
    pub(crate) fn answered(&self, answer: &Answer) {
        self.tally.answered(answer);
    }
}

fn run_of(askers: &[Asker]) -> Run {
    Run::of(askers.len() as u64, askers[0].n)
}

/// Returns the callers in groups that ask for the same number of units, one after the other.
fn runs(askers: &[Asker]) -> impl Iterator<Item = &[Asker]> {
    askers.chunk_by(|asker, next| asker.n == next.n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::Kind;
    use flowgate::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);

    fn strict(quota: &str, cut_off: CutOff) -> (ManualClock, One) {
        let time = ManualClock::new();
        let quota: Quota = quota.parse().expect("a quota");
        let terms = Terms::of(quota).expect("the store can count it");
        let clock = Clock::from(&time);
        let alone = Alone::new(cut_off, quota, &clock, 1).expect("a share");
        (time, One(Strict::new(quota, terms, clock, alone, 1)))
    }

    /// A limit without keys.
    struct One(Strict);

    impl One {
        fn record() -> Record {
            Record::of("api", b"")
        }

        fn ask(&self, n: u64, is_down: bool) -> Asked {
            self.0.ask(Self::record(), n, is_down)
        }

        fn call(&self) -> Option<(Call, Vec<Asker>)> {
            self.0.call(Self::record())
        }

        fn answer(&self, askers: Vec<Asker>, outcome: Result<Reply, Failure>) -> bool {
            self.0.answer(Self::record(), askers, outcome).at_once()
        }
    }

    fn seen(debt: u64) -> Seen {
        Seen {
            debt,
            at_us: 7,
            began_us: 0,
        }
    }

    fn reply(debt: u64, taken: &[u64]) -> Result<Reply, Failure> {
        Ok(Reply {
            seen: seen(debt),
            taken: taken.to_vec(),
            ..Reply::default()
        })
    }

    fn waits(asked: Asked) -> Receiver {
        match asked {
            Asked::Later { answer, .. } => answer,
            decided => panic!("it is decided: {decided:?}"),
        }
    }

    fn decided(asked: Asked) -> Answer {
        match asked {
            Asked::Now(answer) => answer,
            asked => panic!("it waits, or asks: {asked:?}"),
        }
    }

    #[test]
    fn who_comes_during_a_call_shares_the_next_one() {
        let (_, strict) = strict("10/s", CutOff::Deny);
        let first = strict.ask(2, false);
        assert!(matches!(first, Asked::Later { is_first: true, .. }));
        let mut first = waits(first);
        let (call, askers) = strict.call().expect("one waits");
        assert_eq!(call.runs, [Run::of(1, 2)]);

        let others = [1, 1, 3].map(|units| strict.ask(units, false));
        assert!(others.iter().all(|asked| matches!(
            asked,
            Asked::Later {
                is_first: false,
                ..
            }
        )));
        let mut others = others.map(waits);
        let others_wait = strict.answer(askers, reply(8 * call.terms.period, &[1]));
        assert!(others_wait);
        assert!(first.try_recv().expect("an answer").answer.is_ok());

        let (call, askers) = strict.call().expect("three wait");
        let expected = [Run::of(2, 1), Run::of(1, 3)];
        assert_eq!(call.runs, expected);
        assert!(!strict.answer(askers, reply(10 * call.terms.period, &[2, 0])));
        let answers = others
            .each_mut()
            .map(|other| other.try_recv().expect("an answer").answer);
        let [Ok(one), Ok(_), Err(denied)] = answers else {
            panic!("{answers:?}");
        };
        assert!(!one.is_degraded());
        assert_eq!(denied.retry_after(), Some(3 * SECOND / 10));
    }

    #[test]
    fn who_gives_up_before_the_call_takes_nothing() {
        let (_, strict) = strict("10/s", CutOff::Deny);
        let gives_up = waits(strict.ask(7, false));
        let stays = waits(strict.ask(1, false));
        drop(gives_up);
        let (call, _) = strict.call().expect("one waits");
        assert_eq!(call.runs, [Run::of(1, 1)]);
        drop(stays);

        let (_, strict) = self::strict("10/s", CutOff::Deny);
        drop(waits(strict.ask(7, false)));
        assert!(strict.call().is_none());
        // The next one announces a call of its own.
        assert!(matches!(
            strict.ask(1, false),
            Asked::Later { is_first: true, .. }
        ));
    }

    #[test]
    fn c3_a_refusal_holds_until_enough_has_flowed_back_and_no_longer() {
        let (time, strict) = strict("10/s burst 5", CutOff::Admit);
        let _answer = waits(strict.ask(5, false));
        let (call, askers) = strict.call().expect("one waits");
        strict.answer(askers, reply(5 * call.terms.period, &[1]));
        time.advance(Duration::from_millis(60));
        let denied = decided(strict.ask(2, false)).unwrap_err();
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(140)));
        // It is known here, even if the store cannot be reached.
        assert!(decided(strict.ask(2, true)).is_err());
        time.advance(Duration::from_millis(140) - Duration::from_nanos(1));
        assert!(decided(strict.ask(2, false)).is_err());
        time.advance(Duration::from_nanos(1));
        drop(waits(strict.ask(2, false)));
        assert!(decided(strict.ask(2, true)).is_ok_and(Admitted::is_degraded));
        assert!(decided(strict.ask(6, true)).unwrap_err().is_never());
    }

    #[test]
    fn a_call_reminds_the_store_of_what_it_stated_last() {
        let (_, strict) = strict("10/s", CutOff::Deny);
        let _answer = waits(strict.ask(1, false));
        let (call, askers) = strict.call().expect("one waits");
        assert_eq!(call.seen, Seen::default());
        strict.answer(askers, reply(call.terms.period, &[1]));
        let _answer = waits(strict.ask(1, false));
        let (again, _) = strict.call().expect("one waits");
        let debt = call.terms.period;
        assert_eq!(again.seen, seen(debt));
    }

    #[test]
    fn a_call_without_a_reply_is_decided_alone_and_one_that_is_refused_stays_away_for_a_second() {
        let (time, strict) = strict("8/s", CutOff::Share(1, 4));
        let mut lost = [2, 1].map(|units| waits(strict.ask(units, false)));
        let (_, askers) = strict.call().expect("two wait");
        strict.answer(askers, Err(Failure::Lost));
        let [two, one] = lost
            .each_mut()
            .map(|lost| lost.try_recv().expect("an answer").answer);
        assert!(
            two.is_ok_and(Admitted::is_degraded),
            "a quarter of the limit"
        );
        assert!(one.unwrap_err().is_outage());

        let _answer = waits(strict.ask(1, false));
        let (_, askers) = strict.call().expect("one waits");
        strict.answer(askers, Err(Failure::Refused("OOM".to_owned())));
        assert!(decided(strict.ask(1, false)).unwrap_err().is_outage());
        time.advance(SECOND);
        drop(waits(strict.ask(1, false)));
    }

    #[test]
    fn c1_a_late_answer_counts_in_the_store_and_is_no_loss_of_records() {
        let (time, strict) = strict("8/day", CutOff::Share(1, 4));
        let call = |units: u64| {
            let waiting = waits(strict.ask(units, false));
            (waiting, strict.call().expect("one waits"))
        };
        let (waiting, (first, askers)) = call(1);
        strict.answer(askers, reply(first.terms.period, &[1]));
        drop(waiting);
        let late = |units| strict.0.late(One::record(), units);
        let (waiting, (second, askers)) = call(2);
        drop(waiting);
        assert!(late(2).is_ok_and(Admitted::is_degraded), "a quarter");
        assert!(late(1).unwrap_err().is_outage());
        // The answer comes afterwards: what the store has taken stays taken.
        time.advance(SECOND);
        strict.answer(askers, reply(3 * second.terms.period, &[1]));
        assert!(
            decided(strict.ask(6, false))
                .unwrap_err()
                .retry_after()
                .is_some()
        );
        let counts = strict.0.counts();
        assert_eq!(
            (counts.admitted, counts.degraded, counts.cut_off),
            (1, 1, 1)
        );
        assert_eq!((counts.amnesias, counts.outages), (0, 1));
        let bound = strict.0.bound(SECOND);
        assert_eq!((bound.alone, bound.forgotten), (2, 0));
        assert_eq!(bound.others_alone, Some(7), "they may be late as well");

        // Neither is there an answer: the share is asked once, and the store may be another one.
        let (waiting, (_, askers)) = call(1);
        drop(waiting);
        time.advance(24 * 3_600 * SECOND);
        assert!(late(1).is_ok());
        strict.answer(askers, Err(Failure::Lost));
        assert_eq!(strict.0.counts().degraded_units, 3);
        let (_waiting, (_, askers)) = call(1);
        strict.answer(askers, reply(second.terms.period, &[1]));
        assert_eq!(strict.0.bound(SECOND).forgotten, 8);
    }

    #[test]
    fn c3_a_window_refuses_until_its_end_as_the_store_has_stated_it() {
        let time = ManualClock::new();
        let (quota, clock) = ("5/10s".parse().expect("a quota"), Clock::from(&time));
        let terms = Terms::of_window(quota, Kind::Window).expect("it is exact");
        let alone = Alone::of_kind(Kind::Window, CutOff::Deny, quota, &clock, 1);
        let strict = One(Strict::new(quota, terms, clock, alone.expect("a share"), 1));
        let mut late = waits(strict.ask(3, false));
        let (_, askers) = strict.call().expect("one waits");
        let stated = Seen {
            debt: 4,
            at_us: 17_000_000,
            began_us: 9_000_000,
        };
        let reply = Reply {
            seen: stated,
            taken: vec![0],
            ..Reply::default()
        };
        strict.answer(askers, Ok(reply));
        let denied = late.try_recv().expect("an answer").answer.unwrap_err();
        assert_eq!(denied.retry_after(), Some(2 * SECOND));
        // One unit is left, and more are known to be used.
        let (call, _) = {
            drop(waits(strict.ask(1, false)));
            let _answer = waits(strict.ask(1, false));
            strict.call().expect("one waits")
        };
        assert_eq!(
            (call.seen, call.seen.since_us(Kind::Window)),
            (stated, 9_000_000)
        );
        time.advance(SECOND);
        let denied = decided(strict.ask(2, true)).unwrap_err();
        assert_eq!(denied.retry_after(), Some(SECOND));
    }

    #[test]
    fn c1_a_new_quota_holds_from_the_next_call_and_forgets_what_was_seen_by_the_old_one() {
        let (_, strict) = strict("10/s burst 5", CutOff::Deny);
        let _answer = waits(strict.ask(5, false));
        let (call, askers) = strict.call().expect("one waits");
        // One waits for more than the new burst.
        let mut large = waits(strict.ask(3, false));
        let new = "3/min burst 2".parse().expect("a quota");
        strict.0.set_quota(new).expect("a quota");
        assert_eq!(strict.0.quota(), new);
        strict.answer(askers, reply(5 * call.terms.period, &[1]));
        assert!(decided(strict.ask(3, false)).unwrap_err().is_never());
        let _small = waits(strict.ask(1, false));
        let (again, askers) = strict.call().expect("two wait");
        assert_eq!(again.terms, Terms::of(new).expect("it is exact"));
        assert_eq!(again.seen, seen(0), "in parts of the old quota");
        assert_eq!(again.runs, [Run::of(1, 1)]);
        strict.answer(askers, reply(again.terms.period, &[1]));
        let large = large.try_recv().expect("an answer").answer;
        assert!(large.unwrap_err().is_never());
        let wrong = "3/min burst 9007199254740993".parse().expect("a quota");
        assert!(strict.0.set_quota(wrong).is_err());
        assert_eq!(strict.0.quota(), new);
    }
}
