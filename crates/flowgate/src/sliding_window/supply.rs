//! The window, seen from its line.

use super::SlidingWindow;
use crate::clock::{Clock, Timestamp};
use crate::reservation::Receipt;
use crate::room::{Room, Supply};
use crate::verdict::Denied;

impl Supply for SlidingWindow {
    fn room(&self) -> &Room {
        &self.room
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn token(&self) -> u64 {
        self.log.token()
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.log.take_dated(at.as_nanos(), n)
    }

    fn take(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.log.take_units(now.as_nanos(), n)
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.delay(at, 0, n)
    }

    /// Not dated: at a time before the newest entry it counts with that.
    fn look(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.log.foretell(now.as_nanos(), n)
    }

    /// Takes them out of the log where they are, and not the newest, as a refund does: what others took later goes on
    /// counting.
    fn take_back(&self, at: Timestamp, n: u64, _: &[Receipt]) {
        let _change = self.room.change(self);
        self.log.take_out(at.as_nanos(), n);
    }

    /// As long as it takes if all those ahead ask for single units; larger requests do not fill every window, and take
    /// longer.
    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        self.log.look_ahead(at.as_nanos(), ahead, n)
    }
}
