//! The limiter, seen from its queue by those whose turns are counted.

use super::Observed;
use crate::clock::{Clock, Timestamp};
use crate::limiter::{
    Limiter,
    sealed::{Plumbing, Sealed},
};
use crate::queue::{Asker, Event, Facts, Grant, Grantee, Queue, Receipt, StandBack, Supply};
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

/// Everything goes on to the limiter; but the times of grants are wanted, for how long each has waited.
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

    fn stand_back(&self) -> Option<StandBack> {
        self.limiter.inner().stand_back()
    }

    fn facts(&self) -> Facts {
        Facts {
            wants_dates: true,
            ..self.limiter.inner().facts()
        }
    }

    fn ask(&self, at: Timestamp, n: u64, asker: Asker) -> Result<(), Denied> {
        self.limiter.inner().ask(at, n, asker)
    }

    fn grant(&self, at: Timestamp, n: u64, to: Grantee<'_>) -> Result<(), Denied> {
        self.limiter.inner().grant(at, n, to)
    }

    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]) {
        self.limiter.inner().take_back(at, n, receipts);
    }

    fn end(&self, n: u64) {
        self.limiter.inner().end(n);
    }

    fn note(&self, event: Event<'_>) {
        self.limiter.inner().note(event);
        match event {
            Event::Flags(_) => {}
            Event::Answered(Ok(granted)) => {
                let grant = Grant::from(*granted);
                self.counters.waited(grant.units(), grant.waited());
            }
            Event::Answered(Err(denied)) => self.counters.refused_in_line(denied),
            Event::Abandoned => self.counters.abandoned(),
        }
    }
}

impl<L: Sealed + Send + Sync> Sealed for Observed<L> {
    fn supply(&self) -> Plumbing<'_> {
        Plumbing(self)
    }

    fn limiter(&self) -> Option<&dyn Limiter> {
        self.limiter.limiter()
    }

    fn inner(&self) -> Option<&dyn Limiter> {
        self.limiter.limiter()
    }
}
