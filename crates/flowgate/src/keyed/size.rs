//! How large a table has to be for a number of keys.

use super::rule::Rule;
use super::table::SLOTS_PER_LINE;

/// Slots for a number of keys, as a ratio, where keys are evicted.
pub(super) const SLOTS_PER_KEYS: [usize; 2] = [4, 3];
/// The same where new keys are refused or share a quota: with more slots to spare, fewer keys find none.
pub(super) const SLOTS_PER_KEYS_TO_SPARE: [usize; 2] = [3, 2];

/// A table for at most this number of keys has more slots to spare, which take 171 KiB at most. Nine of ten keys are then found in
/// the line that is read first.
const FEW_KEYS: u128 = 16_384;
const SLOTS_PER_FEW_KEYS: u128 = 2;

/// With fewer lines, the lines fill unevenly.
const LEAST_LINES: u128 = 64;

/// Returns the number of lines of a table for `keys` keys. More keys never take fewer lines.
pub(super) fn lines_for<R: Rule>(keys: usize, [slots, per_keys]: [usize; 2]) -> u128 {
    let kept = kept::<R>(keys);
    let slots = kept.div_ceil(per_keys) as u128 * slots as u128;
    let slots_of_few = (kept as u128).min(FEW_KEYS) * SLOTS_PER_FEW_KEYS;
    slots
        .max(slots_of_few)
        .div_ceil(SLOTS_PER_LINE as u128)
        .max(LEAST_LINES)
}

/// Returns of how many of `keys` keys the table keeps anything: the smallest table does for a rule that keeps nothing.
pub(super) fn kept<R: Rule>(keys: usize) -> usize {
    if R::ADMITS_ALL { 1 } else { keys }
}
