//! The two counters as an engine.

use super::delay::earliest_ns;
use super::parameters::{LIMIT_END, Parameters, pack, parameters_for, unpack};
use crate::algorithm::approximate_window::{State, Wait};
use crate::clock::Clock;
use crate::limiter::Snapshot;
use crate::limiter::builder::Build;
use crate::limiter::engine::{Amount, Capabilities, Engine, Refunds, Request, Requotas, Times};
use crate::primitive::{AtomicU64, Lock, Ordering};
use crate::queue::Receipt;
use crate::quota::{Quota, QuotaError};
use crate::store::cell::{Cell, Parameters as _, Step};
use crate::verdict::{Denied, Verdict, duration_from_nanos};

/// A window estimated from two counters.
#[derive(Debug)]
pub struct Approximate {
    pub(super) cell: Cell<Parameters, 3>,
    /// The latest time that a caller has supplied. A change of quota is never computed at an earlier time.
    newest_ns: AtomicU64,
    /// The time since which units and windows have their current size. Grants before it are not revoked. It is raised before
    /// the change is made.
    pub(super) restated_ns: AtomicU64,
    quota: Lock<Quota>,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) quota: Quota,
    pub(super) align_ns: u64,
}

impl Build for Approximate {
    type Settings = Settings;

    fn build(settings: Settings, _: &Clock) -> Result<Self, QuotaError> {
        let Settings { quota, align_ns } = settings;
        let parameters = parameters_for(&quota)?;
        let state = State {
            start: align_ns % parameters.window.length_ns,
            previous: 0,
            current: 0,
        };
        Ok(Self {
            cell: Cell::new(parameters.to_words(), pack(state)),
            newest_ns: AtomicU64::new(0),
            restated_ns: AtomicU64::new(0),
            quota: Lock::new(quota),
        })
    }
}

impl Engine for Approximate {
    const NAME: &'static str = "ApproximateWindow";

    fn token(&self) -> u64 {
        self.cell.view().0.units_per_token
    }

    fn limit(&self) -> u64 {
        self.cell.view().0.window.limit
    }

    #[inline(always)]
    fn supplied(&self, now_ns: u64, _: Request) {
        self.newest_ns.fetch_max(now_ns, Ordering::AcqRel);
    }

    fn take_most(&self, now_ns: u64, n: u64) -> u64 {
        self.cell.update(|parameters, bits| {
            let state = unpack(bits).at(now_ns, parameters.window.length_ns);
            match n.min(parameters.window.room(state, now_ns)) {
                0 => Step::Stay(0),
                taken => {
                    let mut state = state;
                    state.current += taken;
                    Step::Move(pack(state), taken)
                }
            }
        })
    }

    #[inline(always)]
    fn decide(&self, now_ns: u64, amount: impl Amount) -> Verdict {
        self.cell.decide(|parameters, bits| {
            let n = amount.units(|| parameters.units_per_token);
            parameters.take(bits, now_ns, n)
        })
    }

    fn snapshot(&self, now_ns: u64) -> Snapshot {
        let (Parameters { window, .. }, bits) = self.cell.view();
        let state = unpack(bits).at(now_ns, window.length_ns);
        let idle_at_ns = state.idle_at(now_ns, window.length_ns);
        Snapshot {
            limit: window.limit,
            remaining: window.room(state, now_ns),
            reset_after: duration_from_nanos(idle_at_ns.saturating_sub(u128::from(now_ns))),
        }
    }

    fn grant(&self, at_ns: u64, n: u64) -> Verdict {
        let cell = &self.cell;
        cell.decide(|parameters, bits| parameters.take_dated(bits, at_ns, n))
    }

    /// It is exact if no waiter is ahead, or if all units fit into the current window. Otherwise it is a lower bound: the wait
    /// depends on how much each waiter ahead asks for, which is not known here.
    fn delay(&self, now_ns: u64, ahead: u128, n: u64) -> Verdict {
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
            Err(denied) => u128::from(now_ns) + denied.retry_after().unwrap_or_default().as_nanos(),
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

    /// Without a time of its own: a time before the newest decision counts as the time of that decision.
    fn look(&self, now_ns: u64, n: u64) -> Verdict {
        let (parameters, bits) = self.cell.view();
        parameters.take(bits, now_ns, n).map(|_| ())
    }

    /// Takes the units out of their counter, if it still counts.
    fn take_back(&self, at_ns: u64, n: u64, _: &[Receipt], times: &dyn Times) {
        let now_ns = times.now_ns();
        self.cell.update(|parameters, bits| {
            // Read after the parameters, so that it is not older than they are.
            if at_ns < self.restated_ns.load(Ordering::Acquire) {
                return Step::Stay(());
            }
            let length_ns = parameters.window.length_ns;
            let state = unpack(bits).at(now_ns, length_ns);
            // What comes before the first window belongs to it.
            let at_ns = at_ns.max(state.start % length_ns);
            match state.without(n, at_ns, length_ns) {
                Some(state) => Step::Move(pack(state), ()),
                None => Step::Stay(()),
            }
        });
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default().refunds(self).requotas(self)
    }
}

impl Refunds for Approximate {
    fn refund(&self, n: u64, times: &dyn Times) -> u64 {
        let now_ns = times.now_ns();
        self.cell.update(|parameters, bits| {
            let mut state = unpack(bits).at(now_ns, parameters.window.length_ns);
            match n.min(state.current) {
                0 => Step::Stay(0),
                back => {
                    state.current -= back;
                    Step::Move(pack(state), back)
                }
            }
        })
    }
}

impl Requotas for Approximate {
    fn quota(&self) -> Quota {
        *self.quota.lock()
    }

    /// The change is computed at the current time. Admissions get no earlier time than any time that was used.
    fn set_quota(&self, quota: Quota, times: &dyn Times) -> Result<(), QuotaError> {
        let new = parameters_for(&quota)?;
        let mut current = self.quota.lock();
        self.cell.reconfigure(|old, bits| {
            let now_ns = times.now_ns();
            let latest_ns = times
                .latest_ns()
                .max(self.newest_ns.load(Ordering::Acquire));
            if old.is_restated_by(&new) {
                // Grants have times of the clock, even if the caller supplies the time of the change.
                let shown_ns = times.clock().map_or(0, |clock| clock.latest().as_nanos());
                let from_ns = now_ns.max(latest_ns).max(shown_ns).saturating_add(1);
                self.restated_ns.fetch_max(from_ns, Ordering::AcqRel);
            }
            let state = carried(unpack(bits), (now_ns, latest_ns), old, &new);
            (new, pack(state), ())
        });
        *current = quota;
        drop(current);
        Ok(())
    }
}

impl Parameters {
    /// Whether `new` changes the size of a unit or of a window.
    fn is_restated_by(&self, new: &Self) -> bool {
        self.units_per_token != new.units_per_token || self.window.length_ns != new.window.length_ns
    }

    /// Takes `n` units at `now_ns`: the new state.
    #[inline(always)]
    fn take(&self, bits: u128, now_ns: u64, n: u64) -> Result<u128, Denied> {
        let limit = self.window.limit;
        if n > limit {
            return Err(Denied::never(n, limit));
        }
        match self.window.take(unpack(bits), now_ns, n) {
            Ok(state) => Ok(pack(state)),
            Err(Wait {
                missing,
                ticks_per_ns,
            }) => Err(Denied::later(missing, ticks_per_ns)),
        }
    }

    /// Like [`take`](Self::take), but with no earlier time than the window in which it counts, because an earlier window may
    /// have been full.
    #[inline(always)]
    fn take_dated(&self, bits: u128, at_ns: u64, n: u64) -> Result<u128, Denied> {
        let taken = self.take(bits, at_ns, n)?;
        let start_ns = unpack(bits).start;
        // What comes before the first window belongs to it.
        if at_ns < start_ns && self.window.length_ns <= start_ns {
            return Err(Denied::later(u128::from(start_ns - at_ns), 1));
        }
        Ok(taken)
    }
}

/// `state` under other parameters, from `now_ns` on, with counts rounded up.
///
/// If lengths differ, all remembered admissions count as admitted at the latest possible time. That is no later than the end of
/// their window and `latest_ns`, or it is now. Then no interval of either length holds more than it would by one of the two
/// quotas alone.
pub(super) fn carried(
    state: State,
    (now_ns, latest_ns): (u64, u64),
    old: &Parameters,
    new: &Parameters,
) -> State {
    let state = state.at(now_ns, old.window.length_ns);
    let units = |count: u64| {
        let units = u128::from(count) * u128::from(new.units_per_token);
        let units = units.div_ceil(u128::from(old.units_per_token));
        // No limit is above this, so that more than it is not less strict.
        units.min(u128::from(LIMIT_END - 1)) as u64
    };
    if new.window.length_ns == old.window.length_ns {
        State {
            previous: units(state.previous),
            current: units(state.current),
            ..state
        }
    } else {
        State {
            start: latest_ns
                .min(state.start.saturating_add(old.window.length_ns))
                .max(state.start)
                .max(now_ns),
            previous: 0,
            current: units(state.previous + state.current),
        }
    }
}
