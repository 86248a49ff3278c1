//! leaky-bucket 1.1.2: an atomic balance, and a mutex once it is used up; refilled in steps of at
//! least 1 ms. While it has stock it reads no clock, so its admit cases do less than the others'.

use std::time::Duration;

use leaky_bucket::RateLimiter;

use super::{Case, Limit};

pub fn case(limit: Limit) -> Case {
    // Its interval is at least 1 ms: 1e9/s becomes 1e6 per ms.
    let step = Duration::from_millis(1);
    let (refill, interval) = match limit.count / 1_000 {
        0 => (limit.count, limit.period),
        per_ms => (per_ms, step),
    };
    let limiter = RateLimiter::builder()
        .initial(limit.burst as usize)
        .max(limit.burst as usize)
        .refill(refill as usize)
        .interval(interval)
        .build();
    Case::new("leaky-bucket 1.1.2", limit.traffic, limiter, |limiter| {
        limiter.try_acquire(1)
    })
}
