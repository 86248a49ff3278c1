use super::Throttle;
use super::record::Record;
use super::share::{Rules, WHOLE};
use crate::clock::{Clock, clock_setting, saturating_nanos};
use crate::quota::QuotaError;
use core::time::Duration;

const MAX_BUCKETS: u64 = 128;
const MAX_MIN_REQUESTS: u64 = 1_000_000_000;
/// Close to 1000, a throttle hardly ever recovers; at 10,000, it hardly ever throttles.
const MIN_MULTIPLIER_PERMILLE: u64 = 1100;
const MAX_MULTIPLIER_PERMILLE: u64 = 10_000;
/// Buckets of the shortest window are then still longer than a microsecond.
const MIN_WINDOW_NS: u64 = 1_000_000;

/// Builder of a [`Throttle`].
///
/// | setting | default | in the formulas |
/// |---|---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] | |
/// | [`window`](Self::window) | 10 s | *W* |
/// | [`buckets`](Self::buckets) | 50 | *W* / *b* |
/// | [`multiplier_permille`](Self::multiplier_permille) | 2000 | *K* |
/// | [`probe_permille`](Self::probe_permille) | 50 | *q* |
/// | [`min_requests`](Self::min_requests) | 20 | |
///
/// ```
/// use flowgate::Throttle;
/// use std::time::Duration;
///
/// // Recovers quickly, and lets at most 20 % more through than the backend accepts.
/// let throttle = Throttle::builder()
///     .window(Duration::from_secs(2))
///     .buckets(20)
///     .multiplier_permille(1200)
///     .probe_permille(100)
///     .min_requests(50)
///     .build()?;
/// assert_eq!(throttle.bucket(), Duration::from_millis(100));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct ThrottleBuilder {
    clock: Option<Clock>,
    window: Duration,
    buckets: u64,
    multiplier_permille: u32,
    probe_permille: u32,
    min_requests: u64,
}

impl ThrottleBuilder {
    pub(super) const fn new() -> Self {
        Self {
            clock: None,
            window: Duration::from_secs(10),
            buckets: 50,
            multiplier_permille: 2000,
            probe_permille: 50,
            min_requests: 20,
        }
    }

    clock_setting!("that measures the window");

    /// Sets the window, 1 ms or longer (default: 10 s).
    ///
    /// Outcomes within the window, and within the last tenth of it, decide the share. A shorter window reacts sooner, and a longer
    /// one needs fewer requests per second. The tenth is rounded up to whole buckets. The window is rounded up to a whole number of
    /// nanoseconds per bucket. A window longer than 584 years counts as 584 years.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets the number of buckets of the window, 1 to 128 (default: 50).
    ///
    /// The share is judged at the beginning of each bucket. More buckets take more memory.
    pub fn buckets(mut self, buckets: u64) -> Self {
        self.buckets = buckets;
        self
    }

    /// Sets how many requests are sent for each accepted one, in per mille (default: 2000).
    ///
    /// The range is 1100 to 10,000. With 2000, the backend receives up to twice the requests that it accepts, and the throttle
    /// begins when it refuses more than half of them. A lower multiplier spares the backend, and recovers later.
    pub fn multiplier_permille(mut self, permille: u32) -> Self {
        self.multiplier_permille = permille;
        self
    }

    /// Sets the least share of the requests that is sent, in per mille (default: 50).
    ///
    /// The range is 1 to 1000. These requests probe whether the backend has recovered. With 1000, nothing is ever refused.
    pub fn probe_permille(mut self, permille: u32) -> Self {
        self.probe_permille = permille;
        self
    }

    /// Sets the least number of requests in a window for a judgment (default: 20).
    ///
    /// The range is 1 to 1,000,000,000. With fewer requests, all of them are sent.
    pub fn min_requests(mut self, requests: u64) -> Self {
        self.min_requests = requests;
        self
    }

    /// Builds the throttle, which sends everything at first.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if a setting is out of the range that its method states.
    ///
    /// ```
    /// # use flowgate::Throttle;
    /// let error = Throttle::builder().multiplier_permille(1000).build().unwrap_err();
    /// assert_eq!(error.to_string(), "a multiplier in per mille of 1000 is out of range: 1100 to 10000");
    /// ```
    pub fn build(self) -> Result<Throttle, QuotaError> {
        let window_ns = QuotaError::in_range(
            "a window in nanoseconds",
            saturating_nanos(self.window),
            MIN_WINDOW_NS,
            u64::MAX,
        )?;
        let buckets = QuotaError::in_range("a number of buckets", self.buckets, 1, MAX_BUCKETS)?;
        let multiplier_permille = QuotaError::in_range(
            "a multiplier in per mille",
            self.multiplier_permille.into(),
            MIN_MULTIPLIER_PERMILLE,
            MAX_MULTIPLIER_PERMILLE,
        )?;
        let probe_permille = QuotaError::in_range(
            "a share of probes in per mille",
            self.probe_permille.into(),
            1,
            1000,
        )?;
        let min_requests = QuotaError::in_range(
            "a minimum of requests",
            self.min_requests,
            1,
            MAX_MIN_REQUESTS,
        )?;
        let rules = Rules {
            bucket_ns: window_ns.div_ceil(buckets),
            window: buckets,
            recent: buckets.div_ceil(10),
            min_requests,
            multiplier_permille,
            probes: (WHOLE * probe_permille).div_ceil(1000),
        };
        Ok(Throttle {
            record: Record::new(&rules),
            rules,
            clock: self.clock.unwrap_or_default(),
        })
    }
}
