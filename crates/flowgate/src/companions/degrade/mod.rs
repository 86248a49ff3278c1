//! [`Degrade`]: from how slow calls are to how much work to leave out.
//!
//! # What is measured
//!
//! The window counts the calls that **began** in it, and how many of them took longer than the threshold.
//!
//! The window ends one threshold before now. Whether a call that began later will be slow cannot be known yet. If the quick
//! calls of the last moments were counted without the slow ones that are still running beside them, every service would look
//! well. The outcome of every call in the window is known, even if the call has not ended. So:
//!
//! - The ratio is exact.
//! - A hang is detected as soon as its first call has run for longer than the threshold.
//! - Running calls need not be walked. Each is counted in the bucket in which it began, and marked there if it ends in time.
//!
//! # How the level moves
//!
//! The window slides by buckets, so a burst of slow calls is detected wherever it falls. Going up and going down have separate
//! thresholds, with a gap between them. Each step is judged by calls that began after the previous step, because only these
//! calls show its effect.
//!
//! Too few calls are no reason to step up. If a whole window has too few calls, the level goes down by one step. So a service
//! that receives no calls is tried again by a part of the calls at a time, and never by a single call.
//!
//! # What the level means
//!
//! The level is a number from 0 to n. The caller decides what it means: which priorities go ahead ([`Degrade::allows`]), which
//! share of optional work is done ([`Degrade::admit`]), or how detailed the response is.
//!
//! # Cost
//!
//! Beginning a call takes one compare-and-swap, and so does ending it in time. The level is a load, and once per bucket a sum
//! over the window. There is no lock and no allocation, and the memory is fixed. `record` has the layout, and `judge` has the
//! pure step. A lock would cost as much without contention, and would block all other threads while its holder is suspended.
//!
//! # Other implementations
//!
//! Sentinel counts in one tumbling bucket, sees calls when they end, and lets a single call decide about recovery. Resilience4j
//! sees ended calls, and is on or off. The dimmer comes from Brownout (Klein, Maggio, Årzén and Hernández-Rodriguez, 2014).

mod builder;
mod call;
mod judge;
#[cfg(all(test, flowgate_loom))]
mod model;
mod record;

pub use builder::DegradeBuilder;
pub use call::DegradeCall;

use crate::clock::{Clock, Timestamp};
use crate::limiter::At;
use crate::primitive::{AtomicU64, Ordering};
#[cfg(feature = "std")]
use crate::quota::QuotaError;
use core::fmt;
use core::time::Duration;
use judge::{Rules, Standing};
use record::Record;

/// Load-shedding level, from the **exact share of slow calls in a sliding window**.
///
/// Calls that are still running count, too.
///
/// Use it when a dependency can become slow. As the level rises, serve cached data, leave out optional work, and refuse the
/// least important work, step by step. As the level falls, return step by step.
///
/// ```text
///            ┬ 1000 ‰          ▄▄▄▄▄▄▄
///  slow      │               ▄▄       ▄▄
///  calls     ├ enter ┄┄┄┄┄┄┄▄┄┄┄┄┄┄┄┄┄┄▄▄┄┄┄┄┄┄┄┄┄
///            ├ exit  ┄┄┄┄┄▄▄┄┄┄┄┄┄┄┄┄┄┄┄┄▄▄▄┄┄┄┄┄┄
///            ┴ 0     ▄▄▄▄▄                  ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
///  level             0      1 2 3 3 3 3 3 3 3 3 2     1     0
///                           ├─┤                 ├─────┤
///                           dwell               recovery
/// ```
///
/// ```
/// use flowgate::{Degrade, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let degrade = Degrade::builder(Duration::from_millis(100)) // slow is what takes longer
///     .levels(3)
///     .clock(&time)
///     .build()?;
///
/// // A dependency hangs: no call ends.
/// let hanging: Vec<_> = (0..30).map(|_| degrade.start()).collect();
/// assert_eq!(degrade.level(), 0);
/// time.advance(Duration::from_secs(1));
/// assert_eq!(degrade.level(), 1);
/// assert!(!degrade.allows(0)); // background work waits,
/// assert!(degrade.allows(1)); // all else goes ahead.
///
/// // What begins from now on is quick, so after the recovery time, which is the window, all is well.
/// drop(hanging);
/// for _ in 0..30 {
///     let call = degrade.start();
///     time.advance(Duration::from_millis(5));
///     call.finish();
/// }
/// time.advance(Duration::from_secs(10));
/// assert_eq!(degrade.level(), 0);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Guarantees
///
/// - A call is judged once the threshold has passed since it began; before that, it counts neither as slow nor as fast. It
///   counts within two buckets after that time, whether it has ended or not, and until the window has slid past it. It is slow
///   if it has taken longer than the threshold or has [failed](DegradeCall::fail).
/// - The level goes up by one when there are at least `min_calls` calls and at least `enter_permille` of them are slow. It goes
///   down by one when at most `exit_permille` are slow. Only calls in the window that began after the last step count. At least
///   `dwell` passes between any two steps, and at least `recovery` before a step down.
/// - If a whole window since the last step has fewer calls than `min_calls`, the level goes down by one. So no level lasts
///   forever because calls are missing. A dependency that hangs while all its callers wait looks unused after one window.
/// - On one thread, the level depends only on the calls and on the time, and not on how often it is read. If a thread is
///   suspended while it begins or ends a call, that call may be counted one judgment late.
/// - A call that never ends (because it is leaked, or its thread is lost) counts as slow for one window, and then no more. The
///   memory is fixed, whatever the number of calls. At most 2³² − 1 calls that begin in one bucket are counted.
/// - While the clock shows an earlier time than before, no time passes for the level. A call that ends before it began has
///   taken no time. The level starts at 0 at the clock's origin.
///
/// # Choosing the settings
///
/// - *Threshold*: the time that callers can bear, well above the latency of a good day.
/// - *`min_calls`*: enough calls that chance alone does not make a share of `enter_permille` slow.
/// - *Window*: long enough for several times `min_calls`.
/// - *Levels*: one for each kind of work that can be left out and whose absence relieves the dependency. If degraded work does
///   not call the dependency at all, let some of it through with [`admit`](Self::admit). Otherwise no call shows whether the
///   dependency has recovered.
///
/// # Performance
///
/// A call takes two readings of the clock and two compare-and-swaps, on one word for all calls of a bucket. Reading the level
/// takes a reading of the clock and a load. Once per bucket, the first reader sums up the window. The first reader after a
/// pause judges the missed buckets: some microseconds with the default settings, under a millisecond with the largest.
///
/// No memory is allocated after the build. No operation takes a lock if the watch [is lock-free](Self::is_lock_free).
pub struct Degrade {
    record: Record,
    rules: Rules,
    /// Number of calls of [`admit`](Self::admit) at levels where the result is not always the same.
    turns: AtomicU64,
    clock: Clock,
}

/// Number of calls in the window, and of slow ones; see [`Degrade::slow_calls`].
///
/// ```
/// use flowgate::{Degrade, Timestamp};
/// use std::time::Duration;
///
/// let degrade = Degrade::builder(Duration::from_millis(100)).build()?;
/// let begun = Timestamp::from_nanos(60_000_000_000);
/// let calls = [50, 150].map(|millis| (degrade.at(begun).start(), Duration::from_millis(millis)));
/// for (call, took) in calls {
///     call.finish_at(begun + took);
/// }
/// let seen = degrade.at(begun + Duration::from_secs(1)).slow_calls();
/// assert_eq!((seen.calls, seen.slow), (2, 1));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SlowCalls {
    /// Number of calls that began within the window and are not ignored.
    pub calls: u64,
    /// Number of calls in the window that failed or exceeded the threshold.
    ///
    /// A call that is still running counts as slow once it has run for longer than the threshold.
    pub slow: u64,
}

impl Degrade {
    /// Creates a watch with one level above 0 and the default settings.
    ///
    /// Calls that take longer than `slow` are slow. The watch uses the [system clock](Clock::system).
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `slow` is 0 or longer than 194.6 s. A longer threshold needs a longer window.
    #[cfg(feature = "std")]
    pub fn new(slow: Duration) -> Result<Self, QuotaError> {
        Self::builder(slow).build()
    }

    /// Returns a builder. Calls that take longer than `slow` are slow.
    pub fn builder(slow: Duration) -> DegradeBuilder {
        DegradeBuilder {
            slow,
            clock: None,
            levels: 1,
            window: Duration::from_secs(10),
            buckets: 50,
            min_calls: 20,
            enter_permille: 500,
            exit_permille: None,
            dwell: None,
            recovery: None,
        }
    }

    fn with(rules: Rules, clock: Clock) -> Self {
        Self {
            record: Record::new(rules.reach()),
            rules,
            turns: AtomicU64::new(0),
            clock,
        }
    }

    /// Begins a call, which ends when the returned [`DegradeCall`] is finished or dropped.
    ///
    /// ```
    /// # use flowgate::Degrade;
    /// # use std::time::Duration;
    /// # let degrade = Degrade::new(Duration::from_millis(100))?;
    /// let call = degrade.start();
    /// let answer = 6 * 7; // the work
    /// call.finish();
    /// # assert_eq!(answer, 42);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn start(&self) -> DegradeCall<'_> {
        self.at_now().start()
    }

    /// Returns how far to degrade: from 0 (not at all) to [`levels`](Self::levels).
    #[inline]
    pub fn level(&self) -> u32 {
        self.at_now().level()
    }

    /// Returns the highest level.
    pub fn levels(&self) -> u32 {
        self.rules.levels
    }

    /// Returns whether to do work of `priority`: whether the level is at most `priority`.
    ///
    /// Priority 0 is the least important, and is left out first, at level 1. Priority [`levels`](Self::levels) is always done.
    ///
    /// ```
    /// # use flowgate::{Degrade, Timestamp};
    /// # use std::time::Duration;
    /// # let degrade = Degrade::builder(Duration::from_millis(1)).levels(2).min_calls(1).build()?;
    /// # let start = Timestamp::from_nanos(3_600_000_000_000);
    /// # std::mem::forget(degrade.at(start).start());
    /// # let degrade = degrade.at(start + Duration::from_secs(1));
    /// const REFRESH: u32 = 0; // the first to be left out
    /// const SEARCH: u32 = 1;
    /// const CHECKOUT: u32 = 2;
    /// // At level 1 of 2:
    /// assert_eq!([REFRESH, SEARCH, CHECKOUT].map(|work| degrade.allows(work)), [false, true, true]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn allows(&self, priority: u32) -> bool {
        self.at_now().allows(priority)
    }

    /// Returns whether to do one piece of optional work.
    ///
    /// At each level, the share of `true` is (`levels` − level) of `levels`: all at level 0, none at the highest level. The
    /// result is not random. Of k consecutive calls at one level, on whatever threads, exactly this share returns `true`,
    /// rounded down or up.
    ///
    /// ```
    /// # use flowgate::{Degrade, Timestamp};
    /// # use std::time::Duration;
    /// # let degrade = Degrade::builder(Duration::from_millis(1)).levels(4).min_calls(1).build()?;
    /// # let start = Timestamp::from_nanos(3_600_000_000_000);
    /// # std::mem::forget(degrade.at(start).start());
    /// # let later = degrade.at(start + Duration::from_secs(1));
    /// # assert_eq!(later.level(), 1);
    /// // At level 1 of 4, three of four.
    /// # let degrade = later;
    /// let done: Vec<bool> = (0..8).map(|_| degrade.admit()).collect();
    /// assert_eq!(done, [false, true, true, true, false, true, true, true]);
    /// assert_eq!(degrade.share_permille(), 750);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn admit(&self) -> bool {
        self.at_now().admit()
    }

    /// Returns the share of work that [`admit`](Self::admit) admits, in per mille, rounded down.
    ///
    /// The share is 1000 at level 0 and 0 at the highest level.
    pub fn share_permille(&self) -> u32 {
        self.at_now().share_permille()
    }

    /// Returns the calls in the window now, for a log line or a metric.
    ///
    /// The next step is judged only by those of them that began after the last step. Calls that other threads begin or end
    /// during the method may or may not be included.
    pub fn slow_calls(&self) -> SlowCalls {
        self.at_now().slow_calls()
    }

    /// Returns the threshold: calls that take longer are slow.
    pub fn slow(&self) -> Duration {
        Duration::from_nanos(self.rules.slow_ns)
    }

    /// Returns the length of a bucket, rounded up to whole nanoseconds.
    ///
    /// This is the window divided by the number of buckets.
    pub fn bucket(&self) -> Duration {
        Duration::from_nanos(self.rules.bucket_ns)
    }

    /// Returns the memory that the watch takes, in bytes, including its ring.
    ///
    /// ```
    /// # use flowgate::Degrade;
    /// # use std::time::Duration;
    /// let degrade = Degrade::new(Duration::from_secs(1))?;
    /// assert_eq!(degrade.bytes(), size_of::<Degrade>() + 64 * 16);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.record.calls.bytes()
    }

    /// Returns the same methods at an explicit timestamp.
    ///
    /// Use it for simulations, or if the caller has read the clock already. Use one kind of time with one watch: the clock's or
    /// explicit timestamps. For the end of a call, use [`DegradeCall::finish_at`].
    ///
    /// ```
    /// # use flowgate::{Degrade, Timestamp};
    /// # use std::time::Duration;
    /// let degrade = Degrade::builder(Duration::from_millis(100)).min_calls(1).build()?;
    /// let second = |s: u64| Timestamp::from_nanos(s * 1_000_000_000);
    /// let call = degrade.at(second(60)).start();
    /// assert_eq!(degrade.at(second(60)).level(), 0);
    /// assert_eq!(degrade.at(second(61)).level(), 1);
    /// call.finish_at(second(62));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn at(&self, now: Timestamp) -> At<'_, Self> {
        At::new(self, now.as_nanos())
    }

    /// Returns the clock that measures the calls.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns whether calls and levels take no lock on this machine.
    ///
    /// The result is `false` if the processor has no 128-bit compare-and-swap. Calls are then counted as exactly, under a lock.
    pub fn is_lock_free(&self) -> bool {
        crate::primitive::AtomicU128::is_lock_free()
    }

    #[inline]
    fn at_now(&self) -> At<'_, Self> {
        self.at(self.clock.now())
    }
}

impl<'a> At<'a, Degrade> {
    /// Begins a call, as [`Degrade::start`].
    #[inline]
    pub fn start(self) -> DegradeCall<'a> {
        let bucket = self.standing().judged;
        let is_counted = self.limiter.record.begin(bucket);
        DegradeCall::new(self.limiter, self.now_ns, is_counted.then_some(bucket))
    }

    /// Returns the level, as [`Degrade::level`].
    #[inline]
    pub fn level(self) -> u32 {
        self.standing().level
    }

    /// Returns whether to do work of `priority`, as [`Degrade::allows`].
    #[inline]
    pub fn allows(self, priority: u32) -> bool {
        priority >= self.level()
    }

    /// Returns whether to do a piece of optional work, as [`Degrade::admit`].
    pub fn admit(self) -> bool {
        let (level, levels) = (self.level(), self.limiter.rules.levels);
        if level == 0 || level == levels {
            return level == 0;
        }
        // `true` if this turn raises the number of admitted pieces, which is the share of the turns so far, rounded down.
        let turn = self.limiter.turns.fetch_add(1, Ordering::Relaxed) % u64::from(levels);
        let (share, levels) = (u64::from(levels - level), u64::from(levels));
        (turn + 1) * share / levels > turn * share / levels
    }

    /// Returns the share of admitted work in per mille, as [`Degrade::share_permille`].
    pub fn share_permille(self) -> u32 {
        let levels = self.limiter.rules.levels;
        (levels - self.level()) * 1000 / levels
    }

    /// Returns the calls in the window, as [`Degrade::slow_calls`].
    pub fn slow_calls(self) -> SlowCalls {
        let window = self.limiter.rules.window_at(self.standing().judged);
        let seen = self.limiter.record.counts(window);
        SlowCalls {
            calls: seen.begun,
            slow: seen.slow(),
        }
    }

    #[inline]
    fn standing(self) -> Standing {
        self.limiter.record.look(&self.limiter.rules, self.now_ns)
    }
}

impl fmt::Debug for Degrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The level as last judged. Reading the clock here would judge by a time that may not be the one in use.
        f.debug_struct("Degrade")
            .field("level", &self.record.standing().level)
            .field("levels", &self.levels())
            .field("slow", &self.slow())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
