//! [`Builder`]: what the builders of all limiters have in common.

use super::RateLimiter;
use super::engine::Engine;
use crate::clock::{Clock, clock_setting};
use crate::quota::QuotaError;
use core::fmt;

/// Engines that are built from settings. Sealed.
pub trait Build: Engine + Sized {
    /// All settings but the clock.
    #[doc(hidden)]
    type Settings: Clone + fmt::Debug;

    /// Builds the engine, for a limiter on `clock`.
    #[doc(hidden)]
    fn build(settings: Self::Settings, clock: &Clock) -> Result<Self, QuotaError>;
}

/// Settings of a [`RateLimiter`] other than the default ones.
///
/// You meet it under the names of the limiters: [`TokenBucketBuilder`](crate::TokenBucketBuilder),
/// [`FixedWindowBuilder`](crate::FixedWindowBuilder) and so on. Each of these pages lists its settings with their defaults.
///
/// ```
/// use flowgate::{ManualClock, Refill, TokenBucket};
///
/// let time = ManualClock::new();
/// let limiter = TokenBucket::builder("60/min".parse()?)
///     .clock(&time)
///     .refill(Refill::Interval)
///     .build()?;
/// assert_eq!(limiter.available(), 60);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[must_use = "a builder builds nothing until `build` is called"]
pub struct Builder<E: Build> {
    settings: E::Settings,
    clock: Option<Clock>,
}

impl<E: Build> Builder<E> {
    pub(crate) const fn new(settings: E::Settings) -> Self {
        Self {
            settings,
            clock: None,
        }
    }

    pub(crate) fn set(mut self, change: impl FnOnce(&mut E::Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    clock_setting!("to decide by");

    /// Builds the limiter.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`], which names the value and its range, if a setting is out of range. The builder's own page lists
    /// the ranges.
    pub fn build(self) -> Result<RateLimiter<E>, QuotaError> {
        let clock = self.clock.unwrap_or_default();
        let engine = E::build(self.settings, &clock)?;
        Ok(RateLimiter::over(engine, clock))
    }
}

impl<E: Build> Clone for Builder<E> {
    fn clone(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            clock: self.clock.clone(),
        }
    }
}

impl<E: Build> fmt::Debug for Builder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("settings", &self.settings)
            .field("clock", &self.clock)
            .finish()
    }
}
