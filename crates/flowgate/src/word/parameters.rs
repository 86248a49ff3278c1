//! The integers that a quota comes down to.

use crate::quota::{Quota, TICKS_END};

/// The most that any time may be, in ticks: what is left of 128 bits beside the flags, less room for a
/// cost. Instants up to `u64::MAX` ns, a burst and a debt after them, stay below it.
const TAT_END: u128 = (1 << 95) + (1 << 94);

/// Bounds within which every sum of the 64-bit step stays below its 2⁵⁶ ticks, all counted from the
/// base: now + burst + debt ≤ 2⁵⁵, and what is stored, at most 2⁵⁵, plus a cost, burst + debt.
const NARROW_NOW_TICKS: u64 = 1 << 54;
const NARROW_BURST_TICKS: u128 = 1 << 53;
const NARROW_TAT_TICKS: u128 = 1 << 55;

/// A base that would have to move more often than every second is not worth having.
const NARROW_SPAN_NS: u64 = 1 << 30;

/// What a decision needs to know, in ticks of which `ticks_per_ns` make a nanosecond and `unit_ticks`
/// a unit (a token, or the part of it that [`Quota::units_per_token`] names).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    pub(crate) ticks_per_ns: u64,
    pub(crate) unit_ticks: u64,
    pub(crate) units_per_token: u64,
    pub(crate) burst_units: u64,
    pub(crate) debt_units: u64,
    /// Limiter time moves only at multiples of this past `anchor_ns`; 0: it flows.
    pub(crate) interval_ns: u64,
    pub(crate) anchor_ns: u64,
    /// Counts changes of quota; a change of layout is none.
    pub(crate) epoch: u64,
    /// How far past its base the clock may be in the narrow layout; 0 where that cannot be used.
    pub(crate) narrow_span_ns: u64,
    pub(crate) layout: Layout,
}

/// How the state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In 64 bits, as a time counted from `base_ns`.
    Narrow { base_ns: u64 },
    /// In 128 bits, as a time counted from the clock's origin.
    Wide,
}

impl Parameters {
    /// `debt_units` is at most [`Self::most_debt`].
    pub(crate) const fn new(quota: &Quota, debt_units: u64) -> Self {
        let ratio = quota.ratio();
        let mut parameters = Self {
            ticks_per_ns: ratio.units,
            unit_ticks: ratio.nanos,
            units_per_token: quota.scale(),
            burst_units: quota.burst_units(),
            debt_units,
            interval_ns: 0,
            anchor_ns: 0,
            epoch: 0,
            narrow_span_ns: 0,
            layout: Layout::Wide,
        };
        let span_ns = NARROW_NOW_TICKS / parameters.ticks_per_ns;
        if parameters.burst_ticks() <= NARROW_BURST_TICKS
            && parameters.debt_ticks() <= NARROW_BURST_TICKS
            && span_ns >= NARROW_SPAN_NS
        {
            parameters.narrow_span_ns = span_ns;
            parameters.layout = Layout::Narrow { base_ns: 0 };
        }
        parameters
    }

    /// The largest debt, in units, that can be kept beside every instant and burst.
    pub(crate) const fn most_debt(quota: &Quota) -> u64 {
        let most = (TICKS_END - 1) / quota.ratio().nanos as u128;
        if most < u64::MAX as u128 {
            most as u64
        } else {
            u64::MAX
        }
    }

    /// The layout for the state `tat` at `now_ns`.
    ///
    /// The base lies before both, with some room for threads that read the clock a while ago. They
    /// are decided rightly also from before the base, only not by the 64-bit step.
    pub(crate) const fn layout_for(&self, now_ns: u64, tat: u128) -> Layout {
        let tat_ns = tat / self.ticks_per_ns as u128;
        let first_ns = if tat_ns < now_ns as u128 {
            tat_ns as u64
        } else {
            now_ns
        };
        let base_ns = first_ns.saturating_sub(self.narrow_span_ns / 8);
        // A stale time, minus the base, then wraps to more than the span and never to less.
        let last_ns = u64::MAX - self.narrow_span_ns;
        let base_ns = if base_ns < last_ns { base_ns } else { last_ns };
        let narrow = Layout::Narrow { base_ns };
        if self.reaches(base_ns, now_ns) && self.holds_in(narrow, tat) {
            narrow
        } else {
            Layout::Wide
        }
    }

    /// Whether a narrow layout with this base is still good at `now_ns`.
    pub(crate) const fn reaches(&self, base_ns: u64, now_ns: u64) -> bool {
        now_ns.saturating_sub(base_ns) < self.narrow_span_ns
    }

    /// Whether this layout has room for the state `tat`.
    pub(crate) const fn holds(&self, tat: u128) -> bool {
        self.holds_in(self.layout, tat)
    }

    const fn holds_in(&self, layout: Layout, tat: u128) -> bool {
        match layout {
            Layout::Narrow { base_ns } => match tat.checked_sub(self.base_ticks(base_ns)) {
                Some(from_base) => from_base <= NARROW_TAT_TICKS,
                None => false,
            },
            Layout::Wide => tat <= TAT_END,
        }
    }

    /// The base of a narrow layout as a time from the clock's origin.
    pub(crate) const fn base_ticks(&self, base_ns: u64) -> u128 {
        base_ns as u128 * self.ticks_per_ns as u128
    }

    /// `tat`, or the last instant there is, where it has to be told to wait that long.
    pub(crate) const fn saturated(tat: u128) -> u128 {
        if tat < TAT_END { tat } else { TAT_END }
    }

    pub(crate) const fn burst_ticks(&self) -> u128 {
        self.ticks(self.burst_units)
    }

    pub(crate) const fn debt_ticks(&self) -> u128 {
        self.ticks(self.debt_units)
    }

    /// The price of a whole token.
    pub(crate) const fn token_ticks(&self) -> u128 {
        self.ticks(self.units_per_token)
    }

    /// The price of so many units.
    pub(crate) const fn ticks(&self, units: u64) -> u128 {
        units as u128 * self.unit_ticks as u128
    }

    /// The instant that counts as `now_ns`: itself, or the end of the last whole interval.
    pub(crate) const fn limiter_ns(&self, now_ns: u64) -> u64 {
        match now_ns
            .saturating_sub(self.anchor_ns)
            .checked_rem(self.interval_ns)
        {
            Some(rest) if now_ns > self.anchor_ns => now_ns - rest,
            Some(_) | None => now_ns,
        }
    }

    /// The first instant at or after `ns` at which limiter time moves.
    pub(crate) const fn next_move_ns(&self, ns: u128) -> u128 {
        if self.interval_ns == 0 || ns <= self.anchor_ns as u128 {
            return ns;
        }
        let interval = self.interval_ns as u128;
        let anchor = self.anchor_ns as u128;
        (ns - anchor).div_ceil(interval) * interval + anchor
    }

    pub(crate) const fn now_ticks(&self, now_ns: u64) -> u128 {
        self.limiter_ns(now_ns) as u128 * self.ticks_per_ns as u128
    }
}
