//! One key, seen from its line.

use super::KeyedConcurrencyLimit;
use super::in_flight::{Refused, Who};
use crate::clock::{Clock, Timestamp};
use crate::keyed::rooms::KeyRoom;
use crate::limiter::reservation::Receipt;
use crate::room::{Room, Supply};
use crate::verdict::Denied;

/// The key whose room it is.
pub(super) struct KeySupply<'a> {
    all: &'a KeyedConcurrencyLimit,
    room: &'a KeyRoom<u32>,
}

impl<'a> KeySupply<'a> {
    pub(super) fn new(all: &'a KeyedConcurrencyLimit, room: &'a KeyRoom<u32>) -> Self {
        Self { all, room }
    }

    /// The limit that the line goes by.
    pub(super) fn limit(&self) -> u32 {
        self.room.own().unwrap_or_else(|| self.all.limit())
    }
}

/// No answer depends on the time.
impl Supply for KeySupply<'_> {
    fn room(&self) -> &Room {
        &self.room.room
    }

    fn clock(&self) -> &Clock {
        &self.all.clock
    }

    fn grant(&self, _: Timestamp, n: u64) -> Result<(), Denied> {
        let admitted = self
            .all
            .admit(&self.room.place, n, self.room.own(), Who::Next);
        admitted.map_err(|refused| self.all.denied(refused, n))
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.delay(at, 0, n)
    }

    fn take_back(&self, _: Timestamp, n: u64, _: &[Receipt]) {
        self.all.give_back(&self.room.place, n);
    }

    /// Nobody knows, unless there is room for all.
    fn delay(&self, _: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        let (limit, in_flight) = (self.limit(), self.all.in_flight.of(&self.room.place));
        let free = u64::from(limit).saturating_sub(in_flight);
        if ahead + u128::from(n) > free.into() {
            return Err(self.all.denied(Refused::Busy(limit), n));
        }
        Ok(())
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn has_dates(&self) -> bool {
        false
    }
}
