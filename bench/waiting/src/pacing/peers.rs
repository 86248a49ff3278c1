//! The other libraries, each as near to "one per period, one at a time" as it can be set.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::DefaultDirectRateLimiter;
use tokio::time::MissedTickBehavior;
use tower::limit::rate::Rate;
use tower::util::{ServiceFn, service_fn};
use tower::{Service, ServiceExt as _};

use super::releases::Ask;
use super::subject::{Pacer, Subject, run};

pub fn all() -> Vec<Subject> {
    let one = |_: Ask| 1;
    vec![
        Subject {
            name: "governor 0.10.4",
            burst: one,
            turn: |ask| Box::pin(run(ask, governor(ask))),
        },
        Subject {
            name: "leaky-bucket 1.1.2",
            burst: |ask| leaky_bucket_step(ask).0 as u64,
            turn: |ask| Box::pin(async move { run(ask, leaky_bucket(ask)).await }),
        },
        Subject {
            name: "tower 0.5.3 RateLimit",
            burst: one,
            turn: |ask| Box::pin(async move { run(ask, tower(ask)).await }),
        },
        Subject {
            name: "async-rate-limiter 1.1.0",
            burst: one,
            turn: |ask| Box::pin(run(ask, async_rate_limiter(ask))),
        },
        Subject {
            name: "tokio interval, Burst",
            burst: one,
            turn: |ask| {
                Box::pin(async move { run(ask, interval(ask, MissedTickBehavior::Burst)).await })
            },
        },
        Subject {
            name: "tokio interval, Delay",
            burst: one,
            turn: |ask| {
                Box::pin(async move { run(ask, interval(ask, MissedTickBehavior::Delay)).await })
            },
        },
    ]
}

/// GCRA over quanta's clock; waits with a timer thread of its own.
fn governor(ask: Ask) -> DefaultDirectRateLimiter {
    let quota = governor::Quota::with_period(ask.period()).expect("periods are not 0");
    DefaultDirectRateLimiter::direct(quota.allow_burst(NonZeroU32::MIN))
}

impl Pacer for DefaultDirectRateLimiter {
    async fn next(&mut self) -> Option<u64> {
        self.until_ready().await;
        None
    }
}

/// Its intervals are whole ms, so above 1,000/s several are granted in one burst.
fn leaky_bucket_step(ask: Ask) -> (usize, Duration) {
    let ms = Duration::from_millis(1);
    let at_once = (ask.rate / 1_000).max(1);
    (at_once as usize, ask.period().max(ms))
}

/// Refilled in steps, over tokio's timer.
fn leaky_bucket(ask: Ask) -> leaky_bucket::RateLimiter {
    let (refill, interval) = leaky_bucket_step(ask);
    leaky_bucket::RateLimiter::builder()
        .initial(refill)
        .max(refill)
        .refill(refill)
        .interval(interval)
        .build()
}

impl Pacer for leaky_bucket::RateLimiter {
    async fn next(&mut self) -> Option<u64> {
        self.acquire_one().await;
        None
    }
}

type Nothing = ServiceFn<fn(()) -> Ready<Result<(), Infallible>>>;

/// A fixed window that begins at the first call after the last one's end, over tokio's timer.
fn tower(ask: Ask) -> tower::limit::RateLimit<Nothing> {
    let nothing: Nothing = service_fn(|()| ready(Ok(())));
    tower::limit::RateLimit::new(nothing, Rate::new(1, ask.period()))
}

impl Pacer for tower::limit::RateLimit<Nothing> {
    async fn next(&mut self) -> Option<u64> {
        match self.ready().await {
            Ok(service) => match service.call(()).await {
                Ok(()) => None,
                Err(never) => match never {},
            },
            Err(never) => match never {},
        }
    }
}

/// A token bucket in a mutex, over tokio's timer.
fn async_rate_limiter(ask: Ask) -> async_rate_limiter::RateLimiter {
    let limiter = async_rate_limiter::RateLimiter::new(ask.rate as usize);
    limiter.burst(1);
    limiter
}

impl Pacer for async_rate_limiter::RateLimiter {
    async fn next(&mut self) -> Option<u64> {
        self.acquire().await;
        None
    }
}

/// No limiter: tokio's own ticks, on its timer of 1 ms.
fn interval(ask: Ask, missed: MissedTickBehavior) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(ask.period());
    interval.set_missed_tick_behavior(missed);
    interval
}

impl Pacer for tokio::time::Interval {
    async fn next(&mut self) -> Option<u64> {
        self.tick().await;
        None
    }
}
