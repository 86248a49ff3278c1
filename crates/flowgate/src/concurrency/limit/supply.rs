//! The limit, as its queue sees it.

use super::ConcurrencyLimit;
use crate::clock::{Clock, Timestamp};
use crate::queue::{Asker, Event, Facts, Grantee, Queue, Receipt, Supply, own_queue};
use crate::verdict::Denied;

/// No answer depends on the time.
impl Supply for ConcurrencyLimit {
    own_queue!();

    fn facts(&self) -> Facts {
        Facts::untimed(self.slots.view().free() > 0)
    }

    /// A refusal states no time, as none is known.
    fn ask(&self, _: Timestamp, n: u64, asker: Asker) -> Result<(), Denied> {
        let seen = self.slots.view();
        if asker.ahead() + u128::from(n) > u128::from(seen.free()) {
            return Err(seen.denied(n));
        }
        Ok(())
    }

    fn grant(&self, _: Timestamp, n: u64, _: Grantee<'_>) -> Result<(), Denied> {
        self.take_past_the_line(n)
    }

    fn take_back(&self, _: Timestamp, n: u64, _: &[Receipt]) {
        self.give_back(n);
    }

    #[inline(always)]
    fn end(&self, n: u64) {
        self.give_back(n);
    }

    fn note(&self, event: Event<'_>) {
        if let Event::Flags(flags) = event {
            self.slots.announce(flags);
        }
    }
}
