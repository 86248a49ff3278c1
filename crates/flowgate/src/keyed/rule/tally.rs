//! What the sketch keeps of a window, in 64 bits: when it ends, and how many units are counted in it. Both are rounded up.
//!
//! ```text
//!  63                                  14 13        8 7        0
//! ┌──────────────────────────────────────┬───────────┬──────────┐
//! │        end, in steps of 16.4 µs      │ exponent  │ mantissa │
//! └──────────────────────────────────────┴───────────┴──────────┘
//! ```
//!
//! The count is a number of units and not a share of a limit, so it means the same with every limit. It is exact up to 511, and at
//! most 1/256 too large above that. A larger count has a larger code, so the codes are compared instead of the counts. A count of
//! [`u64::MAX`] means an unknown number: the key has used everything.

use super::super::entry::MOST_STATE;

const EXPONENT_BITS: u32 = 6;
const MANTISSA_BITS: u32 = 8;
const COUNT_BITS: u32 = EXPONENT_BITS + MANTISSA_BITS;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const STEP_BITS: u32 = 26;
/// Ticks by less than which an end is rounded up.
pub(super) const STEP: u128 = 1 << STEP_BITS;
const MOST_STEPS: u64 = u64::MAX >> COUNT_BITS;

pub(super) fn pack(end: u128, count: u64) -> u64 {
    let steps = end.div_ceil(STEP).min(MOST_STEPS.into());
    (steps as u64) << COUNT_BITS | code(count)
}

/// Exponent and mantissa of a count. Rounding a mantissa up beyond its bits makes it the first of the next exponent.
fn code(count: u64) -> u64 {
    let digits = u64::BITS - count.leading_zeros();
    let Some(shift) = digits.checked_sub(MANTISSA_BITS + 1) else {
        return count;
    };
    let mantissa = u128::from(count).div_ceil(1 << shift) as u64;
    (u64::from(shift) << MANTISSA_BITS) + mantissa
}

pub(super) fn end(cell: u64) -> u128 {
    match cell >> COUNT_BITS {
        // The count may have been larger.
        MOST_STEPS => MOST_STATE >> 1,
        steps => u128::from(steps) << STEP_BITS,
    }
}

pub(super) fn count(cell: u64) -> u64 {
    let code = cell & COUNT;
    let Some(shift) = (code >> MANTISSA_BITS).checked_sub(1) else {
        return code;
    };
    let mantissa = code - (shift << MANTISSA_BITS);
    let count = u128::from(mantissa).checked_shl(shift as u32);
    count.map_or(u64::MAX, |count| u64::try_from(count).unwrap_or(u64::MAX))
}

/// Returns the cell that ends as long after `then` as `cell` ends after `now`.
pub(super) fn carry(cell: u64, now: u128, then: u128) -> u64 {
    match end(cell).saturating_sub(now) {
        0 => 0,
        left => pack(then.saturating_add(left), 0) | cell & COUNT,
    }
}

/// Returns a cell that is no less than either.
pub(super) fn join(one: u64, other: u64) -> u64 {
    let end = (one >> COUNT_BITS).max(other >> COUNT_BITS);
    end << COUNT_BITS | (one & COUNT).max(other & COUNT)
}

/// Returns a cell that is no more than either.
pub(super) fn meet(one: u64, other: u64) -> u64 {
    let end = (one >> COUNT_BITS).min(other >> COUNT_BITS);
    end << COUNT_BITS | (one & COUNT).min(other & COUNT)
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn c1_c7_a_count_is_no_smaller_hardly_larger_and_in_order() {
        let powers = (0..64).map(|shift| 1_u64 << shift);
        let around = powers
            .flat_map(|power| (0..600).map(move |n| power.saturating_add(n * (power >> 9).max(1))));
        let mut counts: Vec<_> = around.chain([0, u64::MAX - 1, u64::MAX]).collect();
        counts.sort_unstable();
        let mut before = 0;
        for n in counts {
            let cell = pack(0, n);
            let known = count(cell);
            assert!(known >= n && known - n <= n / 256, "{n} as {known}");
            assert!(n > 511 || known == n, "{n} as {known}");
            assert!(cell >= before, "{n}");
            before = cell;
        }
    }
}
