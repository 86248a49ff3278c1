//! Other orders than FIFO, and changes from one to another.

use super::*;
use crate::queue::Order;

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
