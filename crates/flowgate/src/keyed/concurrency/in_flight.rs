//! How many are in flight for each key: a [table](super::super::table) of which the states are numbers, not instants.
//!
//! An entry is vacant while its number is 0 and nobody waits, and then it may be overwritten; its fingerprint stays
//! until that happens, so that a key that is used by one at a time takes no lock. Whoever holds a permit has a part in
//! a number that is not 0. So its entry is neither overwritten nor moved, and is found again when the permit is
//! dropped.
//!
//! Whoever waits has the entry say so first, and then asks. A release comes before that, and then they find what it
//! gave back; or after, and then its compare-and-swap has seen that somebody waits.

use crate::keyed::entry::{Entry, Place, Reading};
use crate::keyed::names::Hashed;
use crate::keyed::table::{self, Opening, Slot, Table};

/// What makes an entry vacant: a number that is not above this.
const NONE: u128 = 0;
/// No entry is to be read in any other way.
const READING: Reading = Reading::of_table(0);

pub(super) struct InFlight {
    pub(super) table: Table<Hashed>,
}

/// Why no more were let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// This many are the most.
    Busy(u32),
    /// The key has no entry, and none is to be had.
    NoEntry,
    /// Others wait for it, and this is its slot.
    Waits(usize),
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Somebody who may not overtake.
    Newcomer,
    /// Whose turn it is.
    Next,
}

impl InFlight {
    /// How many are in flight for the key at `place`, and, if somebody waits for it, its slot.
    pub(super) fn look(&self, place: &Place) -> (u64, Option<usize>) {
        let seen = self.find(place).map(|slot| {
            let waits = slot.entry.waits().then_some(slot.index);
            (count(slot.entry), waits)
        });
        seen.unwrap_or((0, None))
    }

    /// Lets `n` more in for the key at `place`, not 0, and says how many are in flight with them: at most `limit`.
    #[inline]
    pub(super) fn take(&self, place: &Place, n: u64, limit: u32, who: Who) -> Result<u64, Refused> {
        match self.add(place, n, limit, who) {
            Some(answer) => answer,
            None => self.take_first(place, n, limit, who),
        }
    }

    /// [`take`](Self::take) for a key that has an entry.
    #[inline]
    fn add(&self, place: &Place, n: u64, limit: u32, who: Who) -> Option<Result<u64, Refused>> {
        loop {
            let slot = self.find(place)?;
            if slot.entry.waits() && who == Who::Newcomer {
                return Some(Err(Refused::Waits(slot.index)));
            }
            let in_flight = count(slot.entry);
            if n > u64::from(limit).saturating_sub(in_flight) {
                return Some(Err(Refused::Busy(limit)));
            }
            let sum = in_flight + n;
            // Acquires what `give_back` releases.
            if slot.swap(slot.entry.with(READING, sum.into())) {
                return Some(Ok(sum));
            }
        }
    }

    /// [`take`](Self::take) for a key that has none.
    #[cold]
    #[inline(never)]
    fn take_first(&self, place: &Place, n: u64, limit: u32, who: Who) -> Result<u64, Refused> {
        if n > limit.into() {
            return Err(Refused::Busy(limit));
        }
        let entry = Entry::new(place.fingerprint, READING, n.into());
        let again = || self.add(place, n, limit, who);
        let answer = self.put_in(place, entry, again, |_| Ok(n));
        answer.unwrap_or(Err(Refused::NoEntry))
    }

    /// Puts in an entry for the key at `place`, unless it has one by now, of which `known` tells. None: there is no slot for it.
    fn put_in<T>(
        &self,
        place: &Place,
        entry: Entry,
        known: impl Fn() -> Option<T>,
        new: impl Fn(usize) -> T,
    ) -> Option<T> {
        let _lock = self.table.lock(place);
        loop {
            if let Some(known) = known() {
                return Some(known);
            }
            match self.table.opening(place, NONE) {
                Opening::Vacant(slot) if slot.swap(entry) => return Some(new(slot.index)),
                Opening::Vacant(_) => {}
                Opening::Instead(_) | Opening::None => return None,
            }
        }
    }

    /// `n` of those that were let in for the key at `place` are no longer in flight. If somebody waits for
    /// it: in which slot.
    #[inline]
    #[must_use]
    pub(super) fn give_back(&self, place: &Place, n: u64) -> Option<usize> {
        // There is an entry as long as these are in flight; see the module.
        while let Some(slot) = self.find(place) {
            let left = count(slot.entry) - n;
            // Releases to the `take` that gets them.
            if slot.swap(slot.entry.with(READING, left.into())) {
                return slot.entry.waits().then_some(slot.index);
            }
        }
        debug_assert!(false, "{n} are given back that are not in flight");
        None
    }

    /// Says that somebody waits for the key at `place`, and in which slot it says so, which is the key's from then on;
    /// none: it has none, and none is to be had.
    #[must_use]
    pub(super) fn hold(&self, place: &Place) -> Option<usize> {
        let marked = || self.table.mark(who(place), true);
        let entry = Entry::new(place.fingerprint, READING, NONE).with_waits(true);
        marked().or_else(|| self.put_in(place, entry, marked, |slot| slot))
    }

    /// Says that nobody waits any longer for the key at `place`.
    pub(super) fn release(&self, place: &Place) {
        let slot = self.table.mark(who(place), false);
        debug_assert!(slot.is_some(), "an entry stays while somebody waits");
    }

    #[inline]
    fn find(&self, place: &Place) -> Option<Slot<'_>> {
        self.table.find(who(place)).map(|(slot, _)| slot)
    }

    /// How many keys have something in flight, or somebody waiting.
    pub(super) fn keys(&self) -> usize {
        let all = self.table.all();
        all.filter(|(_, slot)| !slot.entry.is_vacant(NONE)).count()
    }
}

fn who(place: &Place) -> table::Who<'_, Hashed> {
    table::Who {
        place: *place,
        key: &(),
    }
}

fn count(entry: Entry) -> u64 {
    // At most a limit.
    entry.state() as u64
}
