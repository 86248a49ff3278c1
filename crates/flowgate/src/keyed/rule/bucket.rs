//! The token bucket: the state is its theoretical arrival time; see [`algorithm::token_bucket`].

use super::super::entry::{CLASS_BITS, MOST_STATE, Reading, TICK_BITS, TICKS_PER_NS};
use super::terms::{MOST_SPAN, scaled};
use super::{Rule, Terms};
use crate::algorithm::token_bucket;
use crate::quota::{Quota, QuotaError};

/// A class is the exponent of a unit's cost, and this many of the binary digits after the first, which is always 1.
const MANTISSA_BITS: u32 = 4;
/// Costs below 2 to the power of this, 1/64 ns, are all in the lowest class.
const LEAST_EXPONENT: u32 = 6;
/// Costs of 2⁶⁹ ticks, 4.5 years, are all in this one.
const MOST_CLASS: u16 = (1 << CLASS_BITS) - 1;

#[derive(Debug)]
pub struct Bucket;

impl Rule for Bucket {
    fn terms(quota: &Quota) -> Result<Terms, QuotaError> {
        let ratio = quota.ratio();
        let ticks = u128::from(ratio.nanos) * u128::from(TICKS_PER_NS);
        // Rounded up: never faster than the quota.
        let unit = ticks.div_ceil(u128::from(ratio.units));
        let most = quota.burst_units();
        match unit.checked_mul(most.into()) {
            Some(span) if span <= MOST_SPAN => Ok(Terms {
                unit,
                most,
                scale: quota.scale(),
                span,
                count_bits: 0,
                reading: Reading::of_table(0),
            }),
            _ => Err(QuotaError::out_of_range(
                "the burst of a keyed limiter at such a rate, in units,",
                most,
                1,
                u64::try_from(MOST_SPAN / unit).unwrap_or(u64::MAX),
            )),
        }
    }

    fn is_sound(terms: &Terms) -> bool {
        let span = terms.unit.checked_mul(terms.most.into());
        let is_fillable = (1..=MOST_SPAN).contains(&terms.span) && span == Some(terms.span);
        is_fillable && terms.count_bits == 0
    }

    #[inline]
    fn take(state: u128, now: u128, n: u64, terms: &Terms) -> Result<u128, u128> {
        token_bucket::take(state, now, terms.cost(n), terms.span)
    }

    fn left(state: u128, now: u128, terms: &Terms) -> u64 {
        let level = token_bucket::level(state, now, terms.span);
        // At most `most`.
        (level / terms.unit) as u64
    }

    fn whole_after(state: u128, now: u128, _: &Terms) -> u128 {
        state.saturating_sub(now)
    }

    fn give_back(state: u128, now: u128, n: u64, terms: &Terms) -> (u128, u64) {
        let taken = state.saturating_sub(now).div_ceil(terms.unit);
        let n = n.min(u64::try_from(taken).unwrap_or(u64::MAX));
        let amount = u128::from(n).saturating_mul(terms.unit);
        (token_bucket::give_back(state, now, amount), n)
    }

    /// It may have been whole but for these.
    fn take_back(state: u128, then: u128, now: u128, n: u64, terms: &Terms) -> u128 {
        let taken = terms.cost(n);
        let missing = then.saturating_add(taken).saturating_sub(now);
        token_bucket::give_back(state, now, taken.min(missing))
    }

    fn restate(state: u128, from: &Terms, to: &Terms, at: u128) -> u128 {
        if state <= at || from.unit == to.unit {
            return state;
        }
        let debt = scaled(state - at, to.unit, from.unit);
        at.saturating_add(debt).min(MOST_STATE)
    }

    fn behind(state: u128, now: u128, ahead: u128, terms: &Terms) -> u128 {
        let ahead = ahead.saturating_mul(terms.unit);
        match ahead {
            0 => state,
            _ => state.max(now).saturating_add(ahead).min(MOST_STATE),
        }
    }

    fn class(terms: &Terms) -> u16 {
        let exponent = terms.unit.max(1).ilog2();
        if exponent < LEAST_EXPONENT {
            return 0;
        }
        let mantissa = terms.unit >> (exponent - MANTISSA_BITS) & ((1 << MANTISSA_BITS) - 1);
        let class = u128::from(exponent - LEAST_EXPONENT) << MANTISSA_BITS | mantissa;
        class.min(MOST_CLASS.into()) as u16
    }

    fn has_class(_: u16, _: &Terms) -> bool {
        true
    }

    /// The least cost in the class, so that a debt is no fewer units than it was.
    fn of_class(class: u16, table: &Terms) -> Terms {
        let exponent = u32::from(class >> MANTISSA_BITS) + LEAST_EXPONENT;
        let mantissa = u128::from(class) & ((1 << MANTISSA_BITS) - 1);
        let unit = match class {
            0 => 1,
            _ => (1 << MANTISSA_BITS | mantissa) << (exponent - MANTISSA_BITS),
        };
        Terms { unit, ..*table }
    }

    fn unknown_until(free: u128, _: &Terms) -> u128 {
        free
    }

    fn to_cell(state: u128, _: &Terms) -> u64 {
        u64::try_from(state.div_ceil(u128::from(TICKS_PER_NS))).unwrap_or(u64::MAX)
    }

    fn free_at(cell: u64) -> u128 {
        match cell {
            // It may have been more.
            u64::MAX => MOST_STATE,
            ns => u128::from(ns) << TICK_BITS,
        }
    }

    fn join(one: u64, other: u64) -> u64 {
        one.max(other)
    }

    fn meet(one: u64, other: u64) -> u64 {
        one.min(other)
    }

    fn from_cell(cell: u64, _: u128, _: &Terms) -> u128 {
        Self::free_at(cell)
    }

    fn carry(state: u128, now: u128, then: u128, _: &Terms) -> u128 {
        match state.saturating_sub(now) {
            0 => 0,
            debt => then.saturating_add(debt).min(MOST_STATE),
        }
    }

    fn carry_cell(cell: u64, now: u128, then: u128) -> u64 {
        match Self::free_at(cell).saturating_sub(now) {
            0 => 0,
            debt => {
                let ns = then.saturating_add(debt).div_ceil(u128::from(TICKS_PER_NS));
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
        }
    }

    /// Nobody knows whose it was, and so whether the change is for it: whichever is later.
    fn restate_cell(cell: u64, from: &Terms, to: &Terms, at: u128) -> u64 {
        let state = Self::free_at(cell);
        let restated = Self::restate(state, from, to, at);
        cell.max(Self::to_cell(restated, to))
    }
}
