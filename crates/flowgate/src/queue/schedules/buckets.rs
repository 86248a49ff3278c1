//! Tokens come with a clock that moves, are given back, and come faster.

use super::*;
use crate::clock::{Clock, Source};
use crate::companions::observed::Observed;
use crate::queue::{CancelHandle, Spacing};
use crate::types::leaky_bucket::LeakyBucket;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::pin::Pin;
use std::boxed::Box;

/// Timestamps are those of an ideal queue, however late its waiters wake up.
#[test]
fn c2_those_in_line_are_dated_when_their_tokens_came() {
    explore(|| {
        let (bucket, time) = bucket(1);
        let ledger = Ledger::default();
        // The clock when each was in the queue for certain.
        let seen = Mutex::new(Vec::new());
        thread::scope(|threads| {
            for n in [1, 2, 1] {
                let (bucket, time, ledger, seen) = (&bucket, &time, &ledger, &seen);
                threads.spawn(move || {
                    let mut stood = None;
                    let mut wait = pin!(bucket.acquire().n(n));
                    let wait = poll_fn(|context| {
                        let answer = wait.as_mut().poll(context);
                        stood.get_or_insert_with(|| time.now());
                        answer
                    });
                    let (visit, grant) = ledger.moments.visit(wait);
                    let grant = grant.expect("in turn");
                    ledger.enter(visit, grant);
                    seen.lock().expect("no panic").push((grant, stood));
                });
            }
            threads.spawn(|| walk(&time, [7, 13, 29, 50]));
        });
        ledger.reckon(&bucket, 1);
        let mut seen = seen.into_inner().expect("no panic");
        seen.sort_by_key(|(grant, _)| grant.at());
        let (mut granted, mut last) = (0, at(0));
        for (grant, stood) in seen {
            granted += grant.units();
            let came = at(INTERVAL_NS * (granted - 1));
            assert!(
                grant.at() <= last.max(came).max(stood.expect("it was polled")),
                "{grant:?}, and the last token came at {came:?}"
            );
            last = grant.at();
        }
    });
}

/// The clock stands still, so a waiter is helped by what is given back, or not at all.
#[test]
fn c5_a_refund_meets_somebody_who_enters_the_line() {
    explore(|| {
        let (bucket, _time) = bucket(3);
        let ledger = Ledger::default();
        assert!(bucket.try_acquire_n(3).is_ok());
        thread::scope(|threads| {
            threads.spawn(|| ledger.wait(bucket.acquire()).expect("it was given back"));
            threads.spawn(|| {
                ledger
                    .wait(bucket.acquire().n(2))
                    .expect("it was given back")
            });
            threads.spawn(|| assert_eq!(bucket.refund(1), 1));
            threads.spawn(|| assert_eq!(bucket.refund(2), 2));
        });
        ledger.reckon(&bucket, 3);
    });
}

#[test]
fn c5_a_refund_meets_somebody_who_gives_up() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        thread::scope(|threads| {
            threads.spawn(|| ledger.pass_by(bucket.acquire().n(2)));
            threads.spawn(|| ledger.wait(bucket.acquire()).expect("in turn"));
            threads.spawn(|| {
                let grant = ledger.wait(bucket.acquire()).expect("in turn");
                // As if it had never been: the last entry of its kind goes.
                assert_eq!(bucket.refund(1), 1);
                let mut turns = ledger.turns();
                let own = turns.iter().rposition(|(_, entered)| *entered == grant);
                turns.remove(own.expect("it was entered"));
            });
            threads.spawn(|| walk(&time, [10, 21, 48]));
        });
        ledger.reckon(&bucket, 0);
    });
}

/// At the old rate, no waiter would be served before the clock stands still.
#[test]
fn a_faster_quota_meets_those_who_wait_while_the_clock_moves() {
    explore(|| {
        let time = ManualClock::new();
        let builder = TokenBucket::builder(quota(1_000, 1_000))
            .clock(&time)
            .initial_tokens(0);
        let bucket = builder.build().expect("within range");
        let ledger = Ledger::default();
        thread::scope(|threads| {
            for n in [1, 2, 1] {
                let (bucket, ledger) = (&bucket, &ledger);
                threads.spawn(move || ledger.wait(bucket.acquire().n(n)).expect("in turn"));
            }
            threads.spawn(|| ledger.pass_by(bucket.acquire()));
            threads.spawn(|| {
                bucket.set_quota(quota(500, 1_000)).unwrap();
                bucket.set_quota(quota(INTERVAL_NS, 1_000)).unwrap();
                // From now on, by itself.
                walk(&time, [105, 170]);
            });
            threads.spawn(|| time.advance(Duration::from_nanos(4)));
        });
        ledger.assert_promise(0, INTERVAL_NS);
        ledger.assert_in_order();
        assert!(bucket.queue().is_empty());
    });
}

#[test]
fn c2_a_turn_that_came_before_a_change_is_dated_before_it() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        let mut first = std::boxed::Box::pin(bucket.acquire());
        let poll = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        thread::scope(|threads| {
            threads.spawn(|| {
                time.set(at(15));
                bucket.set_quota(quota(INTERVAL_NS, 1_000_000_000)).unwrap();
                time.set(at(40));
            });
            threads.spawn(|| ledger.wait(bucket.acquire()).expect("in turn"));
            threads.spawn(|| bucket.try_acquire_n(1_000_000).unwrap_err());
        });
        let Some(Ok(grant)) = leave_early(first) else {
            panic!("its turn has come")
        };
        assert_eq!(grant.at(), at(10));
        ledger.enter_now(grant);
        ledger.reckon(&bucket, 0);
    });
}

/// Alarms then go off too early, or are asked for when they have gone off.
#[test]
fn c4_a_clock_that_runs_backward_meets_those_who_wait() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        let left = AtomicU64::new(3);
        thread::scope(|threads| {
            for n in [1, 2, 1] {
                let (bucket, ledger, left) = (&bucket, &ledger, &left);
                threads.spawn(move || {
                    ledger.wait(bucket.acquire().n(n)).expect("in turn");
                    left.fetch_sub(1, SeqCst);
                });
            }
            threads.spawn(|| ledger.pass_by(bucket.acquire()));
            threads.spawn(|| {
                walk(&time, [12, 3, 25, 8, 60]);
                // A waiter that looks when it is early again may have to be called once more.
                walk_until_none_is(&left, &time, A_WHILE_NS);
            });
        });
        ledger.reckon(&bucket, 0);
    });
}

/// A task in the queue that is never polled again costs the others a millisecond, and no more.
#[test]
fn c6_somebody_who_does_not_look_holds_up_nobody() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        let mut stuck = std::boxed::Box::pin(bucket.acquire());
        let mut other = std::boxed::Box::pin(bucket.acquire());
        for wait in [&mut stuck, &mut other] {
            let poll = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll.is_pending());
        }
        let left = AtomicU64::new(2);
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    ledger.wait(bucket.acquire()).expect("in turn");
                    left.fetch_sub(1, SeqCst);
                });
            }
            threads.spawn(|| {
                walk(&time, [25, 41]);
                walk_until_none_is(&left, &time, A_WHILE_NS);
            });
        });
        let turns = ledger.turns().clone();
        for (_, grant) in turns {
            assert!(grant.at() >= at(30), "behind the two who do not look");
        }
        for wait in [&mut stuck, &mut other] {
            let Some(Ok(grant)) = leave_early(wait.as_mut()) else {
                panic!("they have been granted")
            };
            ledger.enter_now(grant);
        }
        ledger.reckon(&bucket, 0);
    });
}

#[test]
fn c6_a_newcomer_meets_somebody_who_enters_the_line() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        let stood = AtomicU64::new(0);
        thread::scope(|threads| {
            threads.spawn(|| {
                let mut wait = pin!(bucket.acquire());
                let wait = poll_fn(|context| {
                    let answer = wait.as_mut().poll(context);
                    stood.store(1, SeqCst);
                    answer
                });
                let (visit, grant) = ledger.moments.visit(wait);
                ledger.enter(visit, grant.expect("in turn"));
            });
            threads.spawn(|| {
                let came_second = stood.load(SeqCst) == 1;
                let taken = bucket.take_up_to(1) + u64::from(bucket.try_acquire().is_ok());
                assert!(!came_second || taken == 0, "it overtook");
                // One token for the waiter that is left, whichever way it went.
                time.advance(Duration::from_nanos(taken * INTERVAL_NS));
                bucket.refund(taken);
            });
            threads.spawn(|| time.advance(Duration::from_nanos(INTERVAL_NS)));
        });
        ledger.reckon(&bucket, 0);
    });
}

/// A waiter moves up when a reservation ahead of it is given back.
#[test]
fn c5_a_reservation_that_is_cancelled_meets_those_who_wait() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        let reservation = bucket.reserve_n(10).expect("within the burst");
        assert_eq!(reservation.at(), at(100));
        thread::scope(|threads| {
            threads.spawn(|| ledger.wait(bucket.acquire()).expect("in turn"));
            threads.spawn(|| ledger.wait(bucket.acquire().n(2)).expect("in turn"));
            threads.spawn(move || assert_eq!(reservation.cancel(), 10));
            threads.spawn(|| walk(&time, [17, 35]));
        });
        ledger.reckon(&bucket, 0);
    });
}

/// A deadline is refused while it cannot be met, and no later than it has come.
#[test]
fn deadlines_meet_a_clock_that_moves() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        thread::scope(|threads| {
            for deadline in [at(15), at(21)] {
                let (bucket, ledger) = (&bucket, &ledger);
                threads.spawn(move || match ledger.wait(bucket.acquire().by(deadline)) {
                    // A waiter that comes after its deadline counts as in time.
                    Ok(_) => {}
                    Err(denied) => assert!(denied.retry_after().is_some(), "{denied:?}"),
                });
            }
            threads.spawn(|| {
                ledger
                    .wait(bucket.acquire().n(2))
                    .expect("it has no deadline")
            });
            threads.spawn(|| ledger.pass_by(bucket.acquire()));
            threads.spawn(|| walk(&time, [11, 18, 25, 60]));
        });
        ledger.assert_promise(0, INTERVAL_NS);
        assert!(bucket.queue().is_empty());
        assert_eq!(bucket.available() + ledger.units(), 6, "tokens");
    });
}

/// One token per 10 ns, one at a time.
fn leaky() -> (LeakyBucket, ManualClock) {
    let time = ManualClock::new();
    let quota = Quota::new(1, Duration::from_nanos(INTERVAL_NS)).expect("within range");
    let builder = LeakyBucket::builder(quota).clock(&time);
    (builder.build().expect("within range"), time)
}

#[track_caller]
fn assert_spaced(mut dates: Vec<Timestamp>) {
    dates.sort();
    for pair in dates.windows(2) {
        let gap = pair[1].as_nanos() - pair[0].as_nanos();
        assert!(gap >= INTERVAL_NS, "{dates:?}");
    }
}

#[test]
fn c1_ticks_that_end_half_way_meet_those_who_wait() {
    explore(|| {
        let (bucket, time) = leaky();
        let dates = Mutex::new(Vec::new());
        let left = AtomicU64::new(4);
        let enter = |date| {
            dates.lock().expect("no panic").push(date);
            left.fetch_sub(1, SeqCst);
        };
        thread::scope(|threads| {
            threads.spawn(|| {
                let mut ticks = bucket.ticks();
                for _ in 0..2 {
                    enter(block_on(ticks.tick()).expect("nothing is refused"));
                }
                // A tick that is in flight, and perhaps has come, is given up.
                left.fetch_add(1, SeqCst);
                match leave_early(ticks.tick()) {
                    Some(last) => enter(last.expect("nothing is refused")),
                    None => drop(left.fetch_sub(1, SeqCst)),
                }
            });
            for _ in 0..2 {
                threads.spawn(|| enter(block_on(bucket.acquire()).expect("in turn").at()));
            }
            threads.spawn(|| walk_until_none_is(&left, &time, 9));
        });
        assert!(bucket.queue().is_empty());
        assert_spaced(dates.into_inner().expect("no panic"));
        time.advance(Duration::from_nanos(INTERVAL_NS));
        assert_eq!(bucket.available(), 1);
    });
}

/// Waiters that count from when they returned, and waiters that count from their scheduled time, in one queue.
#[test]
fn c1_both_spacings_in_one_line() {
    explore(|| {
        let (bucket, time) = leaky();
        let dates = Mutex::new(Vec::new());
        let left = AtomicU64::new(4);
        thread::scope(|threads| {
            for spacing in [Spacing::AtLeast, Spacing::Scheduled] {
                let (bucket, time, dates, left) = (&bucket, &time, &dates, &left);
                threads.spawn(move || {
                    for _ in 0..2 {
                        let mut looked = at(0);
                        let mut wait = pin!(bucket.acquire().spacing(spacing));
                        let grant = block_on(poll_fn(|context| {
                            looked = time.now();
                            wait.as_mut().poll(context)
                        }));
                        let grant = grant.expect("in turn");
                        let is_late = spacing == Spacing::Scheduled && grant.at() < looked;
                        assert!(is_late || (looked..=time.now()).contains(&grant.at()));
                        dates.lock().expect("no panic").push(grant.at());
                        left.fetch_sub(1, SeqCst);
                    }
                });
            }
            threads.spawn(|| walk_until_none_is(&left, &time, 7));
        });
        assert!(bucket.queue().is_empty());
        assert_spaced(dates.into_inner().expect("no panic"));
    });
}

/// A waiter that has been called to take its grant itself leaves. Another one comes into its place while the queue stands
/// still for a change.
#[test]
fn c6_somebody_who_is_called_and_gives_up_meets_a_change_and_a_newcomer() {
    explore(|| {
        let (bucket, time) = bucket(1);
        bucket.try_acquire().expect("it is there");
        let wait = || Box::pin(bucket.acquire().spacing(Spacing::AtLeast));
        let (mut called, mut next) = (wait(), wait());
        assert!(poll(&mut called, Waker::noop()).is_pending());
        time.set(at(10));
        bucket.try_acquire().expect_err("somebody is called");
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut answer = Poll::Pending;
        thread::scope(|threads| {
            threads.spawn(move || drop(called));
            threads.spawn(|| assert_eq!(bucket.refund(1), 1));
            threads.spawn(|| answer = poll(&mut next, &waker));
        });
        while answer.is_pending() {
            assert!(bell.was_rung(), "nobody has woken it");
            answer = poll(&mut next, &waker);
        }
        assert!(bucket.queue().is_empty());
        assert_eq!(bucket.available(), 1, "tokens");
    });
}

fn poll(wait: &mut Pin<Box<Acquire<&TokenBucket>>>, waker: &Waker) -> Poll<Result<Grant, Denied>> {
    wait.as_mut().poll(&mut Context::from_waker(waker))
}

/// Records whether its waiter was woken.
#[derive(Default)]
struct Bell(std::sync::atomic::AtomicBool);

impl Bell {
    fn was_rung(&self) -> bool {
        self.0.swap(false, SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// A waiter that has been called looks while the queue stands still for a change, and is called again after the change.
#[test]
fn c6_somebody_who_is_called_and_looks_meets_a_change() {
    explore(|| {
        let (bucket, time) = bucket(1);
        let ledger = Ledger::default();
        bucket.try_acquire().expect("it is there");
        time.set(at(10));
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let wait = bucket.acquire().spacing(Spacing::AtLeast);
                    ledger.wait(wait).expect("in turn");
                });
            }
            threads.spawn(|| assert_eq!(bucket.refund(1), 1));
            threads.spawn(|| bucket.set_quota(quota(INTERVAL_NS, 1_000_000_000)));
        });
        ledger.reckon(&bucket, 1);
    });
}

/// The alarm of the previous waiter goes off while that of the next one, which does not look, is being set.
#[test]
fn c6_somebody_who_does_not_look_is_next_when_the_alarm_before_goes_off() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        let (mut first, mut stuck) = (Box::pin(bucket.acquire()), Box::pin(bucket.acquire()));
        for wait in [&mut first, &mut stuck] {
            assert!(poll(wait, Waker::noop()).is_pending());
        }
        let left = AtomicU64::new(1);
        thread::scope(|threads| {
            threads.spawn(|| {
                ledger.wait(bucket.acquire()).expect("in turn");
                left.fetch_sub(1, SeqCst);
            });
            threads.spawn(|| bucket.try_acquire_n(1_000_000).unwrap_err());
            threads.spawn(|| {
                walk(&time, [10, 41]);
                walk_until_none_is(&left, &time, A_WHILE_NS);
            });
        });
        for wait in [first, stuck] {
            let Some(Ok(grant)) = leave_early(wait) else {
                panic!("they have been granted")
            };
            ledger.enter_now(grant);
        }
        ledger.reckon(&bucket, 0);
    });
}

/// A clock without alarms: a caller that asks to be woken is woken immediately, and asks again until it is time.
struct Watched(ManualClock);

impl Source for Watched {
    fn now_ns(&self) -> u64 {
        self.0.now().as_nanos()
    }
}

#[test]
fn c6_a_line_whose_clock_has_no_alarms_is_served() {
    explore(|| {
        let time = ManualClock::new();
        let builder = TokenBucket::builder(quota(INTERVAL_NS, 1_000_000_000))
            .clock(Clock::custom(Watched(time.clone())))
            .initial_tokens(0);
        let bucket = builder.build().expect("within range");
        let ledger = Ledger::default();
        thread::scope(|threads| {
            for n in [2, 1] {
                let (bucket, ledger) = (&bucket, &ledger);
                threads.spawn(move || {
                    let mut wait = pin!(bucket.acquire().n(n));
                    let wait = poll_fn(|context| {
                        let answer = wait.as_mut().poll(context);
                        if answer.is_pending() {
                            thread::yield_now();
                        }
                        answer
                    });
                    let (visit, grant) = ledger.moments.visit(wait);
                    ledger.enter(visit, grant.expect("in turn"));
                });
            }
            threads.spawn(|| walk(&time, [10, 21, 30]));
        });
        ledger.reckon(&bucket, 0);
    });
}

#[test]
fn closing_meets_a_clock_that_moves() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        thread::scope(|threads| {
            for n in [2, 1] {
                let (bucket, ledger) = (&bucket, &ledger);
                threads.spawn(move || {
                    if let Err(denied) = ledger.wait(bucket.acquire().n(n)) {
                        assert!(denied.is_closed(), "{denied:?}");
                    }
                });
            }
            threads.spawn(|| {
                bucket.queue().close();
                assert!(bucket.try_acquire().unwrap_err().is_closed());
            });
            threads.spawn(|| walk(&time, [10, 25]));
        });
        assert!(bucket.queue().is_empty() && bucket.queue().is_closed());
        ledger.assert_promise(0, INTERVAL_NS);
        ledger.assert_in_order();
    });
}

/// Each operation is counted once, as what its caller saw.
#[test]
fn what_is_counted_adds_up() {
    explore(|| {
        let (bucket, time) = bucket(1);
        let observed = Observed::new(bucket);
        let handle = CancelHandle::new();
        thread::scope(|threads| {
            threads.spawn(|| block_on(observed.acquire()).expect("in turn"));
            threads.spawn(|| block_on(observed.acquire().cancelled_by(&handle)));
            threads.spawn(|| leave_early(observed.acquire().n(2)));
            threads.spawn(|| observed.try_acquire());
            threads.spawn(|| handle.cancel());
            threads.spawn(|| walk(&time, [10, 55]));
        });
        let counts = observed.counts();
        assert_eq!(counts.asked(), 4, "{counts:?}");
        assert_eq!(counts.waiting, 0);
        assert_eq!(observed.available() + counts.units, 1 + 5, "{counts:?}");
    });
}
