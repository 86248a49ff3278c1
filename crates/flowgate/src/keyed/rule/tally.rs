//! What the sketch keeps of a window, in 64 bits: when it ends, and how much of the limit is used, both rounded up.
//!
//! ```text
//!  63                                     8 7          0
//! ┌────────────────────────────────────────┬────────────┐
//! │           end, in 256 ns               │ used / 255 │
//! └────────────────────────────────────────┴────────────┘
//! ```

use super::super::entry::TICK_BITS;

const USED_BITS: u32 = 8;
const ALL_USED: u64 = (1 << USED_BITS) - 1;
/// Ticks in a step of the end.
const STEP_BITS: u32 = TICK_BITS + USED_BITS;

pub(super) fn pack(end: u128, count: u128, most: u64) -> u64 {
    let steps = end
        .div_ceil(1 << STEP_BITS)
        .min(u128::from(u64::MAX >> USED_BITS));
    let used = (count * u128::from(ALL_USED)).div_ceil(u128::from(most.max(1)));
    (steps as u64) << USED_BITS | used.min(ALL_USED.into()) as u64
}

pub(super) fn end(cell: u64) -> u128 {
    match cell >> USED_BITS {
        // It may have been more.
        steps if steps == u64::MAX >> USED_BITS => super::super::entry::MOST_STATE >> 1,
        steps => u128::from(steps) << STEP_BITS,
    }
}

/// Of a limit of `most`.
pub(super) fn count(cell: u64, most: u64) -> u64 {
    let used = u128::from(cell & ALL_USED) * u128::from(most);
    // At most `most`.
    used.div_ceil(ALL_USED.into()) as u64
}

/// The same, as long after `then` as it is after `now`.
pub(super) fn carry(cell: u64, now: u128, then: u128) -> u64 {
    match end(cell).saturating_sub(now) {
        0 => 0,
        left => pack(
            then.saturating_add(left),
            (cell & ALL_USED).into(),
            ALL_USED,
        ),
    }
}

/// No less than either.
pub(super) fn join(one: u64, other: u64) -> u64 {
    let end = (one >> USED_BITS).max(other >> USED_BITS);
    end << USED_BITS | (one & ALL_USED).max(other & ALL_USED)
}

/// No more than either.
pub(super) fn meet(one: u64, other: u64) -> u64 {
    let end = (one >> USED_BITS).min(other >> USED_BITS);
    end << USED_BITS | (one & ALL_USED).min(other & ALL_USED)
}
