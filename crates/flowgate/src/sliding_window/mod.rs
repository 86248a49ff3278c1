//! [`SlidingWindow`]: the public face over the [log](log) of admissions.

mod at;
mod builder;
mod log;
#[cfg(all(test, flowgate_loom))]
mod model;
mod record;
mod supply;

pub use builder::SlidingWindowBuilder;

use crate::at::At;
use crate::clock::{Clock, Timestamp};
use crate::limiter::{Snapshot, limiter_by_its_verbs};
use crate::policy::Policy;
use crate::quota::{Quota, QuotaError};
use crate::room::{Room, waits_in_line};
use crate::verdict::Denied;
use core::fmt;
use log::Log;

/// At most **limit in every window** of time, wherever it begins.
///
/// The quota `"100/min"` allows 100 in any 60 seconds: in [t, t + 60 s) for every instant t. The limiter
/// remembers when each admission was, and an operation goes ahead if, with it, the window that ends now holds
/// no more than the limit. What was admitted at t counts until just before t + 60 s, to the nanosecond.
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
/// # What it promises
///
/// - **Never over** (contract C1). No window holds more than the limit, on every schedule of threads.
/// - **Nothing wasted** (C2). A refusal means that admitting would have broken that.
/// - **Honest waits** (C3). [`Denied::retry_after`] is the least wait, to the nanosecond.
/// - **Any clock** (C4). A `now` older than the newest admission counts as that admission's time.
///
/// # Choosing it
///
/// It is the only limiter for a limit of "at most N in *any* window", at the price of memory for N admissions.
/// [`SegmentedWindow`](crate::SegmentedWindow) keeps the same promise in little memory and lets operations in
/// again somewhat later. [`TokenBucket`](crate::TokenBucket) spreads operations out, and admits up to 2 N in
/// some windows.
///
/// # Amounts
///
/// The limit is the quota's count in units: tokens, unless the quota divides them
/// ([`Quota::units_per_token`]). `n` counts units, is taken all or none, and may be anything up to
/// the limit; above it, the refusal is [`Denied::is_never`]. `n` = 0 succeeds and changes nothing. A quota that sets a
/// burst is refused: a window has none.
///
/// # Changes
///
/// [`set_quota`](Self::set_quota) keeps what was admitted and judges it anew: the window in force ending at an
/// admission holds no more than the limit in force. This is exact in both directions, because the ring
/// remembers at least as many units as could matter. The one exception comes of [`refund`](Self::refund), which
/// forgets as many of the oldest admissions as it takes back of the newest: after it, a *longer* window may
/// count as full until the oldest admission that is still known has left it. So it may after a
/// [wait](Self::acquire) was granted and dropped before it was told: what it was granted comes back, whatever others
/// took since, unless that was a thousand times.
///
/// # Memory
///
/// 16 bytes for each admission that may be in the window: for each unit of
/// [`max_limit`](SlidingWindowBuilder::max_limit), and two more, rounded up to a power of two. A limit of 100
/// takes 2 KiB, one of 1,000,000 takes 16 MiB, and the largest, 2²⁶ − 2, takes 1 GiB. [`bytes`](Self::bytes)
/// tells. All of it is taken when the limiter is built, none after, but for those who [wait](Self::acquire).
///
/// # Cost
///
/// A decision is one clock reading and one 128-bit compare-and-swap, however many units it takes and however large the
/// limit; what has left the window is found in two loads, or after a pause, in log₂(limit) steps. It takes no lock,
/// except that it waits for a refund or a change of quota that is under way, and asks those who wait, if any do.
/// [`is_lock_free`](Self::is_lock_free) tells whether the target has a 128-bit compare-and-swap.
///
/// # Source
///
/// The sliding window log, as a ring; see the module `log` in the source for the protocol.
pub struct SlidingWindow {
    log: Log,
    clock: Clock,
    room: Room,
}

impl SlidingWindow {
    /// An empty window on [`Clock::system`].
    ///
    /// # Errors
    ///
    /// As [`SlidingWindowBuilder::build`].
    #[cfg(feature = "std")]
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::builder(quota).build()
    }

    /// A window with another clock, or room for a larger limit.
    pub fn builder(quota: Quota) -> SlidingWindowBuilder {
        SlidingWindowBuilder::new(quota)
    }

    /// Takes one token, or says why not.
    ///
    /// ```
    /// # use flowgate::SlidingWindow;
    /// let limiter = SlidingWindow::new("1/h".parse()?)?;
    /// assert!(limiter.try_acquire().is_ok());
    /// assert!(limiter.try_acquire().is_err());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] if the window is full; nothing is then taken.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        self.at_now().try_acquire()
    }

    /// Takes `n` units, all or none.
    ///
    /// ```
    /// # use flowgate::SlidingWindow;
    /// let limiter = SlidingWindow::new("10/h".parse()?)?;
    /// assert!(limiter.try_acquire_n(7).is_ok());
    /// assert!(limiter.try_acquire_n(7).is_err());
    /// assert!(limiter.try_acquire_n(11).unwrap_err().is_never());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] if the window has room for fewer; nothing is then taken.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.at_now().try_acquire_n(n)
    }

    /// Takes what there is, up to `n` units, and says how much that was.
    ///
    /// ```
    /// # use flowgate::SlidingWindow;
    /// let limiter = SlidingWindow::new("10/h".parse()?)?;
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
    /// They count as never admitted, and so does nobody else's: of all that was admitted, the newest `n`
    /// units. What has left the window has come back by itself, and does not come back twice.
    /// Decisions wait while a refund is under way; it takes time in proportion to the admissions that it takes back.
    ///
    /// ```
    /// # use flowgate::SlidingWindow;
    /// let limiter = SlidingWindow::new("10/h".parse()?)?;
    /// limiter.try_acquire_n(4)?;
    /// assert_eq!(limiter.refund(1), 1);
    /// assert_eq!(limiter.available(), 7);
    /// assert_eq!(limiter.refund(100), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, n: u64) -> u64 {
        self.refund_at(n, || self.clock.latest().as_nanos())
    }

    /// How many units could be taken now.
    pub fn available(&self) -> u64 {
        self.at_now().available()
    }

    /// The limit, what remains of it, and when it is whole again, seen at one instant.
    ///
    /// ```
    /// # use flowgate::{ManualClock, SlidingWindow};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = SlidingWindow::builder("5/10s".parse()?).clock(&time).build()?;
    /// limiter.try_acquire_n(3)?;
    /// time.advance(Duration::from_secs(4));
    /// let seen = limiter.snapshot();
    /// assert_eq!((seen.limit, seen.remaining), (5, 2));
    /// assert_eq!(seen.reset_after, Duration::from_secs(6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.at_now().snapshot()
    }

    /// The quota in force.
    pub fn quota(&self) -> Quota {
        self.log.quota()
    }

    /// Puts another limit, another window, or both in force; what was admitted is kept and counts under them.
    ///
    /// Threads that decide meanwhile decide wholly by the old quota or wholly by the new one. See
    /// [changes](Self#changes).
    ///
    /// ```
    /// # use flowgate::{ManualClock, SlidingWindow};
    /// # use std::time::Duration;
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
    /// # Errors
    ///
    /// [`QuotaError`] if the limit is above [`max_limit`](Self::max_limit), the quota sets a burst, or its
    /// [units per token](Quota::units_per_token) are not those in force, in which what was admitted is counted;
    /// nothing is then changed.
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        let _change = self.room.reconfigure(self);
        self.log.set_quota(quota)?;
        Ok(())
    }

    /// The largest limit, in units, that [`set_quota`](Self::set_quota) takes.
    ///
    /// ```
    /// # use flowgate::SlidingWindow;
    /// let limiter = SlidingWindow::builder("10/s".parse()?).max_limit(1000).build()?;
    /// assert!(limiter.max_limit() >= 1000);
    /// limiter.set_quota("1000/s".parse()?)?;
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn max_limit(&self) -> u64 {
        self.log.max_limit()
    }

    /// The memory that this limiter takes, in bytes, the ring included.
    ///
    /// ```
    /// # use flowgate::SlidingWindow;
    /// let limiter = SlidingWindow::new("100/s".parse()?)?;
    /// assert_eq!(limiter.bytes(), size_of::<SlidingWindow>() + 128 * 16);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.log.ring_bytes()
    }

    /// The same verbs at a time of your own.
    ///
    /// For simulations, for several decisions at one instant, and for callers that have read the clock
    /// already. Use one kind of time with one limiter, the clock's or yours.
    ///
    /// ```
    /// # use flowgate::{SlidingWindow, Timestamp};
    /// let limiter = SlidingWindow::new("2/s".parse()?)?;
    /// let admitted: Vec<_> = (0..2_500)
    ///     .filter(|&ms| limiter.at(Timestamp::from_nanos(ms * 1_000_000)).try_acquire().is_ok())
    ///     .collect();
    /// assert_eq!(admitted, [0, 1, 1000, 1001, 2000, 2001]);
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

waits_in_line!(SlidingWindow, |window| window);
limiter_by_its_verbs!(SlidingWindow as SlidingWindow;
    policy: |window| Policy::new(window.quota(), false), refund: SlidingWindow::refund,
    charge: SlidingWindow::take_up_to);

impl fmt::Debug for SlidingWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlidingWindow")
            .field("quota", &self.quota())
            .field("available", &self.available())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
