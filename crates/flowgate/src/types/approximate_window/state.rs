//! The state over a restart: both counters, and how long ago the newer one began.

use super::engine::{Approximate, carried};
use super::parameters::{LIMIT_END, Parameters, pack, unpack};
use crate::algorithm::approximate_window::{State, Window};
use crate::limiter::state::{Exports, LimiterStateError, Numbers, ranges};
use crate::primitive::Ordering;
use alloc::vec;
use alloc::vec::Vec;

impl Exports for Approximate {
    fn export(&self, now_ns: u64) -> Vec<i128> {
        let (parameters, bits) = self.cell.view();
        let state = unpack(bits);
        vec![
            parameters.window.length_ns.into(),
            parameters.units_per_token.into(),
            i128::from(state.start) - i128::from(now_ns),
            state.previous.into(),
            state.current.into(),
        ]
    }

    /// Imports as after a change of quota. The exporter's windows continue if nothing has been counted here.
    fn import(&self, taken: Numbers<'_>, now_ns: u64) -> Result<(), LimiterStateError> {
        let count = 0..=(LIMIT_END - 1).into();
        let [length_ns, units_per_token, ahead, previous, current] = taken.fields([
            ranges::DIVISOR,
            ranges::DIVISOR,
            ranges::TIME,
            count.clone(),
            count,
        ])?;
        let theirs = Parameters {
            window: Window {
                limit: 0,
                length_ns: length_ns as u64,
            },
            units_per_token: units_per_token as u64,
        };
        let start_ns = taken.instant_ns(ahead, now_ns);
        let since_start_ns = i128::from(now_ns) - start_ns;
        // Counted from its start, which may lie before this clock's origin.
        let at_start = State {
            start: 0,
            previous: previous as u64,
            current: current as u64,
        };
        let since_start_ns = u64::try_from(since_start_ns.max(0)).unwrap_or(u64::MAX);
        let state = at_start.at(since_start_ns, theirs.window.length_ns);
        let start_ns = start_ns + i128::from(state.start);
        let state = State {
            start: u64::try_from(start_ns.max(0)).unwrap_or(u64::MAX),
            ..state
        };
        if state.sum() == 0 {
            return Ok(());
        }
        self.restated_ns
            .fetch_max(now_ns.saturating_add(1), Ordering::AcqRel);
        self.cell.reconfigure(|parameters, bits| {
            let own = unpack(bits).at(now_ns, parameters.window.length_ns);
            let carried = carried(state, (now_ns, now_ns), &theirs, parameters);
            let most = LIMIT_END - 1;
            let both = match own.sum() {
                0 => carried,
                _ => State {
                    // Later is not less strict.
                    start: carried.start.max(own.start),
                    previous: (carried.previous + own.previous).min(most),
                    current: (carried.current + own.current).min(most),
                },
            };
            (*parameters, pack(both), ())
        });
        Ok(())
    }
}
