//! Giving back what was taken: reservations that are cancelled, refunds, and turns that nobody used.

use super::TokenBucket;
use super::ledger::Ledger;
use crate::algorithm::mul_div::mul_div;
use crate::algorithm::token_bucket;
use crate::clock::Timestamp;
use crate::limiter::reservation::{Booking, Revoke};
use crate::primitive::Ordering;
use crate::word::{Step, View};

impl TokenBucket {
    /// See [`ledger`](super::ledger) for why this much. It may have cost less, by as much as `up_to` times.
    pub(super) fn cancel(&self, booking: &Booking, up_to: u64, now_ns: impl Fn() -> u64) -> u64 {
        let receipt = &booking.receipt;
        let (units, scale) = (u128::from(booking.units), receipt.units_per_token);
        let _change = self.room.change(self);
        let mut ledger = self.ledger.lock();
        // If it is the last that was told a time, it is so no longer. Before the state changes: a reservation
        // that is made meanwhile from what the state was then fails, and tells its time again.
        let lowered = self.last_told_ns.compare_exchange(
            booking.at_ns,
            receipt.told_before_ns,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let told_ns = lowered.unwrap_or(0);
        let mut is_last = false;
        let units = self.give_back(&mut ledger, now_ns, told_ns, |ledger, view, now| {
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
        drop(ledger);
        units
    }

    /// As a cancelled reservation that everything still ahead was made after.
    pub(super) fn refund_at(&self, n: u64, now_ns: impl Fn() -> u64) -> u64 {
        let _change = self.room.change(self);
        self.give_back(&mut self.ledger.lock(), now_ns, 0, |_, view, _| {
            let parameters = &view.parameters;
            // Perhaps that is what it cost, and perhaps more.
            let taken = self.at_least(parameters.ticks(n.min(parameters.most_overdrawn())));
            (taken, u128::MAX)
        })
    }

    /// What `ticks` have really cost, at the least, as it may drain faster.
    fn at_least(&self, ticks: u128) -> u128 {
        match self.drain_up_to {
            1 => ticks,
            faster => ticks / u128::from(faster),
        }
    }

    /// A refund of `n` units that were granted at `at`, but for what has flowed in again since: the bucket may have been
    /// full but for them, and has then lost that.
    pub(super) fn take_back_unknown(&self, at: Timestamp, n: u64) {
        let _change = self.room.change(self);
        self.give_back(
            &mut self.ledger.lock(),
            || self.clock.latest().as_nanos(),
            0,
            |_, view, now| {
                let parameters = &view.parameters;
                let taken = self.at_least(parameters.ticks(n));
                let full_at = parameters.now_ticks(at.as_nanos()) + taken;
                (taken.min(full_at.saturating_sub(now)), u128::MAX)
            },
        );
    }

    /// `taken` says how many ticks were taken that are still missing, and how many since. If any were, somebody
    /// may still have been told `told_ns`.
    fn give_back(
        &self,
        ledger: &mut Ledger,
        now_ns: impl Fn() -> u64,
        told_ns: u64,
        mut taken: impl FnMut(&Ledger, &View<'_>, u128) -> (u128, u128),
    ) -> u64 {
        let (units, given) = self.word.update_stored(now_ns(), |view| {
            let parameters = &view.parameters;
            // Read after the state, so that it is not older than the decisions in it.
            let now_ns = self.settled_ns(now_ns(), parameters, view.state);
            let now = parameters.now_ticks(now_ns);
            let (taken, since) = taken(ledger, view, now);

            let burst = parameters.burst_ticks();
            let holes = ledger.holes_at(now_ns);
            let told_ns = if since > 0 { told_ns } else { 0 };
            let last_told_ns = Self::seen(&self.last_told_ns).max(told_ns);
            let standing = if last_told_ns > 0 && now_ns <= last_told_ns {
                let largest = match self.pays_after {
                    // Beside a reservation that may go into debt there is no room for anything given back.
                    true => u64::MAX,
                    false => Self::seen(self.largest_told(parameters.epoch)),
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
            let given_back = self.given_back.load(Ordering::Acquire) + ticks;
            self.given_back.store(given_back, Ordering::Release);
            if let Some((now_ns, until_ns)) = hole {
                ledger.leave_hole(now_ns, ticks, until_ns);
            }
        }
        units
    }
}

impl Revoke for TokenBucket {
    fn revoke(&self, booking: &Booking, now: Option<Timestamp>) -> u64 {
        match now {
            Some(now) => {
                self.at(now).note();
                self.cancel(booking, 1, || now.as_nanos())
            }
            None => self.cancel(booking, 1, || self.clock.latest().as_nanos()),
        }
    }
}

impl View<'_> {
    /// The whole units that a bucket with `tat` would hold at `now`; negative in debt.
    pub(super) fn balance_at(&self, now: u128, tat: u128) -> i128 {
        let horizon = (now + self.parameters.burst_ticks()) as i128;
        (horizon - tat.max(now) as i128).div_euclid(i128::from(self.parameters.unit_ticks))
    }
}
