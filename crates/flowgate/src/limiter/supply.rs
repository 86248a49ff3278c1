//! A rate limiter as its queue sees it.

use super::RateLimiter;
use super::any::{Limiter, own_verbs, sealed};
use super::engine::{Engine, Request};
use super::reservation::{Booking, Reservation, Revoke};
use super::snapshot::{QuotaState, Snapshot};
use super::state::{LimiterState, LimiterStateError};
use crate::clock::{Clock, Timestamp};
use crate::queue::{
    Acquire, Asker, Event, Facts, Grantee, HOLD, Queue, Receipt, StandBack, Supply, own_queue,
    stand_back,
};
use crate::quota::policy::Policy;
use crate::quota::{QuotaError, Quotas};
use crate::verdict::Denied;
use core::time::Duration;

impl<E: Engine> Supply for RateLimiter<E> {
    own_queue!();

    fn stand_back(&self) -> Option<StandBack> {
        Some(stand_back::<Self>)
    }

    fn facts(&self) -> Facts {
        Facts::timed(self.engine.token(), self.engine.receipts())
    }

    fn ask(&self, at: Timestamp, n: u64, asker: Asker) -> Result<(), Denied> {
        match asker {
            Asker::Caller { ahead: 0 } => self.engine.look(at.as_nanos(), n),
            _ => self.engine.delay(at.as_nanos(), asker.ahead(), n),
        }
    }

    fn grant(&self, at: Timestamp, n: u64, to: Grantee<'_>) -> Result<(), Denied> {
        match to {
            Grantee::Caller => self.engine.take(at.as_nanos(), n),
            Grantee::Waiter { level, receipts } => {
                self.engine.drain(at.as_nanos(), n, level, receipts)
            }
        }
    }

    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]) {
        let _change = self.queue.change(self);
        self.engine
            .take_back(at.as_nanos(), n, receipts, &self.clock);
    }

    fn note(&self, event: Event<'_>) {
        if let Event::Flags(flags) = event {
            self.engine.hold(flags & HOLD != 0);
        }
    }
}

impl<E: Engine> Revoke for RateLimiter<E> {
    fn revoke(&self, booking: &Booking, now: Option<Timestamp>) -> u64 {
        let Some(reserves) = self.engine.capabilities().reserves else {
            return 0;
        };
        let _change = self.queue.change(self);
        match now {
            Some(now) => {
                let at = self.at(now);
                at.note(Request::Any);
                reserves.revoke(booking, &at.time())
            }
            None => reserves.revoke(booking, &self.clock),
        }
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl<E: Engine> sealed::Sealed for RateLimiter<E> {
    fn supply(&self) -> sealed::Plumbing<'_> {
        sealed::Plumbing(self)
    }

    fn limiter(&self) -> Option<&dyn Limiter> {
        Some(self)
    }
}

impl<E: Engine> Limiter for RateLimiter<E> {
    own_verbs!();

    fn try_acquire_n_at(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.at(now).try_acquire_n(n)
    }

    fn try_reserve_n(&self, n: u64) -> Option<Result<Reservation<'_>, Denied>> {
        let reserves = self.engine.capabilities().reserves?;
        let at = self.at_now();
        let booking = at
            .pass(Some(n))
            .and_then(|()| reserves.reserve(at.now_ns, Some(n), None));
        Some(booking.map(|booking| Reservation {
            limiter: self,
            booking,
        }))
    }

    fn available(&self) -> u64 {
        self.available()
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshot()
    }

    fn policy(&self) -> Option<Policy> {
        self.engine.policy()
    }

    fn quota_states(&self) -> Option<[QuotaState; 2]> {
        self.at_now().quota_states()
    }

    fn set_quotas(&self, quotas: Quotas) -> Result<(), QuotaError> {
        let _change = self.queue.reconfigure(self);
        self.engine.set_quotas(quotas, &self.clock)
    }

    fn refund(&self, n: u64) -> u64 {
        let Some(refunds) = self.engine.capabilities().refunds else {
            return 0;
        };
        let _change = self.queue.change(self);
        refunds.refund(n, &self.clock)
    }

    fn charge(&self, n: u64) {
        self.at_now().charge(n);
    }

    fn export_at(&self, unix_time: Duration) -> Option<LimiterState> {
        Some(self.export_by(unix_time))
    }

    fn import_at(
        &self,
        state: &LimiterState,
        unix_time: Duration,
    ) -> Result<(), LimiterStateError> {
        self.import_by(state, unix_time)
    }
}
