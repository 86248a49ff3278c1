//! Replacing the quota or the alignment, and what of the count stays.

use super::{Kept, MAX_LIMIT, Settings, Windows, count_bits};
use crate::algorithm::fixed_window;
use crate::quota::{Quota, QuotaError};
use crate::store::word::Parameters;

impl Windows {
    /// Replaces the settings by the result of `change`. Units stay counted until their window has lasted as long as it had to,
    /// and a new window begins.
    pub(super) fn change(
        &self,
        change: impl FnOnce(Settings) -> Settings,
        now_ns: impl Fn() -> u64,
    ) -> Result<(), QuotaError> {
        let mut settings = self.settings().lock();
        let new = change(*settings);
        let (limit, window_ns) = limit_of(&new.quota)?;
        let (kept, rescaled_ns, stands_in_ns) = self.word.reconfigure(|old, state| {
            let ns = u128::from(old.ticks_per_ns);
            let end_ns = fixed_window::end(state, ns) / ns;
            let used = fixed_window::count(state, ns) * u128::from(new.quota.scale());
            let used = used
                .div_ceil(u128::from(old.units_per_token))
                .min(u128::from(MAX_LIMIT));
            let window = Kept {
                end_ns,
                began_ns: match settings.kept {
                    Some(kept) if kept.end_ns == end_ns => kept.began_ns,
                    _ => end_ns as i128 - i128::from(old.window_ns),
                },
            };
            let now_ns = now_ns().max(old.since_ns);
            let windows = new.parameters(limit, window_ns, count_bits(limit));
            let until_ns = windows.kept_until_ns(window, old.window_ns, now_ns);
            let kept = until_ns.filter(|&until_ns| used > 0 && until_ns > u128::from(now_ns));
            let (end_ns, used) = match kept {
                Some(until_ns) => (until_ns, used),
                // Not an earlier one than there has been already.
                None => (windows.window_end_ns(now_ns), 0),
            };
            let (parameters, state) = new.restated((limit, window_ns), old, now_ns, (end_ns, used));
            let kept = kept.map(|end_ns| Kept { end_ns, ..window });
            let is_rescaled = new.quota.scale() != old.units_per_token;
            let rescaled_ns = match is_rescaled {
                true => Some(now_ns),
                false => settings.rescaled_ns,
            };
            // In other units it counts as any other.
            let stood_in = settings.stands_in_ns == Some(window.end_ns) && !is_rescaled;
            let stands_in_ns = kept.filter(|_| stood_in).map(|kept| kept.end_ns);
            (parameters, state, (kept, rescaled_ns, stands_in_ns))
        });
        *settings = Settings {
            kept,
            rescaled_ns,
            stands_in_ns,
            ..new
        };
        drop(settings);
        Ok(())
    }
}

impl Settings {
    /// The parameters of these settings from `now_ns` on, and the state in which `used` are counted until `end_ns`.
    pub(super) fn restated(
        &self,
        (limit, window_ns): (u64, u64),
        old: &Parameters,
        now_ns: u64,
        (end_ns, used): (u128, u128),
    ) -> (Parameters, u128) {
        // Less than 2⁴⁸.
        let most = limit.max(used as u64);
        let parameters = Parameters {
            epoch: old.epoch + 1,
            since_ns: now_ns,
            ..self.parameters(limit, window_ns, count_bits(most))
        };
        let state = end_ns * u128::from(parameters.ticks_per_ns) + used;
        let layout = parameters.layout_for(now_ns, state);
        (
            Parameters {
                layout,
                ..parameters
            },
            state,
        )
    }
}

/// Limit and length of the windows that `quota` describes.
pub(super) fn limit_of(quota: &Quota) -> Result<(u64, u64), QuotaError> {
    let (limit, window_ns) = quota.window()?;
    let limit = QuotaError::in_range("the limit of a fixed window", limit, 1, MAX_LIMIT)?;
    Ok((limit, window_ns))
}

impl Parameters {
    /// When the window that contains `now_ns` and begins with it, or on the grid, ends.
    pub(super) fn window_end_ns(&self, now_ns: u64) -> u128 {
        let (now, window) = (u128::from(now_ns), u128::from(self.window_ns));
        match self.grid_ns.map(u128::from) {
            None => now + window,
            Some(grid) if now < grid => grid,
            Some(grid) => (now - grid) / window * window + grid + window,
        }
    }

    /// The time until which units that were counted in `window`, of `old_ns`, count in these windows; `None`: no longer.
    ///
    /// An open window counts in the window that contains now. No window is opened twice because a grid has moved: units
    /// therefore stay counted until the window has lasted for its time. There is a tolerance for two readings of a wall clock,
    /// which are never equal.
    pub(super) fn kept_until_ns(&self, window: Kept, old_ns: u64, now_ns: u64) -> Option<u128> {
        const TOLERANCE_NS: u64 = 1_000_000_000;
        let is_open = u128::from(now_ns) < window.end_ns;
        let until_ns = match self.grid_ns {
            None if is_open => window.began_ns + i128::from(self.window_ns),
            None => return None,
            Some(grid_ns) => {
                let lasts_ns = old_ns.min(self.window_ns);
                let tolerance_ns = TOLERANCE_NS.min(lasts_ns / 1000);
                let mut least_ns = window.began_ns + i128::from(lasts_ns - tolerance_ns);
                if is_open {
                    least_ns = least_ns.max(i128::from(now_ns) + 1);
                }
                let (grid_ns, window_ns) = (i128::from(grid_ns), i128::from(self.window_ns));
                let windows = (least_ns - grid_ns + window_ns - 1).div_euclid(window_ns);
                grid_ns + windows * window_ns
            }
        };
        u128::try_from(until_ns).ok()
    }
}
