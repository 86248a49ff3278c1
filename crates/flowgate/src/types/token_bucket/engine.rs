//! The bucket as an engine.

use super::bucket::{Bucket, Mode};
use super::{Carry, Refill};
use crate::algorithm::token_bucket;
use crate::limiter::Snapshot;
use crate::limiter::engine::{
    Amount, Capabilities, Engine, Refunds, Request, Requotas, Reserves, Times,
};
use crate::limiter::reservation::{Booked, Booking};
use crate::primitive::Ordering;
use crate::primitive::thread_number::thread_number;
use crate::queue::Receipt;
use crate::quota::policy::Policy;
use crate::quota::{Quota, QuotaError};
use crate::store::word::{Centre, Parameters, Step, View};
use crate::verdict::{Denied, Verdict};
use core::time::Duration;

impl<M: Mode> Engine for Bucket<M> {
    const NAME: &'static str = M::NAME;

    fn token(&self) -> u64 {
        self.word.units_per_token()
    }

    fn limit(&self) -> u64 {
        self.word.view(0).parameters.burst_units
    }

    /// Notes the time, unless the request can never be granted and so changes nothing.
    #[inline(always)]
    fn supplied(&self, now_ns: u64, request: Request) {
        let is_possible = match request {
            Request::Any | Request::Token => true,
            Request::Units(n) => self
                .word
                .look(now_ns, |view| n <= self.most(&view.parameters)),
            Request::Overdraft(n) => {
                let most = |view: &View<'_>| view.parameters.most_overdrawn();
                n <= self.word.look(now_ns, most)
            }
        };
        if is_possible {
            self.newest_ns.fetch_max(now_ns, Ordering::AcqRel);
        }
    }

    #[inline(always)]
    fn take_token(&self, now_ns: u64, door: impl Fn() -> Verdict) -> Verdict {
        if M::PAYS_AFTER {
            if self.word.takes_token(now_ns) {
                return Ok(());
            }
            door()?;
            return self.overdraw_units(now_ns, |parameters| parameters.units_per_token);
        }
        self.word.take_token(now_ns, door)
    }

    #[inline(always)]
    fn take_units(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) -> Verdict {
        if M::PAYS_AFTER {
            return self.overdraw(now_ns, n, door);
        }
        self.word.take_units(now_ns, n, door)
    }

    fn decide(&self, now_ns: u64, amount: impl Amount) -> Verdict {
        self.grant(now_ns, amount.units(|| self.token()))
    }

    fn take_most(&self, now_ns: u64, n: u64) -> u64 {
        self.take_up_to(now_ns, n, || Ok(()))
    }

    fn take_up_to(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) -> u64 {
        self.draw(now_ns, 0, n, door).unwrap_or(0)
    }

    fn available(&self, now_ns: u64, door: impl Fn() -> Verdict) -> u64 {
        if let Some(units) = self.word.level(now_ns) {
            return units;
        }
        match door() {
            Ok(()) => self.word.look(now_ns, |view| view.available()),
            Err(_) => 0,
        }
    }

    fn snapshot(&self, now_ns: u64) -> Snapshot {
        self.word.look(now_ns, |view| Snapshot {
            limit: view.parameters.burst_units,
            remaining: view.available(),
            reset_after: match view.state.saturating_sub(view.now) {
                0 => Duration::ZERO,
                missing => view.denied(missing).retry_after().unwrap_or_default(),
            },
        })
    }

    fn policy(&self) -> Option<Policy> {
        let (quota, refill) = match self.made_log() {
            None => (self.quota(), Refill::Continuous),
            Some(log) => {
                let ledger = log.ledger.lock();
                (ledger.quota, ledger.refill)
            }
        };
        let is_steady = refill == Refill::Continuous && !M::PAYS_AFTER;
        Some(Policy::new(quota, is_steady))
    }

    /// Takes them as a debt, if the bucket is not in debt and the debt may become that large.
    fn charge(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) {
        if self.overdraw(now_ns, n, &door).is_err() {
            self.take_up_to(now_ns, n, door);
        }
    }

    fn grant(&self, at_ns: u64, n: u64) -> Verdict {
        if M::PAYS_AFTER {
            return self.overdraw_units(at_ns, |_| n);
        }
        self.word.take_units(at_ns, n, || Ok(()))
    }

    /// Takes from a stripe, if there are any.
    fn take(&self, now_ns: u64, n: u64) -> Verdict {
        match self.word.draw(thread_number(), Some(n)) {
            Some(answer) => answer,
            None => self.grant(now_ns, n),
        }
    }

    fn drain(&self, at_ns: u64, n: u64, level: u128, receipts: &mut [Receipt]) -> Verdict {
        let faster = level.clamp(1, self.drain_up_to().into());
        let receipt = self.word.update(at_ns, |view| {
            let parameters = &view.parameters;
            let most = self.most(parameters);
            if n > most {
                return Step::Stay(Err(Denied::never(n, most)));
            }
            // There has to be room for all of it, which then takes less time to run out.
            let cost = parameters.ticks(n);
            match self.take_from(view, view.state, cost) {
                Ok(_) => {
                    let tat = view.state.max(view.now) + cost.div_ceil(faster);
                    let receipt = self.receipt(at_ns, parameters, view.stored(tat));
                    Step::Move(tat, Ok(receipt))
                }
                Err(missing) => Step::Stay(Err(view.denied(missing))),
            }
        })?;
        receipts.fill(receipt);
        Ok(())
    }

    /// This is exact: while a caller waits, the bucket is never full, so it loses no refill. If the bucket drains faster the
    /// fuller the queue is, the result assumes the highest speed.
    fn delay(&self, at_ns: u64, ahead: u128, n: u64) -> Verdict {
        self.word
            .look(at_ns, |view| self.delay_seen(view, ahead, n))
    }

    fn take_back(&self, at_ns: u64, n: u64, receipts: &[Receipt], times: &dyn Times) {
        let Some(&receipt) = receipts.first() else {
            self.take_back_unknown(at_ns, n, || times.latest_ns());
            return;
        };
        let grant = Booking {
            units: n,
            at_ns,
            receipt,
        };
        self.give_back_booking(&grant, self.drain_up_to(), times);
    }

    fn receipts(&self) -> usize {
        1
    }

    fn hold(&self, is_held: bool) {
        self.word.hold(is_held);
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
            .reserves(self)
            .refunds(self)
            .requotas(self)
    }
}

impl<M: Mode> Reserves for Bucket<M> {
    fn reserve(&self, now_ns: u64, n: Option<u64>, max_wait_ns: Option<u128>) -> Booked {
        self.word.update(now_ns, |view| {
            let parameters = &view.parameters;
            let (n, most) = (
                n.unwrap_or(parameters.units_per_token),
                self.most(parameters),
            );
            if n > most {
                return Step::Stay(Err(Denied::never(n, most)));
            }
            let (tat, covered) = match n {
                0 => (view.state, view.now),
                _ => Self::reserve_from(view, parameters.ticks(n)),
            };
            let Some(at_ns) = view.at_ns(covered) else {
                return Step::Stay(Err(Denied::too_late()));
            };
            let wait_ns = at_ns - now_ns;
            let too_long = |max_wait_ns| {
                let longer_ns = u128::from(wait_ns).checked_sub(max_wait_ns);
                longer_ns.filter(|&ns| ns > 0)
            };
            if let Some(longer_ns) = max_wait_ns.and_then(too_long) {
                return Step::Stay(Err(Denied::later(longer_ns, 1)));
            }
            let mut receipt = self.receipt(at_ns, parameters, view.stored(tat));
            if wait_ns > 0 {
                let log = self.log();
                let largest_told = log.largest_told(parameters.epoch);
                largest_told.fetch_max(n, Ordering::AcqRel);
                receipt.told_before_ns = log.last_told_ns.fetch_max(at_ns, Ordering::AcqRel);
            }
            Step::Move(
                tat,
                Ok(Booking {
                    units: n,
                    at_ns,
                    receipt,
                }),
            )
        })
    }

    fn revoke(&self, booking: &Booking, times: &dyn Times) -> u64 {
        self.give_back_booking(booking, 1, times)
    }
}

impl<M: Mode> Refunds for Bucket<M> {
    fn refund(&self, n: u64, times: &dyn Times) -> u64 {
        self.refund_at(n, || times.latest_ns())
    }
}

impl<M: Mode> Requotas for Bucket<M> {
    fn quota(&self) -> Quota {
        self.made_log()
            .map_or(self.first_quota, |log| log.ledger.lock().quota)
    }

    fn set_quota(&self, quota: Quota, times: &dyn Times) -> Result<(), QuotaError> {
        self.change_quota(|_| Ok(quota), Carry::Kept, || times.latest_ns())
    }
}

impl<M: Mode> Bucket<M> {
    /// Takes at least `min` units, and up to `max` if they are available.
    pub(crate) fn draw(
        &self,
        now_ns: u64,
        min: u64,
        max: u64,
        door: impl Fn() -> Verdict,
    ) -> Result<u64, Denied> {
        if min == 0
            && let Some(n) = self.word.take_up_to(now_ns, max)
        {
            return Ok(n);
        }
        door()?;
        self.draw_slowly(now_ns, min, max)
    }

    /// [`draw`](Self::draw), where the 64-bit step is not for this.
    #[cold]
    #[inline(never)]
    fn draw_slowly(&self, now_ns: u64, min: u64, max: u64) -> Result<u64, Denied> {
        self.word.update(now_ns, |view| {
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

    /// Takes `n` units, out of debt and down to the largest debt.
    pub(super) fn overdraw(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) -> Verdict {
        if n == 0 || self.word.takes(now_ns, n) {
            return Ok(());
        }
        door()?;
        self.overdraw_units(now_ns, |_| n)
    }

    fn overdraw_units(&self, now_ns: u64, units: impl Fn(&Parameters) -> u64) -> Verdict {
        self.word.update(now_ns, |view| {
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

    fn give_back_booking(&self, booking: &Booking, up_to: u64, times: &dyn Times) -> u64 {
        if M::PAYS_AFTER {
            self.cancel_last(booking, times.latest_ns())
        } else {
            self.cancel(booking, up_to, || times.latest_ns())
        }
    }

    /// [`delay`](Supply::delay), as `view` has it.
    fn delay_seen(&self, view: &View<'_>, ahead: u128, n: u64) -> Verdict {
        let parameters = &view.parameters;
        let most = self.most(parameters);
        if n > most {
            return Err(Denied::never(n, most));
        }
        let ahead = u64::try_from(ahead)
            .map(|ahead| parameters.ticks(ahead) / u128::from(self.drain_up_to()));
        let tat = view.state.max(view.now);
        let tat = match ahead {
            Ok(0) => view.state,
            Ok(ahead) if tat + ahead < Parameters::saturated(u128::MAX) => tat + ahead,
            _ => return Err(Denied::too_late()),
        };
        let next = self.take_from(view, tat, parameters.ticks(n));
        next.map(|_| ()).map_err(|missing| view.denied(missing))
    }

    /// The most units that can be granted in one request.
    fn most(&self, parameters: &Parameters) -> u64 {
        if M::PAYS_AFTER {
            parameters.most_overdrawn()
        } else {
            parameters.burst_units
        }
    }

    /// The receipt of a grant at `at_ns` that left `tat`.
    fn receipt(&self, at_ns: u64, parameters: &Parameters, tat: u128) -> Receipt {
        Receipt {
            units_per_token: parameters.units_per_token,
            state: tat,
            // As for reservations: a value that is too small only returns less.
            given_back: self
                .made_log()
                .map_or(0, |log| log.given_back.load(Ordering::Acquire)),
            epoch: parameters.epoch,
            // It has no start time.
            told_before_ns: at_ns,
        }
    }

    fn take_from(&self, view: &View<'_>, tat: u128, cost: u128) -> Result<u128, u128> {
        let (burst, debt) = (view.parameters.burst_ticks(), view.parameters.debt_ticks());
        if M::PAYS_AFTER {
            token_bucket::overdraw(tat, view.now, cost, burst, debt)
        } else {
            token_bucket::take(tat, view.now, cost, burst)
        }
    }

    /// The state that a reservation at `cost` leaves, and the instant from which it may be used.
    fn reserve_from(view: &View<'_>, cost: u128) -> (u128, u128) {
        let (burst, debt) = (view.parameters.burst_ticks(), view.parameters.debt_ticks());
        if M::PAYS_AFTER {
            token_bucket::reserve_overdraft(view.state, view.now, cost, burst, debt)
        } else {
            token_bucket::reserve(view.state, view.now, cost, burst)
        }
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
