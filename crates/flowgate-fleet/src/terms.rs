use flowgate::Quota;
use std::time::Duration;

/// Integers below this one are exact in the store's numbers, which are doubles.
pub(crate) const MOST: u128 = 1 << 53;

/// A quota in the store's integers: one unit is `period` parts, and `count` parts flow back per microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) count: u64,
    pub(crate) period: u64,
    /// Units of a full bucket.
    pub(crate) burst: u64,
}

impl Terms {
    /// Returns the quota in lowest terms, or the largest burst that the store can count exactly at this rate.
    pub(crate) fn of(quota: Quota) -> Result<Self, u64> {
        let scale = u128::from(quota.scale());
        let per_period = u128::from(quota.count()) * scale * 1_000;
        let period_ns = quota.period().as_nanos();
        let common = greatest_common_divisor(per_period, period_ns);
        let (count, period) = (per_period / common, period_ns / common);
        // A debt is at most a full bucket. The store adds one unit to it, or what flows back in a microsecond.
        let most = MOST.saturating_sub(count.max(period)) / period / scale;
        let burst = u128::from(quota.max_burst());
        if burst > most {
            return Err(u64::try_from(most).unwrap_or(u64::MAX));
        }
        let whole = |value: u128| u64::try_from(value).expect("it is below 2^53");
        Ok(Self {
            count: whole(count),
            period: whole(period),
            burst: whole(burst * scale),
        })
    }

    /// Returns by how many units a debt may exceed a full bucket, so that the store still counts it exactly.
    pub(crate) fn room(&self) -> u64 {
        let most = (MOST - u128::from(self.count.max(self.period))) / u128::from(self.period);
        u64::try_from(most).unwrap_or(u64::MAX) - self.burst
    }

    /// Returns the microseconds until `n` units can be taken, with this debt, in parts.
    pub(crate) fn wait_us(&self, debt: u64, n: u64) -> u64 {
        let [debt, n, period, burst, count] =
            [debt, n, self.period, self.burst, self.count].map(u128::from);
        let missing = (debt + n * period).saturating_sub(burst * period);
        u64::try_from(missing.div_ceil(count)).unwrap_or(u64::MAX)
    }

    /// Returns the units that flow back within `time`, rounded up.
    pub(crate) fn flow(&self, time: Duration) -> u128 {
        let parts = time.as_nanos() * u128::from(self.count);
        parts.div_ceil(u128::from(self.period) * 1_000)
    }

    /// Returns the time within which `units` flow back, rounded down.
    pub(crate) fn time_of(&self, units: u128) -> Duration {
        let nanos = units * u128::from(self.period) * 1_000 / u128::from(self.count);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(quota: &str) -> Result<Terms, u64> {
        Terms::of(quota.parse().expect("a quota"))
    }

    #[test]
    fn a_quota_is_in_lowest_terms() {
        let of = |count, period, burst| {
            Ok(Terms {
                count,
                period,
                burst,
            })
        };
        assert_eq!(terms("100000/s burst 10000"), of(1, 10, 10_000));
        assert_eq!(terms("3/day"), of(1, 28_800_000_000, 3));
        // Three per microsecond flow back whole.
        assert_eq!(terms("3000000/s burst 5"), of(3, 1, 5));
    }

    #[test]
    fn a_burst_that_the_store_cannot_count_is_refused_with_the_largest_that_it_can() {
        let of = |burst: u64| terms(&format!("999999937/day burst {burst}"));
        let most = of(1_000_000).unwrap_err();
        assert!(of(most).is_ok());
        assert_eq!(of(most + 1), Err(most));
    }

    #[test]
    fn a_wait_is_rounded_up_to_microseconds() {
        let terms = terms("3000000/s burst 5").expect("it fits");
        assert_eq!(terms.wait_us(5, 1), 1);
        assert_eq!(terms.wait_us(5, 4), 2);
        assert_eq!(terms.wait_us(0, 5), 0);
    }
}
