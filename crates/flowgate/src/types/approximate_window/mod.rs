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

/// At most **2 · limit − 1** in any window, and about the limit if operations come evenly: a sliding window
/// estimated from two counters.
///
/// Time is cut into windows. What was admitted in the one before the current is taken to have been spread evenly
/// over it, so of its count that part counts which a window that ends now would still cover:
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
/// A refusal is exact. A window that was full in its first instant takes long to fade:
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
/// # What it promises
///
/// - **Never over** (contract C1) 2 · limit − 1 in any span of one window's length, and never over the limit in
///   a window of its own. Across changes of quota, the limit is the largest in force, and a span is as long as
///   the shortest window.
/// - **Not wasteful by much** (C2). It refuses exactly when the estimate, in integers, without rounding, would
///   exceed the limit. The estimate is off by at most the previous window's count: what was admitted at the
///   beginning of a window counts for too long, what was admitted at its end not for long enough.
/// - **Any clock** (C4). A `now` before the current window counts as its start, where the estimate is greatest.
/// - **Honest waits** (C3). [`Denied::retry_after`](crate::Denied::retry_after) is the least wait, to the nanosecond. While
///   others wait in the [queue](RateLimiter::queue), how long those take hangs on how much each of them asks for, and it is
///   the least that this can be.
///
/// # Choosing it
///
/// It is for those who need the decisions that Cloudflare and HAProxy make. Take a
/// [`TokenBucket`](crate::TokenBucket) for the same worst case, without windows. A limit that must hold in
/// *every* window takes a sliding window that remembers when.
///
/// # Windows
///
/// The quota's count is the limit and its period the window; it must set no burst. The first window begins at
/// the clock's origin, unless [`align`](ApproximateWindowBuilder::align) says otherwise. A limit is at most
/// 16,777,215 units.
///
/// # Refunds
///
/// [`refund`](RateLimiter::refund) gives back units of the current window, at most as many as were taken in it. Units that
/// were taken in an earlier window do not come back.
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
/// A decision is one clock reading and one compare-and-swap on one 128-bit word, and takes no lock and no
/// memory. On targets without a 128-bit compare-and-swap, where it [is not lock-free](RateLimiter::is_lock_free), it is as
/// exact, under a lock.
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
