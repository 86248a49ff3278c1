//! A rate that ramps up as an engine.

use super::parameters::Parameters;
use super::warming::Warming;
use crate::limiter::Snapshot;
use crate::limiter::engine::{
    Amount, Capabilities, Engine, Refunds, Request, Requotas, Reserves, Times,
};
use crate::limiter::reservation::{Booked, Booking};
use crate::primitive::Ordering;
use crate::queue::Receipt;
use crate::quota::{Quota, QuotaError};
use crate::store::cell::MovingBase as _;
use crate::verdict::{Denied, Verdict};
use core::time::Duration;

impl Engine for Warming {
    const NAME: &'static str = "WarmUp";

    fn token(&self) -> u64 {
        self.cell.view().0.units_per_token
    }

    fn limit(&self) -> u64 {
        self.cell.view().0.burst_units
    }

    #[inline(always)]
    fn supplied(&self, now_ns: u64, _: Request) {
        self.newest_ns.fetch_max(now_ns, Ordering::AcqRel);
    }

    fn take_most(&self, now_ns: u64, n: u64) -> u64 {
        self.cell.update_state(|parameters, state| {
            let n = n.min(parameters.burst_units);
            match parameters.take(state, now_ns, n) {
                Ok(Some(state)) => (Some(state), n),
                Ok(None) | Err(_) => (None, 0),
            }
        })
    }

    #[inline(always)]
    fn decide(&self, now_ns: u64, amount: impl Amount) -> Verdict {
        self.cell.take(now_ns, |parameters| {
            amount.units(|| parameters.units_per_token)
        })
    }

    fn snapshot(&self, now_ns: u64) -> Snapshot {
        let (parameters, state) = self.cell.view_state();
        let limit = parameters.burst_units;
        match parameters.take(state, now_ns, 1) {
            Ok(_) => Snapshot {
                limit,
                remaining: limit,
                reset_after: Duration::ZERO,
            },
            Err(denied) => Snapshot {
                limit,
                remaining: 0,
                reset_after: denied.retry_after().unwrap_or_default(),
            },
        }
    }

    fn take(&self, now_ns: u64, n: u64) -> Verdict {
        self.take_turn(now_ns, n)
    }

    fn grant(&self, at_ns: u64, n: u64) -> Verdict {
        self.take_turn(at_ns, n)
    }

    /// It is exact if no waiter is ahead. Otherwise it treats the waiters ahead as one request. That is a lower bound: it is
    /// shorter only by what is rounded up for each of them, to a tick and to a nanosecond.
    fn delay(&self, at_ns: u64, ahead: u128, n: u64) -> Verdict {
        let (parameters, state) = self.cell.view_state();
        let alone = parameters.take(state, at_ns, n).map(|_| ());
        if ahead == 0 || alone.is_err_and(|denied| denied.is_never()) {
            return alone;
        }
        let now = parameters.now(at_ns);
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        let settled = parameters.curve.settled(state, now);
        let next_free = parameters.curve.spent(settled, ahead).next_free;
        if parameters.ns(next_free) > u128::from(u64::MAX) {
            return Err(Denied::too_late());
        }
        // Everything costs something.
        Err(Denied::later(next_free - now, parameters.ticks_per_ns))
    }

    fn take_back(&self, at_ns: u64, n: u64, _: &[Receipt], _: &dyn Times) {
        self.take_out(at_ns, n);
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
            .reserves(self)
            .refunds(self)
            .requotas(self)
    }
}

impl Reserves for Warming {
    fn reserve(&self, now_ns: u64, n: Option<u64>, max_wait_ns: Option<u128>) -> Booked {
        self.cell.update_state(|parameters, state| {
            let (curve, n) = (&parameters.curve, n.unwrap_or(parameters.units_per_token));
            if n > parameters.burst_units {
                return (None, Err(parameters.never(n)));
            }
            let settled = curve.settled(state, parameters.now(now_ns));
            let at_ns = match n {
                0 => u128::from(now_ns),
                _ => parameters.ns(settled.next_free),
            };
            let Ok(at_ns) = u64::try_from(at_ns) else {
                return (None, Err(Denied::too_late()));
            };
            let wait_ns = u128::from(at_ns - now_ns);
            if let Some(max_wait_ns) = max_wait_ns.filter(|&max_wait_ns| wait_ns > max_wait_ns) {
                return (None, Err(Denied::later(wait_ns - max_wait_ns, 1)));
            }
            if wait_ns > 0 {
                self.last_told_ns.fetch_max(at_ns, Ordering::AcqRel);
            }
            let spent = curve.spent(settled, n);
            let booking = Booking {
                units: n,
                at_ns,
                receipt: Receipt {
                    units_per_token: parameters.units_per_token,
                    state: spent.next_free,
                    // What was stored before.
                    given_back: settled.stored,
                    epoch: parameters.epoch,
                    told_before_ns: at_ns,
                },
            };
            ((n > 0).then_some(spent), Ok(booking))
        })
    }

    fn revoke(&self, booking: &Booking, _: &dyn Times) -> u64 {
        let all = booking.units;
        self.undo(&booking.receipt, all, all)
    }
}

impl Refunds for Warming {
    fn refund(&self, n: u64, times: &dyn Times) -> u64 {
        if n == 0 {
            return 0;
        }
        // No change of quota comes in between.
        let settings = self.settings.lock();
        let back = self.cell.reconfigure_state(|parameters, state| {
            // Read after the state, so that they are not older than the grants in it.
            let now_ns = times
                .latest_ns()
                .max(self.newest_ns.load(Ordering::Acquire));
            let last_told_ns = self.last_told_ns.load(Ordering::Acquire);
            let from_ns = now_ns.max(settings.earlier_rates_until_ns);
            let (state, back) = if last_told_ns >= now_ns && last_told_ns > 0 {
                (state, 0)
            } else {
                parameters
                    .curve
                    .give_back(state, parameters.now(from_ns), n)
            };
            let mut parameters = *parameters;
            parameters.epoch += u64::from(back > 0);
            (parameters, state, back)
        });
        drop(settings);
        back
    }
}

impl Requotas for Warming {
    fn quota(&self) -> Quota {
        self.settings.lock().quota
    }

    fn set_quota(&self, quota: Quota, _: &dyn Times) -> Result<(), QuotaError> {
        let mut settings = self.settings.lock();
        let new = Parameters::new(&quota, settings.warm_up, settings.cold_factor)?;
        settings.earlier_rates_until_ns = self.cell.reconfigure_state(|old, state| {
            let state = new.restated(old, state);
            let paid_ns = u64::try_from(new.ns(state.next_free)).unwrap_or(u64::MAX);
            let epoch = old.epoch + 1;
            (Parameters { epoch, ..new }, state, paid_ns)
        });
        settings.quota = quota;
        drop(settings);
        Ok(())
    }
}
