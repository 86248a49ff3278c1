//! One key, seen from its line.

use super::Keyed;
use super::algorithm::KeyedAlgorithm;
use super::keys::{Amount, Asked, Refusal, Told};
use super::names::KeyNames;
use super::rooms::KeyRoom;
use super::rule::Terms;
use super::table::Who;
use crate::clock::{Clock, Timestamp};
use crate::reservation::Receipt;
use crate::room::{Room, Supply};
use crate::verdict::Denied;
use core::borrow::Borrow;

/// The key whose room it is, by the quota of those who wait there.
pub(super) struct KeySupply<'a, A: KeyedAlgorithm, N: KeyNames> {
    pub(super) keyed: &'a Keyed<A, N>,
    pub(super) room: &'a KeyRoom<Terms, N::Owned>,
}

impl<A: KeyedAlgorithm, N: KeyNames> KeySupply<'_, A, N> {
    /// The terms that the line goes by.
    pub(super) fn terms(&self) -> Terms {
        self.keyed.terms(self.room.own().as_ref())
    }

    fn who(&self) -> Who<'_, N> {
        Who {
            place: self.room.place,
            key: self.room.key.borrow(),
        }
    }

    fn asked<'b>(&'b self, now_ns: u64, own: &'b Option<Terms>) -> Asked<'b> {
        Asked {
            now_ns,
            told: Told::AsDate,
            clock: Some(&self.keyed.clock),
            own: own.as_ref(),
        }
    }

    /// Has the key come into the line's terms, if it is not in them: now, as a date does not tell when.
    fn align(&self, own: &Option<Terms>) {
        let asked = Asked {
            told: Told::ByClock,
            ..self.asked(self.keyed.clock.latest().as_nanos(), own)
        };
        self.keyed.keys.align(self.who(), asked);
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Supply for KeySupply<'_, A, N> {
    fn room(&self) -> &Room {
        &self.room.room
    }

    fn clock(&self) -> &Clock {
        &self.keyed.clock
    }

    fn token(&self) -> u64 {
        self.terms().scale
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let own = self.room.own();
        self.align(&own);
        let asked = self.asked(at.as_nanos(), &own);
        let keys = &self.keyed.keys;
        let taken = keys.take(self.who(), asked, Amount::All(n), true);
        taken.map(drop).map_err(Refusal::denied)
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.delay(at, 0, n)
    }

    /// With the number of the terms that were in force before, so that it is not that of later ones.
    fn drain(
        &self,
        at: Timestamp,
        n: u64,
        _: u128,
        receipts: &mut [Receipt],
    ) -> Result<(), Denied> {
        let epoch = self.terms().reading.number();
        self.grant(at, n)?;
        receipts.fill(Receipt {
            epoch,
            ..Receipt::default()
        });
        Ok(())
    }

    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]) {
        let _change = self.room.room.change(self);
        let own = self.room.own();
        let asked = self.asked(at.as_nanos(), &own);
        let keys = &self.keyed.keys;
        let epoch = receipts.first().map_or(0, |receipt| receipt.epoch);
        keys.take_back(self.who(), asked, (at.as_nanos(), n), epoch);
    }

    fn receipts(&self) -> usize {
        1
    }

    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        let own = self.room.own();
        self.align(&own);
        let asked = self.asked(at.as_nanos(), &own);
        let (known, _) = self.keyed.keys.look(self.who(), asked);
        known.behind(ahead).judge(n)
    }
}
