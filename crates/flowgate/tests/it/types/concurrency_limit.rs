//! At most so many in flight, by hand-polled futures on a clock that only moves when told to.

use flowgate::{
    Acquire, CancelHandle, ConcurrencyLimit, ManualClock, Observed, Order, Permit, Permits,
    Timestamp,
};
use flowgate_testkit::task::Task;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const MOST: u32 = (1 << 31) - 1;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// On a clock of its own, which stands.
fn limit_of(limit: u32) -> ConcurrencyLimit {
    let builder = ConcurrencyLimit::builder(limit).clock(ManualClock::new());
    builder.build().unwrap()
}

#[track_caller]
fn hold(limit: &ConcurrencyLimit, n: u64) -> Permit<&ConcurrencyLimit> {
    limit.try_acquire_n(n).unwrap()
}

#[track_caller]
fn give_back(permit: &mut Permit<&ConcurrencyLimit>, n: u64) {
    drop(permit.split(n).expect("it holds as many"));
}

#[track_caller]
fn assert_idle(limit: &ConcurrencyLimit) {
    assert!(limit.queue().is_empty());
    assert_eq!(limit.in_flight(), 0);
    assert_eq!(limit.available(), u64::from(limit.limit()));
    assert_eq!(
        limit.drain().units(),
        u64::from(limit.limit()),
        "all can be had"
    );
}

// What one limit does with one caller.

#[test]
fn c1_as_many_as_the_limit_and_no_more() {
    for limit in [1, 2, 5, 1000] {
        let limiter = limit_of(limit);
        let permits: Vec<_> = (0..limit).map(|_| limiter.try_acquire().unwrap()).collect();
        assert!(limiter.try_acquire().unwrap_err().is_busy());
        assert_eq!(limiter.in_flight(), u64::from(limit));
        drop(permits);
        assert_idle(&limiter);
    }
}

#[test]
fn a_refusal_takes_nothing_and_knows_no_time() {
    let limit = limit_of(5);
    let permit = hold(&limit, 4);
    let denied = limit.try_acquire_n(2).unwrap_err();
    assert!(denied.is_busy() && !denied.is_never());
    assert_eq!(denied.retry_after(), None);
    assert_eq!(denied.to_string(), "no slot is free");
    assert_eq!((limit.in_flight(), limit.available()), (4, 1));
    drop(permit);
}

#[test]
fn zero_slots_are_had_by_anybody() {
    let limit = limit_of(0);
    assert_eq!(limit.try_acquire_n(0).unwrap().units(), 0);
    let limit = limit_of(1);
    let _one = hold(&limit, 1);
    let _waiter = Task::start(limit.acquire());
    assert_eq!(limit.try_acquire_n(0).unwrap().units(), 0);
    assert_eq!(Task::start(limit.acquire().n(0)).into_granted().units(), 0);
    limit.queue().close();
    assert_eq!(limit.try_acquire_n(0).unwrap().units(), 0);
    assert_eq!(limit.in_flight(), 1);
}

#[test]
fn more_than_the_limit_is_refused_for_ever_and_never_waits() {
    let limit = limit_of(5);
    let denied = limit.try_acquire_n(6).unwrap_err();
    assert!(denied.is_never());
    assert_eq!(
        denied.to_string(),
        "6 can never be granted: the maximum is 5"
    );
    assert!(
        Task::start(limit.acquire().n(6))
            .denied()
            .unwrap()
            .is_never()
    );
    let _all = hold(&limit, 5);
    let _waiter = Task::start(limit.acquire());
    assert!(limit.try_acquire_n(6).unwrap_err().is_never());
    assert!(
        Task::start(limit.acquire().n(6))
            .denied()
            .unwrap()
            .is_never()
    );
    for n in [1 << 31, 1 << 33, 1 << 62, u64::MAX] {
        assert!(limit.try_acquire_n(n).unwrap_err().is_never());
        assert!(
            Task::start(limit.acquire().n(n))
                .denied()
                .unwrap()
                .is_never()
        );
    }
    assert_eq!(limit.queue().len(), 1);
}

#[test]
fn a_limit_of_0_is_a_pause() {
    let limit = limit_of(0);
    assert!(limit.try_acquire().unwrap_err().is_busy());
    assert!(limit.try_acquire_n(MOST.into()).unwrap_err().is_busy());
    let past_all = u64::from(MOST) + 1;
    assert!(limit.try_acquire_n(past_all).unwrap_err().is_never());
    let mut waiter = Task::start(limit.acquire().n(2));
    let mut too_large = Task::start(limit.acquire().n(9));
    limit.set_limit(1).unwrap();
    assert!(waiter.run() && waiter.denied().unwrap().is_never());
    assert!(too_large.run() && too_large.denied().unwrap().is_never());
    assert_idle(&limit);
}

#[test]
fn the_largest_limit() {
    let limit = limit_of(MOST);
    let mut all = limit.try_acquire_n(MOST.into()).unwrap();
    assert!(limit.try_acquire().unwrap_err().is_busy());
    assert!(
        limit
            .try_acquire_n(u64::from(MOST) + 1)
            .unwrap_err()
            .is_never()
    );
    let mut waiter = Task::start(limit.acquire().n(MOST.into()));
    give_back(&mut all, 1);
    assert!(!waiter.run());
    drop(all);
    assert!(waiter.run());
    assert_eq!(limit.in_flight(), u64::from(MOST));
    drop(waiter.into_granted());
    assert_idle(&limit);

    let error = limit.set_limit(MOST + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a concurrency limit of 2147483648 is out of range: 0 to 2147483647"
    );
    assert_eq!(limit.limit(), MOST);
}

#[test]
#[should_panic(expected = "at most 2147483647")]
fn one_more_than_the_largest_limit_panics() {
    let _ = ConcurrencyLimit::new(MOST + 1);
}

#[test]
fn a_snapshot_is_of_one_instant() {
    let limit = limit_of(5);
    let whole = limit.snapshot();
    assert_eq!((whole.limit, whole.remaining), (5, 5));
    assert_eq!(whole.reset_after, Duration::ZERO);
    let permit = hold(&limit, 2);
    let seen = limit.snapshot();
    assert_eq!((seen.limit, seen.remaining), (5, 3));
    assert_eq!(seen.reset_after, Duration::MAX, "nobody knows");
    let _waiter = Task::start(limit.acquire().n(4));
    assert_eq!(limit.snapshot().remaining, 0, "they are spoken for");
    drop(permit);
    assert_eq!(limit.snapshot().remaining, 1);
    limit.set_limit(0).unwrap();
    let paused = limit.snapshot();
    assert_eq!((paused.limit, paused.remaining), (0, 0));
    assert_eq!(paused.reset_after, Duration::MAX, "four are in flight");
}

// Permits.

#[test]
fn permits_are_split_and_merged() {
    let limit = limit_of(10);
    let mut permit = hold(&limit, 6);
    let mut four = permit.split(4).unwrap();
    assert!(permit.split(3).is_none(), "it holds two");
    assert_eq!((permit.units(), four.units(), limit.in_flight()), (2, 4, 6));
    let all_of_it = four.split(4).unwrap();
    assert_eq!((four.units(), all_of_it.units()), (0, 4));
    drop(four);
    assert_eq!(limit.in_flight(), 6);
    permit.merge(all_of_it).unwrap();
    assert_eq!((permit.units(), limit.in_flight()), (6, 6));
    assert!(permit.split(u64::MAX).is_none());
    assert!(core::ptr::eq(permit.limiter(), &limit));
    drop(permit);
    assert_idle(&limit);
}

#[test]
fn permits_of_two_limits_do_not_merge() {
    let (one, other) = (Arc::new(limit_of(2)), Arc::new(limit_of(2)));
    let mut permit = hold(&one, 1);
    let stranger = permit.merge(hold(&other, 2)).unwrap_err();
    assert_eq!((permit.units(), stranger.units()), (1, 2));
    assert_eq!((one.in_flight(), other.in_flight()), (1, 2));
    drop((permit, stranger));

    let mut permit = one.try_acquire_owned().unwrap();
    permit.merge(one.try_acquire_owned().unwrap()).unwrap();
    let stranger = permit.merge(other.try_acquire_owned().unwrap());
    assert_eq!(stranger.unwrap_err().units(), 1);
    assert_eq!(permit.units(), 2);
    drop(permit);
    assert_idle(&one);
    assert_idle(&other);
}

#[test]
fn an_owned_permit_keeps_its_limit_alive() {
    let limit = Arc::new(limit_of(3));
    let mut permit = limit.try_acquire_n_owned(2).unwrap();
    let split = permit.split(1).unwrap();
    let mut waiter = Task::start(limit.acquire_owned().n(2));
    drop(permit);
    assert!(waiter.run());
    let permit = waiter.into_granted();
    let limit = {
        let weak = Arc::downgrade(&limit);
        drop(limit);
        weak
    };
    assert_eq!(split.limiter().in_flight(), 3);
    drop(split);
    assert_eq!(permit.limiter().available(), 1);
    drop(permit);
    assert!(limit.upgrade().is_none());
}

#[test]
fn what_is_forgotten_never_comes_back() {
    let limit = limit_of(10);
    limit.take_up_to(4).forget();
    assert_eq!((limit.limit(), limit.available()), (6, 6));
    let mut permit = hold(&limit, 3);
    permit.split(1).unwrap().forget();
    assert_eq!((limit.limit(), limit.in_flight()), (5, 2));
    drop(permit);
    limit.take_up_to(10).forget();
    assert_eq!((limit.limit(), limit.in_flight()), (0, 0));
    limit.set_limit(2).unwrap();
    assert_idle(&limit);
}

#[test]
fn forgetting_what_somebody_waits_for_refuses_them() {
    let limit = limit_of(3);
    let mut permit = hold(&limit, 3);
    let mut waiter = Task::start(limit.acquire().n(3));
    permit.split(1).unwrap().forget();
    assert!(waiter.run() && waiter.denied().unwrap().is_never());
    drop(permit);
    assert_eq!(limit.drain().units(), 2);
}

#[test]
fn forgetting_while_more_is_in_flight_than_the_limit_lowers_that_too() {
    let limit = limit_of(5);
    let mut permit = hold(&limit, 5);
    limit.set_limit(3).unwrap();
    permit.split(2).unwrap().forget();
    assert_eq!((limit.limit(), limit.in_flight()), (1, 3));
    permit.split(2).unwrap().forget();
    assert_eq!((limit.limit(), limit.in_flight()), (0, 1));
    drop(permit);
    assert_idle(&limit);
}

// The queue.

#[test]
fn c6_slots_go_to_those_in_line_in_order() {
    let limit = limit_of(2);
    let mut all = hold(&limit, 2);
    let mut waiters: Vec<_> = (0..4).map(|_| Task::start(limit.acquire())).collect();
    assert_eq!((limit.queue().len(), limit.queue().units()), (4, 4));
    give_back(&mut all, 1);
    assert_eq!(limit.in_flight(), 2, "the slot has been handed over");
    assert!(limit.try_acquire().unwrap_err().is_busy());
    let ready: Vec<_> = waiters.iter_mut().map(Task::run).collect();
    assert_eq!(ready, [true, false, false, false]);
    drop(all);
    drop(waiters.remove(0).into_granted());
    let ready: Vec<_> = waiters.iter_mut().map(Task::run).collect();
    assert_eq!(ready, [true, true, false]);
    drop(waiters);
    assert_idle(&limit);
}

#[test]
fn c6_a_turn_that_was_given_up_costs_the_others_nothing() {
    let limit = limit_of(2);
    let mut all = hold(&limit, 2);
    let large = Task::start(limit.acquire().n(2));
    let mut small = Task::start(limit.acquire());
    let mut last = Task::start(limit.acquire());
    give_back(&mut all, 1);
    assert!(!small.run(), "the large one is next");
    drop(large);
    assert!(small.run());
    assert!(!last.run());
    drop(all);
    assert!(last.run());
}

#[test]
fn c5_a_slot_that_was_granted_and_not_seen_goes_to_the_next() {
    let limit = limit_of(1);
    let permit = hold(&limit, 1);
    let granted = Task::start(limit.acquire());
    let mut next = Task::start(limit.acquire());
    drop(permit);
    assert_eq!(limit.queue().len(), 1, "the first has been granted");
    drop(granted);
    assert!(next.run());
    drop(next.into_granted());
    assert_idle(&limit);
}

#[test]
fn c6_every_one_of_64_has_the_same_share() {
    const TASKS: usize = 64;
    let limit = limit_of(10);
    // Each takes 1 to 3 slots, over and over, and holds them for one round.
    let amount = |task: usize| 1 + task as u64 % 3;
    let mut tasks: Vec<_> = (0..TASKS)
        .map(|task| Task::start(limit.acquire().n(amount(task))))
        .collect();
    let mut granted = [0u64; TASKS];
    for _ in 0..1_000 {
        let mut held = Vec::new();
        for task in 0..TASKS {
            if tasks[task].poll() {
                granted[task] += 1;
                let next = Task::start(limit.acquire().n(0));
                held.push((
                    task,
                    std::mem::replace(&mut tasks[task], next).into_granted(),
                ));
            }
        }
        let in_flight: u64 = held.iter().map(|(_, permit)| permit.units()).sum();
        assert!(in_flight <= 10, "{in_flight} of 10");
        for (task, permit) in held {
            // Behind the others, and before its own slots are free.
            tasks[task] = Task::start(limit.acquire().n(amount(task)));
            drop(permit);
        }
    }
    let (least, most) = (granted.iter().min().unwrap(), granted.iter().max().unwrap());
    assert!(*least > 50 && most - least <= 1, "{least} to {most}");
}

#[test]
fn barging_lets_newcomers_by_and_loses_no_slot() {
    let limit = limit_of(2);
    limit.queue().set_order(Order::Barging);
    let mut all = hold(&limit, 2);
    let mut large = Task::start(limit.acquire().n(2));
    give_back(&mut all, 1);
    let newcomer = limit.try_acquire().expect("past the large one");
    drop(all);
    assert!(!large.run());
    drop(newcomer);
    assert!(large.run());
}

#[test]
fn last_come_first_served() {
    let limit = limit_of(1);
    limit.queue().set_order(Order::Lifo).set_max_waiters(2);
    let permit = hold(&limit, 1);
    let mut waiters: Vec<_> = (0..3).map(|_| Task::start(limit.acquire())).collect();
    assert!(waiters[0].run() && waiters[0].denied().unwrap().is_queue_full());
    drop(permit);
    assert!(!waiters[1].run());
    assert!(waiters[2].run());
}

#[test]
fn the_bounds_of_the_line() {
    let limit = limit_of(2);
    limit.queue().set_max_waiters(1);
    let permit = hold(&limit, 2);
    let waiter = Task::start(limit.acquire().n(2));
    assert!(
        Task::start(limit.acquire())
            .denied()
            .unwrap()
            .is_queue_full()
    );
    drop(waiter);
    limit.queue().set_max_waiters(9).set_max_units(2);
    let _waiter = Task::start(limit.acquire());
    assert!(
        Task::start(limit.acquire().n(2))
            .denied()
            .unwrap()
            .is_queue_full()
    );
    let mut last = Task::start(limit.acquire());
    drop(permit);
    assert!(last.run());
}

// Deadlines and cancelling.

#[test]
fn a_deadline_ends_the_wait_and_those_behind_move_up() {
    let time = ManualClock::new();
    let limit = ConcurrencyLimit::builder(2).clock(&time).build().unwrap();
    let mut all = hold(&limit, 2);
    let mut large = Task::start(limit.acquire().n(2).within(ms(10)));
    let mut by_instant = Task::start(limit.acquire().by(Timestamp::from_nanos(10_000_000)));
    let mut small = Task::start(limit.acquire());
    give_back(&mut all, 1);
    time.advance(ms(9));
    assert!(!large.run() && !by_instant.run() && !small.run());
    time.advance(ms(1));
    assert!(large.run() && large.denied().unwrap().is_busy());
    assert!(by_instant.run() && by_instant.output.unwrap().is_ok());
    assert!(small.run(), "the instant's own permit has been dropped");
    assert_eq!(limit.queue().len(), 0);
}

/// By whoever comes when it has, and not only by itself.
#[test]
fn a_deadline_that_has_come_ends_a_wait_that_nobody_looks_after() {
    let time = ManualClock::new();
    let limit = ConcurrencyLimit::builder(2).clock(&time).build().unwrap();
    let _held = hold(&limit, 1);
    let mut large = Task::start(limit.acquire().n(2).within(ms(5)));
    let mut small = Task::start(limit.acquire());
    time.advance(ms(5));
    assert!(limit.try_acquire().unwrap_err().is_busy());
    assert!(small.run(), "what is in its way has passed");
    assert!(large.run());
    assert!(large.denied().unwrap().is_busy());
}

#[test]
fn a_slot_that_comes_too_late_goes_to_the_next() {
    let time = ManualClock::new();
    let limit = ConcurrencyLimit::builder(1).clock(&time).build().unwrap();
    let permit = hold(&limit, 1);
    let mut late = Task::start(limit.acquire().within(ms(10)));
    let mut next = Task::start(limit.acquire().within(ms(30)));
    time.advance(ms(20));
    drop(permit);
    assert!(next.run(), "although the first has not looked yet");
    assert!(late.run() && late.denied().unwrap().is_busy());
    drop(next.into_granted());
    assert_idle(&limit);
}

#[test]
fn a_deadline_that_has_passed_means_now() {
    let time = ManualClock::new();
    time.advance(ms(5));
    let limit = ConcurrencyLimit::builder(2).clock(&time).build().unwrap();
    let past = Timestamp::ORIGIN;
    let mut permit = Task::start(limit.acquire().n(2).by(past)).into_granted();
    assert!(
        Task::start(limit.acquire().by(past))
            .denied()
            .unwrap()
            .is_busy()
    );
    assert!(
        Task::start(limit.acquire().within(Duration::ZERO))
            .denied()
            .unwrap()
            .is_busy()
    );
    assert!(limit.queue().is_empty());
    give_back(&mut permit, 1);
    let _large = Task::start(limit.acquire().n(2));
    assert!(
        Task::start(limit.acquire().by(past))
            .denied()
            .unwrap()
            .is_busy(),
        "not past the large one"
    );
}

#[test]
fn cancelling_ends_a_wait() {
    let limit = limit_of(1);
    let permit = hold(&limit, 1);
    let handle = CancelHandle::new();
    let mut waiter = Task::start(limit.acquire().cancelled_by(&handle));
    let mut next = Task::start(limit.acquire());
    handle.cancel();
    assert!(waiter.run() && waiter.denied().unwrap().is_cancelled());
    drop(permit);
    assert!(next.run());
    let late = Task::start(limit.acquire().n(0).cancelled_by(&handle));
    assert!(late.denied().unwrap().is_cancelled());
}

#[test]
fn c5_cancelled_after_it_was_granted_it_has_its_slot() {
    let limit = limit_of(1);
    let permit = hold(&limit, 1);
    let handle = CancelHandle::new();
    let mut waiter = Task::start(limit.acquire().cancelled_by(&handle));
    drop(permit);
    handle.cancel();
    assert!(waiter.run());
    assert_eq!(waiter.into_granted().units(), 1);
    assert_idle(&limit);
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn a_wait_that_is_over_is_over() {
    let limit = limit_of(5);
    let mut wait = limit.acquire();
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut wait).poll(&mut context).is_ready());
    let _ = Pin::new(&mut wait).poll(&mut context);
}

// Another limit.

#[test]
fn c1_a_smaller_limit_is_a_debt() {
    let limit = limit_of(10);
    let mut permit = hold(&limit, 8);
    limit.set_limit(5).unwrap();
    assert_eq!((limit.in_flight(), limit.available()), (8, 0));
    let mut waiter = Task::start(limit.acquire());
    for in_flight in [7, 6, 5] {
        give_back(&mut permit, 1);
        assert_eq!(limit.in_flight(), in_flight);
        assert!(!waiter.run(), "{in_flight} of 5");
        assert!(limit.try_acquire().is_err());
    }
    give_back(&mut permit, 1);
    assert!(waiter.run());
    assert_eq!(limit.in_flight(), 5);
}

#[test]
fn c2_a_larger_limit_serves_as_many_as_fit_in_order() {
    let limit = limit_of(4);
    let all = hold(&limit, 4);
    let mut waiters: Vec<_> = [1, 3, 4, 1]
        .map(|n| Task::start(limit.acquire().n(n)))
        .into();
    limit.set_limit(9).unwrap();
    let ready: Vec<_> = waiters.iter_mut().map(Task::run).collect();
    assert_eq!(
        ready,
        [true, true, false, false],
        "4 do not fit, and 1 does not overtake"
    );
    assert_eq!((limit.in_flight(), limit.available()), (8, 0));
    limit.set_limit(MOST).unwrap();
    assert!(waiters.iter_mut().all(Task::run));
    assert_eq!(limit.available(), u64::from(MOST) - 13);
    drop((all, waiters));
    assert_idle(&limit);
}

#[test]
fn those_who_ask_for_more_than_a_smaller_limit_are_refused() {
    let limit = limit_of(4);
    let mut all = hold(&limit, 4);
    let mut first = Task::start(limit.acquire().n(4));
    let mut second = Task::start(limit.acquire().n(3));
    let mut third = Task::start(limit.acquire().n(2));
    let mut behind = Task::start(limit.acquire().n(3));
    limit.set_limit(2).unwrap();
    assert!(
        behind.run() && behind.denied().unwrap().is_never(),
        "at once"
    );
    assert!(first.run() && first.denied().unwrap().is_never());
    assert_eq!(
        first.denied().unwrap().to_string(),
        "4 can never be granted: the maximum is 2"
    );
    assert!(second.run() && second.denied().unwrap().is_never());
    assert!(!third.run());
    give_back(&mut all, 3);
    assert!(!third.run());
    drop(all);
    assert!(third.run());
}

// Closing.

/// Whoever looks first, and although others stand where they stood by then.
#[test]
fn c1_who_is_refused_and_looks_late_has_no_part_in_what_those_behind_are_given() {
    for looks_first in ["who was refused", "who was served"] {
        let limit = limit_of(2);
        let all = hold(&limit, 2);
        let mut large = Task::start(limit.acquire().n(2));
        let mut small = Task::start(limit.acquire());
        limit.set_limit(1).unwrap();
        drop(all);
        let mut next = Task::start(limit.acquire());
        let mut last = Task::start(limit.acquire());
        if looks_first == "who was refused" {
            assert!(large.run() && small.run());
        } else {
            assert!(small.run() && large.run());
        }
        assert!(large.denied().unwrap().is_never(), "{looks_first}");
        let permit = small.into_granted();
        assert_eq!((limit.in_flight(), limit.queue().len()), (1, 2));
        assert!(!next.run() && !last.run(), "{looks_first}");
        drop(permit);
        assert!(next.run() && !last.run(), "{looks_first}");
        drop((next.into_granted(), last));
        assert_idle(&limit);
    }
}

/// Also where nobody has a deadline, and whoever gives back has no use for a clock.
#[test]
fn who_counts_waits_is_told_how_long_they_were() {
    let time = ManualClock::new();
    let limit = ConcurrencyLimit::builder(1).clock(&time).build().unwrap();
    let limit = Observed::new(limit);
    let permit = limit.try_acquire().unwrap();
    let mut counted = Task::start(limit.acquire());
    let mut other = Task::start(limit.get_ref().acquire());
    time.advance(ms(10));
    drop(permit);
    time.advance(ms(10));
    assert!(counted.run());
    assert_eq!(limit.waits().longest(), ms(10));
    drop(counted);
    assert!(other.run());
}

/// What it was given goes on, whoever stands where it stood.
#[test]
fn c5_who_was_served_and_leaves_unseen_gives_back_what_it_asked_for() {
    let limit = limit_of(3);
    let all = hold(&limit, 3);
    let left = Task::start(limit.acquire().n(2));
    drop(all);
    let other = hold(&limit, 1);
    let mut next = Task::start(limit.acquire().n(2));
    assert_eq!((limit.in_flight(), limit.queue().len()), (3, 1));
    drop(left);
    assert!(next.run());
    assert_eq!(limit.in_flight(), 3);
    drop((next.into_granted(), other));
    assert_idle(&limit);
}

#[test]
fn closing_refuses_all_and_leaves_permits_valid() {
    let limit = limit_of(3);
    let mut permit = hold(&limit, 2);
    let mut waiters = [3, 1].map(|n| Task::start(limit.acquire().n(n)));
    limit.queue().close();
    for waiter in &mut waiters {
        assert!(waiter.run() && waiter.denied().unwrap().is_closed());
    }
    assert!(limit.queue().is_closed());
    assert!(limit.try_acquire().unwrap_err().is_closed());
    assert!(limit.try_acquire_n(9).unwrap_err().is_closed());
    assert!(Task::start(limit.acquire()).denied().unwrap().is_closed());
    assert_eq!(limit.drain().units(), 0);
    assert_eq!((limit.in_flight(), limit.available()), (2, 0));
    let split = permit.split(1).unwrap();
    permit.merge(split).unwrap();
    limit.set_limit(9).unwrap();
    assert!(limit.try_acquire().unwrap_err().is_closed());
    drop(permit);
    assert_eq!((limit.in_flight(), limit.limit()), (0, 9));
}

#[test]
fn what_was_granted_before_closing_is_granted() {
    let limit = limit_of(1);
    let permit = hold(&limit, 1);
    let mut waiter = Task::start(limit.acquire());
    drop(permit);
    limit.queue().close();
    assert!(waiter.run());
    drop(waiter.into_granted());
    assert_eq!(limit.in_flight(), 0);
}

// Clocks.

#[test]
fn c4_a_clock_that_runs_backward_keeps_no_slot_from_anybody() {
    let time = ManualClock::new();
    time.set(Timestamp::from_nanos(50));
    let limit = ConcurrencyLimit::builder(1).clock(&time).build().unwrap();
    let permit = hold(&limit, 1);
    let mut first = Task::start(limit.acquire());
    let mut second = Task::start(limit.acquire().within(ms(1)));
    time.set(Timestamp::from_nanos(20));
    drop(permit);
    assert!(first.run(), "a slot is free, whatever time it is");
    drop(first.into_granted());
    time.set(Timestamp::ORIGIN);
    assert!(second.run());
    drop(second.into_granted());
    assert_idle(&limit);
}

#[test]
fn c4_at_the_end_of_time_slots_change_hands_as_ever() {
    let time = ManualClock::new();
    time.set(Timestamp::MAX);
    let limit = ConcurrencyLimit::builder(1).clock(&time).build().unwrap();
    let permit = hold(&limit, 1);
    let mut first = Task::start(limit.acquire());
    assert!(
        Task::start(limit.acquire().within(ms(1)))
            .denied()
            .unwrap()
            .is_busy()
    );
    drop(permit);
    assert!(first.run());
}

// Borrowed from Java's `Semaphore` and its compatibility kit.

#[test]
fn java_the_initial_count_is_what_there_is() {
    for count in [0, 1, 42] {
        let limit = limit_of(count);
        assert_eq!((limit.available(), limit.limit()), (count.into(), count));
    }
}

#[test]
fn java_tries_succeed_while_there_are_some() {
    let limit = limit_of(2);
    let mut permits = Vec::new();
    let mut tries = || match limit.try_acquire() {
        Ok(permit) => {
            permits.push(permit);
            true
        }
        Err(_) => false,
    };
    assert_eq!(
        [tries(), tries(), tries(), tries()],
        [true, true, false, false]
    );
    drop(permits);
    let permits = [3, 2, 1].map(|n| limit.try_acquire_n(n).ok());
    assert_eq!(
        permits.each_ref().map(Option::is_some),
        [false, true, false]
    );
}

#[test]
fn java_release_and_acquire_in_turn() {
    let limit = limit_of(1);
    let mut drained = limit.drain();
    assert_eq!(drained.units(), 1);
    for i in 1..=5 {
        // Release i: so many more than are in use.
        limit.set_limit(limit.in_flight() as u32 + i).unwrap();
        let permit = Task::start(limit.acquire().n(i.into())).into_granted();
        assert_eq!(limit.available(), 0);
        drained.merge(permit).unwrap();
    }
    assert_eq!(drained.units(), 16);
}

#[test]
fn java_drain_takes_all_there_is() {
    let limit = limit_of(0);
    assert_eq!(limit.drain().units(), 0);
    limit.set_limit(10).unwrap();
    let ten = limit.drain();
    assert_eq!((ten.units(), limit.drain().units()), (10, 0));
}

#[test]
fn java_reducing_goes_below_what_is_in_use() {
    let limit = limit_of(21);
    let _in_use = hold(&limit, 11);
    let reduced = [0, 1, 10, 10, 0].map(|by| {
        let smaller = limit.limit() - by;
        limit.set_limit(smaller).unwrap();
        i64::from(limit.limit()) - limit.in_flight() as i64
    });
    assert_eq!(reduced, [10, 9, -1, -11, -11]);
    assert_eq!(limit.available(), 0);
}

#[test]
fn java_the_length_of_the_line() {
    let limit = limit_of(1);
    let permit = hold(&limit, 1);
    let mut lengths = vec![limit.queue().len()];
    let first = Task::start(limit.acquire());
    lengths.push(limit.queue().len());
    let mut second = Task::start(limit.acquire());
    lengths.push(limit.queue().len());
    drop(first);
    lengths.push(limit.queue().len());
    drop(permit);
    assert!(second.run());
    lengths.push(limit.queue().len());
    assert_eq!(lengths, [0, 1, 2, 1, 0]);
}

#[test]
fn java_a_fair_semaphore_is_fifo() {
    let limit = limit_of(3);
    let mut two = hold(&limit, 2);
    let mut three = Task::start(limit.acquire().n(3));
    assert!(
        Task::start(limit.acquire().within(Duration::ZERO))
            .denied()
            .unwrap()
            .is_busy()
    );
    // Java's untimed try overtakes even where it is fair; here the order decides that.
    assert!(limit.try_acquire().is_err());
    limit.queue().set_order(Order::Barging);
    two.merge(limit.try_acquire().unwrap()).unwrap();
    limit.queue().set_order(Order::Fifo);
    give_back(&mut two, 1);
    let mut one = Task::start(limit.acquire());
    drop(two);
    assert!(three.run());
    assert!(!one.run());
    let mut three = three.into_granted();
    give_back(&mut three, 1);
    assert!(one.run());
}

/// JDK-8386085: storms of very short timed tries never took what was available.
#[test]
fn java_storms_of_short_timed_tries_take_what_is_there() {
    const THREADS: u32 = 4;
    let limit = ConcurrencyLimit::new(0);
    std::thread::scope(|threads| {
        let tries: Vec<_> = (0..THREADS)
            .map(|_| {
                threads.spawn(|| {
                    let mut tries = 0_u64;
                    loop {
                        tries += 1;
                        match limit.acquire().within(Duration::from_micros(1)).block() {
                            Ok(permit) => return (tries, permit.forget()),
                            Err(denied) => assert!(!denied.is_never(), "{denied}"),
                        }
                    }
                })
            })
            .collect();
        while limit.queue().is_empty() {
            std::thread::yield_now();
        }
        limit.set_limit(THREADS).unwrap();
        for thread in tries {
            assert!(thread.join().unwrap().0 > 0);
        }
    });
    assert_eq!((limit.limit(), limit.in_flight()), (0, 0));
}

// Borrowed from tokio's `Semaphore`.

#[test]
fn tokio_permits_count_down_and_up() {
    let limit = limit_of(100);
    let one = Task::start(limit.acquire()).into_granted();
    assert_eq!(limit.available(), 99);
    drop(one);
    let first = Task::start(limit.acquire().n(5)).into_granted();
    assert_eq!(limit.available(), 95);
    let second = Task::start(limit.acquire().n(5)).into_granted();
    assert_eq!(limit.available(), 90);
    drop((first, second));
    assert_idle(&limit);
}

#[test]
fn tokio_a_large_request_is_served_in_its_turn() {
    let limit = limit_of(5);
    let one = hold(&limit, 1);
    let mut five = Task::start(limit.acquire().n(5));
    assert_eq!(limit.available(), 0);
    let mut three = Task::start(limit.acquire().n(3));
    drop(one);
    assert!(five.run());
    assert!(!three.run());
    let mut five = five.into_granted();
    give_back(&mut five, 1);
    assert!(!three.run());
    give_back(&mut five, 2);
    assert!(three.run());
}

#[test]
fn tokio_a_wait_that_is_dropped_leaves_what_it_waited_for() {
    let limit = limit_of(10);
    let four = hold(&limit, 4);
    let eight = Task::start(limit.acquire().n(8));
    assert_eq!(limit.available(), 0);
    drop(eight);
    assert_eq!(limit.available(), 6);
    assert!(limit.try_acquire_n(6).is_ok());
    drop(four);
}

#[test]
fn tokio_forgetting_some() {
    let limit = limit_of(10);
    let mut forgotten = limit.take_up_to(4);
    assert_eq!(forgotten.units(), 4);
    forgotten.forget();
    assert_eq!(limit.available(), 6);
    forgotten = limit.take_up_to(10);
    assert_eq!(forgotten.units(), 6);
    forgotten.forget();
    assert_eq!(limit.available(), 0);
    assert_eq!(limit.take_up_to(4).units(), 0);
}

// Many threads.

#[test]
fn threads_and_tasks_stand_in_the_same_line() {
    let limit = limit_of(1);
    let permit = hold(&limit, 1);
    let mut task = Task::start(limit.acquire());
    std::thread::scope(|threads| {
        let thread = threads.spawn(|| limit.acquire().block());
        while limit.queue().len() < 2 {
            std::thread::yield_now();
        }
        let mut last = Task::start(limit.acquire());
        drop(permit);
        assert!(task.run());
        drop(task.into_granted());
        let permit = thread.join().unwrap().unwrap();
        assert!(!last.run());
        drop(permit);
        assert!(last.run());
    });
    assert_idle(&limit);
}

#[test]
fn an_owned_wait_blocks_too() {
    let limit = Arc::new(limit_of(1));
    let permit = limit.try_acquire_owned().unwrap();
    let thread = std::thread::spawn({
        let wait = limit.acquire_owned();
        move || wait.block()
    });
    while limit.queue().is_empty() {
        std::thread::yield_now();
    }
    drop(permit);
    drop(thread.join().unwrap().unwrap());
    assert_idle(&limit);
}

#[test]
fn a_permit_is_given_back_by_a_thread_that_panics() {
    let limit = Arc::new(limit_of(1));
    let permit = limit.try_acquire_owned().unwrap();
    let mut waiter = Task::start(limit.acquire_owned());
    let thread = std::thread::spawn(move || {
        let _permit = permit;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(thread.join().is_err());
    assert!(waiter.run());
    drop(waiter.into_granted());
    assert_idle(&limit);
}

#[test]
fn a_waker_that_panics_harms_nobody_else() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
    let limit = limit_of(2);
    let permit = hold(&limit, 2);
    let mut rude = Box::pin(limit.acquire());
    let waker = Waker::from(Arc::new(Panics));
    let poll = rude.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(poll.is_pending());
    let mut polite = Task::start(limit.acquire());
    drop(permit);
    assert!(polite.run());
    drop(rude);
    drop(polite.into_granted());
    assert_idle(&limit);
}

/// What is in flight, by another count.
struct Ledger<'a> {
    limit: &'a ConcurrencyLimit,
    in_flight: AtomicUsize,
    most: usize,
}

impl Ledger<'_> {
    fn enter(&self, n: u64) {
        let before = self.in_flight.fetch_add(n as usize, Ordering::SeqCst);
        assert!(
            before + n as usize <= self.most,
            "{before} + {n} of {}",
            self.most
        );
    }

    fn leave(&self, permit: Permit<&ConcurrencyLimit>) {
        assert!(std::ptr::eq(permit.limiter(), self.limit));
        self.in_flight
            .fetch_sub(permit.units() as usize, Ordering::SeqCst);
        drop(permit);
    }
}

/// Waits that are given up at every stage, by threads that take, resize and give back meanwhile.
fn storm(cancels: usize, threads: usize) {
    const MOST_AT_ONCE: usize = 8;
    let limit = ConcurrencyLimit::new(MOST_AT_ONCE as u32);
    let ledger = Ledger {
        limit: &limit,
        in_flight: AtomicUsize::new(0),
        most: MOST_AT_ONCE,
    };
    let cancelled = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let storm = |seed| {
            let (limit, ledger, cancelled) = (&limit, &ledger, &cancelled);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed as u64);
                let mut context = Context::from_waker(Waker::noop());
                let mut held: Vec<Permit<&ConcurrencyLimit>> = Vec::new();
                let mut waits: Vec<Acquire<Permits<&ConcurrencyLimit>>> = Vec::new();
                while cancelled.load(Ordering::Relaxed) < cancels {
                    for _ in 0..random.usize(1..8) {
                        let mut wait = limit.acquire().n(random.u64(1..=3));
                        match Pin::new(&mut wait).poll(&mut context) {
                            Poll::Ready(permit) => {
                                let permit = permit.unwrap();
                                ledger.enter(permit.units());
                                held.push(permit);
                            }
                            Poll::Pending => waits.push(wait),
                        }
                    }
                    if let Ok(permit) = limit.try_acquire() {
                        ledger.enter(1);
                        held.push(permit);
                    }
                    if random.u8(..) == 0 {
                        limit
                            .set_limit(random.u32(3..=MOST_AT_ONCE as u32))
                            .unwrap();
                    }
                    if !held.is_empty() {
                        ledger.leave(held.swap_remove(random.usize(..held.len())));
                    }
                    while waits.len() > random.usize(..6) {
                        let mut wait = waits.swap_remove(random.usize(..waits.len()));
                        if random.bool()
                            && let Poll::Ready(permit) = Pin::new(&mut wait).poll(&mut context)
                        {
                            let permit = permit.unwrap();
                            ledger.enter(permit.units());
                            held.push(permit);
                        } else {
                            drop(wait);
                            cancelled.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                held.into_iter().for_each(|permit| ledger.leave(permit));
            })
        };
        let threads: Vec<_> = (0..threads).map(storm).collect();
        // Joined: ThreadSanitizer sees that, and not what a scope waits for by itself.
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
    limit.set_limit(MOST_AT_ONCE as u32).unwrap();
    assert_eq!(ledger.in_flight.load(Ordering::SeqCst), 0);
    assert_idle(&limit);
}

#[test]
fn c5_after_a_storm_of_a_million_cancelled_waits_every_slot_is_free() {
    storm(1_000_000, 3);
}

/// Every wait is served, and none of the wake-ups is lost: it would hang.
#[test]
fn c1_threads_that_block_are_all_served() {
    let limit = ConcurrencyLimit::new(3);
    let ledger = Ledger {
        limit: &limit,
        in_flight: AtomicUsize::new(0),
        most: 3,
    };
    std::thread::scope(|scope| {
        let threads = [1, 2, 3, 1, 2, 1].map(|n| {
            let (limit, ledger) = (&limit, &ledger);
            scope.spawn(move || {
                for _ in 0..2_000 {
                    let permit = limit.acquire().n(n).block().unwrap();
                    ledger.enter(n);
                    ledger.leave(permit);
                }
            })
        });
        // Joined: ThreadSanitizer sees that, and not what a scope waits for by itself.
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
    assert_idle(&limit);
}

/// A slot that is given back above the limit is gone, and not handed on to who waits.
#[test]
fn c1_slots_above_a_smaller_limit_are_handed_to_nobody() {
    let limit = ConcurrencyLimit::new(3);
    let mut permits: Vec<_> = (0..3).map(|_| limit.try_acquire().unwrap()).collect();
    let mut wait = Task::start(limit.acquire());
    limit.set_limit(1).unwrap();
    for in_flight in [2, 1] {
        permits.pop();
        assert!(!wait.poll());
        assert_eq!(limit.in_flight(), in_flight);
    }
    permits.pop();
    assert!(wait.poll());
}
