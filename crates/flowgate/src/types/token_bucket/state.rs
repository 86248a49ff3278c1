//! The state over a restart: how much is missing until the bucket is full.

use super::bucket::{Bucket, Mode};
use crate::algorithm::mul_div::mul_div;
use crate::limiter::state::{Exports, LimiterStateError, Numbers, ranges};
use crate::store::word::{Parameters, Step};
use alloc::vec;
use alloc::vec::Vec;

impl<M: Mode> Exports for Bucket<M> {
    /// Ticks per nanosecond and per token, and the ticks until the bucket is full by a clock that flows.
    fn export(&self, now_ns: u64) -> Vec<i128> {
        let view = self.word.view(now_ns);
        let parameters = &view.parameters;
        let now = parameters.latest_ticks(now_ns);
        vec![
            parameters.ticks_per_ns.into(),
            parameters.token_ticks() as i128,
            // Each of under 2⁹⁸ ticks.
            view.state as i128 - now as i128,
        ]
    }

    /// Takes what is missing by limiter time, as a debt if necessary.
    fn import(&self, taken: Numbers<'_>, now_ns: u64) -> Result<(), LimiterStateError> {
        let [ticks_per_ns, token_ticks, ahead] =
            taken.fields([1..=1 << 32, 1..=1 << 96, ranges::TICKS])?;
        self.word.update(now_ns, |view| {
            let parameters = &view.parameters;
            // Limiter time stands still since its last interval ended. Both are less than 2⁶⁵ ns.
            let stands_for = parameters.latest_ticks(now_ns).saturating_sub(view.now);
            let stands_for_ns = (stands_for / u128::from(parameters.ticks_per_ns)) as i128;
            let flowed_ns = i128::from(taken.elapsed_ns) - stands_for_ns;
            let missing = ahead - flowed_ns * ticks_per_ns;
            if missing <= 0 {
                return Step::Stay(());
            }
            let (missing, is_cut) = mul_div(
                missing as u128,
                parameters.token_ticks(),
                token_ticks as u128,
            );
            let missing = missing.saturating_add(u128::from(is_cut));
            let tat = view.state.max(view.now).saturating_add(missing);
            Step::Move(Parameters::saturated(tat), ())
        });
        Ok(())
    }
}
