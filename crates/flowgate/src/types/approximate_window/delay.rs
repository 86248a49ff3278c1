//! How long a queue takes.

use super::engine::Approximate;
use super::parameters::unpack;
use crate::algorithm::approximate_window::{State, Window};
use crate::verdict::Denied;

impl Approximate {
    /// Exactly if nobody is ahead, or if all of it fits into the current window; otherwise not longer than it takes,
    /// as it hangs on how much those ahead ask for each, which is not known here.
    pub(super) fn delay_behind(&self, now_ns: u64, ahead: u128, n: u64) -> Result<(), Denied> {
        let (parameters, bits) = self.cell.view();
        let window = parameters.window;
        let alone = parameters.take_dated(bits, now_ns, n);
        let is_never = alone.is_err_and(|denied| denied.is_never());
        if ahead == 0 || is_never {
            return alone.map(|_| ());
        }
        let state = unpack(bits).at(now_ns, window.length_ns);
        let all = ahead.saturating_add(u128::from(n));
        if all <= u128::from(window.limit.saturating_sub(state.current)) {
            return parameters.take_dated(bits, now_ns, all as u64).map(|_| ());
        }
        let alone_ns = match alone {
            Ok(_) => state.start.into(),
            Err(denied) => u128::from(now_ns) + wait_ns(denied),
        };
        let earliest_ns = if window.limit == 1 {
            // In every second window.
            let between_ns = 2 * u128::from(window.length_ns);
            ahead.saturating_mul(between_ns).saturating_add(alone_ns)
        } else {
            earliest_ns(state, all, n, window).max(alone_ns)
        };
        match u64::try_from(earliest_ns) {
            Ok(at_ns) => Err(Denied::later(u128::from(at_ns.saturating_sub(now_ns)), 1)),
            Err(_) => Err(Denied::too_late()),
        }
    }
}

fn wait_ns(denied: Denied) -> u128 {
    denied.retry_after().unwrap_or_default().as_nanos()
}

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
fn earliest_ns(state: State, all: u128, n: u64, window: Window) -> u128 {
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
