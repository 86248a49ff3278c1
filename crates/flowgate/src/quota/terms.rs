//! A quota in the numbers that limiters use.

use super::{Burst, Quota, QuotaError, Ratio, ratio};
use core::time::Duration;

impl Quota {
    /// The rate in lowest terms: `units` per `nanos`.
    pub(crate) const fn ratio(&self) -> Ratio {
        let (units, nanos) =
            ratio::lowest_terms(self.count as u128 * self.scale as u128, self.period_ns);
        // `checked` let no more than 2³¹ units through.
        Ratio {
            units: units as u64,
            nanos,
        }
    }

    pub(super) const fn burst_as_given(&self) -> Burst {
        match self.is_burst_set {
            true => Burst::Set(self.burst_tokens),
            false => Burst::Implied(self.burst_tokens),
        }
    }

    /// The burst in units.
    pub(crate) const fn burst_units(&self) -> u64 {
        // `checked` let no product over 64 bits through.
        self.burst_tokens * self.scale
    }

    /// `count` per `period` with this quota's burst, units and measure.
    pub(crate) const fn with_rate(self, count: u64, period: Duration) -> Result<Self, QuotaError> {
        let burst = Burst::Set(self.burst_tokens);
        Self::kept(count, period, burst, self.scale, self.measure)
    }

    /// This quota with a burst of `tokens`, if none was set and that can be kept.
    pub(crate) const fn with_default_burst(self, tokens: Option<u64>) -> Self {
        match (self.burst_as_given(), tokens) {
            (Burst::Implied(_), Some(tokens)) => match self.with_burst(Burst::Set(tokens)) {
                Ok(quota) => quota,
                Err(_) => self,
            },
            _ => self,
        }
    }

    /// Limit in units and length in nanoseconds of the window that this quota describes.
    ///
    /// # Errors
    ///
    /// Returns an error if a burst was set, or if the limit in units is over 64 bits.
    pub(crate) const fn window(&self) -> Result<(u64, u64), QuotaError> {
        if let Burst::Set(burst) = self.burst_as_given() {
            return Err(QuotaError::burst_on_window(burst));
        }
        match self.count.checked_mul(self.scale) {
            Some(limit) => Ok((limit, self.period_ns)),
            None => Err(QuotaError::out_of_range(
                "a limit in units per token",
                self.scale,
                1,
                u64::MAX / self.count,
            )),
        }
    }
}
