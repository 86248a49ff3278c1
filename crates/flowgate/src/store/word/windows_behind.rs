//! Times before the last change of quota, for rules that count in windows.
//!
//! A change closes a window that is over, and may move the end of an open one. So the word does not hold the count of a window
//! before the change. A caller can bring a time before the change if it read the clock before the change, or if its clock was
//! set back. It is admitted only if both quotas admit it:
//!
//! - the quota before the change, at the time of the caller. It counts the units until the change, and the units that callers
//!   with such a time have taken since.
//! - the current quota, at the change. There the caller counts in the open window, or opens one.
//!
//! ```text
//!             limit 7 per day                      ┊  limit 7 per second
//!   ├──────────────────────────────────────────────┊──┬──┬──┬──▶ time
//!        now: at most 7 in this window, as always  ┊
//!                                                change: at most 7 in the window that begins here
//! ```
//!
//! So in any window of either quota, at most its limit is admitted. A caller that is refused waits until the quota before the
//! change admits it, or until the change. If the current quota does not admit it at the change, the caller waits until that
//! quota does. Nothing is known of times before the previous change: callers with such a time are refused until that change.

use super::past::{Behind, Past};
use super::rule::{FixedWindow, Rule};
use super::{Raw, View};
use crate::algorithm::fixed_window;
use crate::algorithm::mul_div::mul_div;

impl Behind {
    /// Returns how many ticks of the current quota it takes until the quota before the change admits `units`, or does not
    /// count any longer; 0 if it admits them now.
    #[cold]
    #[inline(never)]
    pub(super) fn wait(&self, units: u64) -> u128 {
        self.new.ticks_in(self.admits_at_ns(units) - self.now_ns)
    }

    /// Returns the most units that the quota before the change admits now.
    fn left(&self) -> u64 {
        let old = &self.past.old;
        if self.now_ns < old.since_ns {
            return 0;
        }
        let left = u128::from(self.view_at(self.now_ns).left());
        let [new, old] = [&self.new, old].map(|terms| u128::from(terms.units_per_token));
        let (left, _) = mul_div(left, new, old);
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// Returns what is stored about the time before the change, with `units` more that are admitted now.
    pub(super) fn past_with(&self, units: u64) -> Past {
        let cost = self.past.old.ticks(self.old_units(units));
        let taken = FixedWindow::take(&self.view_at(self.now_ns), cost);
        Past {
            state: taken.unwrap_or(self.past.state),
            ..self.past
        }
    }

    /// Returns the first instant, not before now, at which the quota before the change admits `units`; at most the change.
    fn admits_at_ns(&self, units: u64) -> u64 {
        let (old, units) = (&self.past.old, self.old_units(units));
        let known_ns = self.now_ns.max(old.since_ns);
        if units > old.burst_units {
            return self.new.since_ns;
        }
        let ticks_per_ns = u128::from(old.ticks_per_ns);
        match FixedWindow::take(&self.view_at(known_ns), old.ticks(units)) {
            Ok(_) => known_ns,
            Err(missing) => {
                let at_ns = u128::from(known_ns) + missing.div_ceil(ticks_per_ns);
                // At most the change.
                at_ns.min(self.new.since_ns.into()) as u64
            }
        }
    }

    /// Returns what there was without the change.
    fn view_at(&self, now_ns: u64) -> View<'static> {
        View {
            now: self.past.old.now_ticks(now_ns),
            parameters: self.past.old,
            state: self.past.state,
            now_ns,
            behind: None,
            // It is never committed.
            raw: Raw::Wide {
                word: 0,
                generation: 0,
            },
        }
    }

    /// Returns `units` in units of the quota before the change, rounded up.
    fn old_units(&self, units: u64) -> u64 {
        let [new, old] = [&self.new, &self.past.old].map(|terms| u128::from(terms.units_per_token));
        let (units, is_cut) = mul_div(units.into(), old, new);
        u64::try_from(units.saturating_add(is_cut.into())).unwrap_or(u64::MAX)
    }
}

impl<'a> View<'a> {
    /// Becomes what a caller sees at a time before the last change: the window at the change.
    pub(super) fn step_before_change(&mut self, behind: &'a Behind) {
        let now = (self.now, self.now_ns);
        (self.now, self.now_ns) = (behind.change, behind.new.since_ns);
        self.state = self.window();
        (self.now, self.now_ns) = now;
        self.behind = Some(behind);
    }

    /// Returns how many more units `state` counts in the window that is seen.
    pub(super) fn counted_in(&self, state: u128) -> u64 {
        let ns = u128::from(self.parameters.ticks_per_ns);
        let counted = |state| fixed_window::count(state, ns);
        // Less than 2⁴⁸.
        counted(state).saturating_sub(counted(self.state)) as u64
    }

    /// Returns whether this is a time before the last change.
    pub(crate) fn is_before_change(&self) -> bool {
        self.behind.is_some()
    }

    /// Returns the most units that the quota before the last change admits, if this is a time before that change.
    pub(crate) fn left_before_change(&self) -> u64 {
        self.behind.map_or(u64::MAX, Behind::left)
    }

    /// Returns how many ticks it takes until that quota admits `cost`, or no longer counts; 0 if it admits it now.
    #[inline(always)]
    pub(crate) fn wait_before_change(&self, cost: u128) -> u128 {
        match self.behind {
            None => 0,
            // A unit costs one tick, and there are less than 2⁶⁴.
            Some(behind) => behind.wait(cost as u64),
        }
    }
}
