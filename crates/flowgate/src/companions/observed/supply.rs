//! The limiter, as its queue sees it through waiters that are counted.

use super::Observed;
use super::shared::HasCounters;
use crate::clock::{Clock, Timestamp};
use crate::keyed::{KeyPermits, KeyedConcurrencyLimit};
use crate::limiter::{
    Limiter,
    sealed::{Identity, Plumbing, Sealed},
};
use crate::queue::{Asker, Event, Facts, Grantee, Opened, Queue, Receipt, StandBack, Supply};
use crate::verdict::Denied;
use core::ops::Deref;

/// Type that can be observed: every type that has a queue.
pub trait Observable {
    fn inner(&self) -> &dyn Supply;
}

impl<L: Sealed> Observable for L {
    fn inner(&self) -> &dyn Supply {
        self.supply().0
    }
}

impl<P: Deref<Target = KeyedConcurrencyLimit> + Send + Sync> Observable for KeyPermits<P> {
    fn inner(&self) -> &dyn Supply {
        self
    }
}

/// Passes every call on to the limiter. It requests the times of grants, in order to record how long each waiter has waited.
impl<L: Observable + Send + Sync, C: HasCounters> Supply for Observed<L, C> {
    fn queue(&self) -> &Queue {
        self.limiter.inner().queue()
    }

    fn open_queue(&self, at: Timestamp, n: u64) -> Result<Opened<'_>, Denied> {
        self.limiter.inner().open_queue(at, n)
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
        let counters = self.counters.counters();
        match event {
            Event::Flags(_) => {}
            Event::Answered(Ok(granted)) => {
                counters.waited(granted.units(), granted.waited());
            }
            Event::Answered(Err(denied)) => counters.refused_in_line(denied),
            Event::Abandoned => counters.abandoned(),
        }
    }
}

impl<L: Sealed + Send + Sync, C: HasCounters> Sealed for Observed<L, C> {
    fn supply(&self) -> Plumbing<'_> {
        Plumbing(self)
    }

    fn limiter(&self) -> Option<&dyn Limiter> {
        self.limiter.limiter()
    }

    fn each_limiter(&self, visit: &mut dyn FnMut(Identity)) {
        self.limiter.each_limiter(visit);
    }

    fn inner(&self) -> Option<&dyn Limiter> {
        self.limiter.limiter()
    }
}
