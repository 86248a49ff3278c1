use super::Degrade;
use super::judge::Rules;
use super::record::MAX_SLOTS;
use crate::clock::{Clock, clock_setting, saturating_nanos};
use crate::quota::QuotaError;
use core::time::Duration;

const MAX_BUCKETS: u64 = 128;
const MAX_LEVELS: u64 = 100;
const MAX_MIN_CALLS: u64 = 1_000_000_000;
/// Buckets of the shortest window are then still longer than a microsecond.
const MIN_WINDOW_NS: u64 = 1_000_000;

/// Builder of a [`Degrade`].
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
/// | [`levels`](Self::levels) | 1: degraded, or not |
/// | [`window`](Self::window) | 10 s |
/// | [`buckets`](Self::buckets) | 50 |
/// | [`min_calls`](Self::min_calls) | 20 |
/// | [`enter_permille`](Self::enter_permille) | 500: every second call is slow |
/// | [`exit_permille`](Self::exit_permille) | half of `enter_permille`, rounded down |
/// | [`dwell`](Self::dwell) | a tenth of the window |
/// | [`recovery`](Self::recovery) | the window, or `dwell` if that is longer |
///
/// ```
/// use flowgate::Degrade;
/// use std::time::Duration;
///
/// // Four levels, at most one up in a second and one down in ten.
/// let degrade = Degrade::builder(Duration::from_millis(200))
///     .levels(4)
///     .window(Duration::from_secs(5))
///     .buckets(25)
///     .min_calls(100)
///     .enter_permille(300)
///     .exit_permille(50)
///     .dwell(Duration::from_secs(1))
///     .recovery(Duration::from_secs(10))
///     .build()?;
/// assert_eq!((degrade.levels(), degrade.bucket()), (4, Duration::from_millis(200)));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct DegradeBuilder {
    pub(super) slow: Duration,
    pub(super) clock: Option<Clock>,
    pub(super) levels: u32,
    pub(super) window: Duration,
    pub(super) buckets: u64,
    pub(super) min_calls: u64,
    pub(super) enter_permille: u32,
    pub(super) exit_permille: Option<u32>,
    pub(super) dwell: Option<Duration>,
    pub(super) recovery: Option<Duration>,
}

impl DegradeBuilder {
    clock_setting!("that measures calls");

    /// Sets the highest level, 1 to 100 (default: 1).
    pub fn levels(mut self, levels: u32) -> Self {
        self.levels = levels;
        self
    }

    /// Sets the window, 1 ms or longer (default: 10 s).
    ///
    /// Calls that began within the window decide the level. The window is rounded up to a whole number of nanoseconds per
    /// bucket. A window longer than 584 years counts as 584 years.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets the number of buckets of the window, 1 to 128 (default: 50).
    ///
    /// More buckets take more memory, but a call is judged sooner: at most two buckets after the threshold has passed.
    pub fn buckets(mut self, buckets: u64) -> Self {
        self.buckets = buckets;
        self
    }

    /// Sets the least number of calls for a judgment, 1 to 1,000,000,000 (default: 20).
    ///
    /// With fewer calls the level does not go up, and goes down only after a whole window.
    pub fn min_calls(mut self, calls: u64) -> Self {
        self.min_calls = calls;
        self
    }

    /// Sets the share of slow calls for a step up: `permille` or more, 1 to 1000.
    pub fn enter_permille(mut self, permille: u32) -> Self {
        self.enter_permille = permille;
        self
    }

    /// Sets the share of slow calls for a step down: `permille` or less.
    ///
    /// The range is 0 to one less than [`enter_permille`](Self::enter_permille). Between the two, the level stays.
    pub fn exit_permille(mut self, permille: u32) -> Self {
        self.exit_permille = Some(permille);
        self
    }

    /// Sets the least time between any two steps, rounded up to whole buckets.
    ///
    /// A step is judged by calls that began after the previous step. So the next step up takes at least the threshold and one
    /// bucket in any case.
    pub fn dwell(mut self, dwell: Duration) -> Self {
        self.dwell = Some(dwell);
        self
    }

    /// Sets the least time at a level before a step down from it.
    ///
    /// The time is rounded up to whole buckets. If it is shorter than [`dwell`](Self::dwell), then `dwell` applies.
    pub fn recovery(mut self, recovery: Duration) -> Self {
        self.recovery = Some(recovery);
        self
    }

    /// Builds the watch, at level 0.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] in these cases:
    ///
    /// - A setting is out of the range that its method states.
    /// - The threshold is 0.
    /// - The threshold and the window together take 1024 buckets or more.
    ///
    /// ```
    /// # use flowgate::Degrade;
    /// # use std::time::Duration;
    /// let error = Degrade::builder(Duration::from_millis(200)).levels(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "a number of levels of 0 is out of range: 1 to 100");
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn build(self) -> Result<Degrade, QuotaError> {
        let levels = QuotaError::in_range("a number of levels", self.levels.into(), 1, MAX_LEVELS)?;
        let window_ns = QuotaError::in_range(
            "a window in nanoseconds",
            saturating_nanos(self.window),
            MIN_WINDOW_NS,
            u64::MAX,
        )?;
        let buckets = QuotaError::in_range("a number of buckets", self.buckets, 1, MAX_BUCKETS)?;
        let bucket_ns = window_ns.div_ceil(buckets);
        let longest_ns = bucket_ns.saturating_mul(MAX_SLOTS - 1 - buckets);
        let slow_ns = QuotaError::in_range(
            "a slow threshold in nanoseconds",
            saturating_nanos(self.slow),
            1,
            longest_ns,
        )?;
        let min_calls =
            QuotaError::in_range("a minimum of calls", self.min_calls, 1, MAX_MIN_CALLS)?;
        let enter_permille = QuotaError::in_range(
            "an enter threshold in per mille",
            self.enter_permille.into(),
            1,
            1000,
        )?;
        let exit_permille = QuotaError::in_range(
            "an exit threshold in per mille",
            self.exit_permille.unwrap_or(self.enter_permille / 2).into(),
            0,
            enter_permille - 1,
        )?;
        let dwell = match self.dwell {
            Some(dwell) => saturating_nanos(dwell).div_ceil(bucket_ns),
            None => buckets.div_ceil(10),
        };
        let recovery = match self.recovery {
            Some(recovery) => saturating_nanos(recovery).div_ceil(bucket_ns),
            None => buckets,
        };
        let rules = Rules {
            bucket_ns,
            slow_ns,
            slow: slow_ns.div_ceil(bucket_ns),
            window: buckets,
            min_calls,
            enter_permille,
            exit_permille,
            dwell,
            recovery: recovery.max(dwell),
            levels: levels as u32,
        };
        Ok(Degrade::with(rules, self.clock.unwrap_or_default()))
    }
}
