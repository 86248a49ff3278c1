//! The state over a restart: the time until the next free time, and how cold the limiter then is.

use super::parameters::Parameters;
use super::warming::Warming;
use crate::algorithm::mul_div::mul_div;
use crate::algorithm::warm_up::{Curve, State};
use crate::clock::saturating_nanos;
use crate::limiter::state::{Exports, LimiterStateError, Needed, Numbers, ranges};
use alloc::vec;
use alloc::vec::Vec;

/// Where the export is on a timeline of its own, in ticks: nothing that is counted from it is before the origin.
const EXPORT: i128 = 1 << 101;

impl Exports for Warming {
    fn export(&self, now_ns: u64) -> Vec<i128> {
        let (parameters, state) = self.cell.view_state();
        let curve = &parameters.curve;
        vec![
            parameters.ticks_per_ns.into(),
            // Whole nanoseconds, as they were set.
            (curve.warm_up_ticks / parameters.ticks_per_ns).into(),
            curve.cold_factor.into(),
            // Each of under 2⁹⁸ ticks.
            state.next_free as i128 - parameters.now(now_ns) as i128,
            state.stored as i128,
        ]
    }

    /// Pays what was taken at the exporter's rate, as after a change of quota.
    fn import(&self, taken: Numbers<'_>, now_ns: u64) -> Result<(), LimiterStateError> {
        let [ticks_per_ns, warm_up_ns, cold_factor, ahead, stored] = taken.fields([
            1..=1 << 32,
            ranges::AMOUNT,
            1..=u32::MAX.into(),
            ranges::TICKS,
            0..=1 << 100,
        ])?;
        let mut settings = self.settings.lock();
        let own_ns = saturating_nanos(settings.warm_up);
        let same = |name, there, here| match there == here {
            true => Ok(()),
            false => Err(LimiterStateError::setting(
                name,
                there,
                Needed::Exactly(here),
            )),
        };
        same("a warm-up in nanoseconds", warm_up_ns as u64, own_ns)?;
        let own_factor = settings.cold_factor.into();
        same("a cold factor", cold_factor as u64, own_factor)?;

        let theirs = Curve {
            unit_ticks: 1,
            // Of the same warm-up at a slower rate than there can be, which is forged: full is then less.
            warm_up_ticks: u64::try_from(warm_up_ns * ticks_per_ns).unwrap_or(u64::MAX),
            cold_factor: cold_factor as u32,
        };
        let exported = State {
            next_free: (EXPORT + ahead) as u128,
            stored: (stored as u128).min(theirs.full()),
        };
        let now = (EXPORT + i128::from(taken.elapsed_ns) * ticks_per_ns) as u128;
        let settled = theirs.settled(exported, now);
        let missing = settled.next_free - now;
        settings.earlier_rates_until_ns = self.cell.reconfigure_state(|parameters, state| {
            let restated = |ticks: u128| {
                let by = u128::from(parameters.ticks_per_ns);
                let (ticks, is_cut) = mul_div(ticks, by, ticks_per_ns as u128);
                ticks.saturating_add(u128::from(is_cut))
            };
            let own = parameters.curve.settled(state, parameters.now(now_ns));
            let stored = restated(settled.stored).min(parameters.curve.full());
            let after = State {
                next_free: own.next_free.saturating_add(restated(missing)),
                // The colder one, unless nothing was taken here.
                stored: match state == parameters.cold() {
                    true => stored,
                    false => stored.max(own.stored),
                },
            };
            let paid_ns = u64::try_from(parameters.ns(after.next_free)).unwrap_or(u64::MAX);
            let epoch = parameters.epoch + 1;
            let parameters = Parameters {
                epoch,
                ..*parameters
            };
            (parameters, after, paid_ns)
        });
        drop(settings);
        Ok(())
    }
}
