//! How many are in flight for each key: a [table](super::super::table) of which the states are numbers, not instants.
//!
//! An entry is vacant while its number is 0 and nobody waits, and then it may be overwritten; its fingerprint stays
//! until that happens, so that a key that is used by one at a time takes no lock. Whoever holds a permit has a part in
//! a number that is not 0. So its entry is neither overwritten nor moved, and is found again when the permit is
//! dropped.
//!
//! Whoever waits has the entry say so first, and then asks. A release comes before that, and then they find what it
//! gave back; or after, and then its compare-and-swap has seen that somebody waits.

use crate::concurrency::limit::denied;
use crate::keyed::entry::{Entry, Place, Reading};
use crate::keyed::keys::Refusal;
use crate::keyed::names::Hashed;
use crate::keyed::table::{self, Opening, Slot, Table};
use crate::primitive::{AtomicU64, Ordering};
use crate::verdict::Denied;

/// What makes an entry vacant: a number that is not above this.
const NONE: u128 = 0;
/// No entry is to be read in any other way.
const READING: Reading = Reading::of_table(0);

pub(super) struct InFlight {
    pub(super) table: Table<Hashed>,
    /// How often a key had no entry, and none was to be had.
    pub(super) refused_for_room: AtomicU64,
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

    /// Lets the key at `place` have what is asked for, not 0, and says how many are in flight with it: at most `limit`.
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

    /// Changes the entry of the key at `place`, which is made if it has none; what was there before, and in which slot.
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

    /// Says that somebody waits for the key at `place`, and in which slot it says so, which is the key's from then on, and how
    /// many were in flight then.
    pub(super) fn hold(&self, place: &Place) -> Result<(usize, u64), Denied> {
        let held = self.put(place, |entry, _| Ok(entry.with_waits(true)));
        let (before, slot) = held.map_err(Refusal::denied)?;
        Ok((slot, count(before)))
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

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) n: u64,
    /// Instead of the limit in force.
    pub(super) own: Option<u32>,
    /// By who serves those in the queue, or stands back for them.
    pub(super) is_in_line: bool,
}

/// Whether `n` more may be in flight.
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
