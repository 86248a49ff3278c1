use super::SlidingWindow;
use super::log::Log;
use crate::clock::Clock;
use crate::quota::{Quota, QuotaError};

/// Settings of a [`SlidingWindow`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
/// | [`max_limit`](Self::max_limit) | the quota's limit |
///
/// ```
/// use flowgate::{ManualClock, SlidingWindow};
///
/// let limiter = SlidingWindow::builder("100/min".parse()?)
///     .clock(ManualClock::new())
///     .max_limit(1_000)
///     .build()?;
/// assert_eq!(limiter.available(), 100);
/// limiter.set_quota("1000/min".parse()?)?;
/// assert_eq!(limiter.available(), 1_000);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct SlidingWindowBuilder {
    quota: Quota,
    clock: Option<Clock>,
    max_limit: Option<u64>,
}

impl SlidingWindowBuilder {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            clock: None,
            max_limit: None,
        }
    }

    /// The clock to decide by.
    ///
    /// Without the feature `std` there is no default: a builder without a clock gets a manual one that
    /// stands at the origin.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// The largest limit, in units, that [`set_quota`](SlidingWindow::set_quota) may ever set: what memory is
    /// [taken for](SlidingWindow#memory).
    pub fn max_limit(mut self, units: u64) -> Self {
        self.max_limit = Some(units);
        self
    }

    /// The limiter.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the quota sets a burst, which a window does not have; if its limit is above the largest limit;
    /// or if that is over 2²⁶ − 2 units: the ring would take more than 1 GiB.
    ///
    /// ```
    /// # use flowgate::SlidingWindow;
    /// let error = SlidingWindow::builder("1G/s".parse()?).build().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "a limit of 1000000000 takes 17179869184 bytes to remember; it must be at most 67108862, \
    ///      which takes 1073741824",
    /// );
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn build(self) -> Result<SlidingWindow, QuotaError> {
        let engine = Log::new(self.quota, self.max_limit)?;
        Ok(SlidingWindow::over(engine, self.clock.unwrap_or_default()))
    }
}
