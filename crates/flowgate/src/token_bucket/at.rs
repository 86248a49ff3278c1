use super::carry::Carry;
use super::{Refill, TokenBucket};
use crate::algorithm::token_bucket;
use crate::limiter::Snapshot;
use crate::limiter::reservation::{Booking, Receipt, Reservation, Revoke};
use crate::limiter::{At, TimeSource};
use crate::primitive::Ordering;
use crate::quota::{Quota, QuotaError};
use crate::verdict::Denied;
use crate::word::{Parameters, Step, View};
use core::time::Duration;

impl<'a, T: TimeSource> At<'a, TokenBucket, T> {
    /// [`TokenBucket::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.note();
        let Self {
            limiter, now_ns, ..
        } = self;
        let door = move || limiter.room.pass(limiter, now_ns, None);
        self.limiter.word.take_token(self.now_ns, door)
    }

    /// [`TokenBucket::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        self.note_units(|_| n, |parameters| parameters.burst_units)?;
        let Self {
            limiter, now_ns, ..
        } = self;
        let door = move || limiter.room.pass(limiter, now_ns, Some(n));
        self.limiter.word.take_units(self.now_ns, n, door)
    }

    /// Before something is decided by a time that the clock has not told.
    #[inline(always)]
    pub(super) fn note(self) {
        if T::IS_SUPPLIED {
            let newest_ns = &self.limiter.newest_ns;
            newest_ns.fetch_max(self.now_ns, Ordering::AcqRel);
        }
    }

    /// [`note`](Self::note), unless the units are more than the `most` that could ever be granted.
    #[inline(always)]
    fn note_units(
        self,
        units: impl Fn(&Parameters) -> u64,
        most: impl Fn(&Parameters) -> u64,
    ) -> Result<(), Denied> {
        if T::IS_SUPPLIED {
            let read = |view: &View<'_>| (units(&view.parameters), most(&view.parameters));
            let (n, most) = self.limiter.word.look(self.now_ns, read);
            if n > most {
                return Err(Denied::never(n, most));
            }
            self.note();
        }
        Ok(())
    }

    /// Unless others wait, whom that would overtake.
    pub(super) fn pass(self, units: Option<u64>) -> Result<(), Denied> {
        self.limiter.room.pass(self.limiter, self.now_ns, units)
    }

    /// [`TokenBucket::reserve`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve(self) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|parameters| parameters.units_per_token, None)
    }

    /// [`TokenBucket::reserve_n`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve_n(self, n: u64) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|_| n, None)
    }

    /// [`TokenBucket::reserve_within`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve_within(self, max_wait: Duration) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|parameters| parameters.units_per_token, Some(max_wait))
    }

    /// [`TokenBucket::reserve_n_within`].
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
        self.reserve_step(
            self.limiter,
            units,
            max_wait,
            |parameters| parameters.burst_units,
            |view, cost| {
                token_bucket::reserve(view.state, view.now, cost, view.parameters.burst_ticks())
            },
        )
    }

    /// A reservation at `owner`'s of up to `most` units, for which `step` tells the new state and the instant.
    pub(super) fn reserve_step(
        self,
        owner: &'a dyn Revoke,
        units: impl Fn(&Parameters) -> u64,
        max_wait: Option<Duration>,
        most: impl Fn(&Parameters) -> u64,
        step: impl Fn(&View<'_>, u128) -> (u128, u128),
    ) -> Result<Reservation<'a>, Denied> {
        self.note_units(&units, &most)?;
        let room = &self.limiter.room;
        if room.is_held() {
            let units = units(&self.limiter.word.view(self.now_ns).parameters);
            self.pass(Some(units))?;
        }
        self.limiter.word.update(self.now_ns, |view| {
            let parameters = &view.parameters;
            let (n, most) = (units(parameters), most(parameters));
            if n > most {
                return Step::Stay(Err(Denied::never(n, most)));
            }
            let (tat, covered) = match n {
                0 => (view.state, view.now),
                _ => step(view, parameters.ticks(n)),
            };
            let Some(at_ns) = view.at_ns(covered) else {
                return Step::Stay(Err(Denied::too_late()));
            };
            let wait_ns = at_ns - self.now_ns;
            let too_long = |max_wait: Duration| {
                let longer_ns = u128::from(wait_ns).checked_sub(max_wait.as_nanos());
                longer_ns.filter(|&ns| ns > 0)
            };
            if let Some(longer_ns) = max_wait.and_then(too_long) {
                return Step::Stay(Err(Denied::later(longer_ns, 1)));
            }
            if wait_ns > 0 {
                let largest_told = self.limiter.largest_told(parameters.epoch);
                largest_told.fetch_max(n, Ordering::AcqRel);
            }
            let told_before_ns = match wait_ns {
                0 => at_ns,
                _ => self.limiter.last_told_ns.fetch_max(at_ns, Ordering::AcqRel),
            };
            Step::Move(
                tat,
                Ok(Reservation {
                    limiter: owner,
                    booking: Booking {
                        units: n,
                        at_ns,
                        receipt: Receipt {
                            units_per_token: parameters.units_per_token,
                            state: view.stored(tat),
                            // Whoever gives back changes the word first, so this counts nothing that
                            // the word does not: too little here only gives back less.
                            given_back: self.limiter.given_back.load(Ordering::Acquire),
                            epoch: parameters.epoch,
                            told_before_ns,
                        },
                    },
                }),
            )
        })
    }

    /// [`TokenBucket::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        self.draw(0, n).unwrap_or(0)
    }

    /// [`TokenBucket::draw_now`].
    pub(super) fn draw(self, min: u64, max: u64) -> Result<u64, Denied> {
        self.note();
        if min == 0
            && let Some(n) = self.limiter.word.take_up_to(self.now_ns, max)
        {
            return Ok(n);
        }
        self.pass(Some(max.max(min).min(1)))?;
        self.limiter.word.update(self.now_ns, |view| {
            let parameters = &view.parameters;
            if min > parameters.burst_units {
                return Step::Stay(Err(Denied::never(min, parameters.burst_units)));
            }
            let tat = view.state.max(view.now);
            match max.max(min).min(view.available()) {
                n if n < min => {
                    let horizon = view.now + parameters.burst_ticks();
                    let missing = (tat + parameters.ticks(min)).saturating_sub(horizon);
                    Step::Stay(Err(view.denied(missing)))
                }
                0 => Step::Stay(Ok(0)),
                n => Step::Move(tat + parameters.ticks(n), Ok(n)),
            }
        })
    }

    /// [`TokenBucket::overdraw`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn overdraw(self, n: u64) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        self.note_units(|_| n, Parameters::most_overdrawn)?;
        if self.limiter.word.takes(self.now_ns, n) {
            return Ok(());
        }
        self.pass(Some(n))?;
        self.overdraw_units(|_| n)
    }

    /// Whoever waits.
    pub(super) fn overdraw_units(self, units: impl Fn(&Parameters) -> u64) -> Result<(), Denied> {
        self.limiter.word.update(self.now_ns, |view| {
            let parameters = &view.parameters;
            let (n, most) = (units(parameters), parameters.most_overdrawn());
            if n > most {
                return Step::Stay(Err(Denied::never(n, most)));
            }
            match token_bucket::overdraw(
                view.state,
                view.now,
                parameters.ticks(n),
                parameters.burst_ticks(),
                parameters.debt_ticks(),
            ) {
                Ok(tat) => Step::Move(tat, Ok(())),
                Err(missing) => Step::Stay(Err(view.denied(missing))),
            }
        })
    }

    /// [`TokenBucket::refund`].
    pub fn refund(self, n: u64) -> u64 {
        self.note();
        self.limiter.refund_at(n, || self.now_ns)
    }

    /// [`TokenBucket::available`].
    pub fn available(self) -> u64 {
        if let Some(units) = self.limiter.word.level(self.now_ns) {
            return units;
        }
        if self.pass(None).is_err() {
            return 0;
        }
        self.limiter.word.look(self.now_ns, |view| view.available())
    }

    /// [`TokenBucket::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        if self.limiter.room.is_held() {
            let limit = self.limiter.word.view(self.now_ns).parameters.burst_units;
            if let Err(denied) = self.pass(Some(limit)) {
                return Snapshot {
                    limit,
                    remaining: 0,
                    reset_after: denied.retry_after().unwrap_or(Duration::MAX),
                };
            }
        }
        self.limiter.word.look(self.now_ns, |view| Snapshot {
            limit: view.parameters.burst_units,
            remaining: view.available(),
            reset_after: match view.state.saturating_sub(view.now) {
                0 => Duration::ZERO,
                missing => view.denied(missing).retry_after().unwrap_or_default(),
            },
        })
    }

    /// [`TokenBucket::set_quota`].
    ///
    /// # Errors
    ///
    /// None.
    pub fn set_quota(self, quota: Quota) -> Result<(), QuotaError> {
        self.set_quota_with(quota, Carry::Kept);
        Ok(())
    }

    /// [`TokenBucket::set_quota_with`].
    pub fn set_quota_with(self, quota: Quota, carry: Carry) {
        let unchanged = |_| Ok::<_, QuotaError>(quota);
        // An infallible change.
        let _: Result<(), QuotaError> = self.limiter.change_quota(unchanged, carry, || self.now_ns);
    }

    /// [`TokenBucket::set_refill`].
    pub fn set_refill(self, refill: Refill) {
        self.limiter.change_refill(refill, || self.now_ns);
    }
}

impl View<'_> {
    /// The whole units that the bucket holds.
    fn available(&self) -> u64 {
        let parameters = &self.parameters;
        let level = token_bucket::level(self.state, self.now, parameters.burst_ticks());
        // At most the burst.
        (level / u128::from(parameters.unit_ticks)) as u64
    }

    /// When the instant `covered`, which is not before now, is reached on the clock; none if it never is.
    #[inline(always)]
    fn at_ns(&self, covered: u128) -> Option<u64> {
        if covered <= self.now {
            return Some(self.now_ns());
        }
        self.later_ns(covered)
    }

    /// [`at_ns`](Self::at_ns) of what is later than now.
    #[inline(never)]
    fn later_ns(&self, covered: u128) -> Option<u64> {
        match u64::try_from(covered) {
            // By far the faster division.
            Ok(covered) if self.is_plain() => Some(covered.div_ceil(self.parameters.ticks_per_ns)),
            _ => {
                let at_ns = u64::try_from(self.ns_of(covered)).ok()?;
                Some(at_ns.max(self.now_ns()))
            }
        }
    }
}
