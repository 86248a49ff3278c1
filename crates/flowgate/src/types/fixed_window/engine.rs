//! The windows as an engine.

use super::{Kept, Settings, Windows};
use crate::algorithm::fixed_window;
use crate::limiter::Snapshot;
use crate::limiter::engine::{Amount, Capabilities, Engine, Refunds, Request, Requotas, Times};
use crate::primitive::thread_number::thread_number;
use crate::queue::Receipt;
use crate::quota::{Quota, QuotaError};
use crate::store::word::{self, Centre, Rule, Step, View};
use crate::verdict::{Denied, Verdict};
use core::time::Duration;

impl Engine for Windows {
    const NAME: &'static str = "FixedWindow";

    fn token(&self) -> u64 {
        self.word.units_per_token()
    }

    fn limit(&self) -> u64 {
        self.word.view(0).parameters.burst_units
    }

    #[inline(always)]
    fn takes_unread(&self, request: Request, _: impl Fn() -> bool) -> bool {
        self.clock_free
            && match request {
                Request::Token => self.word.take_token_of_window(),
                Request::Units(n) => self.word.take_units_of_window(n),
                Request::Any | Request::Overdraft(_) => false,
            }
    }

    #[inline(always)]
    fn take_token(&self, now_ns: u64, door: impl Fn() -> Verdict) -> Verdict {
        self.word.take_token(now_ns, door)
    }

    #[inline(always)]
    fn take_units(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) -> Verdict {
        self.word.take_units(now_ns, n, door)
    }

    fn decide(&self, now_ns: u64, amount: impl Amount) -> Verdict {
        let n = amount.units(|| self.token());
        self.word.take_units(now_ns, n, || Ok(()))
    }

    fn take_most(&self, now_ns: u64, n: u64) -> u64 {
        self.draw(now_ns, 0, n, || Ok(())).unwrap_or(0)
    }

    fn snapshot(&self, now_ns: u64) -> Snapshot {
        self.word.look(now_ns, |view| {
            let limit = view.parameters.burst_units;
            Snapshot {
                limit,
                remaining: view.left(),
                reset_after: match view.resets_after() {
                    0 => Duration::ZERO,
                    ticks => view.denied(ticks).retry_after().unwrap_or_default(),
                },
            }
        })
    }

    /// Always reads the time, with or without [`clock_free`](super::FixedWindowBuilder::clock_free).
    fn grant(&self, at_ns: u64, n: u64) -> Verdict {
        if n == 0 {
            return Ok(());
        }
        self.word.update(at_ns, |view| match self.judge(view, n) {
            Ok(state) => Step::Move(state, Ok(())),
            Err(denied) => Step::Stay(Err(denied)),
        })
    }

    fn take(&self, now_ns: u64, n: u64) -> Verdict {
        match self.word.draw(thread_number(), Some(n)) {
            Some(answer) => answer,
            None => self.word.take_units(now_ns, n, || Ok(())),
        }
    }

    /// This is exact if the waiters ahead fill every window. If the next waiter asks for more than the rest of a window, that
    /// rest stays empty, and the wait is longer.
    fn delay(&self, at_ns: u64, ahead: u128, n: u64) -> Verdict {
        if n == 0 {
            return Ok(());
        }
        self.word.look(at_ns, |view| self.delay_in(view, ahead, n))
    }

    /// Without a time of its own: a time before the window in which it counts is a time in that window.
    fn look(&self, now_ns: u64, n: u64) -> Verdict {
        self.word.look(now_ns, |view| {
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

    /// Takes the units off the count, if they were counted in the newest window, and if units have kept their size since.
    fn take_back(&self, at_ns: u64, n: u64, _: &[Receipt], _: &dyn Times) {
        let mut settings = self.settings().lock();
        let (then_ns, seen) = (i128::from(at_ns), *settings);
        if seen.rescaled_ns.is_some_and(|ns| i128::from(ns) >= then_ns) {
            return;
        }
        self.uncount(&mut settings, at_ns, |view| {
            let end_ns = view.end_ns();
            let began_ns = began_ns(seen.kept, view, end_ns);
            let is_in = (began_ns..end_ns as i128).contains(&then_ns);
            let is_opener = then_ns == began_ns && view.parameters.grid_ns.is_none();
            (if is_in { n } else { 0 }, is_opener)
        });
    }

    fn hold(&self, is_held: bool) {
        self.word.hold(is_held);
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default().refunds(self).requotas(self)
    }
}

impl Refunds for Windows {
    fn refund(&self, n: u64, times: &dyn Times) -> u64 {
        let mut settings = self.settings().lock();
        self.uncount(&mut settings, times.now_ns(), |_| (n, false))
    }
}

impl Requotas for Windows {
    fn quota(&self) -> Quota {
        let made = self.settings.get();
        made.map_or(self.first_quota, |settings| settings.lock().quota)
    }

    fn set_quota(&self, quota: Quota, times: &dyn Times) -> Result<(), QuotaError> {
        let change = |settings| Settings { quota, ..settings };
        self.change(change, || times.latest_ns())
    }
}

impl Windows {
    /// Counts at least `min` units, and up to `max` if there is room.
    pub(crate) fn draw(
        &self,
        now_ns: u64,
        min: u64,
        max: u64,
        door: impl Fn() -> Verdict,
    ) -> Result<u64, Denied> {
        door()?;
        self.word.update(now_ns, |view| {
            let limit = view.parameters.burst_units;
            if min > limit {
                return Step::Stay(Err(Denied::never(min, limit)));
            }
            match max.max(min).min(view.left()) {
                n if n < min => {
                    let taken = word::FixedWindow::take(view, view.parameters.ticks(min));
                    let missing = taken.err().unwrap_or_default();
                    Step::Stay(Err(view.denied(missing)))
                }
                0 => Step::Stay(Ok(0)),
                n => Step::Move(view.window() + u128::from(n), Ok(n)),
            }
        })
    }

    fn delay_in(&self, view: &View<'_>, ahead: u128, n: u64) -> Verdict {
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

    /// The state with `n` units more, for a grant at the time of `view`.
    ///
    /// A grant counts in the newest window. So it gets no earlier time than that window, because earlier windows may have been
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
        match began_ns(self.kept(), view, end_ns) {
            began_ns if began_ns <= now_ns as i128 => Ok(state),
            began_ns => Err(Denied::later(began_ns as u128 - now_ns, 1)),
        }
    }
}

/// The beginning of the newest window, which ends at `end_ns`. For a `kept` window, it is not one period before the end.
pub(super) fn began_ns(kept: Option<Kept>, view: &View<'_>, end_ns: u128) -> i128 {
    match kept {
        Some(kept) if kept.end_ns == end_ns => kept.began_ns,
        // Less than 2⁶⁶.
        _ => end_ns as i128 - i128::from(view.parameters.window_ns),
    }
}

impl View<'_> {
    /// The end of the newest window, in the future or in the past.
    pub(super) fn end_ns(&self) -> u128 {
        let ns = u128::from(self.parameters.ticks_per_ns);
        fixed_window::end(self.state, ns) / ns
    }

    /// The state of the window in which this instant counts. It is the open one, or an empty one that is not earlier than any
    /// previous window.
    pub(crate) fn window(&self) -> u128 {
        let ns = u128::from(self.parameters.ticks_per_ns);
        let new = || self.parameters.window_end_ns(self.now_ns()) * ns;
        fixed_window::window(self.state, self.now, ns, new)
    }

    pub(super) fn used(&self) -> u64 {
        let ns = u128::from(self.parameters.ticks_per_ns);
        // Less than 2⁴⁸.
        fixed_window::used(self.state, self.now, ns) as u64
    }

    /// The most units that the current quota admits.
    pub(super) fn room(&self) -> u64 {
        self.parameters.burst_units.saturating_sub(self.used())
    }

    /// The most units that are admitted.
    pub(crate) fn left(&self) -> u64 {
        self.room().min(self.left_before_change())
    }

    /// The ticks until the full limit is admitted.
    fn resets_after(&self) -> u128 {
        let ns = u128::from(self.parameters.ticks_per_ns);
        let left = fixed_window::resets_after(self.state, self.now, ns);
        left.max(self.wait_before_change(self.parameters.burst_ticks()))
    }
}
