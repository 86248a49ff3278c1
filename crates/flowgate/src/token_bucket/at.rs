use super::TokenBucket;
use super::carry::{self, Carry, mul_div, restated};
use super::ledger::Ledger;
use crate::algorithm::token_bucket;
use crate::at::At;
use crate::clock::Timestamp;
use crate::limiter::Snapshot;
use crate::primitive::Ordering;
use crate::quota::{Quota, QuotaError};
use crate::reservation::{Receipt, Reservation, Revoke};
use crate::verdict::Denied;
use crate::word::{Parameters, Step, View};
use core::time::Duration;

impl<'a> At<'a, TokenBucket> {
    /// [`TokenBucket::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        let door = move || self.pass(None);
        self.limiter.word.take_token(self.now_ns, door)
    }

    /// [`TokenBucket::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        let door = move || self.pass(Some(n));
        self.limiter.word.take_units(self.now_ns, n, door)
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
        step: impl Fn(&View, u128) -> (u128, u128),
    ) -> Result<Reservation<'a>, Denied> {
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
            let Ok(at_ns) = u64::try_from(view.at_ns(covered)) else {
                return Step::Stay(Err(Denied::too_late()));
            };
            let wait_ns = u128::from(at_ns - self.now_ns);
            if let Some(max_wait) = max_wait.filter(|max_wait| wait_ns > max_wait.as_nanos()) {
                return Step::Stay(Err(Denied::later(wait_ns - max_wait.as_nanos(), 1)));
            }
            if wait_ns > 0 {
                self.limiter.largest_told.fetch_max(n, Ordering::AcqRel);
            }
            let told_before_ns = match wait_ns {
                0 => at_ns,
                _ => self.limiter.last_told_ns.fetch_max(at_ns, Ordering::AcqRel),
            };
            Step::Move(
                tat,
                Ok(Reservation {
                    limiter: owner,
                    units: n,
                    at_ns,
                    receipt: Receipt {
                        units_per_token: parameters.units_per_token,
                        state: tat,
                        // Whoever gives back changes the word first, so this counts nothing that
                        // the word does not: too little here only gives back less.
                        given_back: self.limiter.given_back.load(Ordering::Acquire),
                        epoch: parameters.epoch,
                        told_before_ns,
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
        self.pass(Some(n))?;
        self.overdraw_units(|_| n)
    }

    /// Whoever waits.
    pub(super) fn overdraw_units(self, units: impl Fn(&Parameters) -> u64) -> Result<(), Denied> {
        self.limiter.word.update(self.now_ns, |view| {
            let parameters = &view.parameters;
            let n = units(parameters);
            let most = parameters.burst_units.saturating_add(parameters.debt_units);
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
        self.limiter.refund_at(n, || self.now_ns)
    }

    /// [`TokenBucket::available`].
    pub fn available(self) -> u64 {
        if self.pass(None).is_err() {
            return 0;
        }
        self.limiter.word.view(self.now_ns).available()
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
        let view = self.limiter.word.view(self.now_ns);
        Snapshot {
            limit: view.parameters.burst_units,
            remaining: view.available(),
            reset_after: match view.state.saturating_sub(view.now) {
                0 => Duration::ZERO,
                missing => view.denied(missing).retry_after().unwrap_or_default(),
            },
        }
    }

    /// [`TokenBucket::set_quota`].
    pub fn set_quota(self, quota: Quota) {
        self.set_quota_with(quota, Carry::Kept);
    }

    /// [`TokenBucket::set_quota_with`].
    pub fn set_quota_with(self, quota: Quota, carry: Carry) {
        let unchanged = |_| Ok::<_, QuotaError>(quota);
        // An infallible change.
        let _: Result<(), QuotaError> = self.limiter.change_quota(unchanged, carry, || self.now_ns);
    }
}

impl TokenBucket {
    /// Puts the quota that `change` makes of the one in force in its place, settled at `now_ns()`.
    pub(super) fn change_quota(
        &self,
        change: impl FnOnce(Quota) -> Result<Quota, QuotaError>,
        carry: Carry,
        now_ns: impl Fn() -> u64,
    ) -> Result<(), QuotaError> {
        let _change = self.room.reconfigure(self);
        let mut ledger = self.ledger.lock();
        let quota = change(ledger.quota)?.with_default_burst(ledger.default_burst);
        let (now_ns, before, after) = self.word.reconfigure(|old, tat| {
            // Read after the state that is settled, so that it is not older than the decisions in it.
            let now_ns = now_ns().max(self.newest_ns.load(Ordering::Acquire));
            let mut new = ledger.parameters(&quota, now_ns);
            new.epoch = old.epoch + 1;
            if new.interval_ns == old.interval_ns {
                new.anchor_ns = old.anchor_ns;
            }
            let mut new_tat = restated(old, &new, tat, now_ns, carry);
            // Who was told a time keeps it, so nobody else comes before the last of them.
            let last_told_ns = self.last_told_ns.load(Ordering::Acquire);
            if now_ns < last_told_ns {
                let burst = match carry {
                    Carry::Reset => 0,
                    Carry::Kept | Carry::Proportional => new.burst_ticks(),
                };
                let mut told = new.ticks_in(last_told_ns) + burst;
                if self.pays_after {
                    let paid = old.ticks_in(last_told_ns) + old.burst_ticks();
                    let owed = carry::tokens_up(old, &new, tat.saturating_sub(paid));
                    told = Parameters::saturated(told.saturating_add(owed));
                }
                new_tat = new_tat.max(told);
            }
            new.layout = new.layout_for(now_ns, new_tat);
            (new, new_tat, (now_ns, (*old, tat), (new, new_tat)))
        });
        let (old_scale, new_scale) = (before.0.units_per_token, after.0.units_per_token);
        if old_scale != new_scale {
            // Told in the old units. Who is about to tell more in those will find the change, and tell
            // it again in the new ones.
            let told = u128::from(self.largest_told.load(Ordering::Acquire));
            let told = (told * u128::from(new_scale)).div_ceil(u128::from(old_scale));
            let told = u64::try_from(told).unwrap_or(u64::MAX);
            let told = if self.pays_after { u64::MAX } else { told };
            self.largest_told.store(told, Ordering::Release);
        }
        let given_back = self.given_back.load(Ordering::Acquire);
        ledger.note_change(now_ns, before, after, given_back, carry == Carry::Kept);
        ledger.quota = quota;
        drop(ledger);
        Ok(())
    }

    /// See [`ledger`](super::ledger) for why this much. It may have cost less, by as much as `up_to` times.
    pub(super) fn cancel(
        &self,
        reservation: &Reservation<'_>,
        up_to: u64,
        now_ns: impl Fn() -> u64,
    ) -> u64 {
        let receipt = &reservation.receipt;
        let (units, scale) = (u128::from(reservation.units), receipt.units_per_token);
        // If it is the last that was told a time, it is so no longer. Before the state changes: a reservation
        // that is made meanwhile from what the state was then fails, and tells its time again.
        let lowered = self.last_told_ns.compare_exchange(
            reservation.at_ns,
            receipt.told_before_ns,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let told_ns = lowered.unwrap_or(0);
        let mut is_last = false;
        let units = self.give_back(now_ns, told_ns, |ledger, view, now| {
            is_last = false;
            let Some(full_at) = ledger.full_at(receipt, self, view.parameters.epoch) else {
                return (0, 0);
            };
            let (own, _) = mul_div(units, view.parameters.token_ticks(), u128::from(scale));
            let own = own / u128::from(up_to);
            let missing = u128::try_from(full_at.saturating_sub(now as i128)).unwrap_or(0);
            let since = u128::try_from((view.state as i128).saturating_sub(full_at)).unwrap_or(0);
            is_last = since == 0 && own.min(missing) > 0;
            (own.min(missing), since)
        });
        if !is_last {
            self.last_told_ns.fetch_max(told_ns, Ordering::AcqRel);
        }
        units
    }

    /// As a cancelled reservation that everything still ahead was made after.
    pub(super) fn refund_at(&self, n: u64, now_ns: impl Fn() -> u64) -> u64 {
        self.give_back(now_ns, 0, |_, view, _| {
            let parameters = &view.parameters;
            let most = parameters.burst_units.saturating_add(parameters.debt_units);
            // Perhaps that is what it cost, and perhaps more.
            let taken = parameters.ticks(n.min(most)) / u128::from(self.drain_up_to);
            (taken, u128::MAX)
        })
    }

    /// A refund of `n` units that were granted at `at`, but for what has flowed in again since: the bucket may have been
    /// full but for them, and has then lost that.
    pub(super) fn take_back_unknown(&self, at: Timestamp, n: u64) {
        self.give_back(
            || self.clock.latest().as_nanos(),
            0,
            |_, view, now| {
                let parameters = &view.parameters;
                let taken = parameters.ticks(n) / u128::from(self.drain_up_to);
                let full_at = parameters.now_ticks(at.as_nanos()) + taken;
                (taken.min(full_at.saturating_sub(now)), u128::MAX)
            },
        );
    }

    /// `taken` says how many ticks were taken that are still missing, and how many since. If any were, somebody
    /// may still have been told `told_ns`.
    fn give_back(
        &self,
        now_ns: impl Fn() -> u64,
        told_ns: u64,
        mut taken: impl FnMut(&Ledger, &View, u128) -> (u128, u128),
    ) -> u64 {
        let _change = self.room.change(self);
        let mut ledger = self.ledger.lock();
        let (units, given) = self.word.update(now_ns(), |view| {
            let parameters = &view.parameters;
            // Read after the state, so that it is not older than the decisions in it.
            let now_ns = now_ns().max(self.newest_ns.load(Ordering::Acquire));
            let now = parameters.now_ticks(now_ns);
            let (taken, since) = taken(&ledger, view, now);

            let burst = parameters.burst_ticks();
            let holes = ledger.holes_at(now_ns);
            let told_ns = if since > 0 { told_ns } else { 0 };
            let last_told_ns = self.last_told_ns.load(Ordering::Acquire).max(told_ns);
            let standing = if last_told_ns > 0 && now_ns <= last_told_ns {
                let largest = self.largest_told.load(Ordering::Acquire);
                parameters.ticks(largest).min(since)
            } else {
                0
            };
            let room = if standing > 0 {
                let room = burst.saturating_sub(holes.saturating_add(standing));
                room - room % u128::from(parameters.unit_ticks)
            } else {
                taken
            };
            let tat = token_bucket::give_back(view.state, now, taken.min(room));
            if tat == view.state {
                return Step::Stay((0, None));
            }
            let units = view.balance_at(now, tat) - view.balance_at(now, view.state);
            let back = view.state - tat;
            let hole = (standing > 0).then_some((now_ns, last_told_ns));
            let given = (since > 0).then_some((back, hole));
            Step::Move(tat, (u64::try_from(units).unwrap_or(0), given))
        });
        if let Some((ticks, hole)) = given {
            // Only the holder of the ledger writes it.
            let given_back = self.given_back.load(Ordering::Acquire) + ticks;
            self.given_back.store(given_back, Ordering::Release);
            if let Some((now_ns, until_ns)) = hole {
                ledger.leave_hole(now_ns, ticks, until_ns);
            }
        }
        drop(ledger);
        units
    }
}

impl Revoke for TokenBucket {
    fn revoke(&self, reservation: &Reservation<'_>, now: Option<Timestamp>) -> u64 {
        match now {
            Some(now) => {
                let now_ns = self.at(now).now_ns;
                self.cancel(reservation, 1, || now_ns)
            }
            None => self.cancel(reservation, 1, || self.clock.latest().as_nanos()),
        }
    }
}

impl View {
    /// The whole units that the bucket holds.
    fn available(&self) -> u64 {
        let parameters = &self.parameters;
        let level = token_bucket::level(self.state, self.now, parameters.burst_ticks());
        // At most the burst.
        (level / u128::from(parameters.unit_ticks)) as u64
    }

    /// The whole units that a bucket with `tat` would hold at `now`; negative in debt.
    pub(super) fn balance_at(&self, now: u128, tat: u128) -> i128 {
        let horizon = (now + self.parameters.burst_ticks()) as i128;
        (horizon - tat.max(now) as i128).div_euclid(i128::from(self.parameters.unit_ticks))
    }

    /// When the instant `covered`, which is not before now, is reached on the clock.
    fn at_ns(&self, covered: u128) -> u128 {
        if covered <= self.now {
            return u128::from(self.now_ns());
        }
        let covered_ns = covered.div_ceil(u128::from(self.parameters.ticks_per_ns));
        self.parameters
            .next_move_ns(covered_ns)
            .max(u128::from(self.now_ns()))
    }
}
