//! [`Degrade`]: from how slow calls are to how much to leave out.
//!
//! # The design
//!
//! *What is measured.* The calls that **began** in a window, and how many of them took longer than the threshold. The
//! window ends one threshold before now, because of a call that began later nobody can say yet whether it will be slow:
//! counting the quick ones of the last moments, and not the slow ones beside them that are still running, would
//! make every service look well. Of the calls in the window all is known, also of those that have not ended. So the
//! ratio is exact, a hang is seen as soon as its first call has run for longer than the threshold, and nothing
//! needs to walk the running calls: each is counted where it began, and marked there if it ends in time.
//!
//! *How it moves.* The window slides by buckets, so that a burst of slow calls is seen wherever it falls. Entering
//! and leaving have thresholds of their own, with a gap between them. Each step is judged by calls that began after the
//! one before, as only these show what it did. Too few calls are no reason to step up; when they stay away for a
//! whole window the level goes down by a step, so that a service that is sent nothing is tried again, by a part of
//! the calls at a time and never by a single one.
//!
//! *What comes out.* A level from 0 to n. What a level means is the caller's: which priorities go ahead
//! ([`Degrade::allows`]), which share of optional work is done ([`Degrade::admit`]), how fine the answer is.
//!
//! *What it costs.* One compare-and-swap when a call begins and one when it ends in time; the level is a load, and
//! once per bucket a sum over the window. No lock, no allocation, fixed memory (`record` has the layout, `judge`
//! the pure step). A lock would cost as much alone, and hold up everybody while its holder is suspended.
//!
//! *What others do.* Sentinel counts in one tumbling bucket, sees calls when they end, and lets a single one decide
//! about recovery; resilience4j sees ended calls, and is on or off. The dimmer comes from Brownout (Klein, Maggio,
//! Årzén and Hernández-Rodriguez, 2014).

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

/// Watches how long calls take and says how far to degrade, **from the exact share of slow calls in a sliding window,
/// those that still run among them**.
///
/// For the time when a dependency grows slow: to serve what is cached, leave out what is optional, refuse what is
/// least important, step by step, and to come back step by step.
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
/// # What it promises
///
/// - A call counts as slow if it has taken longer than the threshold or has [failed](DegradeCall::fail), and neither
///   as slow nor as fast before the threshold has passed since it began. From then on it counts within two
///   buckets, whether it has ended or not, and until the window has slid past it.
/// - The level goes up by one when, of at least `min_calls` calls, at least `enter_permille` are slow, and down by one
///   when at most `exit_permille` are. Only calls that began after the last step count, within the
///   window. Between any two steps `dwell` passes, and before a step down `recovery`.
/// - Where a whole window since the last step has fewer calls than `min_calls`, the level goes down by one. So no level
///   lasts for ever for want of calls; and a dependency that hangs with all its callers waiting looks, after a
///   window, like one that is not used.
/// - On one thread, the level is a function of the calls and of the time: how often it is looked at makes no
///   difference. A thread that is suspended while it begins or ends a call may have it counted a judgement late.
/// - A call whose end never comes (it is leaked, or its thread is lost) counts as slow for one window and then no more.
///   Memory is fixed, however many calls there are. Of calls that begin in one bucket, 2³² − 1 count.
/// - While the clock shows an earlier time than it has shown, no time passes for the level, and a call that ends
///   before it began has taken none. The level is first entered at the clock's origin.
///
/// # Choosing the settings
///
/// *Threshold*: what callers bear, not what is usual; well above the latency of a good day. *`min_calls`*: chance alone
/// must not make as many of them slow as `enter_permille` says. *Window*: long enough for several times
/// `min_calls`. *Levels*: for each, something to leave out that the dependency feels; where degraded
/// work does not call the dependency at all, let some through, by [`admit`](Self::admit), or the way back is a guess.
///
/// # Cost
///
/// A call is two readings of the clock and two compare-and-swaps, on one word for all calls of a bucket. The level is a
/// reading of the clock and a load; once per bucket, whoever comes first sums up the window. The first to come
/// after a pause goes over what was missed: some microseconds with the default settings, under a millisecond with
/// the largest. No memory after it is built; no lock where this [is lock-free](Self::is_lock_free).
pub struct Degrade {
    record: Record,
    rules: Rules,
    /// Questions that [`admit`](Self::admit) has been asked at levels where the answer is not always the same.
    turns: AtomicU64,
    clock: Clock,
}

/// Of the calls in the window, how many were slow; see [`Degrade::slow_calls`].
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
    /// Calls that began within the window and are not ignored.
    pub calls: u64,
    /// Those of them that took, or have been running for, longer than the threshold, or failed.
    pub slow: u64,
}

impl Degrade {
    /// A watch by the [system clock](Clock::system) with one level above 0 and the default settings: calls that
    /// take longer than `slow` are slow.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if `slow` is 0 or longer than 194.6 s, for which a longer window is needed.
    #[cfg(feature = "std")]
    pub fn new(slow: Duration) -> Result<Self, QuotaError> {
        Self::builder(slow).build()
    }

    /// Settings other than the default ones. Calls that take longer than `slow` are slow.
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

    /// A call begins now; it ends when what is returned is finished or dropped.
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

    /// How far to degrade: 0, not at all, to [`levels`](Self::levels).
    #[inline]
    pub fn level(&self) -> u32 {
        self.at_now().level()
    }

    /// The highest level.
    pub fn levels(&self) -> u32 {
        self.rules.levels
    }

    /// Whether work of this priority is to be done at the present level: whether the level is not above it.
    ///
    /// Priority 0 is the least important and is the first to be left out, at level 1; priority
    /// [`levels`](Self::levels) is always done.
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

    /// Whether to do this piece of optional work, so that of all that are asked about, the share of the present level
    /// is done: (levels − level) of each `levels` in turn.
    ///
    /// Not by chance: of k in succession at one level, on whatever threads, exactly the share of k is done, rounded
    /// down or up. At level 0 all are, at the highest level none.
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

    /// The share of optional work that [`admit`](Self::admit) says yes to, in per mille, rounded down: 1000 at level
    /// 0, and 0 at the highest.
    pub fn share_permille(&self) -> u32 {
        self.at_now().share_permille()
    }

    /// What the window shows now: for a log line, or a metric.
    ///
    /// Not what the next step is judged by, which are only those of these that began after the last one. Threads
    /// that begin or end calls meanwhile may or may not be in it.
    pub fn slow_calls(&self) -> SlowCalls {
        self.at_now().slow_calls()
    }

    /// Calls that take longer than this are slow.
    pub fn slow(&self) -> Duration {
        Duration::from_nanos(self.rules.slow_ns)
    }

    /// How long a bucket is: the window divided by the number of buckets, rounded up to whole nanoseconds.
    pub fn bucket(&self) -> Duration {
        Duration::from_nanos(self.rules.bucket_ns)
    }

    /// The memory that this takes, in bytes, the ring included.
    ///
    /// ```
    /// # use flowgate::Degrade;
    /// # use std::time::Duration;
    /// let degrade = Degrade::new(Duration::from_secs(1))?;
    /// assert_eq!(degrade.bytes(), size_of::<Degrade>() + 64 * 16);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.record.ring.bytes()
    }

    /// The same verbs at a time of your own.
    ///
    /// For simulations, and for callers that have read the clock already. Use one kind of time with one watch, the
    /// clock's or yours; a call's end has [`DegradeCall::finish_at`].
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

    /// The clock that this measures by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether calls and levels take no lock on this machine.
    ///
    /// `false` where the processor has no 128-bit compare-and-swap: they are then counted as exactly, under a lock.
    pub fn is_lock_free(&self) -> bool {
        crate::primitive::AtomicU128::is_lock_free()
    }

    #[inline]
    fn at_now(&self) -> At<'_, Self> {
        self.at(self.clock.now())
    }
}

impl<'a> At<'a, Degrade> {
    /// [`Degrade::start`].
    #[inline]
    pub fn start(self) -> DegradeCall<'a> {
        let bucket = self.standing().judged;
        let is_counted = self.limiter.record.begin(bucket);
        DegradeCall::new(self.limiter, self.now_ns, is_counted.then_some(bucket))
    }

    /// [`Degrade::level`].
    #[inline]
    pub fn level(self) -> u32 {
        self.standing().level
    }

    /// [`Degrade::allows`].
    #[inline]
    pub fn allows(self, priority: u32) -> bool {
        priority >= self.level()
    }

    /// [`Degrade::admit`].
    pub fn admit(self) -> bool {
        let (level, levels) = (self.level(), self.limiter.rules.levels);
        if level == 0 || level == levels {
            return level == 0;
        }
        // The share of the first turns, in whole pieces, grows with this one.
        let turn = self.limiter.turns.fetch_add(1, Ordering::Relaxed) % u64::from(levels);
        let (share, levels) = (u64::from(levels - level), u64::from(levels));
        (turn + 1) * share / levels > turn * share / levels
    }

    /// [`Degrade::share_permille`].
    pub fn share_permille(self) -> u32 {
        let levels = self.limiter.rules.levels;
        (levels - self.level()) * 1000 / levels
    }

    /// [`Degrade::slow_calls`].
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
        // As last judged: looking at the clock here would judge, by a time that may not be the one in use.
        f.debug_struct("Degrade")
            .field("level", &self.record.standing().level)
            .field("levels", &self.levels())
            .field("slow", &self.slow())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
