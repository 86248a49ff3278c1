//! Rate and burst of a quota, computed independently of the library under test.

use flowgate::Quota;

/// A quota in the oracle's own units, derived from its public numbers alone.
///
/// A *unit* is what a cost of 1 means: a token, or the part of one that [`Quota::units_per_token`]
/// says. A *grain* is 1/`price` of a unit, so that `accrual` whole grains flow in each nanosecond
/// and nothing is ever rounded.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::Rate;
///
/// // 3 units flow in every 5 ns: with 5 grains per unit, that is 3 grains per nanosecond.
/// let rate = Rate::of(Quota::per_second(600_000_000).burst(5));
/// assert_eq!((rate.accrual, rate.price, rate.full), (3, 5, 25));
/// assert_eq!(rate.wait_ns(rate.cost(2)), 4); // 10 grains, rounded up
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Grains that flow in per nanosecond.
    pub accrual: i128,
    /// Grains per unit.
    pub price: i128,
    /// Grains in a full bucket.
    pub full: i128,
    /// Units in a full bucket.
    pub burst_units: u64,
    /// Units per period: the limit of a window.
    pub limit_units: u128,
    /// Units per token.
    pub scale: u64,
    /// Period of the quota, in nanoseconds.
    pub period_ns: u64,
}

impl Rate {
    /// Returns the rate and burst of `quota`.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::Rate;
    ///
    /// let rate = Rate::of(Quota::per_second(10).units_per_token(1000)?.burst(2));
    /// assert_eq!((rate.limit_units, rate.burst_units, rate.scale), (10_000, 2000, 1000));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn of(quota: Quota) -> Self {
        let period_ns = u64::try_from(quota.period().as_nanos()).unwrap_or(u64::MAX);
        let earned = i128::from(quota.count()) * i128::from(quota.scale());
        let common = greatest_common_divisor(earned, i128::from(period_ns));
        let price = i128::from(period_ns) / common;
        let burst_units = quota.max_burst().saturating_mul(quota.scale());
        Self {
            accrual: earned / common,
            price,
            full: i128::from(burst_units) * price,
            burst_units,
            limit_units: u128::from(quota.count()) * u128::from(quota.scale()),
            scale: quota.scale(),
            period_ns,
        }
    }

    /// Returns the cost of `n` units, in grains.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use flowgate_testkit::Rate;
    /// let rate = Rate::of(Quota::per_second(1).burst(3));
    /// assert_eq!(rate.cost(3), rate.full);
    /// ```
    pub fn cost(&self, n: u64) -> i128 {
        i128::from(n).saturating_mul(self.price)
    }

    /// Returns the cost of a token, in grains.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use flowgate_testkit::Rate;
    /// let rate = Rate::of(Quota::per_second(10).units_per_token(1000)?);
    /// assert_eq!(rate.scale_price(), rate.cost(1000));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn scale_price(&self) -> i128 {
        i128::from(self.scale) * self.price
    }

    /// Returns the nanoseconds until `grains` have flowed in, rounded up; 0 if none are missing.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use flowgate_testkit::Rate;
    /// let rate = Rate::of(Quota::per_second(3));
    /// assert_eq!(rate.wait_ns(rate.cost(1)), 333_333_334);
    /// assert_eq!(rate.wait_ns(0), 0);
    /// ```
    pub fn wait_ns(&self, grains: i128) -> i128 {
        if grains <= 0 {
            0
        } else {
            (grains + self.accrual - 1) / self.accrual
        }
    }
}

pub(crate) fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_in_lowest_terms() {
        let rate = Rate::of(Quota::per_second(600_000_000).burst(5));
        assert_eq!((rate.accrual, rate.price, rate.full), (3, 5, 25));
        assert_eq!(rate.wait_ns(5), 2);
        assert_eq!(rate.wait_ns(6), 2);
        assert_eq!(rate.wait_ns(7), 3);
    }
}
