//! No decision takes memory: not of a limiter, whatever its layout, and not for a key, whatever becomes of the slots.

use flowgate::{
    FixedWindow, Keyed, KeyedConcurrencyLimit, LeakyBucket, Leased, Limiter, ManualClock, Quota,
    Timestamp, TokenBucket, WhenFull,
};
use std::time::Duration;

/// How often `what` asks for memory in this thread.
fn allocations(what: impl FnOnce()) -> u64 {
    allocation_counter::measure(what).count_total
}

#[test]
fn memory_that_is_asked_for_is_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

/// What is made when it is first needed is not needed by these.
#[test]
fn c9_a_decision_of_a_new_limiter_allocates_nothing() {
    let time = ManualClock::new();
    for text in ["1000/s", "999999937/day"] {
        let quota: Quota = text.parse().unwrap();
        let bucket = TokenBucket::builder(quota.burst(20))
            .clock(&time)
            .build()
            .unwrap();
        let leaky = LeakyBucket::builder(quota).clock(&time).build().unwrap();
        let windows = FixedWindow::builder(quota).clock(&time).build().unwrap();
        let limiters: [&dyn Limiter; 3] = [&bucket, &leaky, &windows];
        let done = allocations(|| {
            for n in 0..3_000 {
                for limiter in limiters {
                    let _ = (limiter.try_acquire(), limiter.try_acquire_n(n));
                    let _ = limiter.try_acquire_n_at(Timestamp::from_nanos(n), 1);
                    let _ = (limiter.available(), limiter.snapshot(), limiter.policy());
                }
                let _ = (bucket.take_up_to(2), bucket.overdraw(1), bucket.quota());
                time.advance(Duration::from_micros(100));
            }
        });
        assert_eq!(done, 0, "{text}");
        assert!(bucket.try_acquire().is_err());
    }
}

#[test]
fn c9_a_lease_is_granted_and_spent_without_memory() {
    let time = ManualClock::new();
    let limiter = Leased::builder(100).clock(&time).build().unwrap();
    let filler = limiter.filler();
    filler.wake_below(5, std::task::Waker::noop()); // makes the queue, to look for waiters
    let done = allocations(|| {
        for n in 0..3_000 {
            filler.grant(n % 40, time.now() + Duration::from_millis(1));
            filler.wake_below(5, std::task::Waker::noop());
            let _ = (limiter.try_acquire(), limiter.try_acquire_n(n % 50));
            let _ = (limiter.take_up_to(n % 20), limiter.refund(n % 3));
            filler.deny_until(time.now() + Duration::from_millis(1));
            let _ = (filler.held(), filler.take_use(), limiter.snapshot());
            time.advance(Duration::from_micros(100));
        }
    });
    assert_eq!(done, 0);
}

#[test]
fn c9_a_decision_for_a_key_allocates_nothing_and_neither_does_a_flood() {
    let time = ManualClock::new();
    let quota = "10/s".parse().unwrap();
    for when_full in [WhenFull::Evict, WhenFull::Deny, WhenFull::Share(quota)] {
        let builder = Keyed::token_bucket(quota).clock(&time).when_full(when_full);
        let limits = builder.capacity(100).unwrap();
        let own = limits.with("1000/min".parse().unwrap()).unwrap();
        let done = allocations(|| {
            for key in 0..20_000_u64 {
                let _ = limits.try_acquire(&key);
                let _ = limits.try_acquire_n("a long key that lies somewhere else", 2);
                let _ = own.try_acquire(&(key, "login"));
                let _ = limits.at(Timestamp::from_nanos(key)).peek(&key);
                let _ = (limits.available(&key), limits.snapshot(&key));
                let _ = limits.refund(&(key / 2), 1);
                limits.reset(&(key / 3));
                time.advance(Duration::from_micros(10));
            }
        });
        assert_eq!(done, 0, "{when_full:?}");
        let counts = limits.counts();
        assert!(
            counts.evicted + counts.refused_for_room + counts.shared > 1000,
            "{counts:?}"
        );
    }
}

#[test]
fn c9_a_slot_of_a_key_is_taken_and_given_back_without_memory() {
    let limits = KeyedConcurrencyLimit::new(2, 10).unwrap();
    let done = allocations(|| {
        for key in 0..20_000_u64 {
            let first = limits.try_acquire(&key);
            let second = limits.try_acquire_n(&(key % 7), 2);
            assert!(limits.try_acquire_n("a long key", 3).is_err());
            drop((first, second));
        }
    });
    assert_eq!((done, limits.len()), (0, 0));
}
