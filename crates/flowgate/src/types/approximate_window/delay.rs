//! The least time that a queue takes.

use crate::algorithm::approximate_window::{State, Window};

/// A lower bound of the time at which a queue that asks for `all` units gets the last `n` of them. The current window of `state`
/// must not have room for all.
///
/// A window holds at most the limit. It holds one less if the window before it holds anything, because some of that counts to
/// the end. So there are first as many full windows as possible, and the last units are at the earliest in the window after
/// them. The window before that has to fade until it leaves room for the units held:
///
/// ```text
///   ├─ current ─┼─ limit − 1 ─┼─ before ───────────┼─ held: the rest, or n ─┤
///       left                    full + rest − held     faded ╯
/// ```
pub(super) fn earliest_ns(state: State, all: u128, n: u64, window: Window) -> u128 {
    let (limit, length_ns) = (u128::from(window.limit), u128::from(window.length_ns));
    let most_now = limit - u128::from(state.previous > 0);
    let left = most_now.saturating_sub(u128::from(state.current));
    let most = limit - 1;

    let windows = (all - left).div_ceil(most);
    let rest = all - left - (windows - 1) * most;
    let full = if windows == 1 { most_now } else { most };
    let held = rest.max(u128::from(n));
    let before = full + rest - held;
    // before · (length − faded) / length + held ≤ limit
    let faded_ns = match before {
        0 => 0,
        _ => (length_ns * (full + rest - limit)).div_ceil(before),
    };
    windows
        .saturating_mul(length_ns)
        .saturating_add(u128::from(state.start) + faded_ns)
}
