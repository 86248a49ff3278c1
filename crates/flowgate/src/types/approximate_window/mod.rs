//! [`ApproximateWindow`]: a [word of two counters](engine) by
//! [`algorithm::approximate_window`](crate::algorithm::approximate_window).

mod builder;
mod delay;
mod engine;
mod parameters;
mod state;

pub use builder::ApproximateWindowBuilder;

use crate::limiter::RateLimiter;
use crate::limiter::builder::Builder;
use crate::quota::Quota;
#[cfg(feature = "std")]
use crate::quota::QuotaError;
pub use engine::Approximate;

/// An estimate of a sliding window from two counters, as many CDNs use it.
///
/// It admits about the limit if operations come evenly, and at most `2 × limit − 1` in any window. Time is cut into windows.
/// The limiter assumes that the admissions of the previous window were spread evenly over it. It counts the part of them that a
/// window that ends now would still cover:
///
/// ```text
///  count    42 in the last minute   18 in this one
///           ├──────────────────────┼──────┬──────────┤
///                  ├───────────────╫──────┤ 60 s that end now
///           0:00   0:15           1:00   1:15
///
///           estimate = 42 · 45/60 + 18 = 49.5;   n more are admitted if that leaves at most the limit
/// ```
///
/// ```
/// use flowgate::{ApproximateWindow, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: ApproximateWindow::new(quota)?
/// let limiter = ApproximateWindow::builder("50/min".parse()?).clock(&time).build()?;
/// limiter.try_acquire_n(42)?;
/// time.advance(Duration::from_secs(60));
/// limiter.try_acquire_n(8)?;
/// time.advance(Duration::from_secs(15));
/// assert_eq!(limiter.available(), 10); // 50 − (42 · 45/60 + 8), rounded down
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The retry-after is exact. A window that was full in its first instant takes long to fade:
///
/// ```
/// use flowgate::{ApproximateWindow, ManualClock};
/// use std::time::Duration;
///
/// let limiter =
///     ApproximateWindow::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
/// limiter.try_acquire_n(10)?;
/// // Of the 10, 9 must have faded, which takes a window and nine tenths of the next.
/// let denied = limiter.try_acquire_n(9).unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(1900)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The picture shows all requests in gray and the admitted ones in blue, with a quota of 20 per second:
///
/// ![ApproximateWindow: two counters and a straight line][picture]
///
/// # Guarantees
///
/// [The guide](crate::guide::guarantees) defines C1 to C9.
///
/// - **Never over-admits** (C1). The limiter admits at most the limit in each of its own windows, and at most `2 × limit − 1`
///   in any interval of one window's length. Across changes of quota, the bound uses the largest limit, and an interval as long
///   as the shortest window.
/// - **Refuses more than necessary at times** (C2). The limiter refuses exactly if the estimate, in integers and without
///   rounding, would exceed the limit. The estimate is off by at most the previous window's count. Admissions at the beginning
///   of a window count for too long; admissions at its end do not count for long enough.
/// - **Safe under clock anomalies** (C4). A `now` before the current window counts as its start, where the estimate is
///   greatest.
/// - **Exact retry-after** (C3). [`Denied::retry_after`](crate::Denied::retry_after) is the least wait, to the nanosecond.
///   While others wait in the [queue](RateLimiter::queue), their waits depend on how much each of them asks for. The result is
///   then a lower bound.
///
/// # When to use it
///
/// Use it if you need the decisions that Cloudflare and HAProxy make.
///
/// - A [`TokenBucket`](crate::TokenBucket) has the same worst case, without windows.
/// - If the limit must hold in *every* window, use a sliding window that remembers times.
///
/// # Windows
///
/// The quota's count is the limit, at most 16,777,215 units. Its period is the window. A quota that sets a burst is refused.
/// The first window begins at the clock's origin, unless [`align`](ApproximateWindowBuilder::align) sets another time.
///
/// # Refunds
///
/// [`refund`](RateLimiter::refund) returns units of the current window, at most as many as were taken in it. Units that were
/// taken in an earlier window do not come back.
///
/// ```
/// use flowgate::{ApproximateWindow, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = ApproximateWindow::builder("10/s".parse()?).clock(&time).build()?;
/// limiter.try_acquire_n(8)?;
/// assert_eq!(limiter.refund(3), 3);
/// time.advance(Duration::from_secs(1));
/// assert_eq!(limiter.refund(3), 0); // another window by now
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Changing the quota
///
/// [`set_quota`](RateLimiter::set_quota) replaces the limit, the window, or both. Admissions stay counted.
///
/// - If the window keeps its length, both counters go on.
/// - If the length changes, a new window begins, and all remembered admissions count as admitted in it. Until they fade, the
///   limiter may refuse more than necessary.
///
/// ```
/// use flowgate::{ApproximateWindow, ManualClock};
///
/// let limiter =
///     ApproximateWindow::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
/// limiter.try_acquire_n(10)?;
/// limiter.set_quota("15/min".parse()?)?;
/// assert_eq!(limiter.available(), 5);
/// assert!(limiter.set_quota("15/min burst 5".parse()?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
///
/// A decision is one clock reading and one compare-and-swap on one 128-bit word. It takes no lock and allocates nothing. On
/// targets without a 128-bit compare-and-swap, the limiter [is not lock-free](RateLimiter::is_lock_free). It is then equally
/// exact, under a lock.
#[cfg_attr(doc, doc = include_str!("../../guide/pictures/approximate-window.md"))]
pub type ApproximateWindow = RateLimiter<Approximate>;

impl ApproximateWindow {
    /// Creates a limiter with windows aligned to the origin of [`Clock::system`](crate::Clock::system).
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `quota` sets a burst, or its count is over 16,777,215 units.
    ///
    /// ```
    /// # use flowgate::ApproximateWindow;
    /// let error = ApproximateWindow::new("20M/s".parse()?).unwrap_err();
    /// assert_eq!(error.to_string(), "a window's limit of 20000000 is out of range: 1 to 16777215");
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::builder(quota).build()
    }

    /// Returns a builder, for another clock or windows aligned otherwise.
    pub fn builder(quota: Quota) -> ApproximateWindowBuilder {
        Builder::new(engine::Settings { quota, align_ns: 0 })
    }
}
