//! Other orders than FIFO, and changes from one to another.

use super::*;
use crate::queue::cancel::CancelHandle;
use crate::queue::{Codel, Order};

/// A full queue refuses its oldest waiter, which may have been granted at that moment.
#[test]
fn a_full_line_that_lets_its_oldest_go_meets_a_release() {
    explore(|| {
        let (limit, in_use) = (slots(1), InUse::default());
        limit.queue().set_order(Order::Lifo).set_max_waiters(1);
        let permit = limit.try_acquire().expect("it is free");
        let served = AtomicU64::new(0);
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| match in_use.hold(limit.acquire(), 1) {
                    Ok(()) => drop(served.fetch_add(1, SeqCst)),
                    Err(denied) => assert!(denied.is_queue_full(), "{denied:?}"),
                });
            }
            threads.spawn(move || drop(permit));
        });
        assert!(served.into_inner() >= 1, "the last to come stays");
        assert_idle(&limit);
    });
}

/// The newest waiter is next, and need not wait until what the first one wants is given back.
#[test]
fn small_newcomers_meet_a_large_request_that_is_no_longer_next() {
    explore(|| {
        let (limit, in_use) = (slots(2), InUse::default());
        limit.queue().set_order(Order::Lifo);
        let permit = limit.try_acquire().expect("it is free");
        let mut large = std::boxed::Box::pin(limit.acquire().n(2));
        let poll = large.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| in_use.hold(limit.acquire(), 1).expect("in turn"));
            }
            threads.spawn(|| drop(leave_early(limit.acquire())));
        });
        drop(permit);
        drop(leave_early(large).expect("it is the only one left"));
        assert_idle(&limit);
    });
}

/// New requests take what is available, ahead of the waiters. These are served when it is given back again.
#[test]
fn newcomers_who_barge_meet_a_release() {
    explore(|| {
        let (limit, in_use) = (slots(1), InUse::default());
        limit.queue().set_order(Order::Barging);
        let permit = limit.try_acquire().expect("it is free");
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| in_use.hold(limit.acquire(), 1).expect("in the end"));
            }
            threads.spawn(|| drop(leave_early(limit.acquire())));
            threads.spawn(|| {
                for _ in 0..3 {
                    match limit.try_acquire() {
                        Ok(permit) => in_use.use_up(permit, 1),
                        Err(denied) => assert!(denied.is_busy(), "{denied:?}"),
                    }
                }
            });
            threads.spawn(move || drop(permit));
        });
        assert_idle(&limit);
    });
}

/// The newest waiter serves those ahead of it. Meanwhile another caller serves it, and a third one comes into its place.
#[test]
fn newcomers_who_serve_others_are_served_meanwhile() {
    explore(|| {
        let (limit, in_use) = (slots(3), InUse::default());
        limit.queue().set_order(Order::Barging);
        let permit = limit.try_acquire_n(3).expect("they are free");
        thread::scope(|threads| {
            for n in [1, 2, 2] {
                let (limit, in_use) = (&limit, &in_use);
                threads.spawn(move || {
                    for _ in 0..2 {
                        in_use.hold(limit.acquire().n(n), 3).expect("in the end");
                    }
                });
            }
            threads.spawn(move || drop(permit));
        });
        assert_idle(&limit);
    });
}

#[test]
fn rules_that_change_meet_a_release() {
    explore(|| {
        let (limit, time) = timed_slots(1);
        let in_use = InUse::default();
        let permit = limit.try_acquire().expect("it is free");
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| match in_use.hold(limit.acquire(), 1) {
                    Ok(()) => {}
                    Err(denied) => assert!(denied.is_queue_full(), "{denied:?}"),
                });
            }
            threads.spawn(|| {
                limit.queue().set_order(Order::Lifo).set_max_waiters(2);
                limit.queue().set_order(Order::Barging).set_max_waiters(1);
                let after = Duration::from_nanos(3);
                limit.queue().set_order(Order::AdaptiveLifo { after });
                time.set(at(2));
                time.set(at(4));
                limit.queue().set_order(Order::Fifo);
            });
            threads.spawn(move || drop(permit));
        });
        assert_idle(&limit);
    });
}

/// The next waiter depends on how long there has been a queue, which depends on the clock.
#[test]
fn a_line_that_turns_round_meets_a_clock_that_moves() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let after = Duration::from_nanos(12);
        bucket.queue().set_order(Order::AdaptiveLifo { after });
        let ledger = Ledger::default();
        thread::scope(|threads| {
            for n in [2, 1, 1] {
                let (bucket, ledger) = (&bucket, &ledger);
                threads.spawn(move || ledger.wait(bucket.acquire().n(n)).expect("in the end"));
            }
            threads.spawn(|| ledger.pass_by(bucket.acquire()));
            threads.spawn(|| walk(&time, [8, 14, 21, 39, 60]));
        });
        ledger.assert_promise(0, INTERVAL_NS);
        assert!(bucket.queue().is_empty());
        assert_eq!(bucket.available() + ledger.units(), 6);
    });
}

/// Barging: a token goes to the caller that takes it, and to that one alone.
#[test]
fn c1_newcomers_who_barge_meet_a_clock_that_moves() {
    explore(|| {
        let (bucket, time) = bucket(1);
        bucket.queue().set_order(Order::Barging);
        let ledger = Ledger::default();
        let barged = AtomicU64::new(0);
        thread::scope(|threads| {
            for n in [2, 1] {
                let (bucket, ledger) = (&bucket, &ledger);
                threads.spawn(move || ledger.wait(bucket.acquire().n(n)).expect("in the end"));
            }
            threads.spawn(|| {
                for _ in 0..3 {
                    if bucket.try_acquire().is_ok() {
                        barged.fetch_add(1, SeqCst);
                    }
                }
            });
            threads.spawn(|| walk(&time, [5, 10, 32, 90]));
        });
        ledger.assert_promise(1, INTERVAL_NS);
        assert!(bucket.queue().is_empty());
        let taken = ledger.units() + barged.into_inner();
        assert_eq!(bucket.available() + taken, 1 + 9);
    });
}

/// While the order is still first in, first out, the oldest waiter of a full queue is the next. It may be granted, cancelled or
/// dropped at the moment at which a new one takes its place.
#[test]
fn a_full_queue_whose_oldest_is_next_meets_a_release_and_a_cancellation() {
    explore(|| {
        let (limit, time) = timed_slots(2);
        let in_use = InUse::default();
        let after = Duration::from_nanos(3);
        let order = Order::AdaptiveLifo { after };
        limit.queue().set_order(order).set_max_waiters(2);
        let permit = limit.try_acquire().expect("it is free");
        let handle = CancelHandle::new();
        let served = AtomicU64::new(0);
        thread::scope(|threads| {
            for (n, handle) in [(2, Some(&handle)), (1, None), (2, None), (1, None)] {
                let (limit, in_use, served) = (&limit, &in_use, &served);
                threads.spawn(move || {
                    let wait = limit.acquire().n(n);
                    let (wait, is_cancellable) = match handle {
                        Some(handle) => (wait.cancelled_by(handle), true),
                        None => (wait, false),
                    };
                    match in_use.hold(wait, 2) {
                        Ok(()) => drop(served.fetch_add(1, SeqCst)),
                        Err(denied) if denied.is_cancelled() => assert!(is_cancellable),
                        Err(denied) => assert!(denied.is_queue_full(), "{denied:?}"),
                    }
                });
            }
            threads.spawn(|| drop(leave_early(limit.acquire())));
            threads.spawn(|| handle.cancel());
            threads.spawn(|| walk(&time, [2, 4]));
            threads.spawn(move || drop(permit));
        });
        assert!(served.into_inner() >= 1, "the last to come stays");
        assert_idle(&limit);
    });
}

/// What a waiter that is shed does not get goes to the next one, whichever of them leaves, and however many permits there are.
#[test]
fn c5_shedding_meets_a_larger_limit_and_those_who_leave() {
    explore(|| {
        let (limit, time) = timed_slots(1);
        let in_use = InUse::default();
        let [target, interval] = [1, 5].map(Duration::from_nanos);
        let codel = Codel::new(target, interval).expect("within range");
        limit.queue().set_codel(codel);
        let permit = limit.try_acquire().expect("it is free");
        let handle = CancelHandle::new();
        thread::scope(|threads| {
            for handle in [Some(&handle), None, None] {
                let (limit, in_use) = (&limit, &in_use);
                threads.spawn(move || {
                    for _ in 0..2 {
                        let wait = limit.acquire();
                        let wait = match handle {
                            Some(handle) => wait.cancelled_by(handle),
                            None => wait,
                        };
                        if let Err(denied) = in_use.hold(wait, 2) {
                            let is_cancelled = handle.is_some() && denied.is_cancelled();
                            assert!(is_cancelled || denied.is_shed(), "{denied:?}");
                        }
                    }
                });
            }
            threads.spawn(|| drop(leave_early(limit.acquire())));
            threads.spawn(|| limit.set_limit(2).expect("within range"));
            threads.spawn(|| handle.cancel());
            threads.spawn(|| walk(&time, [3, 7, 10, 14]));
            threads.spawn(move || drop(permit));
        });
        assert_idle(&limit);
    });
}

/// The newest are granted, and the oldest are shed, at a clock that moves.
#[test]
fn shedding_meets_a_queue_that_turns() {
    explore(|| {
        let (limit, time) = timed_slots(1);
        let in_use = InUse::default();
        let after = Duration::from_nanos(2);
        let [target, interval] = [1, 5].map(Duration::from_nanos);
        let codel = Codel::new(target, interval).expect("within range");
        let queue = limit.queue().set_order(Order::AdaptiveLifo { after });
        queue.set_codel(codel).set_max_waiters(3);
        let permit = limit.try_acquire().expect("it is free");
        thread::scope(|threads| {
            for _ in 0..4 {
                let (limit, time, in_use) = (&limit, &time, &in_use);
                threads.spawn(move || {
                    for _ in 0..2 {
                        if let Err(denied) = in_use.hold(limit.acquire(), 1) {
                            assert!(denied.is_shed() || denied.is_queue_full(), "{denied:?}");
                        }
                        time.advance(Duration::from_nanos(2));
                    }
                });
            }
            threads.spawn(|| drop(leave_early(limit.acquire())));
            threads.spawn(move || drop(permit));
        });
        assert_idle(&limit);
    });
}
