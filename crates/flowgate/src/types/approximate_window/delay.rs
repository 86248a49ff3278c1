//! How long a queue takes at least.

use crate::algorithm::approximate_window::{State, Window};

/// No queue that asks for `all` units has the last `n` of them earlier than this, if the current window of `state` has
/// not room for all.
///
/// A window holds at most the limit, and one less if the one before it holds anything, as some of that counts to the
/// end. So the last are at the earliest in the window that comes after as many full ones as there can be; of those,
/// the one before it has to fade until it leaves room for what it holds:
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
