use super::AdaptiveLimit;
use super::algorithm::Adapt;
use super::bounds::Bounds;
use super::fine_limit::FineLimit;
use super::windower::Pace;
use crate::clock::{Clock, clock_setting, saturating_nanos};
use crate::quota::QuotaError;
use core::time::Duration;

/// The largest number of outcomes that a window may wait for. The word of samples has room for more.
const MOST_OUTCOMES: u64 = 1_000_000;

/// Settings of an [`AdaptiveLimit`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`bounds`](Self::bounds) | 1 to 1,000 permits |
/// | [`shortest_window`](Self::shortest_window) | 50 ms |
/// | [`min_outcomes`](Self::min_outcomes) | 100 |
/// | [`clock`](Self::clock) | [`Clock::system`] |
///
/// ```
/// use flowgate::{AdaptiveLimit, FineLimit, Gradient};
///
/// let limit = AdaptiveLimit::builder(Gradient::default())
///     .bounds(FineLimit::one_in(10), FineLimit::whole(200))
///     .build()?;
///
/// let error = AdaptiveLimit::builder(Gradient::default())
///     .bounds(FineLimit::whole(10), FineLimit::whole(5))
///     .build()
///     .unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "a largest limit in 65536ths of a permit of 327680 is out of range: 655360 to 140737488289792",
/// );
/// # drop(limit);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct AdaptiveLimitBuilder<A> {
    algorithm: A,
    min: FineLimit,
    max: FineLimit,
    pace: Pace,
    clock: Option<Clock>,
}

impl<A: Adapt> AdaptiveLimitBuilder<A> {
    pub(super) fn new(algorithm: A) -> Self {
        Self {
            algorithm,
            min: FineLimit::ONE,
            max: FineLimit::whole(1_000),
            pace: Pace {
                shortest_ns: 50_000_000,
                min_outcomes: 100,
                has_merging: true,
                has_growth_guard: true,
                has_epochs: true,
            },
            clock: None,
        }
    }

    /// Sets the smallest and the largest limit (default: 1 to 1,000 permits).
    pub fn bounds(mut self, min: FineLimit, max: FineLimit) -> Self {
        (self.min, self.max) = (min, max);
        self
    }

    /// Sets the shortest window, above zero (default: 50 ms). A window also lasts at least twice the mean latency.
    pub fn shortest_window(mut self, window: Duration) -> Self {
        self.pace.shortest_ns = saturating_nanos(window);
        self
    }

    /// Sets how many outcomes a window waits for, 1 to 1,000,000 (default: 100). An algorithm may need fewer in a slow start.
    ///
    /// The standard error of a mean of exponential latencies is 1/√n of it. The trials of [`Gradient`](crate::Gradient) are made for 100.
    pub fn min_outcomes(mut self, outcomes: u64) -> Self {
        self.pace.min_outcomes = outcomes;
        self
    }

    clock_setting!("for latencies and deadlines");

    /// Discards windows with too few outcomes, to show what merging is for.
    #[doc(hidden)]
    pub fn without_merging(mut self) -> Self {
        self.pace.has_merging = false;
        self
    }

    /// Lets an unused limit grow, to show what the guard is for.
    #[doc(hidden)]
    pub fn without_growth_guard(mut self) -> Self {
        self.pace.has_growth_guard = false;
        self
    }

    /// Counts each overload of a congestion, to show what epochs are for.
    #[doc(hidden)]
    pub fn without_epochs(mut self) -> Self {
        self.pace.has_epochs = false;
        self
    }

    /// Builds the limit, with all permits free.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if the bounds are crossed, the shortest window is zero, or the number of outcomes is not within 1 to
    /// 1,000,000.
    pub fn build(self) -> Result<AdaptiveLimit<A>, QuotaError> {
        let bounds = Bounds::new(self.min, self.max)?;
        let pace = self.pace;
        let what = "a shortest window in nanoseconds";
        QuotaError::in_range(what, pace.shortest_ns, 1, u64::MAX)?;
        let what = "a number of outcomes in a window";
        QuotaError::in_range(what, pace.min_outcomes, 1, MOST_OUTCOMES)?;
        let clock = self.clock.unwrap_or_default();
        Ok(AdaptiveLimit::with(self.algorithm, bounds, pace, clock))
    }
}
