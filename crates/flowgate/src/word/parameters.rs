//! The integers that a quota comes down to.

use crate::quota::{Quota, TICKS_END};

/// The most that any time may be, in ticks: what is left of 128 bits beside the flags, less room for a
/// cost. Instants up to `u64::MAX` ns, a burst and a debt after them, stay below it.
const TAT_END: u128 = (1 << 95) + (1 << 94);

/// Bounds within which every sum of the 64-bit step stays below its 2⁵⁶ ticks:
/// now + burst + debt ≤ 2⁵⁵, and what is stored, at most 2⁵⁵, plus a cost, burst + debt.
const NARROW_NOW_TICKS: u64 = 1 << 54;
const NARROW_BURST_TICKS: u128 = 1 << 53;
const NARROW_TAT_TICKS: u128 = 1 << 55;

/// A 64-bit word that would have to be left within 73 minutes is not worth entering.
const NARROW_LIFE_NS: u64 = 1 << 42;

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
    pub(crate) layout: Layout,
}

/// How the state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In 64 bits, until the clock shows `until_ns`.
    Narrow { until_ns: u64 },
    /// In 128 bits.
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
            layout: Layout::Wide,
        };
        parameters.layout = parameters.layout_at(0);
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

    /// The layout for a state that is entered at `now_ns`.
    pub(crate) const fn layout_at(&self, now_ns: u64) -> Layout {
        let until_ns = NARROW_NOW_TICKS / self.ticks_per_ns;
        let fits = self.burst_ticks() <= NARROW_BURST_TICKS
            && self.debt_ticks() <= NARROW_BURST_TICKS
            && until_ns >= NARROW_LIFE_NS
            && now_ns <= until_ns - NARROW_LIFE_NS;
        if fits {
            Layout::Narrow { until_ns }
        } else {
            Layout::Wide
        }
    }

    /// Whether this layout has room for the state `tat`.
    pub(crate) const fn holds(&self, tat: u128) -> bool {
        match self.layout {
            Layout::Narrow { .. } => tat <= NARROW_TAT_TICKS,
            Layout::Wide => tat <= TAT_END,
        }
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
