//! The number of operations in flight for each key: a [table](super::super::table) whose states are numbers instead of instants.
//!
//! An entry is vacant while its number is 0 and no caller waits for the key. A vacant entry may be overwritten. Its fingerprint
//! stays until then, so a key that is used by one caller at a time takes no lock. A permit is part of a number that is not 0. Its
//! entry is therefore neither overwritten nor moved, and the permit finds the entry again when it is dropped.
//!
//! A waiter first marks the entry, and then asks for permits. If a release comes before the mark, the waiter finds what the release
//! returned. If it comes after the mark, the compare-and-swap of the release sees that a caller waits.

use crate::concurrency::limit::denied;
use crate::keyed::entry::{Entry, Place, Reading};
use crate::keyed::keys::Refusal;
use crate::keyed::names::Hashed;
use crate::keyed::table::{self, Opening, Slot, Table};
use crate::primitive::{AtomicU64, Ordering};
use crate::verdict::Denied;

/// An entry with a number up to this is vacant.
const NONE: u128 = 0;
/// All entries are read in the same way.
const READING: Reading = Reading::of_table(0);

pub(super) struct InFlight {
    pub(super) table: Table<Hashed>,
    /// How often a key had no entry and could not get one.
    pub(super) refused_for_room: AtomicU64,
}

impl InFlight {
    /// Returns the number in flight for the key at `place`, and its slot if callers wait for it.
    pub(super) fn look(&self, place: &Place) -> (u64, Option<usize>) {
        let seen = self.find(place).map(|slot| {
            let waits = slot.entry.waits().then_some(slot.index);
            (count(slot.entry), waits)
        });
        seen.unwrap_or((0, None))
    }

    /// Admits a request of at least 1 for the key at `place`. Returns the number then in flight, which is at most `limit`.
    #[inline]
    pub(super) fn take(&self, place: &Place, asked: Asked, limit: u32) -> Result<u64, Refusal> {
        let sum = |entry| count(entry) + asked.n;
        let (before, _) = self.put(place, |entry, slot| {
            if entry.waits() && !asked.is_in_line {
                return Err(Refusal::Waits(slot));
            }
            judge(count(entry), asked.n, limit).map_err(Refusal::Denied)?;
            // Acquires what `give_back` releases.
            Ok(entry.with(READING, sum(entry).into()))
        })?;
        Ok(sum(before))
    }

    /// Changes the entry of the key at `place`, or creates it. Returns the entry before the change, and its slot.
    #[inline]
    fn put(
        &self,
        place: &Place,
        change: impl Fn(Entry, usize) -> Result<Entry, Refusal>,
    ) -> Result<(Entry, usize), Refusal> {
        let mut lock = None;
        loop {
            let (slot, before) = match self.find(place) {
                Some(slot) => (slot, slot.entry),
                None => {
                    let new = Entry::new(place.fingerprint, READING, NONE);
                    if lock.is_none() {
                        change(new, 0)?;
                        lock = Some(self.table.lock(place));
                        continue;
                    }
                    match self.table.opening(place, NONE) {
                        Opening::Vacant(slot) => (slot, new),
                        Opening::Instead(_) | Opening::None => {
                            self.refused_for_room.fetch_add(1, Ordering::Relaxed);
                            return Err(Refusal::Denied(Denied::table_full(0)));
                        }
                    }
                }
            };
            if slot.swap(change(before, slot.index)?) {
                return Ok((before, slot.index));
            }
        }
    }

    /// Ends `n` operations of the key at `place`. Returns the slot if callers wait for the key.
    #[inline]
    #[must_use]
    pub(super) fn give_back(&self, place: &Place, n: u64) -> Option<usize> {
        // The entry exists as long as these are in flight; see the module.
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

    /// Marks the entry of the key at `place` as waited for. Returns its slot, which the key then keeps, and the number in flight at
    /// that time.
    pub(super) fn hold(&self, place: &Place) -> Result<(usize, u64), Denied> {
        let held = self.put(place, |entry, _| Ok(entry.with_waits(true)));
        let (before, slot) = held.map_err(Refusal::denied)?;
        Ok((slot, count(before)))
    }

    /// Removes the mark that callers wait for the key at `place`.
    pub(super) fn release(&self, place: &Place) {
        let slot = self.table.mark(who(place), false);
        debug_assert!(slot.is_some(), "an entry stays while somebody waits");
    }

    #[inline]
    fn find(&self, place: &Place) -> Option<Slot<'_>> {
        self.table.find(who(place)).map(|(slot, _)| slot)
    }

    /// Returns the number of keys with operations in flight or waiters.
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

/// A request for permits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) n: u64,
    /// The per-key limit, if there is one, instead of the current limit.
    pub(super) own: Option<u32>,
    /// Whether the caller serves the waiters in the queue, or has already yielded to them.
    pub(super) is_in_line: bool,
}

/// Returns an error if `n` more may not be in flight.
#[inline]
pub(super) fn judge(in_flight: u64, n: u64, limit: u32) -> Result<(), Denied> {
    match n > u64::from(limit).saturating_sub(in_flight) {
        true => Err(denied(limit, n)),
        false => Ok(()),
    }
}

fn count(entry: Entry) -> u64 {
    // At most a limit.
    entry.state() as u64
}
