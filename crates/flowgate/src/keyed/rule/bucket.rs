//! The token bucket: the state is its theoretical arrival time; see [`algorithm::token_bucket`].
//!
//! # In the sketch
//!
//! An instant alone does not determine a debt. It is a debt in the terms in which a key left it, so a cell contains these terms
//! too.
//!
//! ```text
//!  63                               13   12     11    10   9       0
//! ┌───────────────────────────────────┬──────┬──────┬─────┬─────────┐
//! │ full again, in steps of 8.2 µs    │parity│table │ own │  class  │
//! └───────────────────────────────────┴──────┴──────┴─────┴─────────┘
//! ```
//!
//! `table` and `own` mark whether keys in the table's terms and keys with per-key terms have left something. Both are possible.
//! `class` is the lowest [class](Rule::class) of the per-key terms, and therefore the lowest cost of a unit. The instant then means
//! the largest number of units. For the table's terms, `parity` marks the generation: this one or the one before.

use super::super::entry::{CLASS_BITS, MOST_STATE, Reading, TICKS_PER_NS};
use super::side::Side;
use super::terms::{MOST_SPAN, scaled, scaled_down};
use super::{Change, Rule, Terms};
use crate::algorithm::token_bucket;
use crate::quota::{Quota, QuotaError};

/// A class has the exponent of a unit's cost, and this many binary digits after the first, which is always 1.
const MANTISSA_BITS: u32 = 4;
/// Costs below 2 to the power of this number, which is 1/64 ns, are all in the lowest class.
const LEAST_EXPONENT: u32 = 6;
/// Costs of at least 2⁶⁹ ticks, 4.5 years, are all in this class.
const MOST_CLASS: u16 = (1 << CLASS_BITS) - 1;

/// Ticks in a step of a cell's instant.
const STEP_BITS: u32 = 25;
const OWN: u64 = 1 << CLASS_BITS;
const TABLE: u64 = OWN << 1;
const PARITY: u64 = OWN << 2;
const INSTANT_SHIFT: u32 = CLASS_BITS + 3;
const MOST_STEPS: u64 = u64::MAX >> INSTANT_SHIFT;

#[derive(Debug)]
pub struct Bucket;

/// Returns a cell's instant, rounded up, in the bits of the cell.
fn instant(state: u128) -> u64 {
    let steps = state.div_ceil(1 << STEP_BITS).min(MOST_STEPS.into());
    (steps as u64) << INSTANT_SHIFT
}

/// Returns when a cell expires.
fn free_at(cell: u64) -> u128 {
    match cell >> INSTANT_SHIFT {
        // The instant may have been later.
        MOST_STEPS => MOST_STATE,
        steps => u128::from(steps) << STEP_BITS,
    }
}

/// Returns the parity of the generation, in the bits of a cell.
fn parity(terms: &Terms) -> u64 {
    PARITY * u64::from(terms.reading.is_odd())
}

/// Returns a cell with its class, or with the largest class if no key with per-key terms has left anything.
fn cell(instant: u64, marks: u64, class: u64) -> u64 {
    let class = match marks & OWN {
        0 => MOST_CLASS.into(),
        _ => class,
    };
    match marks & (OWN | TABLE) {
        0 => 0,
        _ => instant | marks | class,
    }
}

fn parts(cell: u64) -> (u64, u64, u64) {
    let class = cell & u64::from(MOST_CLASS);
    let marks = cell & (OWN | TABLE | PARITY);
    (
        cell & !(OWN | TABLE | PARITY | u64::from(MOST_CLASS)),
        marks,
        class,
    )
}

/// Returns what a bucket owes at `change`, as seen at `now` before it. Units that flowed in between are still owed, and the burst
/// has not yet grown.
fn owed_before(state: u128, now: u128, change: &Change) -> u128 {
    let flows_in = state.min(change.at).saturating_sub(now);
    let owed = state.max(change.at) + scaled(flows_in, change.to.unit, change.from.unit);
    owed + growth(change)
}

/// Returns by how much the burst grows, in ticks of the new terms.
fn growth(Change { from, to, .. }: &Change) -> u128 {
    u128::from(to.most.saturating_sub(from.most)) * to.unit
}

/// Returns the state after `n` more units, taken at a `now` before `change`.
fn after_before(state: u128, now: u128, n: u128, change: &Change) -> u128 {
    let Change { from, to, at } = change;
    let at_most = state.max(*at).saturating_add(n.saturating_mul(to.unit));
    if state > *at {
        return at_most.min(MOST_STATE);
    }
    // The debt is repaid at the old rate until the change, and at the new one from then on.
    let old = state.max(now).saturating_add(n.saturating_mul(from.unit));
    Bucket::restate(old, from, to, *at)
        .min(at_most)
        .min(MOST_STATE)
}

/// Returns the bucket, whose times can be any ticks.
fn side(terms: &Terms) -> Side {
    Side {
        unit: terms.unit,
        depth: terms.span,
        grain: 0,
    }
}

impl Rule for Bucket {
    type Quota = Quota;
    const FLOWS: bool = true;
    const HAS_PRICE: bool = true;

    fn terms(quota: &Quota) -> Result<Terms, QuotaError> {
        let ratio = quota.ratio();
        let ticks = u128::from(ratio.nanos) * u128::from(TICKS_PER_NS);
        // The cost is rounded up, so the rate is never faster than the quota.
        let unit = ticks.div_ceil(u128::from(ratio.units));
        let most = quota.burst_units();
        let what = "the burst of a keyed limiter at such a rate, in units,";
        let largest = u64::try_from(MOST_SPAN / unit).unwrap_or(u64::MAX);
        QuotaError::in_range(what, most, 1, largest)?;
        Ok(Terms {
            unit,
            most,
            scale: quota.scale(),
            span: unit * u128::from(most),
            count_bits: 0,
            reading: Reading::of_table(0),
        })
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

    fn take_before(state: u128, now: u128, n: u64, change: &Change) -> Result<u128, u128> {
        let Change { from, to, at } = change;
        let owed = owed_before(state, now, change);
        if token_bucket::take(owed, *at, to.cost(n), to.span).is_ok() {
            return Ok(after_before(state, now, n.into(), change));
        }
        // This can flow in after it was taken: everything except what is owed at the change.
        let owed = state.max(*at) - at + to.cost(n);
        Err(match to.span.checked_sub(owed) {
            Some(room) => match room.checked_sub(growth(change)) {
                Some(room) => {
                    let flows_in = scaled_down(room, from.unit, to.unit);
                    state.min(*at).saturating_sub(flows_in).saturating_sub(now)
                }
                // The request has to wait until the burst grows.
                None => at - now,
            },
            None => at - now + (owed - to.span),
        })
    }

    fn left_before(state: u128, now: u128, change: &Change) -> u64 {
        Self::left(owed_before(state, now, change), change.at, &change.to)
    }

    fn left(state: u128, now: u128, terms: &Terms) -> u64 {
        // The number is at most `most`.
        side(terms).left(state, now) as u64
    }

    fn whole_after(state: u128, now: u128, _: &Terms) -> u128 {
        state.saturating_sub(now)
    }

    fn give_back(state: u128, now: u128, n: u64, terms: &Terms) -> (u128, u64) {
        side(terms).give_back(state, now, n)
    }

    fn take_back(state: u128, then: u128, now: u128, n: u64, terms: &Terms) -> u128 {
        side(terms).take_back(state, then, now, n)
    }

    fn restate(state: u128, from: &Terms, to: &Terms, at: u128) -> u128 {
        let restated = side(to).restated(&side(from), state, at);
        restated.min(MOST_STATE)
    }

    fn limited(state: u128, at: u128, most: u64, terms: &Terms) -> u128 {
        let owed = terms.unit.saturating_mul(most.into());
        state.min(at.saturating_add(owed))
    }

    fn behind(state: u128, now: u128, ahead: u128, terms: &Terms) -> u128 {
        match ahead {
            0 => state,
            _ => side(terms).after(state, now, ahead).min(MOST_STATE),
        }
    }

    fn behind_before(state: u128, now: u128, ahead: u128, change: &Change) -> u128 {
        match ahead {
            0 => state,
            _ => after_before(state, now, ahead, change),
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

    /// Returns the lowest cost in the class, so that a debt is at least as many units as before.
    fn of_class(class: u16, table: &Terms) -> Terms {
        let exponent = u32::from(class >> MANTISSA_BITS) + LEAST_EXPONENT;
        let mantissa = u128::from(class) & ((1 << MANTISSA_BITS) - 1);
        let unit = match class {
            0 => 1,
            _ => (1 << MANTISSA_BITS | mantissa) << (exponent - MANTISSA_BITS),
        };
        Terms { unit, ..*table }
    }

    fn unknown_until(state: u128, free: u128, _: &Terms) -> u128 {
        state.max(free)
    }

    fn to_cell(state: u128, terms: &Terms) -> u64 {
        let (marks, class) = match terms.reading.is_own() {
            true => (OWN, terms.reading.class()),
            false => (TABLE | parity(terms), 0),
        };
        match state {
            0 => 0,
            _ => cell(instant(state), marks, class.into()),
        }
    }

    fn free_at(cell: u64, _: &Terms) -> u128 {
        free_at(cell)
    }

    fn is_own(cell: u64) -> bool {
        cell & OWN != 0
    }

    fn is_current(cell: u64, table: &Terms) -> bool {
        cell & TABLE == 0 || cell & PARITY == parity(table)
    }

    /// What keys left in per-key terms stays the same.
    fn updated(left: u64, change: &Change, newest: u128) -> u64 {
        if Self::is_current(left, &change.to) {
            return left;
        }
        let (old, marks, class) = parts(left);
        let restated = instant(change.restated::<Self>(free_at(left), newest));
        let instant = match marks & OWN {
            0 => restated,
            _ => restated.max(old),
        };
        cell(instant, marks & !PARITY | parity(&change.to), class)
    }

    fn join(one: u64, other: u64, _: &Terms) -> u64 {
        if one == 0 || other == 0 {
            return one | other;
        }
        let (one, other) = (parts(one), parts(other));
        cell(one.0.max(other.0), one.1 | other.1, one.2.min(other.2))
    }

    /// A key has left the same in both cells. It has therefore left nothing in terms that are not in both.
    fn meet(one: u64, other: u64, _: &Terms) -> u64 {
        let (one, other) = (parts(one), parts(other));
        cell(one.0.min(other.0), one.1 & other.1, one.2.max(other.2))
    }

    fn is_in(cell: u64, terms: &Terms) -> bool {
        match terms.reading.is_own() {
            true => cell & TABLE == 0 && parts(cell).2 == u64::from(terms.reading.class()),
            false => cell & OWN == 0,
        }
    }

    fn from_cell(cell: u64, at: u128, terms: &Terms, table: &Terms) -> u128 {
        let free = free_at(cell);
        let (_, marks, class) = parts(cell);
        let mut state = 0;
        if marks & TABLE != 0 {
            state = match terms.reading.is_own() {
                true => Self::restate(free, table, terms, at),
                false => free,
            };
        }
        if marks & OWN != 0 {
            let is_same = terms.reading.is_own() && class == u64::from(terms.reading.class());
            state = state.max(match is_same {
                true => free,
                // A class has ten bits.
                false => Self::restate(free, &Self::of_class(class as u16, table), terms, at),
            });
        }
        state
    }

    fn carry(state: u128, now: u128, then: u128, terms: &Terms) -> u128 {
        side(terms).carried(state, now, then).min(MOST_STATE)
    }

    fn carry_cell(left: u64, now: u128, then: u128, _: &Terms) -> u64 {
        let (_, marks, class) = parts(left);
        match free_at(left).saturating_sub(now) {
            0 => 0,
            debt => cell(instant(then.saturating_add(debt)), marks, class),
        }
    }
}
