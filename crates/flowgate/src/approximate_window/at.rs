use super::parameters::{Parameters, pack, unpack};
use super::{ApproximateWindow, carried, parameters_for};
use crate::algorithm::approximate_window::Wait;
use crate::cell::Step;
use crate::limiter::At;
use crate::limiter::Snapshot;
use crate::primitive::Ordering;
use crate::quota::{Quota, QuotaError};
use crate::verdict::{Denied, duration_from_nanos};
use core::time::Duration;

impl At<'_, ApproximateWindow> {
    /// [`ApproximateWindow::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.pass(None)?;
        self.take(|parameters| parameters.units_per_token)
    }

    /// [`ApproximateWindow::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        self.pass(Some(n))?;
        self.take(|_| n)
    }

    /// Unless others wait, whom that would overtake.
    #[inline(always)]
    fn pass(self, units: Option<u64>) -> Result<(), Denied> {
        self.limiter.room.pass(self.limiter, self.now_ns, units)
    }

    /// Whoever waits.
    #[inline(always)]
    fn take(self, units: impl Fn(&Parameters) -> u64) -> Result<(), Denied> {
        let cell = &self.limiter.cell;
        cell.decide(|parameters, bits| parameters.take(bits, self.now_ns, units(parameters)))
    }

    /// [`ApproximateWindow::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        if self.pass(Some(n.min(1))).is_err() {
            return 0;
        }
        self.limiter.cell.update(|parameters, bits| {
            let state = unpack(bits).at(self.now_ns, parameters.window.length_ns);
            match n.min(state.room(self.now_ns, parameters.window)) {
                0 => Step::Stay(0),
                taken => {
                    let mut state = state;
                    state.current += taken;
                    Step::Move(pack(state), taken)
                }
            }
        })
    }

    /// [`ApproximateWindow::refund`].
    pub fn refund(self, n: u64) -> u64 {
        let _change = self.limiter.room.change(self.limiter);

        self.limiter.cell.update(|parameters, bits| {
            let mut state = unpack(bits).at(self.now_ns, parameters.window.length_ns);
            match n.min(state.current) {
                0 => Step::Stay(0),
                back => {
                    state.current -= back;
                    Step::Move(pack(state), back)
                }
            }
        })
    }

    /// [`ApproximateWindow::available`].
    pub fn available(self) -> u64 {
        self.snapshot().remaining
    }

    /// [`ApproximateWindow::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        let limit = self.limiter.cell.view().0.window.limit;
        if let Err(denied) = self.pass(Some(limit)) {
            return Snapshot {
                limit,
                remaining: 0,
                reset_after: denied.retry_after().unwrap_or(Duration::MAX),
            };
        }
        let (Parameters { window, .. }, bits) = self.limiter.cell.view();
        let state = unpack(bits).at(self.now_ns, window.length_ns);
        let idle_at_ns = state.idle_at_ns(self.now_ns, window);
        Snapshot {
            limit: window.limit,
            remaining: state.room(self.now_ns, window),
            reset_after: duration_from_nanos(idle_at_ns.saturating_sub(u128::from(self.now_ns))),
        }
    }

    /// [`ApproximateWindow::set_quota`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_quota(self, quota: Quota) -> Result<(), QuotaError> {
        self.limiter
            .change_quota(quota, || (self.now_ns, self.now_ns))
    }
}

impl ApproximateWindow {
    /// Settles at the time that it is, and dates what was admitted no earlier than at any time that was used.
    /// `times_ns` are both.
    pub(super) fn change_quota(
        &self,
        quota: Quota,
        times_ns: impl Fn() -> (u64, u64),
    ) -> Result<(), QuotaError> {
        let _change = self.room.reconfigure(self);
        let new = parameters_for(&quota)?;
        let mut in_force = self.quota.lock();
        self.cell.reconfigure(|old, bits| {
            let (now_ns, latest_ns) = times_ns();
            let times_ns = (now_ns, latest_ns.max(self.newest_ns()));
            if old.is_restated_by(&new) {
                let granted_ns = self.clock.latest().as_nanos();
                let latest_ns = times_ns.0.max(times_ns.1).max(granted_ns);
                let from_ns = latest_ns.saturating_add(1);
                self.restated_ns.fetch_max(from_ns, Ordering::AcqRel);
            }
            let state = carried(unpack(bits), times_ns, old, &new);
            (new, pack(state), ())
        });
        *in_force = quota;
        drop(in_force);
        Ok(())
    }
}

impl Parameters {
    /// Whether a unit or a window is not the same under `new`.
    fn is_restated_by(&self, new: &Self) -> bool {
        self.units_per_token != new.units_per_token || self.window.length_ns != new.window.length_ns
    }

    /// Takes `n` units at `now_ns`: the new state.
    #[inline(always)]
    pub(super) fn take(&self, bits: u128, now_ns: u64, n: u64) -> Result<u128, Denied> {
        let limit = self.window.limit;
        if n > limit {
            return Err(Denied::never(n, limit));
        }
        match unpack(bits).take(now_ns, n, self.window) {
            Ok(state) => Ok(pack(state)),
            Err(Wait {
                missing,
                ticks_per_ns,
            }) => Err(Denied::later(missing, ticks_per_ns)),
        }
    }
}
