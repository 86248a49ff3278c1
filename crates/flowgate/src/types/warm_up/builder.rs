use super::WarmUp;
use super::warming::Warming;
use crate::clock::Clock;
use crate::quota::{Quota, QuotaError};
use core::time::Duration;

/// Settings of a [`WarmUp`].
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
/// | [`warm_up`](Self::warm_up) | none: every permit costs the stable interval |
/// | [`cold_factor`](Self::cold_factor) | 3, as in Guava |
///
/// ```
/// use flowgate::{ManualClock, WarmUp};
/// use std::time::Duration;
///
/// let limiter = WarmUp::builder("5/s".parse()?)
///     .warm_up(Duration::from_secs(4))
///     .cold_factor(10)
///     .clock(ManualClock::new())
///     .build()?;
/// limiter.try_acquire()?;
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_micros(1_752_500)));
///
/// let error = WarmUp::builder("5/s".parse()?).cold_factor(0).build().unwrap_err();
/// assert_eq!(error.to_string(), "a cold factor of 0 is out of range: 1 to 4294967295");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct WarmUpBuilder {
    quota: Quota,
    clock: Option<Clock>,
    warm_up: Duration,
    cold_factor: u32,
}

impl WarmUpBuilder {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            clock: None,
            warm_up: Duration::ZERO,
            cold_factor: 3,
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

    /// How long it takes, under load, to get from cold to the stable rate; and, at rest, from wholly warm to cold.
    pub fn warm_up(mut self, warm_up: Duration) -> Self {
        self.warm_up = warm_up;
        self
    }

    /// How many times the stable interval a permit costs when the limiter is cold; 1 or more.
    pub fn cold_factor(mut self, cold_factor: u32) -> Self {
        self.cold_factor = cold_factor;
        self
    }

    /// The limiter, cold.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the cold factor is 0, or the warm-up is too long to be kept at this rate. With a cold factor
    /// of 3 the most is 73 years divided by the rate's numerator in lowest terms per nanosecond (1 for 1000/s, 997
    /// for 997/s), or 2³⁷ to 2³⁸ units' worth, but no less than 2⁴⁷ ticks, whichever is shorter:
    /// 4.6 years for 1000/s, by the units, and 73 years for 100/s.
    pub fn build(self) -> Result<WarmUp, QuotaError> {
        let engine = Warming::new(self.quota, self.warm_up, self.cold_factor)?;
        Ok(WarmUp::over(engine, self.clock.unwrap_or_default()))
    }
}
