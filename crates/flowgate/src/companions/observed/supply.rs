//! The limiter, seen from its queue by those whose turns are counted.

use super::Observed;
use crate::clock::{Clock, Timestamp};
use crate::gate::Gate;
use crate::limiter::reservation::Receipt;
use crate::limiter::{
    Limiter,
    sealed::{Plumbing, Sealed},
};
use crate::queue::{Grant, Granted, Queue, Supply};
use crate::verdict::Denied;

/// What can be observed: whatever has a queue.
pub trait Observable {
    fn inner(&self) -> &dyn Supply;
}

impl<L: Sealed> Observable for L {
    fn inner(&self) -> &dyn Supply {
        self.supply().0
    }
}

impl Observable for Gate {
    fn inner(&self) -> &dyn Supply {
        self
    }
}

/// Everything goes on to the limiter, also what a supply need not have; but dates are wanted, for how long each has waited.
impl<L: Observable + Send + Sync> Supply for Observed<L> {
    fn queue(&self) -> &Queue {
        self.limiter.inner().queue()
    }

    fn open_queue(&self) -> Result<&Queue, Denied> {
        self.limiter.inner().open_queue()
    }

    fn clock(&self) -> &Clock {
        self.limiter.inner().clock()
    }

    fn token(&self) -> u64 {
        self.limiter.inner().token()
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.limiter.inner().grant(at, n)
    }

    fn take(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.limiter.inner().take(now, n)
    }

    fn drain(
        &self,
        at: Timestamp,
        n: u64,
        level: u128,
        receipts: &mut [Receipt],
    ) -> Result<(), Denied> {
        self.limiter.inner().drain(at, n, level, receipts)
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.limiter.inner().peek(at, n)
    }

    fn look(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.limiter.inner().look(now, n)
    }

    fn has_more(&self) -> bool {
        self.limiter.inner().has_more()
    }

    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]) {
        self.limiter.inner().take_back(at, n, receipts);
    }

    fn end(&self, n: u64) {
        self.limiter.inner().end(n);
    }

    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        self.limiter.inner().delay(at, ahead, n)
    }

    fn behind(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        self.limiter.inner().behind(at, ahead, n)
    }

    fn is_timed(&self) -> bool {
        self.limiter.inner().is_timed()
    }

    fn receipts(&self) -> usize {
        self.limiter.inner().receipts()
    }

    fn announce(&self, flags: u64) {
        self.limiter.inner().announce(flags);
    }

    fn answered(&self, answer: &Result<Granted, Denied>) {
        self.limiter.inner().answered(answer);
        match answer {
            Ok(granted) => {
                let grant = Grant::from(*granted);
                self.counters.waited(grant.units(), grant.waited());
            }
            Err(denied) => self.counters.refused_in_line(denied),
        }
    }

    fn abandoned(&self) {
        self.limiter.inner().abandoned();
        self.counters.abandoned();
    }
}

impl<L: Sealed + Send + Sync> Sealed for Observed<L> {
    fn supply(&self) -> Plumbing<'_> {
        Plumbing(self)
    }

    fn limiter(&self) -> Option<&dyn Limiter> {
        self.limiter.limiter()
    }
}
