//! Several limits, one permit.

use flowgate::{
    Clock, ConcurrencyLimit, FixedWindow, Gate, GateError, LeakyBucket, ManualClock, Timestamp,
    TokenBucket,
};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn bucket(time: &ManualClock, quota: &str) -> TokenBucket {
    let quota = quota.parse().unwrap();
    TokenBucket::builder(quota).clock(time).build().unwrap()
}

fn slots(time: &ManualClock, limit: u32) -> ConcurrencyLimit {
    ConcurrencyLimit::builder(limit)
        .clock(time)
        .build()
        .unwrap()
}

/// 100 per second, 3 at once, and 2 in flight.
fn gate(time: &ManualClock) -> Gate {
    Gate::builder()
        .limit("rate", bucket(time, "100/s burst 3"))
        .limit("slots", slots(time, 2))
        .build()
        .unwrap()
}

fn tokens(gate: &Gate) -> u64 {
    gate.inspect("rate", TokenBucket::available).unwrap()
}

fn in_flight(gate: &Gate) -> u64 {
    gate.inspect("slots", ConcurrencyLimit::in_flight).unwrap()
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn c1_a_refusal_takes_nothing_from_anybody() {
    let time = ManualClock::new();
    let gate = gate(&time);
    let permits = gate.try_acquire_n(2).unwrap();
    let denied = gate.try_acquire().unwrap_err();
    assert!(denied.is_busy());
    assert_eq!(denied.retry_after(), None);
    assert_eq!(gate.name_of(&denied), Some("slots"));
    assert_eq!((tokens(&gate), in_flight(&gate)), (1, 2));
    drop(permits);
    assert_eq!((tokens(&gate), in_flight(&gate)), (1, 0));

    let denied = gate.try_acquire_n(2).unwrap_err();
    assert_eq!(denied.retry_after(), Some(ms(10)));
    assert_eq!(gate.name_of(&denied), Some("rate"));
    assert_eq!((tokens(&gate), in_flight(&gate)), (1, 0));
}

#[test]
fn c3_the_longest_wait_of_those_that_refuse() {
    let time = ManualClock::new();
    let gate = Gate::builder()
        .limit("fast", bucket(&time, "100/s burst 5"))
        .limit("slow", bucket(&time, "10/s burst 5"))
        .build()
        .unwrap();
    drop(gate.try_acquire_n(5).unwrap());
    let denied = gate.try_acquire_n(2).unwrap_err();
    assert_eq!(denied.retry_after(), Some(ms(200)));
    assert_eq!(gate.name_of(&denied), Some("slow"));
    time.advance(ms(199));
    assert!(gate.try_acquire_n(2).is_err());
    time.advance(ms(1));
    assert!(gate.try_acquire_n(2).is_ok());
}

#[test]
fn more_than_ever_fits_through_the_narrowest() {
    let time = ManualClock::new();
    let gate = gate(&time);
    let denied = gate.try_acquire_n(3).unwrap_err();
    assert!(denied.is_never());
    assert_eq!(gate.name_of(&denied), Some("slots"));
    assert!(gate.try_acquire_n(0).is_ok());
}

#[test]
fn c6_tokens_are_taken_when_the_turn_comes() {
    let time = ManualClock::new();
    let gate = gate(&time);
    let first = gate.try_acquire_n(2).unwrap();
    let mut second = pin!(gate.acquire());
    assert!(poll(second.as_mut()).is_pending());
    assert_eq!(tokens(&gate), 1, "not yet");
    let denied = gate.try_acquire().unwrap_err();
    assert!(denied.is_busy(), "behind the one who waits");
    drop(first);
    let Poll::Ready(Ok(permit)) = poll(second) else {
        panic!("its turn has come");
    };
    assert_eq!((tokens(&gate), in_flight(&gate)), (0, 1));
    drop(permit);
    let mut third = pin!(gate.acquire().within(ms(10)));
    assert!(poll(third.as_mut()).is_pending());
    time.advance(ms(10));
    assert!(matches!(poll(third), Poll::Ready(Ok(_))));
}

/// The one in the queue waits for a token, with the last slot that is free.
#[test]
fn a_newcomer_who_would_have_no_slot_knows_no_time_however_soon_those_in_line_are_served() {
    let time = ManualClock::new();
    let gate = gate(&time);
    let _held = gate.try_acquire().unwrap();
    drop(gate.try_acquire().unwrap());
    drop(gate.try_acquire().unwrap());
    let mut next = pin!(gate.acquire());
    assert!(poll(next.as_mut()).is_pending());
    let denied = gate.try_acquire().unwrap_err();
    assert_eq!((denied.is_busy(), denied.retry_after()), (true, None));
    assert_eq!(gate.name_of(&denied), Some("slots"));
    time.advance(ms(10));
    assert!(poll(next).is_ready());
}

/// Whatever else would hold up those behind it.
#[test]
fn a_newcomer_is_told_what_the_first_in_line_waits_for() {
    let time = ManualClock::new();
    let gate = Gate::builder()
        .limit("wide", slots(&time, 2))
        .limit("narrow", slots(&time, 1))
        .build()
        .unwrap();
    let _held = gate.try_acquire().unwrap();
    let mut next = pin!(gate.acquire());
    assert!(poll(next.as_mut()).is_pending());
    let denied = gate.try_acquire().unwrap_err();
    assert!(denied.is_busy());
    assert_eq!(gate.name_of(&denied), Some("narrow"));
}

#[test]
fn c5_a_grant_that_nobody_saw_goes_back_to_all() {
    let time = ManualClock::new();
    let gate = gate(&time);
    let first = gate.try_acquire_n(2).unwrap();
    {
        let mut second = pin!(gate.acquire());
        assert!(poll(second.as_mut()).is_pending());
        drop(first);
        assert_eq!((tokens(&gate), in_flight(&gate)), (0, 1));
    }
    assert_eq!((tokens(&gate), in_flight(&gate)), (1, 0));
}

#[test]
fn configuring_serves_those_whom_it_helps() {
    let time = ManualClock::new();
    let gate = gate(&time);
    let first = gate.try_acquire_n(2).unwrap();
    let mut second = pin!(gate.acquire());
    assert!(poll(second.as_mut()).is_pending());
    let told = gate.configure("slots", |slots: &ConcurrencyLimit| slots.set_limit(3));
    assert_eq!(told, Some(Ok(())));
    assert!(matches!(poll(second), Poll::Ready(Ok(_))));
    drop(first);
    assert!(gate.configure("slots", |_: &TokenBucket| ()).is_none());
    assert!(gate.configure("nothing", |_: &TokenBucket| ()).is_none());
}

#[test]
fn a_token_that_is_divided_counts_whole() {
    let time = ManualClock::new();
    let quota = "2/s".parse::<flowgate::Quota>().unwrap();
    let divided = TokenBucket::builder(quota.units_per_token(10).unwrap())
        .clock(&time)
        .build()
        .unwrap();
    let gate = Gate::builder().limit("rate", divided).build().unwrap();
    assert_eq!(gate.try_acquire_n(2).unwrap().units(), 2);
    assert_eq!(gate.try_acquire().unwrap_err().retry_after(), Some(ms(500)));
}

#[test]
fn any_limiter_can_be_one_of_its_limits() {
    let time = ManualClock::new();
    let day = FixedWindow::builder("3/day".parse().unwrap())
        .clock(&time)
        .build()
        .unwrap();
    let even = LeakyBucket::builder("10/s".parse().unwrap())
        .clock(&time)
        .build()
        .unwrap();
    let gate = Gate::builder()
        .limit("site", even)
        .limit("budget", day)
        .build()
        .unwrap();
    for _ in 0..3 {
        drop(gate.try_acquire().unwrap());
        time.advance(ms(100));
    }
    let denied = gate.try_acquire().unwrap_err();
    assert_eq!(gate.name_of(&denied), Some("budget"));
}

#[test]
fn a_permit_of_ones_own_outlives_the_borrow() {
    let time = ManualClock::new();
    let gate = Arc::new(gate(&time));
    let permit = gate.try_acquire_n_owned(2).unwrap();
    let mut waits = pin!(gate.acquire_owned());
    assert!(poll(waits.as_mut()).is_pending());
    std::thread::spawn(move || drop(permit)).join().unwrap();
    let Poll::Ready(Ok(permit)) = poll(waits) else {
        panic!("a slot is free");
    };
    let weak = Arc::downgrade(&gate);
    drop(gate);
    assert!(weak.upgrade().is_some());
    assert_eq!(permit.units(), 1);
}

#[test]
fn closing_closes_the_gate() {
    let time = ManualClock::new();
    let gate = gate(&time);
    let permit = gate.try_acquire_n(2).unwrap();
    let mut waits = pin!(gate.acquire());
    assert!(poll(waits.as_mut()).is_pending());
    gate.queue().close();
    assert!(matches!(poll(waits), Poll::Ready(Err(denied)) if denied.is_closed()));
    drop(permit);
    assert!(gate.try_acquire().unwrap_err().is_closed());
    assert_eq!(in_flight(&gate), 0);
}

#[test]
fn gates_that_cannot_be() {
    let time = ManualClock::new();
    assert_eq!(Gate::builder().build().unwrap_err(), GateError::NoLimits);
    let twice = Gate::builder()
        .limit("a", slots(&time, 1))
        .limit("a", slots(&time, 2))
        .build();
    let error = twice.unwrap_err();
    assert_eq!(error.to_string(), "two limits of the gate are named 'a'");
    let clocks = Gate::builder()
        .limit("a", slots(&time, 1))
        .limit("b", slots(&ManualClock::new(), 2))
        .build();
    assert_eq!(clocks.unwrap_err(), GateError::OtherClock("b".into()));
    let many = (0..256).fold(Gate::builder(), |builder, index| {
        builder.limit(&index.to_string(), slots(&time, 1))
    });
    assert_eq!(
        many.build().unwrap_err(),
        GateError::TooMany { limits: 256 }
    );
    let same = Gate::builder()
        .limit("a", ConcurrencyLimit::new(1))
        .limit("b", TokenBucket::new("1/s".parse().unwrap()))
        .build()
        .unwrap();
    assert_eq!(
        format!("{:?}", same.clock()).split('(').next(),
        Some("Clock::System")
    );
    let _: &Clock = same.clock();
}

#[test]
fn c1_threads_share_a_gate() {
    let time = ManualClock::new();
    let gate = Gate::builder()
        .limit("rate", bucket(&time, "1/s burst 1000"))
        .limit("slots", slots(&time, 3))
        .build()
        .unwrap();
    let most = std::sync::atomic::AtomicU64::new(0);
    let admitted: usize = std::thread::scope(|threads| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                threads.spawn(|| {
                    (0..2_000)
                        .filter(|_| {
                            let Ok(_permit) = gate.try_acquire() else {
                                return false;
                            };
                            let seen = in_flight(&gate);
                            most.fetch_max(seen, std::sync::atomic::Ordering::Relaxed);
                            true
                        })
                        .count()
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum()
    });
    assert!(most.into_inner() <= 3);
    assert_eq!(admitted as u64, 1_000 - tokens(&gate));
    assert_eq!(in_flight(&gate), 0);
}

#[test]
fn what_can_never_be_is_told_in_the_tokens_that_were_asked_for() {
    let time = ManualClock::new();
    let quota = "10/s burst 4 units 1000".parse().unwrap();
    let bucket = TokenBucket::builder(quota).clock(&time).build().unwrap();
    let gate = Gate::builder().limit("rate", bucket).build().unwrap();
    let denied = gate.try_acquire_n(7).unwrap_err();
    let told = "7 can never be granted: the maximum is 4";
    assert_eq!(denied.to_string(), told);
    let denied = gate.try_acquire_n(u64::MAX).unwrap_err();
    let told = "18446744073709551615 can never be granted: the maximum is 4";
    assert_eq!(denied.to_string(), told);
}

#[test]
fn the_most_where_the_next_caller_pays_is_the_burst_and_the_debt() {
    let time = ManualClock::new();
    let quota = "10/s burst 4 units 1000".parse().unwrap();
    let bucket = TokenBucket::builder(quota).clock(&time).build().unwrap();
    let gate = Gate::builder().limit("rate", bucket.pay_after());
    let gate = gate.build().unwrap();
    for n in [9, u64::MAX] {
        let told = gate.try_acquire_n(n).unwrap_err().to_string();
        assert!(told.ends_with("the maximum is 8"), "{told}");
    }
}

/// A limiter in two gates, and used alone.
#[test]
fn c1_c6_a_shared_limiter_is_one_limit() {
    let time = ManualClock::new();
    let site = Arc::new(bucket(&time, "10/s burst 4"));
    let gates = ["3/s burst 3", "100/s burst 100"].map(|own| {
        Gate::builder()
            .limit("site", Arc::clone(&site))
            .limit("own", bucket(&time, own))
            .build()
            .unwrap()
    });
    drop(gates[0].try_acquire_n(3).unwrap());
    drop(gates[1].try_acquire().unwrap());
    let denied = gates[1].try_acquire().unwrap_err();
    assert_eq!(gates[1].name_of(&denied), Some("site"));
    assert_eq!(denied.retry_after(), Some(ms(100)));
    assert!(site.try_acquire().is_err());

    // What somebody else takes meanwhile is waited for again.
    let mut waits = pin!(gates[1].acquire());
    assert!(poll(waits.as_mut()).is_pending());
    time.advance(ms(99));
    site.set_burst(5).unwrap();
    time.advance(ms(1));
    site.try_acquire().unwrap();
    assert!(poll(waits.as_mut()).is_pending());
    time.advance(ms(100));
    assert!(poll(waits.as_mut()).is_ready());

    // Who waits at the limiter itself is not overtaken.
    let mut alone = pin!(site.acquire());
    assert!(poll(alone.as_mut()).is_pending());
    let mut behind = pin!(gates[0].acquire());
    assert!(poll(behind.as_mut()).is_pending());
    time.advance(ms(1_100));
    let denied = gates[1].try_acquire_n(5).unwrap_err();
    assert_eq!(gates[1].name_of(&denied), Some("site"));
    assert!(poll(alone.as_mut()).is_ready());
    time.advance(ms(1));
    assert!(poll(behind.as_mut()).is_ready());
}

#[test]
fn c1_c5_a_gate_in_a_gate() {
    let time = ManualClock::new();
    let outer = Gate::builder()
        .limit("inner", gate(&time))
        .limit("day", bucket(&time, "4/day"))
        .build()
        .unwrap();
    let inner = |look: fn(&Gate) -> u64| outer.inspect("inner", look).unwrap();
    let day = || outer.inspect("day", TokenBucket::available).unwrap();
    let two = outer.try_acquire_n(2).unwrap();
    let denied = outer.try_acquire().unwrap_err();
    assert!(denied.is_busy());
    assert_eq!(outer.name_of(&denied), Some("inner"));
    assert_eq!((inner(tokens), inner(in_flight), day()), (1, 2, 2));

    // One is given up after it was granted, unseen.
    {
        let mut waits = pin!(outer.acquire());
        assert!(poll(waits.as_mut()).is_pending());
        drop(two);
    }
    assert_eq!((inner(tokens), inner(in_flight), day()), (1, 0, 2));
    let one = outer.try_acquire().unwrap();
    let mut waits = pin!(outer.acquire());
    assert!(poll(waits.as_mut()).is_pending());
    time.advance(ms(10));
    assert!(matches!(poll(waits.as_mut()), Poll::Ready(Ok(_))));
    drop(one);
    time.advance(ms(1000));
    let denied = outer.try_acquire().unwrap_err();
    assert_eq!(outer.name_of(&denied), Some("day"));
    assert_eq!((inner(tokens), inner(in_flight), day()), (3, 0, 0));
}

/// Either of two limits has no slots, before and after each change. Whoever is admitted has seen one of both.
#[test]
fn c1_limits_that_are_changed_in_one_step_are_never_seen_in_part() {
    let limit = |slots| ConcurrencyLimit::new(slots);
    let gate = Gate::builder().limit("a", limit(1)).limit("b", limit(0));
    let gate = gate.build().unwrap();
    std::thread::scope(|threads| {
        let asks = threads.spawn(|| (0..20_000).all(|_| gate.try_acquire().is_err()));
        let mut round = 0;
        while !asks.is_finished() {
            round += 1;
            let [rises, falls] = if round % 2 == 0 {
                ["a", "b"]
            } else {
                ["b", "a"]
            };
            gate.configure_all(|limits| {
                let set = |name, slots| {
                    let limit = limits.get::<ConcurrencyLimit>(name);
                    limit.expect("it is there").set_limit(slots).unwrap();
                };
                set(rises, 1);
                std::thread::yield_now();
                set(falls, 0);
            });
        }
        assert!(
            asks.join().unwrap(),
            "a decision has seen a part of a change"
        );
    });
}

#[test]
fn c6_who_waits_is_served_by_all_that_was_changed() {
    let time = ManualClock::new();
    let gate = Gate::builder()
        .limit("second", bucket(&time, "1/h"))
        .limit("day", bucket(&time, "1/day"))
        .build()
        .unwrap();
    drop(gate.try_acquire().unwrap());
    let mut waits = pin!(gate.acquire());
    assert!(poll(waits.as_mut()).is_pending());
    let are_changed = gate.configure_all(|limits| {
        assert!(limits.limiter("none").is_none() && limits.get::<FixedWindow>("day").is_none());
        ["second", "day"].map(|name| {
            let limiter = limits.limiter(name).expect("it is there");
            limiter.set_quota("100/s".parse().unwrap()).is_ok()
        })
    });
    assert_eq!(are_changed, [true, true]);
    time.advance(ms(10));
    assert!(matches!(poll(waits.as_mut()), Poll::Ready(Ok(_))));
}

/// A gate goes by the latest time at which it has granted anything.
#[test]
fn c3_c4_a_clock_that_was_set_back_is_added_to_the_wait() {
    let time = ManualClock::new();
    let bucket = TokenBucket::builder("10/s burst 1".parse().unwrap());
    let gate = Gate::builder().limit("rate", bucket.clock(&time).build().unwrap());
    let gate = gate.build().unwrap();
    time.set(Timestamp::from_nanos(1_000_000_000));
    drop(gate.try_acquire().unwrap());
    time.set(Timestamp::from_nanos(300_000_000));
    let denied = gate.try_acquire().unwrap_err();
    let wait = denied.retry_after().unwrap();
    assert_eq!(wait, Duration::from_millis(800));
    assert_eq!(gate.name_of(&denied), Some("rate"));
    time.advance(wait - Duration::from_nanos(1));
    assert!(gate.try_acquire().is_err());
    time.advance(Duration::from_nanos(1));
    drop(gate.try_acquire().unwrap());
}
