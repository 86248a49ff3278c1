//! [`PayAfter`]: a bucket in which later callers repay the debt of an operation.

use super::bucket::{Bucket, Debts};
use crate::limiter::RateLimiter;

/// A [`TokenBucket`](crate::TokenBucket) in which an operation goes ahead, and **later ones repay its debt**.
///
/// An operation that comes while the bucket is not in debt goes ahead immediately, if the debt that it leaves is at most
/// `max_debt`. The next operation waits until that debt is repaid. So a large operation does not wait for its own cost, only
/// for the cost of the operation before it. An operation that would leave a larger debt than `max_debt` waits until the bucket
/// holds the difference.
///
/// [`TokenBucket::pay_after`](crate::TokenBucket::pay_after) creates it. The builder's
/// [`max_debt`](crate::TokenBucketBuilder::max_debt) sets the largest debt (default: the burst).
///
/// # Guarantees
///
/// **Never over-admits** ([C1](crate::guide::guarantees)). In any interval of length *t*, the limiter admits at most
/// `burst + largest n + rate × t` units, where `largest n` is the size of the largest operation.
///
/// An explicit [`Carry`](crate::Carry) may add to that, as for a [`TokenBucket`](crate::TokenBucket): each
/// [`Carry::Reset`](crate::Carry::Reset) adds at most one new burst. No `Carry` forgives a debt.
///
/// # Examples
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
/// Guava's `RateLimiter` with smooth bursts. Its burst is the tokens of one second, its bucket starts empty, and its debt has
/// no bound. The equivalent limiter is:
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
