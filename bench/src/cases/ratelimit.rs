//! ratelimit 2.0.0: token count and last refill in two atomics, over `Instant`.

use ratelimit::{Builder, StdClock};

use super::{Case, Limit};

pub fn case(limit: Limit) -> Case {
    let limiter = Builder::with_clock(u64::from(limit.count), StdClock::new())
        .period(limit.period)
        .max_tokens(u64::from(limit.burst))
        .initial_available(u64::from(limit.burst))
        .build()
        .expect("the limits fit");
    Case::new("ratelimit 2.0.0", limit.traffic, limiter, |limiter| {
        limiter.try_wait().is_ok()
    })
}
