//! The integers that represent a quota.

use super::intervals::Intervals;
use super::layout::Shared;
use crate::algorithm::mul_div::mul_div;
use crate::quota::{Quota, TICKS_END};

/// The largest arrival time, in ticks: limiter times up to twice `u64::MAX` ns, with a burst and a debt after them, stay below
/// it.
const TAT_END: u128 = (1 << 96) + (1 << 94);

/// The number of states that fit into 128 bits beside the flags.
const WIDE_STATE_END: u128 = 1 << 113;

/// Bounds within which every sum of the 64-bit step stays below its 2⁵⁶ ticks. All are counted from the base: now + burst +
/// debt ≤ 2⁵⁵, and the stored state, at most 2⁵⁵, plus a cost, burst + debt.
const NARROW_NOW_TICKS: u64 = 1 << 54;
const NARROW_BURST_TICKS: u128 = 1 << 53;
const NARROW_STATE_TICKS: u128 = 1 << 55;

/// A base that would have to move more often than every second is not worth its cost.
const NARROW_SPAN_NS: u64 = 1 << 30;

/// The values that a decision needs, in ticks. A nanosecond has `ticks_per_ns` ticks, and a unit has `unit_ticks` ticks. A unit
/// is a token, or the part of a token that [`Quota::units_per_token`] sets.
///
/// In a window, `burst_units` is the limit, and there is no debt and no interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    pub(crate) ticks_per_ns: u64,
    pub(crate) unit_ticks: u64,
    pub(crate) units_per_token: u64,
    pub(crate) burst_units: u64,
    pub(crate) debt_units: u64,
    /// Limiter time moves only at the end of an interval of this length; 0: it moves continuously.
    pub(crate) interval_ns: u64,
    /// See [`Intervals`].
    pub(crate) credited_ns: u64,
    /// The length of a window; 0 if there are none.
    pub(crate) window_ns: u64,
    /// The first instant at which a window begins, or an interval ends, if all of them are a whole number of windows or
    /// intervals apart. Otherwise a window begins when a unit is counted while no window is open.
    pub(crate) grid_ns: Option<u64>,
    /// Counts changes of quota; a change of layout does not count.
    pub(crate) epoch: u64,
    /// The instant of the last change of quota; 0: none, or none that must be distinguished from the time before it.
    pub(crate) since_ns: u64,
    /// How far past its base the clock may be in the narrow layout; 0 if that layout cannot be used.
    pub(crate) narrow_span_ns: u64,
    /// The smallest portion that a stripe is issued, in units; 0 if there are no stripes, or too little to share.
    pub(crate) handful_units: u64,
    pub(crate) layout: Layout,
}

/// How the state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In 64 bits, as a time counted from `base_ns`.
    Narrow { base_ns: u64 },
    /// In 128 bits, as a time counted from the clock's origin.
    Wide,
    /// As `Wide`, together with what stripes have been issued.
    Shared,
}

/// The largest number of units that a stripe is issued, of the 2²⁰ units that it could hold. More would hardly be faster.
const MOST_ISSUED_UNITS: u64 = 1 << 16;

impl Parameters {
    /// Neither debt, intervals, windows, changes nor stripes, in the wide layout; the rate and the burst are to be filled in.
    pub(super) const PLAIN: Self = Self {
        ticks_per_ns: 1,
        unit_ticks: 1,
        units_per_token: 1,
        burst_units: 0,
        debt_units: 0,
        interval_ns: 0,
        credited_ns: 0,
        window_ns: 0,
        grid_ns: None,
        epoch: 0,
        since_ns: 0,
        narrow_span_ns: 0,
        handful_units: 0,
        layout: Layout::Wide,
    };

    /// `debt_units` is at most [`Self::most_debt`].
    pub(crate) const fn new(quota: &Quota, debt_units: u64) -> Self {
        let ratio = quota.ratio();
        let mut parameters = Self {
            ticks_per_ns: ratio.units,
            unit_ticks: ratio.nanos,
            units_per_token: quota.scale(),
            burst_units: quota.burst_units(),
            debt_units,
            ..Self::PLAIN
        };
        if parameters.debt_ticks() <= NARROW_BURST_TICKS {
            parameters.narrow_where_it_fits(parameters.burst_ticks());
        }
        parameters
    }

    /// At most `limit` units in a window. A nanosecond has 2 to the power of `count_bits` ticks, so that a time in whole
    /// nanoseconds leaves room for a count.
    pub(crate) const fn for_window(
        limit: u64,
        units_per_token: u64,
        window_ns: u64,
        grid_ns: Option<u64>,
        count_bits: u32,
    ) -> Self {
        let mut parameters = Self {
            ticks_per_ns: 1 << count_bits,
            unit_ticks: 1,
            units_per_token,
            burst_units: limit,
            window_ns,
            grid_ns,
            ..Self::PLAIN
        };
        parameters.narrow_where_it_fits(parameters.ticks_in(window_ns));
        parameters
    }

    /// Chooses the narrow layout if it can hold states up to `ahead` ticks past now.
    const fn narrow_where_it_fits(&mut self, ahead: u128) {
        let span_ns = NARROW_NOW_TICKS / self.ticks_per_ns;
        if ahead <= NARROW_BURST_TICKS && span_ns >= NARROW_SPAN_NS {
            self.narrow_span_ns = span_ns;
            self.layout = Layout::Narrow { base_ns: 0 };
        }
    }

    /// Returns the largest debt, in units, that can be kept together with every instant and burst.
    pub(crate) const fn most_debt(quota: &Quota) -> u64 {
        let most = (TICKS_END - 1) / quota.ratio().nanos as u128;
        if most < u64::MAX as u128 {
            most as u64
        } else {
            u64::MAX
        }
    }

    /// Returns the largest number of units that can be overdrawn.
    pub(crate) const fn most_overdrawn(&self) -> u64 {
        self.burst_units.saturating_add(self.debt_units)
    }

    /// Returns the layout for the state `state` at `now_ns`.
    ///
    /// The base lies before both, with some room for threads that read the clock a while ago. Requests from before the base are
    /// also decided correctly, but not by the 64-bit step. So the base is never before the last change of quota: a time before
    /// that change takes more than the 64-bit step, which then costs other requests nothing.
    pub(crate) const fn layout_for(&self, now_ns: u64, state: u128) -> Layout {
        if self.handful_units > 0 && self.holds_in(Layout::Shared, state) {
            return Layout::Shared;
        }
        let state_ns = state / self.ticks_per_ns as u128;
        let first_ns = if state_ns < now_ns as u128 {
            state_ns as u64
        } else {
            now_ns
        };
        let base_ns = first_ns.saturating_sub(self.narrow_span_ns / 8);
        // A stale time minus the base then wraps to more than the span, and never to less.
        let last_ns = u64::MAX - self.narrow_span_ns;
        let base_ns = if base_ns < last_ns { base_ns } else { last_ns };
        // Time that moves in intervals has no 64-bit step.
        let base_ns = if base_ns < self.since_ns && self.interval_ns == 0 {
            self.since_ns
        } else {
            base_ns
        };
        let narrow = Layout::Narrow { base_ns };
        if base_ns <= last_ns && self.reaches(base_ns, now_ns) && self.holds_in(narrow, state) {
            narrow
        } else {
            Layout::Wide
        }
    }

    /// Returns whether every state is kept in the wide layout.
    pub(crate) const fn is_always_wide(&self) -> bool {
        self.narrow_span_ns == 0 && self.handful_units == 0
    }

    /// Returns whether a narrow layout with this base is still valid at `now_ns`.
    pub(crate) const fn reaches(&self, base_ns: u64, now_ns: u64) -> bool {
        now_ns.saturating_sub(base_ns) < self.narrow_span_ns
    }

    /// Returns whether this layout has room for the state `state`.
    pub(crate) const fn holds(&self, state: u128) -> bool {
        self.holds_in(self.layout, state)
    }

    const fn holds_in(&self, layout: Layout, state: u128) -> bool {
        match layout {
            Layout::Narrow { base_ns } => match state.checked_sub(self.ticks_in(base_ns)) {
                Some(from_base) => from_base <= NARROW_STATE_TICKS,
                None => false,
            },
            Layout::Wide => state < WIDE_STATE_END,
            Layout::Shared => state < Shared::STATE_END,
        }
    }

    /// Returns the parameters for sharing with `stripes` stripes, in `state`.
    ///
    /// Together, the stripes are issued at most 1/8 of the burst, so that the shared state is the last to run out. A portion is
    /// at least one token, and every instant of the clock must leave room for the data that is kept beside it.
    pub(crate) fn shared(mut self, stripes: usize, state: u128) -> Self {
        let most = self.burst_units / 8 / stripes as u64;
        let handful = most.min(MOST_ISSUED_UNITS) / Shared::MOST_HANDFULS;
        let lead = self.ticks_in(self.intervals().lead_ns()) + self.ticks_in(self.window_ns);
        let ahead = 2 * (self.burst_ticks() + self.debt_ticks()) + lead;
        let fits = self.ticks_in(u64::MAX) + ahead < Shared::STATE_END;
        self.handful_units = 0;
        if fits && handful >= self.units_per_token {
            self.handful_units = handful;
            if self.holds_in(Layout::Shared, state) {
                self.layout = Layout::Shared;
            }
        }
        self
    }

    /// Returns the ticks in `ns` nanoseconds.
    pub(crate) const fn ticks_in(&self, ns: u64) -> u128 {
        ns as u128 * self.ticks_per_ns as u128
    }

    /// Returns `state`, or the last instant, if a wait until then must be representable.
    pub(crate) const fn saturated(state: u128) -> u128 {
        if state < TAT_END { state } else { TAT_END }
    }

    pub(crate) const fn burst_ticks(&self) -> u128 {
        self.ticks(self.burst_units)
    }

    pub(crate) const fn debt_ticks(&self) -> u128 {
        self.ticks(self.debt_units)
    }

    /// Returns the cost of a whole token.
    pub(crate) const fn token_ticks(&self) -> u128 {
        self.ticks(self.units_per_token)
    }

    /// Returns the cost of `units` units.
    pub(crate) const fn ticks(&self, units: u64) -> u128 {
        units as u128 * self.unit_ticks as u128
    }

    /// Returns the ticks of these parameters that cost as many tokens as `ticks` of `old` do, rounded up.
    pub(crate) fn tokens_up(&self, old: &Self, ticks: u128) -> u128 {
        let (quotient, is_cut) = mul_div(ticks, self.token_ticks(), old.token_ticks());
        quotient.saturating_add(u128::from(is_cut))
    }

    /// Returns the first instant at which limiter time is `ns` or later.
    pub(crate) const fn next_move_ns(&self, ns: u128) -> u128 {
        if self.interval_ns == 0 || ns == 0 {
            ns
        } else {
            self.intervals().next_move_ns(ns)
        }
    }

    const fn intervals(&self) -> Intervals {
        Intervals {
            interval_ns: self.interval_ns,
            first_end_ns: self.grid_ns,
            credited_ns: self.credited_ns,
        }
    }

    /// Returns a bound: when the clock shows `ns`, no limiter time is later.
    pub(crate) const fn latest_ticks(&self, ns: u64) -> u128 {
        self.ticks_in(ns) + self.ticks_in(self.intervals().lead_ns())
    }

    pub(crate) const fn now_ticks(&self, now_ns: u64) -> u128 {
        if self.interval_ns == 0 {
            self.ticks_in(now_ns)
        } else {
            self.intervals().limiter_ns(now_ns) * self.ticks_per_ns as u128
        }
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;
    use core::time::Duration;

    fn handful(quota: Quota, stripes: usize) -> u64 {
        let debt = quota.burst_units();
        Parameters::new(&quota, debt)
            .shared(stripes, 0)
            .handful_units
    }

    #[test]
    fn c2_stripes_share_an_eighth_of_the_burst_in_handfuls_of_a_token_at_least() {
        let burst = |n| Quota::per_second(1_000).burst(n);
        assert_eq!(
            [127, 128, 255, 256].map(|n| handful(burst(n), 1)),
            [0, 1, 1, 2]
        );
        assert_eq!([511, 512].map(|n| handful(burst(n), 4)), [0, 1]);
    }

    /// What fills and what is owed, twice, has to fit beside the last instant of the clock, in 88 bits.
    #[test]
    fn c4_stripes_share_nothing_where_a_state_would_not_fit() {
        let every = Quota::new(1, Duration::from_nanos(1 << 60)).unwrap();
        assert_ne!(handful(every.burst((1 << 26) - 8), 1), 0);
        assert_eq!(handful(every.burst(1 << 26), 1), 0);
    }
}
