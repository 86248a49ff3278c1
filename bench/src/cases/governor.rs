//! governor 0.10.4: GCRA in one `AtomicU64` of whole nanoseconds, over quanta's clock. The
//! baseline.

use std::num::NonZeroU32;

use governor::{Quota, RateLimiter};

use super::{Case, GOVERNOR, Limit};

pub fn case(limit: Limit) -> Case {
    let spacing = limit.period / limit.count;
    let burst = NonZeroU32::new(limit.burst).expect("bursts are at least 1");
    let quota = Quota::with_period(spacing)
        .expect("spacings are at least 1 ns")
        .allow_burst(burst);
    Case::new(
        GOVERNOR,
        limit.traffic,
        RateLimiter::direct(quota),
        |limiter| limiter.check().is_ok(),
    )
}
