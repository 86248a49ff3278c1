use super::WarmUp;
use super::parameters::Parameters;
use crate::algorithm::warm_up::State;
use crate::limiter::At;
use crate::limiter::Snapshot;
use crate::limiter::reservation::{Booking, Receipt, Reservation};
use crate::primitive::Ordering;
use crate::quota::{Quota, QuotaError};
use crate::verdict::Denied;
use core::time::Duration;

impl<'a> At<'a, WarmUp> {
    /// [`WarmUp::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.pass(None)?;
        self.limiter
            .take(self.now_ns, |parameters| parameters.units_per_token)
    }

    /// [`WarmUp::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        self.pass(Some(n))?;
        self.limiter.take(self.now_ns, |_| n)
    }

    /// Unless others wait, whom that would overtake.
    #[inline(always)]
    fn pass(self, units: Option<u64>) -> Result<(), Denied> {
        self.limiter.room.pass(self.limiter, self.now_ns, units)
    }

    /// [`WarmUp::reserve`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve(self) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|parameters| parameters.units_per_token, None)
    }

    /// [`WarmUp::reserve_n`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve_n(self, n: u64) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|_| n, None)
    }

    /// [`WarmUp::reserve_within`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve_within(self, max_wait: Duration) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|parameters| parameters.units_per_token, Some(max_wait))
    }

    /// [`WarmUp::reserve_n_within`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve_n_within(self, n: u64, max_wait: Duration) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|_| n, Some(max_wait))
    }

    fn reserve_units(
        self,
        units: impl Fn(&Parameters) -> u64,
        max_wait: Option<Duration>,
    ) -> Result<Reservation<'a>, Denied> {
        if self.limiter.room.is_held() {
            let units = units(&self.limiter.cell.view().0);
            self.pass(Some(units))?;
        }
        self.limiter.update(|parameters, state| {
            let (curve, n) = (&parameters.curve, units(parameters));
            if n > parameters.burst_units {
                return (None, Err(parameters.never(n)));
            }
            let settled = curve.settled(state, parameters.now(self.now_ns));
            let at_ns = match n {
                0 => u128::from(self.now_ns),
                _ => parameters.ns(settled.next_free),
            };
            let Ok(at_ns) = u64::try_from(at_ns) else {
                return (None, Err(Denied::too_late()));
            };
            let wait_ns = u128::from(at_ns - self.now_ns);
            if let Some(max_wait) = max_wait.filter(|max_wait| wait_ns > max_wait.as_nanos()) {
                return (None, Err(Denied::later(wait_ns - max_wait.as_nanos(), 1)));
            }
            if wait_ns > 0 {
                self.limiter.last_told_ns.fetch_max(at_ns, Ordering::AcqRel);
            }
            let spent = curve.spent(settled, n);
            let reservation = Reservation {
                limiter: self.limiter,
                booking: Booking {
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
                },
            };
            ((n > 0).then_some(spent), Ok(reservation))
        })
    }

    /// [`WarmUp::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        if self.pass(Some(n.min(1))).is_err() {
            return 0;
        }
        self.limiter.update(|parameters, state| {
            let n = n.min(parameters.burst_units);
            match parameters.take(state, self.now_ns, n) {
                Ok(Some(state)) => (Some(state), n),
                Ok(None) | Err(_) => (None, 0),
            }
        })
    }

    /// [`WarmUp::refund`].
    pub fn refund(self, n: u64) -> u64 {
        self.limiter.refund_at(n, || self.now_ns)
    }

    /// [`WarmUp::available`].
    pub fn available(self) -> u64 {
        self.snapshot().remaining
    }

    /// [`WarmUp::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        let limit = self.limiter.cell.view().0.burst_units;
        if let Err(denied) = self.pass(Some(limit)) {
            return Snapshot {
                limit,
                remaining: 0,
                reset_after: denied.retry_after().unwrap_or(Duration::MAX),
            };
        }
        let (parameters, word) = self.limiter.cell.view();
        let state = parameters.unpack(word);
        let limit = parameters.burst_units;
        match parameters.take(state, self.now_ns, 1) {
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

    /// [`WarmUp::set_quota`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_quota(self, quota: Quota) -> Result<(), QuotaError> {
        self.limiter.set_quota(quota)
    }
}

impl WarmUp {
    pub(super) fn refund_at(&self, n: u64, now_ns: impl Fn() -> u64) -> u64 {
        let _change = self.room.change(self);
        if n == 0 {
            return 0;
        }
        // No change of quota comes in between.
        let settings = self.settings.lock();
        let back = self.cell.reconfigure(|parameters, word| {
            let state = parameters.unpack(word);
            // Read after the state, so that they are not older than the grants in it.
            let now_ns = now_ns().max(self.newest_ns.load(Ordering::Acquire));
            let last_told_ns = self.last_told_ns.load(Ordering::Acquire);
            let from_ns = now_ns.max(settings.earlier_rates_until_ns);
            let (state, back) = if last_told_ns >= now_ns && last_told_ns > 0 {
                (state, 0)
            } else {
                parameters
                    .curve
                    .give_back(state, parameters.now(from_ns), n)
            };
            let (mut parameters, word) = parameters.rebased(state);
            parameters.epoch += u64::from(back > 0);
            (parameters, word, back)
        });
        drop(settings);
        back
    }

    /// Undoes `back` of the `n` units that `receipt` is of, if the state is the one that it left. Every grant moves the
    /// next free time forward, and what moves it back either undoes the last one or begins an epoch, so none can have
    /// come in between.
    pub(super) fn undo(&self, receipt: &Receipt, n: u64, back: u64) -> u64 {
        let _change = self.room.change(self);

        self.update(|parameters, state| {
            if parameters.epoch != receipt.epoch || state.next_free != receipt.state {
                return (None, 0);
            }
            let undone = parameters.undone(state, receipt.given_back, n);
            let kept = |undone| parameters.curve.spent(undone, n - back);
            (undone.map(kept), back)
        })
    }
}

impl Parameters {
    /// Takes `n` units at `now_ns`: the new state, if there is one.
    #[inline(always)]
    pub(super) fn take(&self, state: State, now_ns: u64, n: u64) -> Result<Option<State>, Denied> {
        if n == 0 {
            return Ok(None);
        }
        if n > self.burst_units {
            return Err(self.never(n));
        }
        match self.curve.take(state, self.now(now_ns), n) {
            Ok(state) => Ok(Some(state)),
            Err(missing) => Err(Denied::later(missing, self.ticks_per_ns)),
        }
    }

    /// `after` without its last `n` units, before which `stored` was stored.
    pub(super) fn undone(&self, after: State, stored: u128, n: u64) -> Option<State> {
        let cost = self
            .curve
            .spent(
                State {
                    next_free: 0,
                    stored,
                },
                n,
            )
            .next_free;
        (n > 0).then_some(State {
            next_free: after.next_free.saturating_sub(cost),
            stored,
        })
    }

    #[cold]
    fn never(&self, n: u64) -> Denied {
        Denied::never(n, self.burst_units)
    }
}
