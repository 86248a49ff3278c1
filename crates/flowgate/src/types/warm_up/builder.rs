use super::warming::Warming;
use crate::clock::Clock;
use crate::limiter::builder::{Build, Builder};
use crate::quota::{Quota, QuotaError};
use core::time::Duration;

/// Settings of a [`WarmUp`](crate::WarmUp) other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Builder::clock) | [`Clock::system`] |
/// | [`warm_up`](WarmUpBuilder::warm_up) | none: every permit costs the stable interval |
/// | [`cold_factor`](WarmUpBuilder::cold_factor) | 3, as in Guava |
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
///
/// # Errors
///
/// [`build`](Builder::build) returns [`QuotaError`] if the cold factor is 0, or if the warm-up is too long to be kept at this
/// rate. With a cold factor of 3, the longest warm-up is the shorter of two times:
///
/// - 73 years / *c*, where *c* is the numerator of the rate per nanosecond, in lowest terms (1 for 1000/s, 997 for 997/s);
/// - the time of 2³⁷ to 2³⁸ units at the stable rate, but at least 2⁴⁷ ticks.
///
/// For 1000/s that is 4.6 years, by the units. For 100/s it is 73 years.
pub type WarmUpBuilder = Builder<Warming>;

#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) quota: Quota,
    pub(super) warm_up: Duration,
    pub(super) cold_factor: u32,
}

impl Build for Warming {
    type Settings = Settings;

    fn build(settings: Settings, _: &Clock) -> Result<Self, QuotaError> {
        Self::new(settings.quota, settings.warm_up, settings.cold_factor)
    }
}

impl WarmUpBuilder {
    /// Sets the time from cold to the stable rate under load.
    ///
    /// At rest, the limiter takes the same time to get from fully warm to cold.
    pub fn warm_up(self, warm_up: Duration) -> Self {
        self.set(|settings| settings.warm_up = warm_up)
    }

    /// Sets how many stable intervals a permit costs when cold, 1 or more.
    pub fn cold_factor(self, cold_factor: u32) -> Self {
        self.set(|settings| settings.cold_factor = cold_factor)
    }
}
