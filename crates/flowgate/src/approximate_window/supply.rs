//! The two counters, seen from their line.

use super::ApproximateWindow;
use super::parameters::{Parameters, pack, unpack};
use crate::algorithm::approximate_window::{State, Window};
use crate::cell::Step;
use crate::clock::{Clock, Timestamp};
use crate::limiter::reservation::Receipt;
use crate::primitive::Ordering;
use crate::room::{Room, Supply};
use crate::verdict::Denied;

impl Supply for ApproximateWindow {
    fn room(&self) -> &Room {
        &self.room
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn token(&self) -> u64 {
        self.cell.view().0.units_per_token
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let cell = &self.cell;
        cell.decide(|parameters, bits| parameters.take_dated(bits, at.as_nanos(), n))
    }

    fn take(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        let cell = &self.cell;
        cell.decide(|parameters, bits| parameters.take(bits, now.as_nanos(), n))
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let (parameters, bits) = self.cell.view();
        parameters.take_dated(bits, at.as_nanos(), n).map(|_| ())
    }

    /// Not dated: a time from before the newest decision counts as that.
    fn look(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        let (parameters, bits) = self.cell.view();
        parameters.take(bits, now.as_nanos(), n).map(|_| ())
    }

    fn take_back(&self, at: Timestamp, n: u64, _: &[Receipt]) {
        self.take_back_of(at, n);
    }

    /// Exactly if nobody is ahead, or if all of it fits into the current window; otherwise not longer than it takes,
    /// as it hangs on how much those ahead ask for each, which is not known here.
    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        let (parameters, bits) = self.cell.view();
        let (window, now_ns) = (parameters.window, at.as_nanos());
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
            Ok(_) => state.start_ns.into(),
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

impl ApproximateWindow {
    /// Takes `n` units that were granted at `at` out of the counter that they are in, if it still counts.
    fn take_back_of(&self, at: Timestamp, n: u64) {
        let _change = self.room.change(self);
        let now_ns = self.clock.now().as_nanos();
        self.cell.update(|parameters, bits| {
            // Read after the parameters, so that it is not older than they are.
            if at.as_nanos() < self.restated_ns.load(Ordering::Acquire) {
                return Step::Stay(());
            }
            let length_ns = parameters.window.length_ns;
            let mut state = unpack(bits).at(now_ns, length_ns);
            // What comes before the first window belongs to it.
            let at_ns = at.as_nanos().max(state.start_ns % length_ns);
            match state.start_ns.saturating_sub(at_ns) {
                0 => state.current = state.current.saturating_sub(n),
                ago_ns if ago_ns <= length_ns => state.previous = state.previous.saturating_sub(n),
                _ => return Step::Stay(()),
            }
            Step::Move(pack(state), ())
        });
    }
}

impl Parameters {
    /// [`take`](Self::take), but not dated before the window that it counts in: an earlier one may have been full.
    #[inline(always)]
    fn take_dated(&self, bits: u128, at_ns: u64, n: u64) -> Result<u128, Denied> {
        let taken = self.take(bits, at_ns, n)?;
        let start_ns = unpack(bits).start_ns;
        // What comes before the first window belongs to it.
        if at_ns < start_ns && self.window.length_ns <= start_ns {
            return Err(Denied::later(u128::from(start_ns - at_ns), 1));
        }
        Ok(taken)
    }
}

fn wait_ns(denied: Denied) -> u128 {
    denied.retry_after().unwrap_or_default().as_nanos()
}

/// No line that asks for `all` units has the last `n` of them earlier than this, if the current window of `state` has
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
        .saturating_add(u128::from(state.start_ns) + faded_ns)
}
