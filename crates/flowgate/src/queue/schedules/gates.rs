//! A token and a permit, or neither.

use super::*;
use crate::gate::Gate;

struct Both {
    gate: Gate,
    time: ManualClock,
}

impl Both {
    /// A gate with `tokens`, one more each 10 ns, and `slots`.
    fn new(tokens: u64, slots: u32) -> Self {
        let (rate, time) = bucket(tokens);
        let slots = ConcurrencyLimit::builder(slots).clock(&time).build();
        let gate = Gate::builder()
            .limit("rate", rate)
            .limit("slots", slots.expect("within range"))
            .build();
        Self {
            gate: gate.expect("they share a clock"),
            time,
        }
    }

    /// Asserts that there are no waiters, all slots are free, and all tokens except `granted` are there.
    #[track_caller]
    fn reckon(&self, tokens: u64, granted: u64) {
        assert!(self.gate.queue().is_empty(), "somebody is left in active");
        let come = tokens + self.time.now().as_nanos() / INTERVAL_NS;
        let left = self.gate.configure("rate", TokenBucket::available);
        assert_eq!(left.expect("it has one") + granted, come, "tokens");
        self.gate
            .configure("slots", assert_idle)
            .expect("it has one");
    }
}

/// Waits, uses what it got for a while, and counts it.
fn hold(both: &Both, in_use: &InUse, granted: &AtomicU64, n: u64) {
    let permit = block_on(both.gate.acquire().n(n)).expect("in turn");
    granted.fetch_add(n, SeqCst);
    in_use.use_up(permit, 2);
}

#[test]
fn c5_a_gate_meets_releases_and_somebody_who_gives_up() {
    explore(|| {
        let both = Both::new(2, 2);
        let (in_use, granted) = (InUse::default(), AtomicU64::new(2));
        let permit = both.gate.try_acquire_n(2).expect("all is there");
        thread::scope(|threads| {
            threads.spawn(|| {
                if let Some(permit) = leave_early(both.gate.acquire()) {
                    granted.fetch_add(1, SeqCst);
                    drop(permit.expect("in turn"));
                }
            });
            threads.spawn(|| hold(&both, &in_use, &granted, 2));
            threads.spawn(|| hold(&both, &in_use, &granted, 1));
            threads.spawn(|| walk(&both.time, [12, 45]));
            threads.spawn(move || drop(permit));
        });
        both.reckon(2, granted.into_inner());
    });
}

/// A deadline may fail for lack of a token, immediately, or for lack of a slot, when it has come.
#[test]
fn a_gate_meets_deadlines() {
    explore(|| {
        let both = Both::new(1, 1);
        let (in_use, granted) = (InUse::default(), AtomicU64::new(1));
        let permit = both.gate.try_acquire().expect("all is there");
        thread::scope(|threads| {
            for deadline in [at(12), at(25)] {
                let (both, in_use, granted) = (&both, &in_use, &granted);
                threads.spawn(move || {
                    let answer = block_on(both.gate.acquire().by(deadline));
                    match answer {
                        Ok(permit) => {
                            granted.fetch_add(1, SeqCst);
                            in_use.use_up(permit, 1);
                        }
                        Err(denied) => assert!(!denied.is_never() && !denied.is_closed()),
                    }
                });
            }
            threads.spawn(|| hold(&both, &in_use, &granted, 1));
            threads.spawn(|| walk(&both.time, [10, 13, 50]));
            threads.spawn(move || drop(permit));
        });
        both.reckon(1, granted.into_inner());
    });
}

/// Making more of either member possible serves the waiters that it holds up. The clock stands still.
#[test]
fn a_gate_whose_limits_change_meets_those_who_wait() {
    explore(|| {
        let both = Both::new(3, 0);
        let (in_use, granted) = (InUse::default(), AtomicU64::new(0));
        let taken = both
            .gate
            .configure("rate", |rate: &TokenBucket| rate.try_acquire_n(3));
        assert_eq!(taken, Some(Ok(())));
        thread::scope(|threads| {
            threads.spawn(|| hold(&both, &in_use, &granted, 1));
            threads.spawn(|| hold(&both, &in_use, &granted, 2));
            threads.spawn(|| {
                let set = |limit: &ConcurrencyLimit| limit.set_limit(2);
                let set = both.gate.configure("slots", set);
                set.expect("it has one").expect("within range");
            });
            threads.spawn(|| {
                let back = both
                    .gate
                    .configure("rate", |rate: &TokenBucket| rate.refund(3));
                assert_eq!(back, Some(3));
            });
        });
        both.reckon(3, granted.into_inner());
    });
}

/// Slots are scarcer than tokens, so each refused caller would have had a token to lose.
#[test]
fn c5_newcomers_at_a_gate_take_a_token_and_a_slot_or_neither() {
    explore(|| {
        let both = Both::new(3, 1);
        let (in_use, granted) = (InUse::default(), AtomicU64::new(0));
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| match both.gate.try_acquire() {
                    Ok(permit) => {
                        granted.fetch_add(1, SeqCst);
                        in_use.use_up(permit, 1);
                    }
                    Err(denied) => assert!(denied.is_busy(), "{denied:?}"),
                });
            }
            threads.spawn(|| walk(&both.time, [7, 25]));
        });
        assert!(granted.load(SeqCst) >= 1);
        both.reckon(3, granted.into_inner());
    });
}

/// New requests yield to waiters, and take both or neither.
#[test]
fn c6_newcomers_at_a_gate_meet_a_release() {
    explore(|| {
        let both = Both::new(3, 1);
        let (in_use, granted) = (InUse::default(), AtomicU64::new(1));
        let permit = both.gate.try_acquire().expect("all is there");
        let mut first = std::boxed::Box::pin(both.gate.acquire());
        let poll = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        let is_first_in = AtomicU64::new(1);
        thread::scope(|threads| {
            threads.spawn(|| {
                let permit = block_on(first).expect("in turn");
                is_first_in.store(0, SeqCst);
                granted.fetch_add(1, SeqCst);
                in_use.use_up(permit, 1);
            });
            threads.spawn(|| {
                if let Ok(permit) = both.gate.try_acquire() {
                    assert_eq!(is_first_in.load(SeqCst), 0, "it overtook");
                    granted.fetch_add(1, SeqCst);
                    in_use.use_up(permit, 1);
                }
            });
            threads.spawn(move || drop(permit));
        });
        both.reckon(3, granted.into_inner());
    });
}
