//! flowgate's concurrency limit and limiters as [`Line`]s.

use std::time::Duration;

use flowgate::engine::Engine;
use flowgate::{
    ConcurrencyLimit, LeakyBucket, ManualClock, Permit, Quota, RateLimiter, TokenBucket,
};
use futures_util::FutureExt as _;

use super::line::{Line, Stepped};

impl Line for ConcurrencyLimit {
    type Grant<'a> = Permit<&'a ConcurrencyLimit>;

    fn acquire(&self, n: u32) -> impl Future<Output = Self::Grant<'_>> + Send {
        let acquire = ConcurrencyLimit::acquire(self).n(u64::from(n));
        acquire.map(|permit| permit.expect("n is at most the limit"))
    }
}

impl Stepped for ConcurrencyLimit {}

impl<E: Engine> Line for RateLimiter<E> {
    type Grant<'a> = flowgate::Grant;

    fn acquire(&self, n: u32) -> impl Future<Output = Self::Grant<'_>> + Send {
        let acquire = RateLimiter::acquire(self).n(u64::from(n));
        acquire.map(|granted| granted.expect("n is at most the burst"))
    }
}

/// `rate` a second, evenly spaced.
pub fn leaky_bucket(rate: u32) -> LeakyBucket {
    LeakyBucket::new(per_second(rate))
}

/// Returns a limiter of `rate` per second with this burst.
pub fn token_bucket(rate: u32, burst: u32) -> TokenBucket {
    TokenBucket::new(per_second(rate).burst(u64::from(burst)))
}

fn per_second(rate: u32) -> Quota {
    Quota::per_second(u64::from(rate))
}

/// A bucket with one token, and the next when its clock is moved.
pub struct SteppedBucket {
    bucket: TokenBucket,
    clock: ManualClock,
}

impl SteppedBucket {
    const PERIOD: Duration = Duration::from_secs(1);

    pub fn new() -> SteppedBucket {
        let clock = ManualClock::new();
        let quota = Quota::spacing(Self::PERIOD).expect("the spacing fits");
        let bucket = TokenBucket::builder(quota.burst(1)).clock(&clock).build();
        SteppedBucket {
            bucket: bucket.expect("the limits fit"),
            clock,
        }
    }
}

impl Line for SteppedBucket {
    type Grant<'a> = flowgate::Grant;

    fn acquire(&self, n: u32) -> impl Future<Output = Self::Grant<'_>> + Send {
        Line::acquire(&self.bucket, n)
    }
}

impl Stepped for SteppedBucket {
    fn let_one_in(&self, _grant: Self::Grant<'_>) {
        self.clock.advance(Self::PERIOD);
    }
}
