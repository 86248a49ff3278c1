//! [`SegmentedWindow`]: the public face over a [word and a ring](segments) of sums.

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

/// Segments per window where the builder is not told.
const DEFAULT_SEGMENTS: u64 = 10;

/// At most **limit in every window** of time, wherever it begins; may refuse up to **one segment longer** than
/// that asks.
///
/// The window is divided into segments, and only sums are kept. What counts is the segment that it is now and
/// as many whole ones before it as make up a window: together always at least a window, and less than a window
/// and a segment. So what was admitted counts for at least a window, and for at most a segment longer.
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
/// # What it promises
///
/// - **Never over** (contract C1). No window holds more than the limit, on every schedule of threads.
/// - **Little wasted** (C2). A refusal means that a span of one window and one segment that ends in this segment would
///   have held more than the limit. Where a window is not a whole number of nanoseconds per segment, a segment is
///   rounded up, and the span is longer by that for each.
/// - **Honest waits** (C3). [`Denied::retry_after`](crate::Denied::retry_after) is the least wait, to the nanosecond.
/// - **Any clock** (C4). A `now` in a segment before that of the newest admission counts as being in that. A `now` from before
///   the last change of quota is admitted only if both quotas admit it: the quota before the change at `now`, and the current
///   quota at the change. A `now` from before the previous change is refused until that change.
///
/// # Choosing it
///
/// It keeps the promise of [`SlidingWindow`](crate::SlidingWindow) in memory that does not depend on the limit,
/// so it suits large limits and bytes. One segment behaves as a window that counts the previous one in full.
///
/// # Segments
///
/// They are counted from the clock's origin, so that limiters on one clock with equal windows change
/// segments together.
///
/// # Amounts
///
/// The limit is the quota's count in units: tokens, unless the quota divides them
/// ([`Quota::units_per_token`]). `n` counts units, is taken all or none, and may be anything up to
/// the limit; above it, the refusal is [`Denied::is_never`](crate::Denied::is_never). `n` = 0 succeeds and changes nothing. A quota that sets a
/// burst is refused: a window has none.
///
/// # Refunds
///
/// [`refund`](RateLimiter::refund) gives back units of the newest segment that has admissions, while that segment still counts.
/// Of older segments only sums are known, and what no longer counts has come back by itself. Units of the segment of a change of
/// quota whose window counts as full for want of memory do not come back.
///
/// # Changing the quota
///
/// [`set_quota`](RateLimiter::set_quota) replaces the limit, the window, or both; the number of segments stays.
///
/// - Admissions are kept. With another window, all of them that are still in that window count as admitted in the segment of
///   the last admission. If the window reaches back further than the segments that are remembered, it counts as full. So for at
///   most one window and one segment, more is refused than necessary, never less. A change of the limit alone does none of this.
/// - Each change of the window may move that segment by up to one segment. Change the window less often than every other
///   segment; otherwise admissions may never leave it.
/// - A timestamp from before the change is admitted only if the quota before the change admits it as well.
/// - A quota with other [units per token](Quota::units_per_token) is refused: admissions are counted in the current units.
///
/// # Memory
///
/// 16 bytes for each segment and two more, rounded up to a power of two: 256 bytes for 10 segments, whatever the limit.
/// [`bytes`](SegmentedWindow::bytes) tells. All of it is taken when the limiter is built. The first change of quota takes 16
/// bytes for each segment and two more, for callers with an earlier time. No decision takes any, except for those who
/// [wait](RateLimiter::acquire).
///
/// # Cost
///
/// A decision is one clock reading and one 128-bit compare-and-swap; the first in a segment makes two. It takes
/// no lock, except that it waits for a change of quota that is under way, and asks those who wait, if any do.
/// [`is_lock_free`](RateLimiter::is_lock_free) tells whether the target has a 128-bit compare-and-swap.
///
/// # Source
///
/// The sliding window of .NET's `System.Threading.RateLimiting` divides a window likewise, but counts only as
/// many segments as make up a window, the current one included, which lets through twice the limit in some.
/// Here one segment more counts.
pub type SegmentedWindow = RateLimiter<Segments>;

impl SegmentedWindow {
    /// Creates an empty window of 10 segments on [`Clock::system`](crate::Clock::system).
    ///
    /// # Errors
    ///
    /// As [`SegmentedWindowBuilder::build`].
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

    /// Returns the length of a segment: the window divided by the number of segments, rounded up to whole nanoseconds.
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
