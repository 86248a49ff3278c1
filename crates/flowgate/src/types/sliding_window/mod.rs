//! [`SlidingWindow`]: the public type over the [log](log) of admissions.

pub(crate) mod admitted;
mod builder;
pub(crate) mod by_sums;
mod log;
#[cfg(all(test, flowgate_loom))]
mod model;
mod past;
mod record;
mod state;

pub use builder::SlidingWindowBuilder;

use crate::limiter::RateLimiter;
use crate::limiter::builder::Builder;
use crate::quota::Quota;
#[cfg(feature = "std")]
use crate::quota::QuotaError;
pub use log::Log;

/// At most N operations in **every** window of time, exactly.
///
/// Use it for a limit of "at most N in *any* window". The quota `"100/min"` allows 100 in any 60 seconds: in [t, t + 60 s) for
/// every instant t.
///
/// The limiter remembers the time of each admission. An operation goes ahead if the window that ends now, including this
/// operation, holds at most the limit. An admission at t counts until just before t + 60 s, to the nanosecond.
///
/// ```text
///   limit 3 in any window of 10
///
///        ╭──────── 3 ────────╮
///        ●    ●              ●  ✗ ✗ ●    ●
///   ─────┴────┴──────────────┴──┴─┴─┴────┴─────▶ time
///        0    2              8    9 10   12
///             ╰──────── 3 ────────╯
/// ```
///
/// ```
/// use flowgate::{ManualClock, SlidingWindow};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: SlidingWindow::new(quota)
/// let limiter = SlidingWindow::builder("3/10s".parse()?).clock(&time).build()?;
///
/// limiter.try_acquire()?; // at 0 s
/// time.advance(Duration::from_secs(2));
/// limiter.try_acquire_n(2)?; // at 2 s
/// let denied = limiter.try_acquire_n(2).unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(10))); // at 12 s
/// time.advance(Duration::from_secs(8));
/// assert_eq!(limiter.available(), 1); // at 10 s
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The picture shows all requests in gray and the admitted ones in blue, with a quota of 20 per second:
///
/// ![SlidingWindow: 20 in every second][picture]
///
/// # Guarantees
///
/// [The guide](crate::guide::guarantees) defines C1 to C9.
///
/// - **Never over-admits** (C1). No window holds more than the limit, on every schedule of threads.
/// - **Never refuses needlessly** (C2). A refusal means that admitting the request would have exceeded that bound.
/// - **Exact retry-after** (C3). [`Denied::retry_after`](crate::Denied::retry_after) is the least wait, to the nanosecond.
/// - **Safe under clock anomalies** (C4). A `now` that is older than the newest admission counts as that admission's time. If
///   that time is still before the last change of quota, both quotas have to admit the request. A `now` from before the
///   previous change is refused until that change.
///
/// # When to use another limiter
///
/// It is the only limiter that keeps a limit of "at most N in *any* window" exactly. It needs memory for N admissions.
///
/// - [`SegmentedWindow`](crate::SegmentedWindow) keeps the same bound in little memory, and admits operations again somewhat
///   later.
/// - [`TokenBucket`](crate::TokenBucket) spreads operations out, and admits up to 2 N in some windows.
///
/// # Amounts
///
/// The limit is the quota's count in units. A unit is a token unless the quota divides tokens ([`Quota::units_per_token`]).
///
/// - `n` counts units, up to the limit. All `n` are taken, or none.
/// - `n` = 0 succeeds and changes nothing.
/// - `n` above the limit is refused with [`Denied::is_never`](crate::Denied::is_never).
/// - A quota that sets a burst is refused: a window has none.
///
/// # Refunds
///
/// [`refund`](RateLimiter::refund) returns the newest admissions. Admissions that have left the window no longer count, so they
/// are not returned. Decisions wait while a refund is in progress. A refund takes time in proportion to the admissions that it
/// returns.
///
/// # Changing the quota
///
/// [`set_quota`](RateLimiter::set_quota) keeps the admissions and judges them by the new limit and window. This is exact for
/// shorter and longer windows, because the ring remembers enough units.
///
/// There is one exception. A refund forgets one of the oldest units for each of the newest units that it returns. After a
/// refund, a *longer* window may count as full until the oldest known admission has left it. The same holds after a caller
/// dropped a [wait](RateLimiter::acquire) that had been granted but not yet received.
///
/// The limit may be at most [`max_limit`](SlidingWindow::max_limit), and the [units per token](Quota::units_per_token) stay.
///
/// ```
/// use flowgate::{ManualClock, SlidingWindow};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = SlidingWindow::builder("5/10s".parse()?).clock(&time).build()?;
/// limiter.try_acquire_n(3)?;
/// time.advance(Duration::from_secs(15));
/// assert_eq!(limiter.available(), 5);
/// limiter.set_quota("4/20s".parse()?)?;
/// assert_eq!(limiter.available(), 1);
/// assert_eq!(
///     limiter.set_quota("6/20s".parse()?).unwrap_err().to_string(),
///     "a limit in units of 6 is out of range: 1 to 5",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Memory
///
/// A limiter takes 16 bytes for each admission that may be in the window: for each unit of
/// [`max_limit`](SlidingWindowBuilder::max_limit) and two more, rounded up to a power of two.
///
/// - A limit of 100 takes 2 KiB.
/// - A limit of 1,000,000 takes 16 MiB.
/// - The largest limit, 2²⁶ − 2, takes 1 GiB.
///
/// [`bytes`](SlidingWindow::bytes) reports the size. The limiter takes all of it when it is built, and later only memory for
/// [waiters](RateLimiter::acquire).
///
/// # Cost
///
/// A decision is one clock reading and one 128-bit compare-and-swap, however many units it takes and however large the limit
/// is. It finds the admissions that have left the window in two loads, or after a pause, in log₂(limit) steps.
///
/// It takes no lock, with two exceptions: it waits for a refund or a change of quota that is in progress, and it looks into the
/// queue if there are waiters. [`is_lock_free`](RateLimiter::is_lock_free) reports whether the target has a 128-bit
/// compare-and-swap.
///
/// # Source
///
/// The sliding window log, as a ring. The module `log` in the source describes the protocol.
#[cfg_attr(doc, doc = include_str!("../../guide/pictures/sliding-window.md"))]
pub type SlidingWindow = RateLimiter<Log>;

impl SlidingWindow {
    /// Creates an empty window on [`Clock::system`](crate::Clock::system).
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] in the cases that [`SlidingWindowBuilder`] lists.
    #[cfg(feature = "std")]
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::builder(quota).build()
    }

    /// Returns a builder, for another clock or room for a larger limit.
    pub fn builder(quota: Quota) -> SlidingWindowBuilder {
        Builder::new(builder::Settings {
            quota,
            max_limit: None,
        })
    }

    /// Returns the largest limit, in units, that [`set_quota`](RateLimiter::set_quota) accepts.
    ///
    /// ```
    /// # use flowgate::SlidingWindow;
    /// let limiter = SlidingWindow::builder("10/s".parse()?).max_limit(1000).build()?;
    /// assert!(limiter.max_limit() >= 1000);
    /// limiter.set_quota("1000/s".parse()?)?;
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn max_limit(&self) -> u64 {
        self.engine.max_limit()
    }

    /// Returns the memory that this limiter takes, in bytes, the ring included.
    ///
    /// ```
    /// # use flowgate::SlidingWindow;
    /// let limiter = SlidingWindow::new("100/s".parse()?)?;
    /// assert_eq!(limiter.bytes(), size_of::<SlidingWindow>() + 128 * 16);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.engine.ring_bytes()
    }
}
