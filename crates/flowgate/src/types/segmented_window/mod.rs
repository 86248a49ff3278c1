//! [`SegmentedWindow`]: the public type over a [word and a ring](segments) of sums.

mod builder;
mod count;
#[cfg(all(test, flowgate_loom))]
mod model;
mod past;
mod segments;
mod state;

pub use builder::SegmentedWindowBuilder;

use crate::limiter::RateLimiter;
use crate::limiter::builder::Builder;
use crate::quota::Quota;
#[cfg(feature = "std")]
use crate::quota::QuotaError;
use core::time::Duration;
pub use segments::Segments;

/// Segments per window, unless the builder sets another number.
const DEFAULT_SEGMENTS: u64 = 10;

/// At most N operations in **every** window of time, in little memory.
///
/// A refusal may last up to **one segment longer** than necessary. Use it for large limits, and for bytes.
///
/// The window is divided into segments, and the limiter keeps only their sums. It counts the current segment and the full
/// segments before it that make up a window. That is always at least one window, and less than one window and one segment. So
/// an admission counts for at least a window, and for at most one segment longer.
///
/// ```text
///   limit 10 per window of 4 segments
///                                        now
///     units │  2  │  3  │     │  4  │ 1  ▼   ╎
///           └─────┴─────┴─────┴─────┴────┴───┘
///              ╎ ◀────── a window ───────┤
///           └────────── what counts ─────┘       10: refused until the 2 leave, at ╎
/// ```
///
/// ```
/// use flowgate::{ManualClock, SegmentedWindow};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: SegmentedWindow::new(quota)
/// let limiter =
///     SegmentedWindow::builder("5/10s".parse()?).clock(&time).segments(10).build()?;
///
/// time.advance(Duration::from_millis(300));
/// limiter.try_acquire_n(5)?; // in the segment from 0 s to 1 s
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(10_700))); // at 11 s
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The picture shows all requests in gray and the admitted ones in blue, with a quota of 20 per second:
///
/// ![SegmentedWindow: 20 in every second, in little memory][picture]
///
/// # Guarantees
///
/// [The guide](crate::guide::guarantees) defines C1 to C9.
///
/// - **Never over-admits** (C1). No window holds more than the limit, on every schedule of threads.
/// - **Refuses slightly more than necessary** (C2). A refusal means that an interval of one window and one segment, which ends
///   in this segment, would have held more than the limit. If the segment's length is not a whole number of nanoseconds, it is
///   rounded up, and the interval is longer by that for each segment.
/// - **Exact retry-after** (C3). [`Denied::retry_after`](crate::Denied::retry_after) is the least wait, to the nanosecond.
/// - **Safe under clock anomalies** (C4). A `now` in a segment before the newest admission counts as a time in the segment of
///   that admission. A `now` from before the last change of quota is admitted only if both quotas admit it: the quota before
///   the change at `now`, and the current quota at the change. A `now` from before the previous change is refused until that
///   change.
///
/// # When to use it
///
/// It keeps the bound of [`SlidingWindow`](crate::SlidingWindow) in memory that does not depend on the limit. With one segment,
/// it is a window that counts the previous window in full.
///
/// # Segments
///
/// Segments are counted from the clock's origin. Limiters on one clock with equal windows therefore change segments at the same
/// time.
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
/// [`refund`](RateLimiter::refund) returns units of the newest segment that has admissions, while that segment still counts. Of
/// older segments, the limiter knows only sums. Units that no longer count are not returned.
///
/// After a change of quota, a window can count as full because the limiter does not remember enough. Units of the segment of
/// such a change are not returned.
///
/// # Changing the quota
///
/// [`set_quota`](RateLimiter::set_quota) replaces the limit, the window, or both; the number of segments stays.
///
/// - Admissions are kept. If the length of the window changes, all admissions that are still in the new window count as
///   admitted in the segment of the last admission. If the new window reaches back further than the remembered segments, it
///   counts as full. So for at most one window and one segment, the limiter refuses more than necessary, but never less. A
///   change of the limit alone does none of this.
/// - Each change of the window may move that segment by up to one segment. Change the window less often than every other
///   segment; otherwise admissions may never leave it.
/// - A timestamp from before the change is admitted only if the quota before the change admits it as well.
/// - A quota with other [units per token](Quota::units_per_token) is refused: admissions are counted in the current units.
///
/// # Memory
///
/// A limiter takes 16 bytes for each segment and two more, rounded up to a power of two: 256 bytes for 10 segments, whatever
/// the limit is. [`bytes`](SegmentedWindow::bytes) reports the size. The limiter takes all of it when it is built.
///
/// The first change of quota takes 16 bytes for each segment and two more, for callers with an earlier time. Decisions take no
/// memory, except for [waiters](RateLimiter::acquire).
///
/// # Cost
///
/// A decision is one clock reading and one 128-bit compare-and-swap. The first decision in a segment makes two. It takes no
/// lock, with two exceptions: it waits for a change of quota that is in progress, and it looks into the queue if there are
/// waiters. [`is_lock_free`](RateLimiter::is_lock_free) reports whether the target has a 128-bit compare-and-swap.
///
/// # Source
///
/// The sliding window of .NET's `System.Threading.RateLimiting` divides a window in the same way. It counts only the segments
/// that make up one window, including the current one. Some windows can therefore hold twice the limit. This limiter counts one
/// segment more.
#[cfg_attr(doc, doc = include_str!("../../guide/pictures/segmented-window.md"))]
pub type SegmentedWindow = RateLimiter<Segments>;

impl SegmentedWindow {
    /// Creates an empty window of 10 segments on [`Clock::system`](crate::Clock::system).
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] in the cases that [`SegmentedWindowBuilder`] lists.
    #[cfg(feature = "std")]
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::builder(quota).build()
    }

    /// Returns a builder, for another clock or another number of segments.
    pub fn builder(quota: Quota) -> SegmentedWindowBuilder {
        Builder::new(builder::Settings {
            quota,
            segments: None,
        })
    }

    /// Returns the number of segments in a window.
    pub fn segments(&self) -> u64 {
        self.engine.count()
    }

    /// Returns the length of a segment, rounded up to whole nanoseconds.
    ///
    /// It is the length of the window divided by the number of segments.
    pub fn segment(&self) -> Duration {
        Duration::from_nanos(self.engine.segment_ns())
    }

    /// Returns the memory that this limiter takes, in bytes, the ring included.
    ///
    /// ```
    /// # use flowgate::SegmentedWindow;
    /// let limiter = SegmentedWindow::new("10GiB/s".parse()?)?;
    /// assert_eq!(limiter.bytes(), size_of::<SegmentedWindow>() + 16 * 16);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.engine.ring_bytes()
    }
}
