//! The other libraries' semaphores and limiters as [`Line`]s.

use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::FutureExt as _;
use governor::DefaultDirectRateLimiter;

use super::line::{Line, Stepped};

impl Line for tokio::sync::Semaphore {
    type Grant<'a> = tokio::sync::SemaphorePermit<'a>;

    fn acquire(&self, n: u32) -> impl Future<Output = Self::Grant<'_>> + Send {
        let acquire = self.acquire_many(n);
        acquire.map(|permit| permit.expect("the semaphore is never closed"))
    }
}

impl Stepped for tokio::sync::Semaphore {}

impl Line for async_lock::Semaphore {
    type Grant<'a> = async_lock::SemaphoreGuard<'a>;

    /// It does not support several permits per request: `n` is always 1.
    fn acquire(&self, _n: u32) -> impl Future<Output = Self::Grant<'_>> + Send {
        async_lock::Semaphore::acquire(self)
    }
}

impl Stepped for async_lock::Semaphore {}

impl Line for DefaultDirectRateLimiter {
    type Grant<'a> = ();

    async fn acquire(&self, n: u32) {
        let n = NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        self.until_n_ready(n).await.expect("n is at most the burst");
    }
}

impl Line for leaky_bucket::RateLimiter {
    type Grant<'a> = ();

    async fn acquire(&self, n: u32) {
        leaky_bucket::RateLimiter::acquire(self, n as usize).await;
    }
}

/// Returns a limiter of `rate` per second with this burst.
pub fn governor(rate: u32, burst: u32) -> DefaultDirectRateLimiter {
    let count = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    let quota = governor::Quota::per_second(count(rate)).allow_burst(count(burst));
    DefaultDirectRateLimiter::direct(quota)
}

/// Returns a limiter of `rate` per second with this burst.
///
/// `rate` is a multiple of 1,000; the limiter refills every 1 ms.
pub fn leaky_bucket(rate: u32, burst: u32) -> leaky_bucket::RateLimiter {
    leaky_bucket::RateLimiter::builder()
        .initial(burst as usize)
        .max(burst as usize)
        .refill((rate / 1_000) as usize)
        .interval(Duration::from_millis(1))
        .build()
}
