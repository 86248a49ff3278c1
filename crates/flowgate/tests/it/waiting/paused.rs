//! Waits under tokio's paused clock, in step with tokio's own.

use flowgate::{Clock, ConcurrencyLimit, Gate, LeakyBucket, TokenBucket};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

fn bucket(quota: &str, clock: &Clock) -> TokenBucket {
    let quota = quota.parse().unwrap();
    TokenBucket::builder(quota).clock(clock).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn c3_a_wait_ends_in_its_time_and_a_timeout_in_its_own() {
    let limiter = bucket("1/min burst 1", &Clock::tokio());
    let began = Instant::now();
    limiter.try_acquire().unwrap();
    assert!(timeout(59 * SECOND, limiter.acquire()).await.is_err());
    assert_eq!(began.elapsed(), 59 * SECOND);
    timeout(2 * SECOND, limiter.acquire())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(began.elapsed(), 60 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn c3_a_deadline_that_is_too_early_is_refused_at_once() {
    let limiter = bucket("1/min burst 1", &Clock::tokio());
    limiter.try_acquire().unwrap();
    let began = Instant::now();
    let denied = limiter.acquire().within(SECOND).await.unwrap_err();
    assert_eq!(denied.retry_after(), Some(59 * SECOND));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// What has no time of its own ends at the deadline.
#[tokio::test(start_paused = true)]
async fn c3_a_wait_for_a_slot_ends_at_its_deadline() {
    let slots = ConcurrencyLimit::builder(1).clock(Clock::tokio());
    let slots = Arc::new(slots.build().unwrap());
    let permit = slots.try_acquire().unwrap();
    let began = Instant::now();
    assert!(slots.acquire().within(5 * SECOND).await.is_err());
    assert_eq!(began.elapsed(), 5 * SECOND);
    let waits = tokio::spawn(slots.acquire_owned().within(5 * SECOND));
    sleep(3 * SECOND).await;
    drop(permit);
    drop(waits.await.unwrap().unwrap());
    assert_eq!(began.elapsed(), 8 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn c6_tasks_are_served_in_order_and_evenly() {
    let limiter = LeakyBucket::builder("20/s".parse().unwrap()).clock(Clock::tokio());
    let limiter = Arc::new(limiter.build().unwrap());
    let began = Instant::now();
    let tasks: Vec<_> = (0..100_u32)
        .map(|task| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move {
                limiter.acquire().await.unwrap();
                assert_eq!(began.elapsed(), 50 * task * Duration::from_millis(1));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Clones of one clock may be in one gate.
#[tokio::test(start_paused = true)]
async fn c3_a_gate_waits_for_both() {
    let clock = Clock::tokio();
    let slots = ConcurrencyLimit::builder(1).clock(&clock).build().unwrap();
    let gate = Gate::builder()
        .limit("rate", bucket("1/s burst 1", &clock))
        .limit("slots", slots);
    let gate = Arc::new(gate.build().unwrap());
    let permit = gate.acquire_owned().await.unwrap();
    let began = Instant::now();
    tokio::spawn(async move {
        sleep(3 * SECOND).await;
        drop(permit);
    });
    let permit = gate.acquire().await.unwrap();
    assert_eq!(began.elapsed(), 3 * SECOND);
    drop(permit);
    drop(gate.acquire().await.unwrap());
    assert_eq!(began.elapsed(), 4 * SECOND);
}

/// A limiter that outlives the runtime in which somebody waited serves in the next one.
#[test]
fn a_wait_after_its_runtime_has_ended_is_served_in_another() {
    let runtime = || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        { runtime }
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let clock = runtime().block_on(async { Clock::tokio() });
    let limiter = Arc::new(bucket("1/h burst 1", &clock));
    runtime().block_on(async {
        limiter.try_acquire().unwrap();
        let waits = Arc::clone(&limiter);
        tokio::spawn(async move { waits.acquire().await.map(drop) });
        tokio::task::yield_now().await;
        assert_eq!(limiter.queue().len(), 1);
    });
    assert_eq!(limiter.queue().len(), 0);
    runtime().block_on(async {
        timeout(3_601 * SECOND, limiter.acquire())
            .await
            .unwrap()
            .unwrap();
    });
}

/// Each queue has a waker of its own for that instant.
#[tokio::test(start_paused = true)]
async fn waits_at_two_limiters_for_one_instant_both_end_then() {
    let clock = Clock::tokio();
    let began = Instant::now();
    let waits = [(); 2].map(|()| {
        let limiter = Arc::new(bucket("1/s burst 1", &clock));
        limiter.try_acquire().unwrap();
        tokio::spawn(limiter.acquire_owned())
    });
    for wait in waits {
        timeout(2 * SECOND, wait).await.unwrap().unwrap().unwrap();
        assert_eq!(began.elapsed(), SECOND);
    }
}
