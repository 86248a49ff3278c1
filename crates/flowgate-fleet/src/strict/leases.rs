//! Keys of a strict limit that lease while they are busy.

use super::{Asked, Asker, Decided, State, Strict};
use crate::Admitted;
use crate::busy::{Lease, Leasing, MOST_LEASING, Place};
use crate::call::{Call, Failure, Reply};
use crate::leaser::Leaser;
use crate::overshoot::Lending;
use crate::record::Record;
use flowgate::{Leased, Timestamp};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// If no more keys can lease, idle ones are looked for this often.
const LOOKED_FOR: Duration = Duration::from_millis(10);

/// What the lease of a key does with a request.
pub(super) enum OfLease {
    Decided(Asked),
    /// The request waits for the next call.
    Wait,
    /// The request is as that of a strict key.
    None,
}

/// The part of busy keys.
impl Strict {
    pub(super) fn of_lease(
        &self,
        state: &mut State,
        record: Record,
        n: u64,
        is_down: bool,
        leasing: Leasing,
    ) -> OfLease {
        let now = self.clock.now();
        let is_cut_off = is_down || now < state.refused_until;
        let has_cooled = state.heat.note(now, n);
        let Some(lending) = self.stated().lending else {
            return OfLease::None;
        };
        let is_over = |lease: &Lease| has_cooled || !lease.is_of(&lending);
        if !state.is_calling && state.lease.as_deref().is_some_and(is_over) {
            state.stop_leasing();
        }
        if state.lease.is_none() && !is_cut_off && state.heat.is_busy(leasing.busy) {
            let place = self.places.enter(MOST_LEASING.min(self.capacity));
            match place {
                Some(place) => self.lease(state, record, now, (leasing, lending, place)),
                None => return OfLease::None,
            }
        }
        let Some(lease) = &mut state.lease else {
            return OfLease::None;
        };
        if n > lease.most() {
            return OfLease::None;
        }
        match lease.take(now, n) {
            Ok(()) => {
                let answer = Ok(Admitted::by_store());
                let is_ahead = !state.is_calling && !is_cut_off && lease.is_due(now);
                state.is_calling |= is_ahead;
                OfLease::Decided(match is_ahead {
                    true => Asked::Ahead(answer),
                    false => Asked::Now(answer),
                })
            }
            Err(_) if lease.is_ending() => {
                if lease.held() == 0 {
                    state.lease = None;
                }
                OfLease::None
            }
            Err(_) if is_cut_off => OfLease::None,
            Err(denied) if !lease.is_due(now) && lease.is_dry(now) => {
                OfLease::Decided(Asked::Now(Err(denied)))
            }
            Err(_) => OfLease::Wait,
        }
    }

    /// Begins to lease.
    fn lease(
        &self,
        state: &mut State,
        record: Record,
        now: Timestamp,
        (leasing, lending, place): (Leasing, Arc<Lending>, Place),
    ) {
        let leased = Leased::builder(lending.most).clock(self.clock.clone());
        // A limit of leases is in the range of the limiter.
        let Ok(leased) = leased.build() else { return };
        // What was seen by another quota has another meaning.
        state.restate(lending.terms);
        let past = std::mem::take(&mut state.past);
        let lease = Lease::new(&state.heat, now, place, leased, |leased, per_second| {
            let weak = Arc::downgrade(leased);
            let seed = leasing.seed ^ record.spread(usize::MAX) as u64;
            let leaser = Leaser::new(weak, record, lending, Arc::clone(&self.alone), seed);
            leaser.of_key(Arc::clone(&self.tally), past, per_second, now)
        });
        let lease = state.lease.insert(Box::new(lease));
        for asker in &state.waiting {
            // It is missing, and asked for with the first call.
            let _ = lease.take(now, asker.n);
        }
    }

    /// Returns the call of a lease, or `None` in its place if there is none to send now. Returns `None` if the key's next call is that of a
    /// strict one.
    pub(super) fn lease_call(
        &self,
        state: &mut State,
        decided: &mut Decided,
    ) -> Option<Option<Call>> {
        let lending = self.stated().lending?;
        if state
            .lease
            .as_ref()
            .is_some_and(|lease| !lease.is_of(&lending))
        {
            state.stop_leasing();
        }
        let State {
            lease,
            waiting,
            sent_at,
            ..
        } = state;
        let lease = lease.as_mut().filter(|lease| !lease.is_ending())?;
        let now = self.clock.now();
        waiting.retain(|asker| !asker.answer.is_closed());
        if waiting.iter().any(|asker| asker.n > lease.most()) {
            return None;
        }
        // What cannot be served is missing, and asked for in the second round.
        for has_answered in [false, true] {
            serve(lease, waiting, has_answered, now, decided);
            if let Some(call) = lease.call(now) {
                *sent_at = now;
                return Some(Some(call));
            }
        }
        serve(lease, waiting, true, now, decided);
        lease.rest();
        if !waiting.is_empty() {
            return None;
        }
        state.is_calling = false;
        Some(None)
    }

    /// Passes on what has become of the call of a lease.
    pub(super) fn lease_answer(
        &self,
        state: &mut State,
        outcome: Result<Reply, Failure>,
        decided: &mut Decided,
    ) {
        let (now, sent) = (self.clock.now(), state.sent_at);
        match (outcome, &mut state.lease) {
            (Ok(reply), Some(lease)) => {
                lease.answer(sent, now, reply);
                serve(lease, &mut state.waiting, true, now, decided);
                lease.rest();
                (state.terms, state.seen_at) = (lease.terms(), now);
            }
            (Ok(_), None) => {}
            (Err(failure), lease) => {
                if let Some(lease) = lease {
                    state.past = lease.end();
                }
                self.unanswered(state, sent, failure);
            }
        }
    }

    /// Takes `n` units of those that the key holds. Returns whether it has as many.
    pub(crate) fn takes_held(&self, record: Record, n: u64, is_down: bool) -> bool {
        let Some(leasing) = self.leasing else {
            return false;
        };
        self.with(record, |state| {
            let of_lease = self.of_lease(state, record, n, is_down, leasing);
            if let OfLease::Decided(Asked::Ahead(_)) = of_lease {
                // The next request announces it.
                state.is_calling = false;
            }
            matches!(
                of_lease,
                OfLease::Decided(Asked::Now(Ok(_)) | Asked::Ahead(Ok(_)))
            )
        })
    }

    /// Returns `n` units that were held and taken, and not used.
    pub(crate) fn refund_held(&self, record: Record, n: u64) {
        self.with(record, |state| {
            if let Some(lease) = &state.lease {
                lease.refund(n);
            }
        });
    }

    /// Lets other keys lease that are idle no more, if too many do.
    pub(super) fn look_for_idle(&self, record: Record) {
        if self.places.taken() < MOST_LEASING.min(self.capacity) {
            return;
        }
        let now = self.clock.now();
        let then_ns = self.looked_for_ns.load(Ordering::Relaxed);
        let next = Timestamp::from_nanos(then_ns) + LOOKED_FOR;
        let looks = now >= next && {
            let swap = self.looked_for_ns.compare_exchange(
                then_ns,
                now.as_nanos(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            swap.is_ok()
        };
        if looks {
            self.keys.beside(record, |state| {
                if !state.is_calling && state.heat.is_idle(now) {
                    state.stop_leasing();
                }
            });
        }
    }
}

/// Answers callers that can be served, in their order; and the others, if the store `has_answered` that there is no more.
fn serve(
    lease: &mut Lease,
    waiting: &mut VecDeque<Asker>,
    has_answered: bool,
    now: Timestamp,
    decided: &mut Decided,
) {
    for asker in std::mem::take(waiting) {
        // A large request waits for a strict call. Each refusal counts as demand: once per answer.
        if asker.n > lease.most() || !has_answered && lease.held() < asker.n {
            waiting.push_back(asker);
            continue;
        }
        match lease.take(now, asker.n) {
            Ok(()) => decided.push((asker, Ok(Admitted::by_store()))),
            Err(denied) if lease.is_dry(now) => decided.push((asker, Err(denied))),
            Err(_) => waiting.push_back(asker),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::Bucket;
    use crate::busy::BUSY;
    use crate::call::{Run, Seen};
    use crate::cut_off::Alone;
    use crate::overshoot::{Lender, Overshoot};
    use crate::strict::Answer;
    use crate::terms::Terms;
    use crate::{CutOff, FleetBound};
    use flowgate::{Clock, ManualClock, Quota};
    use std::collections::HashMap;

    const TIMEOUT: Duration = Duration::from_millis(50);
    const QUOTA: &str = "1000/s burst 1000";

    /// A process, and the store that answers it.
    struct Process {
        time: ManualClock,
        strict: Strict,
        stored: HashMap<Record, Bucket>,
        calls: u64,
        is_up: bool,
    }

    impl Process {
        fn new(overshoot: Overshoot, cut_off: CutOff, capacity: usize) -> Self {
            let time = ManualClock::new();
            time.advance(Duration::from_secs(1_000));
            let quota: Quota = QUOTA.parse().expect("a quota");
            let terms = Terms::of(quota).expect("it is exact");
            let clock = Clock::from(&time);
            let alone = Alone::new(cut_off, quota, &clock, capacity).expect("a share");
            let strict = Strict::new(quota, terms, clock, alone, capacity);
            let strict = strict.leasing(Leasing {
                lender: Lender {
                    overshoot,
                    nodes: Some(4),
                    timeout: TIMEOUT,
                },
                busy: BUSY,
                seed: 1,
            });
            Self {
                time,
                strict: strict.expect("an overshoot that can be kept"),
                stored: HashMap::new(),
                calls: 0,
                is_up: true,
            }
        }

        /// Sends what is announced, and passes the answers on, until nothing is announced any more.
        fn serve(&mut self, record: Record) {
            while let Some((call, askers)) = self.strict.call(record) {
                self.calls += 1;
                let now_us = self.time.now().as_nanos() / 1_000;
                let outcome = if self.is_up {
                    let stored = self.stored.get(&record).copied();
                    let (reply, bucket) = Bucket::take(stored, now_us, &call);
                    self.stored.extend(bucket.map(|bucket| (record, bucket)));
                    Ok(reply)
                } else {
                    Err(Failure::Lost)
                };
                if !self.strict.answer(record, askers, outcome).at_once() {
                    return;
                }
            }
        }

        fn ask(&mut self, key: u8, n: u64) -> Answer {
            let record = record(key);
            match self.strict.ask(record, n, false) {
                Asked::Now(answer) => answer,
                Asked::Ahead(answer) => {
                    self.serve(record);
                    answer
                }
                Asked::Later { mut answer, .. } => {
                    self.serve(record);
                    answer.try_recv().expect("an answer").answer
                }
            }
        }

        /// Asks this often within a second, and returns how many are admitted.
        fn ask_for_a_second(&mut self, key: u8, times: u32) -> u32 {
            let pause = Duration::from_secs(1) / times;
            let admitted = (0..times).map(|_| {
                self.time.advance(pause);
                u32::from(self.ask(key, 1).is_ok())
            });
            admitted.sum()
        }

        fn leasing(&self) -> usize {
            self.strict.places.taken()
        }

        fn bound(&self) -> FleetBound {
            self.strict.bound(TIMEOUT)
        }
    }

    fn record(key: u8) -> Record {
        Record::of("tenant", &[key])
    }

    fn process() -> Process {
        Process::new(Overshoot::percent(20), CutOff::Share(1, 4), 100)
    }

    #[test]
    fn a_busy_key_needs_few_calls_and_a_cold_one_one_for_each_request() {
        let mut process = process();
        assert_eq!(process.ask_for_a_second(1, 19), 19);
        assert_eq!((process.calls, process.leasing()), (19, 0));
        assert_eq!(process.ask_for_a_second(2, 500), 500);
        assert_eq!(process.leasing(), 1);
        let calls = process.calls - 19;
        assert!((20..60).contains(&calls), "{calls}");
        assert_eq!(process.ask_for_a_second(2, 500), 500);
        assert!(process.calls - 19 - calls < 30, "{}", process.calls);
        // A busy key is refused as a strict one is, and admitted again.
        let refused = (0..2_000).find_map(|_| process.ask(2, 1).err());
        let wait = refused.expect("the burst is used up").retry_after();
        let (calls, wait) = (process.calls, wait.expect("a time"));
        assert!((0..1_000).all(|_| process.ask(2, 1).is_err()));
        assert_eq!(process.calls, calls, "it is known when there is more");
        process.time.advance(wait);
        assert!(process.ask(2, 1).is_ok());
        assert!(process.strict.counts().admitted > 1_000);
    }

    #[test]
    fn c1_what_a_busy_key_holds_is_a_part_of_the_overshoot() {
        let mut process = process();
        let bound = process.bound();
        assert_eq!((bound.leased, bound.in_flight), (200, 50));
        let mut most = 0;
        for _ in 0..20 {
            process.ask_for_a_second(1, 800);
            let lease = |state: &mut State| state.lease.as_ref().map_or(0, |lease| lease.held());
            most = most.max(process.strict.with(record(1), lease));
        }
        assert!((20..=50).contains(&most), "{most} of a quarter");
        // The bucket is smaller by what may be held.
        let exact = Process::new(Overshoot::none(), CutOff::Deny, 100);
        assert_eq!((exact.strict.burst(), exact.bound().leased), (500, 0));
    }

    #[test]
    fn a_key_that_cools_down_is_strict_again_and_another_one_has_its_place() {
        let mut process = Process::new(Overshoot::percent(20), CutOff::Deny, 1);
        process.ask_for_a_second(1, 100);
        assert_eq!(process.leasing(), 1);
        process.ask_for_a_second(2, 100);
        process.ask_for_a_second(2, 100);
        process.ask_for_a_second(2, 100);
        // There is one place, and the first key needs it no more.
        assert!(
            process
                .strict
                .with(record(2), |state| state.lease.is_some())
        );
        for _ in 0..3 {
            process.ask_for_a_second(2, 4);
        }
        assert_eq!(process.leasing(), 0);
        let calls = process.calls;
        process.ask_for_a_second(2, 4);
        assert_eq!(process.calls, calls + 4);
    }

    #[test]
    fn a_request_for_more_than_a_key_may_hold_is_decided_by_the_store() {
        let mut process = process();
        process.ask_for_a_second(1, 100);
        assert!(process.ask(1, 300).is_ok(), "50 may be held");
        assert!(process.ask(1, 1_001).unwrap_err().is_never());
        let wait = process.ask(1, 1_000).unwrap_err().retry_after();
        assert!(wait >= Some(Duration::from_millis(300)), "{wait:?}");
        assert_eq!(process.leasing(), 1);
    }

    #[test]
    fn without_the_store_what_is_held_is_spent_and_then_the_share() {
        let mut process = process();
        process.ask_for_a_second(1, 500);
        let lease = |state: &mut State| state.lease.as_ref().map_or(0, |lease| lease.held());
        let held = process.strict.with(record(1), lease);
        process.is_up = false;
        let answers: Vec<_> = (0..1_000).map(|_| process.ask(1, 1)).collect();
        let by_store = |answer: &&Answer| answer.is_ok_and(|admitted| !admitted.is_degraded());
        let alone = |answer: &&Answer| answer.is_ok_and(Admitted::is_degraded);
        assert_eq!(answers.iter().filter(by_store).count() as u64, held);
        assert_eq!(answers.iter().filter(alone).count(), 250);
        assert!(answers[999].unwrap_err().is_outage());
        assert_eq!(process.bound().alone, 250);
        // The store is back: the outage is counted once, and the key is busy again.
        process.is_up = true;
        process.ask_for_a_second(1, 100);
        process.ask_for_a_second(1, 100);
        assert_eq!((process.leasing(), process.strict.counts().outages), (1, 1));
        assert_eq!(process.bound().forgotten, 1_000 + 200);
    }

    #[test]
    fn c1_a_key_has_one_call_in_flight_while_it_becomes_busy() {
        let process = process();
        let (strict, record) = (&process.strict, record(1));
        let mut waiting = Vec::new();
        let mut ask = || match strict.ask(record, 1, false) {
            Asked::Later { answer, is_first } => {
                waiting.push(answer);
                is_first
            }
            decided => panic!("{decided:?}"),
        };
        assert!(ask());
        let (first, askers) = strict.call(record).expect("one waits");
        assert_eq!(first.runs[0].times, 1);
        // 40 more come: the key leases, and its call waits for that one.
        assert!((0..40).all(|_| !ask()));
        assert_eq!(process.leasing(), 1);
        let (reply, bucket) = Bucket::take(None, 1_000_000, &first);
        assert!(strict.answer(record, askers, Ok(reply)).at_once());
        let (second, askers) = strict.call(record).expect("40 wait");
        assert!(askers.is_empty() && second.runs[0].times >= 40);
        assert_eq!(second.seen, bucket.map(|_| second.seen).expect("a debt"));
        assert!(second.seen.debt > 0, "the store is reminded");
        let (reply, _) = Bucket::take(bucket, 1_000_000, &second);
        assert!(!strict.answer(record, askers, Ok(reply)).at_once());
        let answers = waiting.iter_mut().map(|answer| answer.try_recv());
        assert!(
            answers
                .into_iter()
                .all(|answer| answer.is_ok_and(|delivery| delivery.answer.is_ok()))
        );
    }

    #[test]
    fn c1_a_new_quota_ends_what_was_leased_by_the_old_one() {
        let mut process = process();
        process.ask_for_a_second(1, 500);
        let small = "10/s burst 10".parse().expect("a quota");
        assert!(
            process.strict.set_quota(small).is_err(),
            "less than 20 % of it"
        );
        process
            .strict
            .set_quota("500/s burst 500".parse().expect("a quota"))
            .expect("a quota that can be leased");
        process.ask_for_a_second(1, 100);
        assert_eq!((process.leasing(), process.strict.burst()), (1, 500));
        // The larger of both holds.
        assert_eq!(process.bound().leased, 200);
        assert!(process.ask(1, 501).unwrap_err().is_never());
    }

    #[test]
    fn units_that_are_held_are_taken_and_refunded_with_those_of_other_limits() {
        let mut process = process();
        process.ask_for_a_second(1, 500);
        let lease = |state: &mut State| state.lease.as_ref().map_or(0, |lease| lease.held());
        let held = process.strict.with(record(1), lease);
        assert!(held > 5);
        assert!(process.strict.takes_held(record(1), 5, false));
        assert_eq!(process.strict.with(record(1), lease), held - 5);
        process.strict.refund_held(record(1), 5);
        assert_eq!(process.strict.with(record(1), lease), held);
        assert!(!process.strict.takes_held(record(1), 1_000, false));
        assert!(!process.strict.takes_held(record(2), 1, false));
        // What was taken for them is asked for with the next request.
        assert!((0..20).all(|_| process.ask(1, 1).is_ok()));
    }

    #[test]
    fn c1_what_a_key_holds_ends_by_the_time_of_the_call() {
        let mut process = process();
        process.ask_for_a_second(1, 500);
        let (strict, record) = (&process.strict, record(1));
        let is_ahead = |_: &u32| matches!(strict.ask(record, 1, false), Asked::Ahead(_));
        assert!((0..100).any(|turn| is_ahead(&turn)));
        let (call, askers) = strict.call(record).expect("few are left");
        let now_us = process.time.now().as_nanos() / 1_000;
        process.time.advance(Duration::from_millis(40));
        let stored = process.stored.get(&record).copied();
        let (reply, _) = Bucket::take(stored, now_us, &call);
        assert!(reply.taken[0] > 0);
        strict.answer(record, askers, Ok(reply));
        let lease = |state: &mut State| state.lease.as_ref().map_or(0, |lease| lease.held());
        process.time.advance(Duration::from_millis(950));
        assert!(strict.with(record, lease) > 0);
        process.time.advance(Duration::from_millis(10));
        assert_eq!(strict.with(record, lease), 0);
    }

    #[test]
    fn c2_a_large_request_that_comes_during_the_call_of_a_lease_waits_for_a_strict_call() {
        let mut process = process();
        process.ask_for_a_second(1, 500);
        let (strict, record) = (&process.strict, record(1));
        let is_ahead = |_: &u32| matches!(strict.ask(record, 1, false), Asked::Ahead(_));
        assert!((0..100).any(|turn| is_ahead(&turn)));
        let (call, askers) = strict.call(record).expect("few are left");
        assert!(askers.is_empty());
        let Asked::Later { mut answer, .. } = strict.ask(record, 300, false) else {
            panic!("50 may be held");
        };
        // The store has nothing for the lease.
        let now_us = process.time.now().as_nanos() / 1_000;
        let none = Reply {
            seen: Seen {
                debt: call.terms.burst * call.terms.period,
                at_us: now_us,
                began_us: 0,
            },
            taken: vec![0],
            ..Reply::default()
        };
        assert!(
            strict.answer(record, askers, Ok(none)).at_once(),
            "it waits"
        );
        assert!(answer.try_recv().is_err());
        let (call, askers) = strict.call(record).expect("it waits");
        assert_eq!(call.runs, [Run::of(1, 300)]);
        let (reply, _) = Bucket::take(None, now_us, &call);
        strict.answer(record, askers, Ok(reply)).at_once();
        let denied = answer.try_recv().expect("an answer").answer.unwrap_err();
        assert!(!denied.is_never() && denied.retry_after().is_some());
    }

    #[test]
    fn c7_a_key_and_its_lease_are_small() {
        assert!(size_of::<(Record, State)>() <= 256);
        let lease = size_of::<Lease>() + size_of::<Leased>() + size_of::<Lending>();
        assert!(lease <= 1_024, "{lease}");
    }
}
