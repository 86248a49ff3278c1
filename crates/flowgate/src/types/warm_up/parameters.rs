//! The integers that are computed from a quota and a warm-up, and the bits of the state.
//!
//! ```text
//!  111 ·························· 48 47 ················ 0
//!  next free time, ticks since base  stored, in grains
//! ```
//!
//! The next free time is exact. If it gets further from the base than 64 bits hold, the base moves after it. That is a change
//! of parameters like any other, and loses nothing.
//!
//! A grain of the store is the least power of two with which a full store has less than 2⁴⁸ grains. It is 1, and so exact, for
//! a cold factor of 3 and a warm-up of up to 39 hours / *c*, where *c* is the numerator of the rate per nanosecond, in lowest
//! terms. For other settings, the store is rounded up, toward waiting, by less than a grain for each grant. A quota for which
//! that would be over 1/1024 of a unit is refused.

use crate::algorithm::warm_up::{Curve, State};
use crate::clock::saturating_nanos;
use crate::quota::{Quota, QuotaError};
use crate::store::cell;
use crate::verdict::Denied;
use core::time::Duration;

/// The number of words for the parameters.
pub(super) const WORDS: usize = 8;

const STORED_BITS: u32 = 48;
const STORED_MAX: u64 = (1 << STORED_BITS) - 1;
/// The largest part of a unit that a grain may be, as a negative power of two.
const PARTS_PER_UNIT: u32 = 10;
/// How far before the next free time a base is set, in ticks.
const BASE_LEAD: u64 = 1 << 62;

#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub(super) curve: Curve,
    pub(super) ticks_per_ns: u64,
    pub(super) units_per_token: u64,
    /// The most units of one request.
    pub(super) burst_units: u64,
    /// The base from which the next free time is counted.
    pub(super) base_ns: u64,
    /// The grain of the store, as a power of two.
    pub(super) grain: u32,
    /// Counts the changes that make older receipts worthless.
    pub(super) epoch: u64,
}

impl cell::Parameters<WORDS> for Parameters {
    #[inline(always)]
    fn to_words(&self) -> [u64; WORDS] {
        [
            self.curve.unit_ticks,
            self.curve.warm_up_ticks,
            (self.curve.cold_factor as u64) << 32 | self.grain as u64,
            self.ticks_per_ns,
            self.units_per_token,
            self.burst_units,
            self.base_ns,
            self.epoch,
        ]
    }

    #[inline(always)]
    fn from_words(words: [u64; WORDS]) -> Self {
        let [
            unit_ticks,
            warm_up_ticks,
            cold_factor_and_grain,
            ticks_per_ns,
            units_per_token,
            burst_units,
            base_ns,
            epoch,
        ] = words;
        Self {
            curve: Curve {
                unit_ticks,
                warm_up_ticks,
                cold_factor: (cold_factor_and_grain >> 32) as u32,
            },
            ticks_per_ns,
            units_per_token,
            burst_units,
            base_ns,
            grain: cold_factor_and_grain as u32,
            epoch,
        }
    }
}

impl cell::MovingBase<WORDS> for Parameters {
    type State = State;

    #[inline(always)]
    fn unpack(&self, word: u128) -> State {
        let grains = word & u128::from(STORED_MAX);
        State {
            next_free: self.base() + (word >> STORED_BITS),
            stored: match self.grain {
                0 => grains,
                grain => (grains << grain).min(self.curve.full()),
            },
        }
    }

    #[inline(always)]
    fn pack(&self, state: State) -> Option<u128> {
        let from_base = state.next_free.checked_sub(self.base())?;
        let from_base = u64::try_from(from_base).ok()?;
        let grains = match self.grain {
            0 => state.stored,
            grain => (state.stored + ((1 << grain) - 1)) >> grain,
        };
        Some(u128::from(from_base) << STORED_BITS | grains)
    }

    #[inline(always)]
    fn take(&self, state: State, now_ns: u64, n: u64) -> Result<Option<State>, Denied> {
        if n == 0 {
            return Ok(None);
        }
        if n > self.burst_units {
            return Err(self.never(n));
        }
        match self.curve.take(state, self.now(now_ns), n) {
            Ok(state) => Ok(Some(state)),
            Err(missing) => Err(Denied::later(missing, self.ticks_per_ns)),
        }
    }

    fn rebased(&self, state: State) -> (Self, u128) {
        // No clock gets to what is past its last nanosecond.
        let end = u128::from(self.ticks_per_ns) << 64;
        let state = State {
            next_free: state.next_free.min(end),
            ..state
        };
        let base_ns = (state.next_free / u128::from(self.ticks_per_ns))
            .saturating_sub(u128::from(BASE_LEAD / self.ticks_per_ns));
        let rebased = Self {
            // At most 2⁶⁴ less the lead.
            base_ns: base_ns as u64,
            ..*self
        };
        let bits = rebased.pack(state);
        debug_assert!(bits.is_some(), "the base was laid for {state:?}");
        (rebased, bits.unwrap_or(u128::MAX >> 16))
    }
}

impl Parameters {
    /// # Errors
    ///
    /// If the cold factor or the warm-up is out of range.
    pub(super) fn new(
        quota: &Quota,
        warm_up: Duration,
        cold_factor: u32,
    ) -> Result<Self, QuotaError> {
        QuotaError::in_range("a cold factor", cold_factor.into(), 1, u32::MAX.into())?;
        let ratio = quota.ratio();
        let mut curve = Curve {
            unit_ticks: ratio.nanos,
            warm_up_ticks: 0,
            cold_factor,
        };
        let most_ns = most_warm_up_ticks(&curve) / ratio.units;
        let warm_up_ns = saturating_nanos(warm_up);
        QuotaError::in_range("a warm-up in nanoseconds", warm_up_ns, 0, most_ns)?;
        curve.warm_up_ticks = warm_up_ns * ratio.units;
        Ok(Self {
            curve,
            ticks_per_ns: ratio.units,
            units_per_token: quota.scale(),
            burst_units: quota.burst_units(),
            base_ns: 0,
            grain: grain_for(curve.full()),
            epoch: 0,
        })
    }

    /// Free now and always, and as cold as possible.
    pub(super) fn cold(&self) -> State {
        State {
            next_free: 0,
            stored: self.curve.full(),
        }
    }

    pub(super) fn now(&self, now_ns: u64) -> u128 {
        u128::from(now_ns) * u128::from(self.ticks_per_ns)
    }

    /// The first instant at or after `ticks`, in whole nanoseconds.
    pub(super) fn ns(&self, ticks: u128) -> u128 {
        ticks.div_ceil(u128::from(self.ticks_per_ns))
    }

    /// `state` under `old`, in the ticks of these parameters: the same instant, and the same fraction stored.
    pub(super) fn restated(&self, old: &Self, state: State) -> State {
        let rescaled = |ticks: u128| {
            // Under 2⁹⁶ ticks times 2³¹.
            (ticks * u128::from(self.ticks_per_ns)).div_ceil(u128::from(old.ticks_per_ns))
        };
        State {
            next_free: rescaled(state.next_free),
            stored: rescaled(state.stored).min(self.curve.full()),
        }
    }

    fn base(&self) -> u128 {
        u128::from(self.base_ns) * u128::from(self.ticks_per_ns)
    }
}

/// The longest warm-up, in ticks, that can be kept to 1/1024 of a unit.
fn most_warm_up_ticks(curve: &Curve) -> u64 {
    let unit = u128::from(curve.unit_ticks) * u128::from(curve.stored_per_tick());
    let grain = (unit >> PARTS_PER_UNIT).checked_ilog2().unwrap_or(0);
    // A longer one than 2⁶² is too long for other reasons.
    let full = u128::from(STORED_MAX) << grain.min(64);
    let most = u64::try_from(full / u128::from(curve.gained_per_tick())).unwrap_or(u64::MAX);
    most.min(Curve::most_warm_up_ticks(curve.cold_factor))
}

/// The least that leaves no more than [`STORED_MAX`] of `full`.
fn grain_for(full: u128) -> u32 {
    let bits = u128::BITS - full.leading_zeros();
    let grain = bits.saturating_sub(STORED_BITS);
    if full > u128::from(STORED_MAX) << grain {
        grain + 1
    } else {
        grain
    }
}
