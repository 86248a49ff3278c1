//! Returning tokens: cancelled reservations, refunds, and grants that no waiter used.

use super::bucket::{Bucket, Mode};
use super::refund_log::{Ledger, seen};
use crate::algorithm::mul_div::mul_div;
use crate::algorithm::token_bucket;
use crate::limiter::reservation::Booking;
use crate::primitive::Ordering;
use crate::queue::Receipt;
use crate::store::word::{Step, View};

impl<M: Mode> Bucket<M> {
    /// See [`ledger`](super::refund_log) for the amount. If the queue drains faster, the units may have cost less, down to
    /// 1/`up_to`.
    pub(super) fn cancel(&self, booking: &Booking, up_to: u64, now_ns: impl Fn() -> u64) -> u64 {
        let receipt = &booking.receipt;
        let (units, scale) = (u128::from(booking.units), receipt.units_per_token);
        let log = self.log();
        let mut ledger = log.ledger.lock();
        // If it is the last reservation with a start time, that time no longer counts. This comes before the change of state: a
        // reservation that is made in between, from the earlier state, fails and notes its time again.
        let lowered = log.last_told_ns.compare_exchange(
            booking.at_ns,
            receipt.told_before_ns,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let told_ns = lowered.unwrap_or(0);
        let mut is_last = false;
        let units = self.give_back(&mut ledger, now_ns, told_ns, |ledger, view, now| {
            is_last = false;
            let Some(full_at) = ledger.full_at(receipt, &log.given_back, view.parameters.epoch)
            else {
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
            log.last_told_ns.fetch_max(told_ns, Ordering::AcqRel);
        }
        drop(ledger);
        units
    }

    /// Returns all units if nothing has happened since, and otherwise nothing.
    pub(super) fn cancel_last(&self, booking: &Booking, now_ns: u64) -> u64 {
        let Receipt {
            state,
            given_back,
            epoch,
            told_before_ns,
            ..
        } = booking.receipt;
        // Blocks every other thread that returns units.
        let log = self.log();
        let ledger = log.ledger.lock();
        // Before the state changes, as for the reservation of a token bucket.
        let lowered = log.last_told_ns.compare_exchange(
            booking.at_ns,
            told_before_ns,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let back = self.word.update_stored(now_ns, |view| {
            let is_last = view.state == state
                && view.parameters.epoch == epoch
                && log.given_back.load(Ordering::Acquire) == given_back;
            let now_ns = self.settled_ns(now_ns, &view.parameters, view.state);
            let now = view.parameters.now_ticks(now_ns);
            let cost = view.parameters.ticks(booking.units);
            let tat = token_bucket::give_back(view.state, now, cost);
            if !is_last || tat == view.state {
                return Step::Stay(None);
            }
            let units = view.balance_at(now, tat) - view.balance_at(now, view.state);
            Step::Move(tat, Some(u64::try_from(units).unwrap_or(0)))
        });
        if let (None, Ok(told_ns)) = (back, lowered) {
            log.last_told_ns.fetch_max(told_ns, Ordering::AcqRel);
        }
        drop(ledger);
        back.unwrap_or(0)
    }

    /// Refunds `n` units, like a cancelled reservation after which everything still ahead was reserved.
    pub(super) fn refund_at(&self, n: u64, now_ns: impl Fn() -> u64) -> u64 {
        self.give_back(&mut self.log().ledger.lock(), now_ns, 0, |_, view, _| {
            let parameters = &view.parameters;
            // This is a lower bound of the cost.
            let taken = self.at_least(parameters.ticks(n.min(parameters.most_overdrawn())));
            (taken, u128::MAX)
        })
    }

    /// The least that `ticks` can have cost, because the queue may drain faster.
    fn at_least(&self, ticks: u128) -> u128 {
        match self.drain_up_to() {
            1 => ticks,
            faster => ticks / u128::from(faster),
        }
    }

    /// Refunds `n` units that were granted at `at_ns`, less the tokens that have flowed in since. Without these units the
    /// bucket may have been full, and would have discarded that refill.
    pub(super) fn take_back_unknown(&self, at_ns: u64, n: u64, now_ns: impl Fn() -> u64) {
        self.give_back(&mut self.log().ledger.lock(), now_ns, 0, |_, view, now| {
            let parameters = &view.parameters;
            let taken = self.at_least(parameters.ticks(n));
            let full_at = parameters.now_ticks(at_ns) + taken;
            (taken.min(full_at.saturating_sub(now)), u128::MAX)
        });
    }

    /// Returns tokens. `taken` computes how many ticks were taken that are still missing, and how many were taken since. If any
    /// were taken since, a reservation may still start at `told_ns`.
    fn give_back(
        &self,
        ledger: &mut Ledger,
        now_ns: impl Fn() -> u64,
        told_ns: u64,
        mut taken: impl FnMut(&Ledger, &View<'_>, u128) -> (u128, u128),
    ) -> u64 {
        let log = self.log();
        let (units, given) = self.word.update_stored(now_ns(), |view| {
            let parameters = &view.parameters;
            // Read after the state, so that it is not older than the decisions in it.
            let now_ns = self.settled_ns(now_ns(), parameters, view.state);
            let now = parameters.now_ticks(now_ns);
            let (taken, since) = taken(ledger, view, now);

            let burst = parameters.burst_ticks();
            let holes = ledger.holes_at(now_ns);
            let told_ns = if since > 0 { told_ns } else { 0 };
            let last_told_ns = seen(&log.last_told_ns).max(told_ns);
            let standing = if last_told_ns > 0 && now_ns <= last_told_ns {
                let largest = match M::PAYS_AFTER {
                    // Beside a reservation that may go into debt there is no room for returned units.
                    true => u64::MAX,
                    false => seen(log.largest_told(parameters.epoch)),
                };
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
            let given_back = log.given_back.load(Ordering::Acquire) + ticks;
            log.given_back.store(given_back, Ordering::Release);
            if let Some((now_ns, until_ns)) = hole {
                ledger.leave_hole(now_ns, ticks, until_ns);
            }
        }
        units
    }
}

impl View<'_> {
    /// The whole units that a bucket with `tat` would hold at `now`; negative in debt.
    pub(super) fn balance_at(&self, now: u128, tat: u128) -> i128 {
        let horizon = (now + self.parameters.burst_ticks()) as i128;
        (horizon - tat.max(now) as i128).div_euclid(i128::from(self.parameters.unit_ticks))
    }
}
