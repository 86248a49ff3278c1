use super::judge::WHOLE;
use super::{PriorityShedder, Settings};
use crate::clock::{Clock, clock_setting, saturating_nanos};
use crate::quota::QuotaError;
use core::time::Duration;

const MAX_LEVELS: u64 = 1024;
const MAX_MIN_REQUESTS: u64 = 1_000_000;

/// Builder of a [`PriorityShedder`].
///
/// | setting | default |
/// |---|---|
/// | [`window`](Self::window) | 100 ms |
/// | [`target_permille`](Self::target_permille) | 300 |
/// | [`min_requests`](Self::min_requests) | 20 |
/// | [`clock`](Self::clock) | [`Clock::system`] |
///
/// ```
/// use flowgate::PriorityShedder;
/// use std::time::Duration;
///
/// let shedder = PriorityShedder::builder(3).window(Duration::from_millis(200)).build()?;
/// assert_eq!(shedder.levels(), 3);
///
/// let error = PriorityShedder::builder(1).build().unwrap_err();
/// assert_eq!(error.to_string(), "a number of levels of 1 is out of range: 2 to 1024");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct PriorityShedderBuilder {
    levels: u32,
    window: Duration,
    target_permille: u32,
    min_requests: u64,
    clock: Option<Clock>,
}

impl PriorityShedderBuilder {
    pub(super) const fn new(levels: u32) -> Self {
        Self {
            levels,
            window: Duration::from_millis(100),
            target_permille: 300,
            min_requests: 20,
            clock: None,
        }
    }

    /// Sets the shortest window, above zero (default: 100 ms).
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets the share of admitted requests that may be in excess (default: 300 per mille).
    ///
    /// The range is 1 to 1000. A request that waits is in excess, and with a queue a third of the requests may wait for a short time. A
    /// lower target leaves more capacity unused. With 1000, nothing is ever shed.
    pub fn target_permille(mut self, permille: u32) -> Self {
        self.target_permille = permille;
        self
    }

    /// Sets how many requests a window waits for, 1 to 1,000,000 (default: 20).
    ///
    /// If fewer come in ten windows, everything is admitted again.
    pub fn min_requests(mut self, requests: u64) -> Self {
        self.min_requests = requests;
        self
    }

    clock_setting!("that measures the window");

    /// Builds the shedder, which admits everything at first.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if the number of levels is not within 2 to 1024, or if a setting is out of the range that its method
    /// states.
    pub fn build(self) -> Result<PriorityShedder, QuotaError> {
        let levels = QuotaError::in_range("a number of levels", self.levels.into(), 2, MAX_LEVELS)?;
        let window_ns = saturating_nanos(self.window);
        let window_ns = QuotaError::in_range("a window in nanoseconds", window_ns, 1, u64::MAX)?;
        let permille = u64::from(self.target_permille);
        let permille = QuotaError::in_range("a target in per mille", permille, 1, 1000)?;
        let what = "a minimum of requests";
        let min_requests = QuotaError::in_range(what, self.min_requests, 1, MAX_MIN_REQUESTS)?;
        let settings = Settings {
            levels,
            window_ns,
            min_requests,
            target: WHOLE * permille / 1000,
        };
        let clock = self.clock.unwrap_or_default();
        Ok(PriorityShedder::with(settings, clock))
    }
}
