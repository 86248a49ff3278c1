//! The state over a restart: for each bucket, how much is missing until it is full.

use super::engine::Dual;
use crate::algorithm::dual_token_bucket::{Bucket, State};
use crate::algorithm::mul_div::mul_div;
use crate::limiter::state::{Exports, LimiterStateError, Numbers, ranges};
use alloc::vec::Vec;

impl Exports for Dual {
    /// For each bucket: its ticks per nanosecond (0: there is no such quota), its ticks per token, and the ticks until it is
    /// full.
    fn export(&self, now_ns: u64) -> Vec<i128> {
        let (parameters, state) = self.cell.view_state();
        let exported = |index: usize| {
            let bucket = &parameters.buckets[index];
            let token_ticks =
                u128::from(bucket.unit_ticks) * u128::from(parameters.units_per_token);
            // Each of under 2⁹⁸ ticks.
            let ahead = state.0[index] as i128 - bucket.ticks_in(now_ns.into()) as i128;
            [bucket.ticks_per_ns.into(), token_ticks as i128, ahead]
        };
        [exported(0), exported(1)].concat()
    }

    fn import(&self, taken: Numbers<'_>, now_ns: u64) -> Result<(), LimiterStateError> {
        const TICKS_PER_NS: core::ops::RangeInclusive<i128> = 0..=1 << 32;
        const TOKEN_TICKS: core::ops::RangeInclusive<i128> = 0..=1 << 96;
        let fields = taken.fields([
            1..=1 << 32,
            1..=1 << 96,
            ranges::TICKS,
            TICKS_PER_NS,
            TOKEN_TICKS,
            ranges::TICKS,
        ])?;
        self.cell.update_state(|parameters, state| {
            let now_ns = now_ns.max(parameters.since_ns);
            let taken_from = |index: usize| {
                let bucket = &parameters.buckets[index];
                let theirs = &fields[3 * index..];
                let [ticks_per_ns, token_ticks, ahead] = [theirs[0], theirs[1], theirs[2]];
                let missing = ahead - i128::from(taken.elapsed_ns) * ticks_per_ns;
                if bucket.is_none() || token_ticks == 0 || missing <= 0 {
                    return state.0[index];
                }
                let own = u128::from(bucket.unit_ticks) * u128::from(parameters.units_per_token);
                let (missing, is_cut) = mul_div(missing as u128, own, token_ticks as u128);
                let missing = missing.saturating_add(u128::from(is_cut));
                let tat = state.0[index].max(bucket.ticks_in(now_ns.into()));
                tat.saturating_add(missing).min(last(bucket))
            };
            (Some(State([taken_from(0), taken_from(1)])), ())
        });
        Ok(())
    }
}

/// No bucket is full later that has been empty on a clock.
fn last(bucket: &Bucket) -> u128 {
    bucket.ticks_in(u64::MAX.into()) + bucket.burst_ticks()
}
