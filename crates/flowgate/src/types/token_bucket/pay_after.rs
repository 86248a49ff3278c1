//! [`PayAfter`]: a bucket whose next caller pays.

use super::bucket::{Bucket, Debts};
use crate::limiter::RateLimiter;

/// A [`TokenBucket`](crate::TokenBucket) where the **next caller pays**: at most burst + the largest n + rate · t in every span of
/// time t.
///
/// An explicit [`Carry`](crate::Carry) may add to that, as for a [`TokenBucket`](crate::TokenBucket): each [`Carry::Reset`](crate::Carry::Reset) at most one new burst. None
/// forgives a debt.
///
/// An operation that comes while the bucket is not in debt goes at once if the debt that it leaves is at most
/// `max_debt`; the next has to wait until that is paid. So a large operation need not wait for its own cost,
/// only for that of the one before. One of more than `max_debt` waits until the bucket holds what it is over.
///
/// Made by [`TokenBucket::pay_after`](crate::TokenBucket::pay_after); [`max_debt`](crate::TokenBucketBuilder::max_debt), by default the burst, is set
/// where the bucket is built.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = TokenBucket::builder("1/s".parse()?)
///     .clock(&time)
///     .initial_tokens(0)
///     .max_debt(100)
///     .build()?
///     .pay_after();
///
/// limiter.try_acquire_n(4)?; // at once
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(4))); // the next one pays for it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Source
///
/// Guava's `RateLimiter` with smooth bursts: there, burst is one second's worth, the bucket starts
/// empty, and there is no bound to the debt. That limiter is
///
/// ```
/// # use flowgate::{Quota, TokenBucket};
/// let guava = |permits_per_second| {
///     TokenBucket::builder(Quota::per_second(permits_per_second))
///         .initial_tokens(0)
///         .max_debt(1_000_000_000)
///         .build()
///         .map(TokenBucket::pay_after)
/// };
/// assert!(guava(5)?.try_acquire_n(1000).is_ok());
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub type PayAfter = RateLimiter<Bucket<Debts>>;
