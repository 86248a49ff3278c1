//! The bucket, seen from its line.

use super::TokenBucket;
use crate::algorithm::token_bucket;
use crate::clock::{Clock, Timestamp};
use crate::limiter::reservation::{Booking, Receipt};
use crate::limiter::{At, ByClock};
use crate::primitive::Ordering;
use crate::room::{HOLD, Room, Supply};
use crate::thread_number::thread_number;
use crate::verdict::Denied;
use crate::word::{Centre, Parameters, Step, View};

impl Supply for TokenBucket {
    fn room(&self) -> &Room {
        &self.room
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn token(&self) -> u64 {
        self.word.units_per_token()
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let now_ns = at.as_nanos();
        if self.pays_after {
            return At::<_, ByClock>::new(self, now_ns).overdraw_units(|_| n);
        }
        self.word.take_units(now_ns, n, || Ok(()))
    }

    fn take(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        // From a stripe, if there are any.
        match self.word.draw(thread_number(), n) {
            Some(answer) => answer,
            None => self.grant(now, n),
        }
    }

    fn drain(
        &self,
        at: Timestamp,
        n: u64,
        level: u128,
        receipts: &mut [Receipt],
    ) -> Result<(), Denied> {
        let faster = level.clamp(1, self.drain_up_to.into());
        let at_ns = at.as_nanos();
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

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.delay(at, 0, n)
    }

    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]) {
        let Some(receipt) = receipts.first() else {
            self.take_back_unknown(at, n);
            return;
        };
        let grant = Booking {
            units: n,
            at_ns: at.as_nanos(),
            receipt: *receipt,
        };
        let now_ns = || self.clock.latest().as_nanos();
        if self.pays_after {
            self.cancel_last(&grant, now_ns());
        } else {
            self.cancel(&grant, self.drain_up_to, now_ns);
        }
    }

    /// Exactly: while anybody waits, the bucket is never full, so nothing is lost. But if it drains faster the fuller
    /// the line is, as if it did so as fast as it can.
    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        self.word
            .look(at.as_nanos(), |view| self.delay_seen(view, ahead, n))
    }

    fn receipts(&self) -> usize {
        1
    }

    fn announce(&self, flags: u64) {
        self.word.hold(flags & HOLD != 0);
    }
}

impl TokenBucket {
    /// [`delay`](Supply::delay), as `view` has it.
    fn delay_seen(&self, view: &View<'_>, ahead: u128, n: u64) -> Result<(), Denied> {
        let parameters = &view.parameters;
        let most = self.most(parameters);
        if n > most {
            return Err(Denied::never(n, most));
        }
        let ahead = u64::try_from(ahead)
            .map(|ahead| parameters.ticks(ahead) / u128::from(self.drain_up_to));
        let tat = view.state.max(view.now);
        let tat = match ahead {
            Ok(0) => view.state,
            Ok(ahead) if tat + ahead < Parameters::saturated(u128::MAX) => tat + ahead,
            _ => return Err(Denied::too_late()),
        };
        let next = self.take_from(view, tat, parameters.ticks(n));
        next.map(|_| ()).map_err(|missing| view.denied(missing))
    }

    /// How many units can be granted at once.
    fn most(&self, parameters: &Parameters) -> u64 {
        if self.pays_after {
            parameters.most_overdrawn()
        } else {
            parameters.burst_units
        }
    }

    /// For a grant at `at_ns` that left `tat`.
    fn receipt(&self, at_ns: u64, parameters: &Parameters, tat: u128) -> Receipt {
        Receipt {
            units_per_token: parameters.units_per_token,
            state: tat,
            // As for reservations: too little here only gives back less.
            given_back: self.given_back.load(Ordering::Acquire),
            epoch: parameters.epoch,
            // It was told no time.
            told_before_ns: at_ns,
        }
    }

    fn take_from(&self, view: &View<'_>, tat: u128, cost: u128) -> Result<u128, u128> {
        let (burst, debt) = (view.parameters.burst_ticks(), view.parameters.debt_ticks());
        if self.pays_after {
            token_bucket::overdraw(tat, view.now, cost, burst, debt)
        } else {
            token_bucket::take(tat, view.now, cost, burst)
        }
    }
}
