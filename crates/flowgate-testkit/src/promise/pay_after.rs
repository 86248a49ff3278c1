//! A bucket in pay-after mode.

use super::TimedGrant;
use crate::rate::Rate;

/// Returns whether the last of `grants`, which are in order, comes while the bucket has no debt, and leaves at most a
/// debt of one burst.
pub(super) fn must_grant(rate: &Rate, grants: &[TimedGrant]) -> bool {
    let (mut level, mut last_ns) = (rate.full, 0);
    for (index, grant) in grants.iter().enumerate() {
        let ns = i128::from(grant.at_ns - last_ns);
        level = (level + rate.accrual.saturating_mul(ns)).min(rate.full);
        last_ns = grant.at_ns;
        if index + 1 == grants.len() {
            // A request above the deepest debt waits until the bucket holds the rest.
            return level >= rate.cost(grant.n).saturating_sub(rate.full).max(0);
        }
        level -= rate.cost(grant.n);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowgate::Quota;

    #[test]
    fn c2_a_debt_is_paid_first_and_is_a_burst_at_the_most() {
        let rate = Rate::of(Quota::per_second(1_000_000_000).burst(5));
        let at = TimedGrant::new;
        assert!(must_grant(&rate, &[at(0, 10)]));
        assert!(!must_grant(&rate, &[at(0, 11)]));
        assert!(!must_grant(&rate, &[at(0, 8), at(2, 1)]));
        assert!(must_grant(&rate, &[at(0, 8), at(3, 5)]));
        assert!(!must_grant(&rate, &[at(0, 8), at(3, 6)]));
    }
}
