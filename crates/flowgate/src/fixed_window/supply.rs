//! The window, seen from its line.

use super::{FixedWindow, Settings};
use crate::algorithm::fixed_window;
use crate::clock::{Clock, Timestamp};
use crate::limiter::reservation::Receipt;
use crate::room::{HOLD, Room, Supply};
use crate::thread_number::thread_number;
use crate::verdict::Denied;
use crate::word::{self, Centre, Rule, Step, View};

impl Supply for FixedWindow {
    fn room(&self) -> &Room {
        &self.room
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn token(&self) -> u64 {
        self.word.units_per_token()
    }

    fn take(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        match self.word.draw(thread_number(), n) {
            Some(answer) => answer,
            None => self.word.take_units(now.as_nanos(), n, || Ok(())),
        }
    }

    /// Always looks at the time, [`clock_free`](super::FixedWindowBuilder::clock_free) or not.
    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        self.word
            .update(at.as_nanos(), |view| match self.judge(view, n) {
                Ok(state) => Step::Move(state, Ok(())),
                Err(denied) => Step::Stay(Err(denied)),
            })
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.delay(at, 0, n)
    }

    /// Not dated: at a time before the window it counts in that.
    fn look(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.word.look(now.as_nanos(), |view| {
            let limit = view.parameters.burst_units;
            if n > limit {
                return Err(Denied::never(n, limit));
            }
            match word::FixedWindow::take(view, view.parameters.ticks(n)) {
                Ok(_) => Ok(()),
                Err(missing) => Err(view.denied(missing)),
            }
        })
    }

    /// Takes them off the count if they are in it: if they were counted in the newest window, and since tokens were last
    /// divided otherwise.
    fn take_back(&self, at: Timestamp, n: u64, _: &[Receipt]) {
        let _change = self.room.change(self);
        let mut settings = self.settings.lock();
        let (at_ns, seen) = (i128::from(at.as_nanos()), *settings);
        if seen.rescaled_ns.is_some_and(|ns| i128::from(ns) >= at_ns) {
            return;
        }
        self.uncount(&mut settings, at.as_nanos(), |view| {
            let end_ns = view.end_ns();
            let began_ns = seen.began_ns(view, end_ns);
            let is_in = (began_ns..end_ns as i128).contains(&at_ns);
            let is_opener = at_ns == began_ns && view.parameters.grid_ns.is_none();
            (if is_in { n } else { 0 }, is_opener)
        });
    }

    /// As long as it takes if those ahead fill every window; where the next in line asks for more than is left of one,
    /// that stays empty, and it takes longer.
    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        self.word
            .look(at.as_nanos(), |view| self.delay_in(view, ahead, n))
    }

    fn announce(&self, flags: u64) {
        self.word.hold(flags & HOLD != 0);
    }
}

impl FixedWindow {
    fn delay_in(&self, view: &View<'_>, ahead: u128, n: u64) -> Result<(), Denied> {
        let parameters = &view.parameters;
        let (limit, left) = (parameters.burst_units, view.room());
        let fits = |ahead: u128, room: u64| ahead <= u128::from(room.saturating_sub(n));
        if ahead == 0 || n > limit || fits(ahead, left) {
            return self.judge(view, n).map(|_| ());
        }
        let behind = ahead.saturating_sub(u128::from(left));
        let (full, rest) = (behind / u128::from(limit), behind % u128::from(limit));
        let more = full + u128::from(!fits(rest, limit));

        let ns = u128::from(parameters.ticks_per_ns);
        let end_ns = fixed_window::end(view.window(), ns) / ns;
        let more_ns = more.saturating_mul(u128::from(parameters.window_ns));
        match end_ns.saturating_add(more_ns) {
            at_ns if at_ns <= u128::from(u64::MAX) => {
                Err(Denied::later(at_ns - u128::from(view.now_ns()), 1))
            }
            _ => Err(Denied::too_late()),
        }
    }

    /// The state with `n` units more, for which a grant is dated at the instant of `view`.
    ///
    /// What is granted counts in the newest window, so that it is not dated before that: earlier ones may have been
    /// full.
    fn judge(&self, view: &View<'_>, n: u64) -> Result<u128, Denied> {
        let (parameters, now_ns) = (&view.parameters, u128::from(view.now_ns()));
        if n > parameters.burst_units {
            return Err(Denied::never(n, parameters.burst_units));
        }
        let taken = word::FixedWindow::take(view, parameters.ticks(n));
        let state = taken.map_err(|missing| view.denied(missing))?;
        let end_ns = view.end_ns();
        // Before a change, it counts in a window of then as well.
        if view.is_before_change() || end_ns <= now_ns + u128::from(parameters.window_ns) {
            return Ok(state);
        }
        match self.settings.lock().began_ns(view, end_ns) {
            began_ns if began_ns <= now_ns as i128 => Ok(state),
            began_ns => Err(Denied::later(began_ns as u128 - now_ns, 1)),
        }
    }
}

impl Settings {
    /// When the newest window began, which ends at `end_ns`.
    fn began_ns(&self, view: &View<'_>, end_ns: u128) -> i128 {
        match self.kept {
            Some(kept) if kept.end_ns == end_ns => kept.began_ns,
            // Less than 2⁶⁶.
            _ => end_ns as i128 - i128::from(view.parameters.window_ns),
        }
    }
}

impl View<'_> {
    /// When the newest window ends, or has ended.
    pub(super) fn end_ns(&self) -> u128 {
        let ns = u128::from(self.parameters.ticks_per_ns);
        fixed_window::end(self.state, ns) / ns
    }
}
