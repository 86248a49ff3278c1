//! Waiting in the queue, on a clock that only moves when told to.

use flowgate::{
    CancelHandle, ConcurrencyLimit, Grant, LeakyBucket, ManualClock, Order, Timestamp, TokenBucket,
};
use flowgate_testkit::task::Task;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Empty, one token each 10 ms.
fn bucket(time: &ManualClock, burst: u64) -> TokenBucket {
    let quota = format!("100/s burst {burst}").parse().unwrap();
    TokenBucket::builder(quota)
        .clock(time)
        .initial_tokens(0)
        .build()
        .unwrap()
}

#[test]
fn what_is_there_is_had_at_once() {
    let limiter = TokenBucket::builder("100/s burst 3".parse().unwrap())
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let task = Task::start(limiter.acquire().n(3));
    assert_eq!(task.granted_ms(), Some(0.0));
    assert_eq!(limiter.available(), 0);
    assert!(limiter.queue().is_empty());
}

#[test]
fn c6_turns_come_in_order_for_mixed_amounts() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let mut tasks: Vec<_> = [3, 1, 5, 2]
        .map(|n| Task::start(limiter.acquire().n(n)))
        .into();
    assert_eq!((limiter.queue().len(), limiter.queue().units()), (4, 11));
    let mut dates = vec![None; 4];
    for _ in 0..11 {
        time.advance(ms(10));
        for (task, date) in tasks.iter_mut().zip(&mut dates) {
            task.run();
            *date = date.or(task.granted_ms());
        }
    }
    assert_eq!(dates, [Some(30.0), Some(40.0), Some(90.0), Some(110.0)]);
    assert!(limiter.queue().is_empty());
}

#[test]
fn grants_are_dated_when_they_were_due_however_late_anybody_looks() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 1);
    let mut tasks: Vec<_> = (0..3).map(|_| Task::start(limiter.acquire())).collect();
    time.advance(ms(1000));
    for task in &mut tasks {
        assert!(task.run());
    }
    let dates: Vec<_> = tasks.iter().map(|task| task.granted_ms()).collect();
    assert_eq!(dates, [Some(10.0), Some(20.0), Some(30.0)]);
}

#[test]
fn c6_newcomers_do_not_overtake() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let mut large = Task::start(limiter.acquire().n(5));
    time.advance(ms(30));
    assert_eq!(limiter.available(), 0, "the three are spoken for");
    let denied = limiter.try_acquire().unwrap_err();
    assert_eq!(denied.retry_after(), Some(ms(30)));
    assert_eq!(limiter.take_up_to(2), 0);
    assert_eq!(limiter.reserve().unwrap_err().retry_after(), Some(ms(30)));
    assert_eq!(limiter.overdraw(1).unwrap_err().retry_after(), Some(ms(30)));
    assert_eq!(limiter.snapshot().reset_after, ms(70));
    time.advance(ms(30));
    assert!(
        limiter.try_acquire().is_ok(),
        "the line has been served by whoever came"
    );
    assert!(large.run());
    assert_eq!(large.granted_ms(), Some(50.0));
}

#[test]
fn c6_those_behind_move_up_when_one_gives_up() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let first = Task::start(limiter.acquire().n(5));
    let second = Task::start(limiter.acquire().n(4));
    let mut third = Task::start(limiter.acquire().n(1));
    drop(second);
    time.advance(ms(10));
    drop(first);
    assert!(third.run(), "its turn has come");
    assert_eq!(third.granted_ms(), Some(10.0));
}

#[test]
fn c5_a_grant_that_nobody_saw_comes_back() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let first = Task::start(limiter.acquire().n(2));
    let mut second = Task::start(limiter.acquire().n(3));
    time.advance(ms(20));
    assert_eq!(limiter.available(), 0);
    assert!(first.was_woken());
    assert_eq!(limiter.queue().units(), 3);
    drop(first);
    assert!(!second.run());
    time.advance(ms(10));
    assert!(second.run());
    assert_eq!(second.granted_ms(), Some(30.0));
}

#[test]
fn a_hopeless_deadline_is_refused_at_once() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let _first = Task::start(limiter.acquire().n(5));
    let hopeless = Task::start(limiter.acquire().n(2).within(ms(69)));
    assert_eq!(hopeless.denied().unwrap().retry_after(), Some(ms(1)));
    let mut just = Task::start(limiter.acquire().n(2).within(ms(70)));
    assert!(just.output.is_none());
    time.advance(ms(70));
    assert!(just.run());
    assert_eq!(just.granted_ms(), Some(70.0));
}

#[test]
fn a_deadline_ends_the_wait_when_the_rate_has_sunk() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let mut first = Task::start(limiter.acquire().n(5).within(ms(60)));
    let mut second = Task::start(limiter.acquire().n(1).within(ms(60)));
    limiter.set_quota("1/s burst 5".parse().unwrap()).unwrap();
    assert!(first.run(), "known at once");
    assert!(first.denied().is_some());
    assert!(second.run());
    let denied = second.denied().unwrap();
    assert_eq!(denied.retry_after(), Some(ms(940)));
    assert!(limiter.queue().is_empty());
}

#[test]
fn a_deadline_that_has_passed_means_now() {
    let time = ManualClock::new();
    time.advance(ms(5));
    let limiter = bucket(&time, 5);
    let past = flowgate::Timestamp::ORIGIN;
    let late = Task::start(limiter.acquire().by(past));
    assert_eq!(late.denied().unwrap().retry_after(), Some(ms(10)));
    assert!(limiter.queue().is_empty());
    time.advance(ms(10));
    assert!(
        Task::start(limiter.acquire().by(past))
            .granted_ms()
            .is_some()
    );
}

#[test]
fn more_than_ever_fits_is_refused_at_once() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    assert!(
        Task::start(limiter.acquire().n(6))
            .denied()
            .unwrap()
            .is_never()
    );
    let _first = Task::start(limiter.acquire());
    assert!(
        Task::start(limiter.acquire().n(6))
            .denied()
            .unwrap()
            .is_never()
    );
    assert_eq!(limiter.queue().len(), 1);
}

#[test]
fn a_faster_quota_a_refund_and_a_slower_quota_retime_the_next() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let mut task = Task::start(limiter.acquire().n(4));
    limiter
        .set_quota("1000/s burst 5".parse().unwrap())
        .unwrap();
    time.advance(ms(4));
    assert!(task.run());
    assert_eq!(task.granted_ms(), Some(4.0));

    let limiter = bucket(&ManualClock::new(), 5);
    limiter.overdraw(3).unwrap();
    let mut task = Task::start(limiter.acquire());
    assert!(!task.run());
    assert_eq!(limiter.refund(3), 3);
    assert_eq!(limiter.queue().len(), 1);

    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let mut task = Task::start(limiter.acquire().n(4));
    limiter.set_quota("10/s burst 5".parse().unwrap()).unwrap();
    time.advance(ms(399));
    assert!(!task.run());
    time.advance(ms(1));
    assert!(task.run());
}

#[test]
fn lowering_the_burst_below_what_is_asked_refuses() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let mut task = Task::start(limiter.acquire().n(4));
    limiter.set_burst(3).unwrap();
    assert!(task.run());
    assert!(task.denied().unwrap().is_never());
}

#[test]
fn closing_refuses_all_and_everything() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let mut task = Task::start(limiter.acquire().n(4));
    time.advance(ms(20));
    limiter.queue().close();
    assert!(task.run());
    assert!(task.denied().unwrap().is_closed());
    assert!(limiter.try_acquire().unwrap_err().is_closed());
    assert!(limiter.reserve().unwrap_err().is_closed());
    assert!(Task::start(limiter.acquire()).denied().unwrap().is_closed());
    assert_eq!(limiter.refund(1), 1);
    assert!(limiter.queue().is_closed());
    assert!(limiter.try_acquire_n(0).is_ok());
}

#[test]
fn the_bounds_of_a_line() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    limiter.queue().set_max_waiters(1);
    let first = Task::start(limiter.acquire().n(5));
    let refused = Task::start(limiter.acquire()).denied().unwrap();
    assert!(refused.is_queue_full());
    assert_eq!(refused.retry_after(), Some(ms(60)));
    drop(first);

    limiter.queue().set_max_waiters(9).set_max_units(6);
    let first = Task::start(limiter.acquire().n(5));
    assert!(
        Task::start(limiter.acquire().n(2))
            .denied()
            .unwrap()
            .is_queue_full()
    );
    assert!(Task::start(limiter.acquire()).denied().is_none());
    drop(first);

    limiter.queue().set_max_units(u64::MAX).set_max_wait(ms(50));
    let first = Task::start(limiter.acquire().n(5));
    let refused = Task::start(limiter.acquire()).denied().unwrap();
    assert!(refused.is_queue_full());
    assert_eq!(refused.retry_after(), Some(ms(10)));
    drop(first);

    limiter.queue().set_max_waiters(0);
    assert!(
        Task::start(limiter.acquire())
            .denied()
            .unwrap()
            .is_queue_full()
    );
    time.advance(ms(10));
    assert!(Task::start(limiter.acquire()).granted_ms().is_some());
}

#[test]
fn last_come_first_served_and_the_oldest_go() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    limiter.queue().set_order(Order::Lifo).set_max_waiters(2);
    let mut first = Task::start(limiter.acquire());
    let mut second = Task::start(limiter.acquire());
    let mut third = Task::start(limiter.acquire());
    assert!(first.run());
    assert!(first.denied().unwrap().is_queue_full());
    time.advance(ms(10));
    third.run();
    second.run();
    assert_eq!(third.granted_ms(), Some(10.0));
    assert_eq!(second.granted_ms(), None);
    time.advance(ms(10));
    assert!(second.run());
}

#[test]
fn who_cannot_wait_sends_nobody_away() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    limiter.queue().set_order(Order::Lifo);
    let mut first = Task::start(limiter.acquire());
    limiter.queue().set_max_waiters(0);
    let refused = Task::start(limiter.acquire()).denied().unwrap();
    assert!(refused.is_queue_full());
    time.advance(ms(10));
    first.run();
    assert_eq!(first.granted_ms(), Some(10.0));
}

#[test]
fn adaptive_lifo_turns_when_the_line_stays() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    limiter
        .queue()
        .set_order(Order::AdaptiveLifo { after: ms(15) });
    let mut tasks: Vec<_> = (0..4).map(|_| Task::start(limiter.acquire())).collect();
    let mut order = Vec::new();
    for _ in 0..4 {
        time.advance(ms(10));
        for (index, task) in tasks.iter_mut().enumerate() {
            if !order.contains(&index) && task.run() {
                order.push(index);
            }
        }
    }
    assert_eq!(order, [0, 3, 2, 1]);
}

/// On slots, which no clock gives back: only the order depends on the time.
#[test]
fn adaptive_lifo_turns_only_after_its_time_and_for_more_than_one() {
    let order = |came_ms: [u64; 2], freed_ns: u64| {
        let time = ManualClock::new();
        let limit = ConcurrencyLimit::builder(1).clock(&time).build().unwrap();
        let after = ms(10);
        limit.queue().set_order(Order::AdaptiveLifo { after });
        let held = limit.try_acquire().unwrap();
        let [mut first, mut second] = came_ms.map(|came_ms| {
            time.set(Timestamp::from_nanos(came_ms * 1_000_000));
            Task::start(limit.acquire())
        });
        time.set(Timestamp::from_nanos(freed_ns));
        drop(held);
        [first.run(), second.run()]
    };
    assert_eq!(order([0, 3], 10_000_000), [true, false]);
    assert_eq!(order([0, 3], 10_000_001), [false, true]);
    // Also if there was nobody to overtake at that time.
    assert_eq!(order([0, 20], 20_000_000), [false, true]);
}

/// What is counted is how long somebody has been in the queue; on slots, where no turn has a date, since the order is this one.
#[test]
fn adaptive_lifo_counts_from_when_somebody_came_as_far_as_that_is_known() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let mut large = Task::start(limiter.acquire().n(2));
    let mut small = Task::start(limiter.acquire());
    time.advance(ms(10));
    let order = Order::AdaptiveLifo { after: ms(15) };
    limiter.queue().set_order(order);
    time.advance(ms(9));
    assert_eq!([large.run(), small.run()], [false, true]);

    let time = ManualClock::new();
    let limit = ConcurrencyLimit::builder(1).clock(&time).build().unwrap();
    let held = limit.try_acquire().unwrap();
    let [mut first, mut second] = [(); 2].map(|()| Task::start(limit.acquire()));
    time.advance(ms(20));
    limit.queue().set_order(order);
    time.advance(ms(15));
    drop(held);
    assert_eq!([first.run(), second.run()], [true, false]);
}

#[test]
fn a_line_that_was_last_come_first_served_is_not_so_any_longer_when_the_order_changes() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    limiter.queue().set_order(Order::Lifo);
    let mut tasks = [(); 2].map(|()| Task::start(limiter.acquire()));
    let after = ms(1000);
    limiter.queue().set_order(Order::AdaptiveLifo { after });
    time.advance(ms(10));
    assert_eq!(tasks.each_mut().map(Task::run), [true, false]);
}

/// By its own wait alone: those in the queue come after it.
#[test]
fn who_is_next_by_coming_last_is_refused_only_if_it_is_too_late_itself() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    limiter.queue().set_order(Order::Lifo);
    let _others = [(); 2].map(|()| Task::start(limiter.acquire()));
    let hopeless = Task::start(limiter.acquire().within(ms(9)));
    assert_eq!(hopeless.denied().unwrap().retry_after(), Some(ms(1)));
    let mut just = Task::start(limiter.acquire().within(ms(10)));
    assert!(just.is_waiting());
    time.advance(ms(10));
    assert!(just.run());
    assert_eq!(just.granted_ms(), Some(10.0));
}

#[test]
fn barging_lets_newcomers_by() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    limiter.queue().set_order(Order::Barging);
    let mut task = Task::start(limiter.acquire().n(2));
    time.advance(ms(10));
    assert!(limiter.try_acquire().is_ok());
    time.advance(ms(10));
    assert!(!task.run());
    time.advance(ms(10));
    assert!(task.run());
    assert_eq!(task.granted_ms(), Some(30.0));
}

#[test]
fn cancelling_ends_a_wait() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let handle = CancelHandle::new();
    let mut task = Task::start(limiter.acquire().cancelled_by(&handle));
    assert!(!task.run());
    handle.cancel();
    assert!(task.run());
    assert!(task.denied().unwrap().is_cancelled());
    assert!(limiter.queue().is_empty());
    let late = Task::start(limiter.acquire().cancelled_by(&handle));
    assert!(late.denied().unwrap().is_cancelled());
}

#[test]
fn a_task_that_nobody_polls_does_not_hold_up_those_behind() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let _stuck = Task::start(limiter.acquire());
    let mut stuck_too = Task::start(limiter.acquire());
    let mut third = Task::start(limiter.acquire());
    time.advance(ms(10));
    time.advance(ms(20));
    time.advance(ms(1));
    assert!(stuck_too.was_woken() && third.was_woken());
    assert!(third.poll());
    assert_eq!(third.granted_ms(), Some(30.0));
    assert!(stuck_too.poll());
    assert_eq!(stuck_too.granted_ms(), Some(20.0));
}

#[test]
fn threads_and_tasks_stand_in_the_same_line() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 1);
    let mut task = Task::start(limiter.acquire());
    std::thread::scope(|threads| {
        let thread = threads.spawn(|| limiter.acquire().block());
        while limiter.queue().len() < 2 {
            std::thread::yield_now();
        }
        let mut last = Task::start(limiter.acquire());
        time.advance(ms(30));
        assert!(task.run());
        let grant = thread.join().unwrap().unwrap();
        assert!(last.poll());
        let dates = [task.granted_ms(), Some(grant.at().as_nanos() as f64 / 1e6)];
        assert_eq!(dates, [Some(10.0), Some(20.0)]);
        assert_eq!(last.granted_ms(), Some(30.0));
    });
}

#[test]
fn a_waker_that_panics_harms_nobody_else() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let mut rude = Box::pin(limiter.acquire());
    let waker = Waker::from(Arc::new(Panics));
    let poll = rude.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(poll.is_pending());
    let mut polite = Task::start(limiter.acquire());
    time.advance(ms(20));
    time.advance(ms(20));
    assert!(limiter.try_acquire().is_ok());
    assert!(polite.run());
}

#[test]
fn the_grant_says_when_and_how_long() {
    let time = ManualClock::new();
    time.advance(ms(7));
    let limiter = LeakyBucket::builder("100/s".parse().unwrap())
        .clock(&time)
        .build()
        .unwrap();
    limiter.try_acquire().unwrap();
    time.advance(ms(4));
    let mut task = Task::start(limiter.acquire());
    time.advance(ms(9));
    assert!(task.run());
    let grant: Grant = task.output.unwrap().unwrap();
    assert_eq!(grant.at().as_nanos(), 17_000_000);
    assert_eq!((grant.waited(), grant.units()), (ms(6), 1));
}

#[test]
fn c1_a_fuller_line_drains_faster() {
    let time = ManualClock::new();
    let limiter = LeakyBucket::builder("1/s".parse().unwrap())
        .clock(&time)
        .drain(flowgate::Drain::Proportional { up_to: 3 })
        .build()
        .unwrap();
    limiter.try_acquire().unwrap();
    let mut tasks: Vec<_> = (0..4).map(|_| Task::start(limiter.acquire())).collect();
    time.advance(ms(9000));
    let dates = tasks.iter_mut().map(|task| {
        task.poll();
        task.granted_ms().unwrap()
    });
    // The first was counted at the rate, then 4 (of which 3 count), 3, 2 are in the queue.
    let dates: Vec<_> = dates.map(f64::round).collect();
    assert_eq!(dates, [1000.0, 1333.0, 1667.0, 2167.0]);
}

#[test]
fn at_least_as_far_apart_as_they_really_were() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 1);
    let strictly = || limiter.acquire().spacing(flowgate::Spacing::AtLeast);
    let (mut first, mut second) = (Task::start(strictly()), Task::start(strictly()));
    time.advance(ms(14));
    assert!(first.run());
    assert_eq!(first.granted_ms(), Some(14.0));
    time.advance(ms(9));
    assert!(!second.run());
    time.advance(ms(3));
    assert!(second.run());
    assert_eq!(second.granted_ms(), Some(26.0));
}

#[test]
fn only_its_owner_takes_a_turn_that_counts_from_its_return() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 1);
    let mut slow = Task::start(limiter.acquire().spacing(flowgate::Spacing::AtLeast));
    let mut next = Task::start(limiter.acquire());
    time.advance(ms(10));
    assert!(limiter.try_acquire().is_err());
    time.advance(ms(5));
    assert!(!next.poll());
    assert!(slow.run());
    assert_eq!(slow.granted_ms(), Some(15.0));
    time.advance(ms(10));
    assert!(next.run());
    assert_eq!(next.granted_ms(), Some(25.0));
}

#[test]
fn ticks_are_never_lost_however_late_somebody_asks() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 1);
    let mut ticks = limiter.ticks();
    time.advance(ms(10));
    let mut next = || {
        let mut task = Task::start(ticks.tick());
        task.run();
        task.output.map(|at| at.unwrap().as_nanos() / 1_000_000)
    };
    assert_eq!(next(), Some(10));
    assert_eq!(next(), None);
    time.advance(ms(35));
    assert_eq!([next(), next(), next()], [Some(20), Some(30), Some(40)]);
    assert_eq!(next(), None);
    limiter.queue().close();
    assert_eq!(limiter.ticks().next(), None);
}

#[test]
fn a_blocked_thread_is_told_when_its_turn_was() {
    let time = ManualClock::new();
    let limiter = LeakyBucket::builder("100/s".parse().unwrap())
        .clock(&time)
        .build()
        .unwrap();
    assert_eq!(limiter.take().unwrap().as_nanos(), 0);
    let denied = limiter.take_within(ms(9)).unwrap_err();
    assert_eq!(denied.retry_after(), Some(ms(1)));
    std::thread::scope(|threads| {
        let thread = threads.spawn(|| limiter.take_within(ms(10)));
        while limiter.queue().is_empty() {
            std::thread::yield_now();
        }
        time.advance(ms(10));
        assert_eq!(thread.join().unwrap().unwrap().as_nanos(), 10_000_000);
    });
}

#[test]
fn c1_what_has_flowed_in_again_does_not_come_back_with_a_grant_that_nobody_saw() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 10);
    let unseen = Task::start(limiter.acquire().n(5));
    time.advance(ms(150));
    assert!(limiter.try_acquire_n(10).is_ok());
    assert!(unseen.was_woken());
    drop(unseen);
    assert_eq!(limiter.available(), 0);

    // All of it, however little of the time that it takes to flow in is left, if nothing has.
    let unseen = Task::start(limiter.acquire().n(5));
    time.advance(ms(50));
    let mut next = Task::start(limiter.acquire().n(10));
    drop(unseen);
    time.advance(ms(50));
    assert!(next.run());
    assert_eq!(next.granted_ms(), Some(250.0));
}

#[test]
fn c1_the_same_where_the_next_one_pays() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 2).pay_after();
    limiter.try_acquire_n(2).unwrap();
    let unseen = Task::start(limiter.acquire().n(2));
    time.advance(ms(30));
    assert_eq!(limiter.available(), 0);
    assert!(unseen.was_woken());
    drop(unseen);
    let mut next = Task::start(limiter.acquire());
    next.run();
    assert_eq!(next.granted_ms(), Some(30.0), "nothing was taken since");
}

#[test]
fn who_moves_up_is_dated_when_that_was_possible() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let large = Task::start(limiter.acquire().n(5));
    let mut small = Task::start(limiter.acquire());
    time.advance(ms(30));
    drop(large);
    assert!(small.run());
    assert_eq!(small.granted_ms(), Some(30.0));
}

#[test]
fn who_can_never_be_served_any_more_is_told_wherever_it_stands() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let _first = Task::start(limiter.acquire().n(3));
    let mut large = Task::start(limiter.acquire().n(5));
    limiter.set_burst(4).unwrap();
    assert!(large.run());
    assert!(large.denied().unwrap().is_never());
    assert_eq!(limiter.queue().units(), 3);
}

#[test]
fn c4_at_the_end_of_time_a_turn_that_would_come_later_never_comes() {
    let time = ManualClock::new();
    time.set(flowgate::Timestamp::MAX);
    let limiter = bucket(&time, 1);
    let late = Task::start(limiter.acquire());
    assert!(late.denied().unwrap().is_never());
}

/// Nobody was behind it, whom that could have helped.
#[test]
fn who_leaves_as_the_last_in_line_moves_no_date() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let alone = Task::start(limiter.acquire().n(2));
    time.advance(ms(15));
    drop(alone);
    let since = Timestamp::from_nanos(5_000_000);
    let task = Task::start(limiter.acquire().since(since));
    assert_eq!(task.granted_ms(), Some(10.0));
}

/// A newcomer has taken its token, and it looks when the next one has come, too late for it.
#[test]
fn c3_who_hears_late_that_it_was_too_late_is_told_to_ask_again_at_once() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    limiter.queue().set_order(Order::Barging);
    let mut late = Task::start(limiter.acquire().within(ms(15)));
    time.advance(ms(12));
    assert!(limiter.try_acquire().is_ok());
    time.advance(ms(18));
    assert!(late.run());
    let soon = Duration::from_nanos(1);
    assert_eq!(late.denied().unwrap().retry_after(), Some(soon));
}

/// What can be told of all in the queue together is less than what the first of them has to wait here: those in the queue are
/// counted as if they drained as fast as they can.
#[test]
fn c3_a_newcomer_is_told_at_least_what_the_first_in_line_has_to_wait() {
    let time = ManualClock::new();
    let limiter = LeakyBucket::builder("1/s burst 3".parse().unwrap())
        .clock(&time)
        .drain(flowgate::Drain::Proportional { up_to: 3 })
        .build()
        .unwrap();
    limiter.try_acquire_n(3).unwrap();
    let mut large = Task::start(limiter.acquire().n(3));
    let denied = limiter.try_acquire().unwrap_err();
    assert_eq!(denied.retry_after(), Some(ms(3000)));
    time.advance(ms(3000));
    assert!(large.run());
}
