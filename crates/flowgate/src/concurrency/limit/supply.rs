//! The limit, seen from its queue.

use super::ConcurrencyLimit;
use crate::clock::{Clock, Timestamp};
use crate::limiter::reservation::Receipt;
use crate::queue::{Queue, Supply};
use crate::verdict::Denied;

/// No answer depends on the time.
impl Supply for ConcurrencyLimit {
    fn queue(&self) -> &Queue {
        &self.queue
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn grant(&self, _: Timestamp, n: u64) -> Result<(), Denied> {
        self.take_past_the_line(n)
    }

    fn peek(&self, _: Timestamp, n: u64) -> Result<(), Denied> {
        let seen = self.slots.view();
        if n > seen.free() {
            return Err(seen.denied(n));
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.slots.view().free() > 0
    }

    fn take_back(&self, _: Timestamp, n: u64, _: &[Receipt]) {
        self.give_back(n);
    }

    #[inline(always)]
    fn end(&self, n: u64) {
        self.give_back(n);
    }

    /// Nobody knows, unless there are slots for all.
    fn delay(&self, _: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        let seen = self.slots.view();
        if ahead + u128::from(n) > u128::from(seen.free()) {
            return Err(seen.denied(n));
        }
        Ok(())
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn has_dates(&self) -> bool {
        false
    }

    fn announce(&self, flags: u64) {
        self.slots.announce(flags);
    }
}
