//! [`SegmentedWindow`]: the public face over a [word and a ring](segments) of sums.

mod at;
mod builder;
#[cfg(all(test, flowgate_loom))]
mod model;
mod segments;
mod supply;
mod tally;

pub use builder::SegmentedWindowBuilder;

use crate::at::At;
use crate::clock::{Clock, Timestamp};
use crate::limiter::{Snapshot, limiter_by_its_verbs};
use crate::policy::Policy;
use crate::quota::{Quota, QuotaError};
use crate::room::{Room, waits_in_line};
use crate::verdict::Denied;
use core::fmt;
use core::time::Duration;
use segments::Segments;

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
/// - **Honest waits** (C3). [`Denied::retry_after`] is the least wait, to the nanosecond.
/// - **Any clock** (C4). A `now` in a segment before that of the newest admission counts as being in that.
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
/// the limit; above it, the refusal is [`Denied::is_never`]. `n` = 0 succeeds and changes nothing. A quota that sets a
/// burst is refused: a window has none.
///
/// # Memory
///
/// 16 bytes for each segment and two more, rounded up to a power of two: 256 bytes for 10 segments, whatever the limit.
/// [`bytes`](Self::bytes) tells. All of it is taken when the limiter is built, none after, but for those who
/// [wait](Self::acquire).
///
/// # Cost
///
/// A decision is one clock reading and one 128-bit compare-and-swap; the first in a segment makes two. It takes
/// no lock, except that it waits for a change of quota that is under way, and asks those who wait, if any do.
/// [`is_lock_free`](Self::is_lock_free) tells whether the target has a 128-bit compare-and-swap.
///
/// # Source
///
/// The sliding window of .NET's `System.Threading.RateLimiting` divides a window likewise, but counts only as
/// many segments as make up a window, the current one included, which lets through twice the limit in some.
/// Here one segment more counts.
pub struct SegmentedWindow {
    segments: Segments,
    clock: Clock,
    room: Room,
}

impl SegmentedWindow {
    /// An empty window of 10 segments on [`Clock::system`].
    ///
    /// # Errors
    ///
    /// As [`SegmentedWindowBuilder::build`].
    #[cfg(feature = "std")]
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::builder(quota).build()
    }

    /// A window with another clock, or another number of segments.
    pub fn builder(quota: Quota) -> SegmentedWindowBuilder {
        SegmentedWindowBuilder::new(quota)
    }

    /// Takes one token, or says why not.
    ///
    /// ```
    /// # use flowgate::SegmentedWindow;
    /// let limiter = SegmentedWindow::new("1/h".parse()?)?;
    /// assert!(limiter.try_acquire().is_ok());
    /// assert!(limiter.try_acquire().is_err());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] if what counts leaves no room for one; nothing is then taken.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        self.at_now().try_acquire()
    }

    /// Takes `n` units, all or none.
    ///
    /// ```
    /// # use flowgate::SegmentedWindow;
    /// let limiter = SegmentedWindow::new("10/h".parse()?)?;
    /// assert!(limiter.try_acquire_n(7).is_ok());
    /// assert!(limiter.try_acquire_n(7).is_err());
    /// assert!(limiter.try_acquire_n(11).unwrap_err().is_never());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] if what counts leaves room for fewer; nothing is then taken.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.at_now().try_acquire_n(n)
    }

    /// Takes what there is, up to `n` units, and says how much that was.
    ///
    /// ```
    /// # use flowgate::SegmentedWindow;
    /// let limiter = SegmentedWindow::new("10/h".parse()?)?;
    /// assert_eq!(limiter.take_up_to(7), 7);
    /// assert_eq!(limiter.take_up_to(7), 3);
    /// assert_eq!(limiter.take_up_to(7), 0);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn take_up_to(&self, n: u64) -> u64 {
        self.at_now().take_up_to(n)
    }

    /// Gives back `n` units that were taken and not used, and says how many came back.
    ///
    /// They count as never admitted, and come back only from the newest segment that has admissions, and only
    /// while it counts: of those before, only sums are known, and what no longer counts has come back by itself.
    /// Nor does any from the segment of a [change](Self::set_quota) whose window counts as full for want of memory.
    ///
    /// ```
    /// # use flowgate::SegmentedWindow;
    /// let limiter = SegmentedWindow::new("10/h".parse()?)?;
    /// limiter.try_acquire_n(4)?;
    /// assert_eq!(limiter.refund(1), 1);
    /// assert_eq!(limiter.available(), 7);
    /// assert_eq!(limiter.refund(100), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, n: u64) -> u64 {
        self.refund_at(n, self.clock.latest().as_nanos())
    }

    /// How many units could be taken now.
    pub fn available(&self) -> u64 {
        self.at_now().available()
    }

    /// The limit, what remains of it, and when it is whole again, seen at one instant.
    ///
    /// ```
    /// # use flowgate::{ManualClock, SegmentedWindow};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = SegmentedWindow::builder("5/10s".parse()?).clock(&time).build()?;
    /// limiter.try_acquire_n(3)?;
    /// time.advance(Duration::from_secs(4));
    /// let seen = limiter.snapshot();
    /// assert_eq!((seen.limit, seen.remaining), (5, 2));
    /// assert_eq!(seen.reset_after, Duration::from_secs(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.at_now().snapshot()
    }

    /// The quota in force.
    pub fn quota(&self) -> Quota {
        self.segments.quota()
    }

    /// Puts another limit, another window, or both in force; the number of segments stays.
    ///
    /// What was admitted is kept. With another window, all of it that is still in that window counts as admitted in the segment
    /// of the last admission. If the window reaches back further than the segments that are remembered, it counts as full.
    /// So more is refused than necessary, for at most one window and one segment, and never less. A change of the limit
    /// alone does none of this.
    ///
    /// Each change of the window may move that segment by up to one segment. So change the window less often than every other
    /// segment: otherwise what counts as admitted may never leave it.
    ///
    /// A `now` from before the change counts as the time of the last admission, as always.
    ///
    /// Threads that decide meanwhile decide wholly by the old quota or wholly by the new one.
    ///
    /// ```
    /// # use flowgate::{ManualClock, SegmentedWindow};
    /// let limiter =
    ///     SegmentedWindow::builder("5/10s".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(3)?;
    /// limiter.set_quota("4/20s".parse()?)?;
    /// assert_eq!(limiter.available(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the limit or the window is out of range, as in [`SegmentedWindowBuilder::build`], the quota
    /// sets a burst, or its [units per token](Quota::units_per_token) are not those in force, in which what was
    /// admitted is counted; nothing is then changed.
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        self.change_quota(quota, || (self.now_ns(), self.clock.latest().as_nanos()))
    }

    /// How many segments a window has.
    pub fn segments(&self) -> u64 {
        self.segments.count()
    }

    /// How long a segment is: the window divided by the number of segments, rounded up to whole nanoseconds.
    pub fn segment(&self) -> Duration {
        Duration::from_nanos(self.segments.segment_ns())
    }

    /// The memory that this limiter takes, in bytes, the ring included.
    ///
    /// ```
    /// # use flowgate::SegmentedWindow;
    /// let limiter = SegmentedWindow::new("10GiB/s".parse()?)?;
    /// assert_eq!(limiter.bytes(), size_of::<SegmentedWindow>() + 16 * 16);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.segments.ring_bytes()
    }

    /// The same verbs at a time of your own.
    ///
    /// For simulations, for several decisions at one instant, and for callers that have read the clock
    /// already. Use one kind of time with one limiter, the clock's or yours.
    ///
    /// ```
    /// # use flowgate::{SegmentedWindow, Timestamp};
    /// let limiter = SegmentedWindow::new("2/s".parse()?)?;
    /// let admitted: Vec<_> = (0..2_500)
    ///     .filter(|&ms| limiter.at(Timestamp::from_nanos(ms * 1_000_000)).try_acquire().is_ok())
    ///     .collect();
    /// assert_eq!(admitted, [0, 1, 1100, 1101, 2200, 2201]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn at(&self, now: Timestamp) -> At<'_, Self> {
        At::supplied(self, now)
    }

    /// The clock that this limiter decides by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether decisions take no lock on this machine.
    ///
    /// `false` where the processor has no 128-bit compare-and-swap: they are then made as exactly, under a lock.
    pub fn is_lock_free(&self) -> bool {
        crate::primitive::AtomicU128::is_lock_free()
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    #[inline]
    fn at_now(&self) -> At<'_, Self> {
        At::read(self, self.now_ns())
    }
}

waits_in_line!(SegmentedWindow, |window| window);
limiter_by_its_verbs!(SegmentedWindow as SegmentedWindow;
    policy: |window| Policy::new(window.quota(), false), refund: SegmentedWindow::refund,
    charge: SegmentedWindow::take_up_to);

impl fmt::Debug for SegmentedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentedWindow")
            .field("quota", &self.quota())
            .field("segments", &self.segments())
            .field("available", &self.available())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
