//! Which quotas can be kept exactly.

use super::{Burst, Measure, Quota, QuotaError, Reason, TICKS_END, ratio};
use core::time::Duration;

impl Quota {
    /// [`checked`](Self::checked), by a period of any length.
    pub(super) const fn kept(
        count: u64,
        period: Duration,
        burst: Burst,
        scale: u64,
        measure: Measure,
    ) -> Result<Self, QuotaError> {
        match whole_nanos(period) {
            Ok(ns) => QuotaError::wrap(Self::checked(count, ns, burst, scale, measure)),
            Err(reason) => Err(QuotaError::new(reason)),
        }
    }

    /// Every quota is made here, so every quota is in range.
    pub(super) const fn checked(
        count: u64,
        period_ns: u64,
        burst: Burst,
        scale: u64,
        measure: Measure,
    ) -> Result<Self, Reason> {
        if count == 0 {
            return Err(Reason::CountZero);
        }
        if period_ns == 0 {
            return Err(Reason::PeriodZero);
        }
        if scale == 0 || scale > ratio::MAX_SCALE {
            return Err(Reason::ScaleOutOfRange { scale });
        }
        let (units, nanos) = ratio::lowest_terms(count as u128 * scale as u128, period_ns);
        if units > ratio::MAX_UNITS as u128 {
            return Err(Reason::RateTooFine {
                count,
                period_ns,
                scale,
            });
        }
        if nanos > ratio::MAX_NANOS {
            return Err(Reason::RateTooSlow { count, period_ns });
        }
        if burst.tokens() == 0 {
            return Err(Reason::BurstZero);
        }
        let max = greatest_burst(nanos, scale);
        if burst.tokens() > max {
            return Err(Reason::BurstTooLarge {
                burst: burst.tokens() as u128,
                max,
            });
        }
        Ok(Self {
            count,
            period_ns,
            burst_tokens: burst.tokens(),
            scale,
            measure,
            is_burst_set: matches!(burst, Burst::Set(_)),
        })
    }

    pub(super) const fn with_burst(self, burst: Burst) -> Result<Self, Reason> {
        Self::checked(self.count, self.period_ns, burst, self.scale, self.measure)
    }

    /// The largest burst accepted at this rate, in tokens.
    pub(super) const fn greatest_burst(&self) -> u64 {
        greatest_burst(self.ratio().nanos, self.scale)
    }
}

/// The most tokens whose price in ticks, and whose number in units, are in range.
pub(super) const fn greatest_burst(nanos: u64, scale: u64) -> u64 {
    let units = (TICKS_END - 1) / nanos as u128;
    let units = if units > u64::MAX as u128 {
        u64::MAX
    } else {
        units as u64
    };
    units / scale
}

const fn whole_nanos(period: Duration) -> Result<u64, Reason> {
    let ns = period.as_nanos();
    if ns > u64::MAX as u128 {
        return Err(Reason::PeriodTooLong {
            secs: period.as_secs(),
        });
    }
    Ok(ns as u64)
}
