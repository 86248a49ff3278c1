//! The state over a restart: the beginning, end and count of the newest window.

use super::engine::began_ns;
use super::{Kept, MAX_LIMIT, Windows};
use crate::algorithm::fixed_window;
use crate::limiter::state::{Exports, LimiterStateError, Numbers, ranges};
use alloc::vec;
use alloc::vec::Vec;

/// No window ends later that began on a clock; a count fits beside it.
const LAST_NS: u128 = (1 << 65) - 1;

impl Exports for Windows {
    fn export(&self, now_ns: u64) -> Vec<i128> {
        let settings = self.settings.get().map(|settings| *settings.lock());
        let view = self.word.view(now_ns);
        let parameters = &view.parameters;
        let end_ns = view.end_ns();
        let kept = settings.and_then(|settings| settings.kept);
        let stands_in = settings.is_some_and(|settings| settings.stands_in_ns == Some(end_ns));
        let count = fixed_window::count(view.state, parameters.ticks_per_ns.into());
        vec![
            parameters.window_ns.into(),
            parameters.units_per_token.into(),
            began_ns(kept, &view, end_ns) - i128::from(now_ns),
            end_ns as i128 - i128::from(now_ns),
            count as i128,
            stands_in.into(),
        ]
    }

    /// Counts it in the window that it would count in after a change of quota at `now_ns`.
    fn import(&self, taken: Numbers<'_>, now_ns: u64) -> Result<(), LimiterStateError> {
        let [window_ns, units_per_token, began, ends, count, stands_in] = taken.fields([
            ranges::DIVISOR,
            ranges::DIVISOR,
            ranges::TIME,
            ranges::TIME,
            0..=MAX_LIMIT.into(),
            0..=1,
        ])?;
        let theirs = Kept {
            // What ended before the origin is over.
            end_ns: u128::try_from(taken.instant_ns(ends, now_ns)).unwrap_or(0),
            began_ns: taken.instant_ns(began, now_ns),
        };
        let mut settings = self.settings().lock();
        let counted = count as u128 * u128::from(settings.quota.scale());
        let counted = counted.div_ceil(units_per_token as u128);
        let (kept, stands_in_ns) = self.word.reconfigure(|old, state| {
            let now_ns = now_ns.max(old.since_ns);
            let unchanged = (*old, state, (settings.kept, settings.stands_in_ns));
            let until_ns = old.kept_until_ns(theirs, window_ns as u64, now_ns);
            let until_ns = until_ns.filter(|&ns| counted > 0 && ns > u128::from(now_ns));
            let Some(until_ns) = until_ns.map(|ns| ns.min(LAST_NS)) else {
                return unchanged;
            };
            let ns = u128::from(old.ticks_per_ns);
            let own_end_ns = fixed_window::end(state, ns) / ns;
            let own = fixed_window::used(state, old.now_ticks(now_ns), ns);
            let used = (own + counted).min(u128::from(MAX_LIMIT));
            // Not an earlier one than there has been already.
            let end_ns = until_ns.max(own_end_ns);
            let own_began_ns = match settings.kept {
                _ if own == 0 => i128::MIN,
                Some(kept) if kept.end_ns == own_end_ns => kept.began_ns,
                _ => own_end_ns as i128 - i128::from(old.window_ns),
            };
            let kept = Kept {
                end_ns,
                began_ns: theirs.began_ns.max(own_began_ns),
            };
            let own_stands_in = settings.stands_in_ns == Some(own_end_ns) && own > 0;
            let stands_in = stands_in == 1 || own_stands_in;
            let windows = (old.burst_units, old.window_ns);
            let (parameters, state) = settings.restated(windows, old, now_ns, (end_ns, used));
            (parameters, state, (Some(kept), stands_in.then_some(end_ns)))
        });
        settings.kept = kept;
        settings.stands_in_ns = stands_in_ns;
        drop(settings);
        Ok(())
    }
}
