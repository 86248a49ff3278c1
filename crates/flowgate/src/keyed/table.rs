//! Where entries are: lines of four slots, of which each key may have one in two.
//!
//! # Finding and changing
//!
//! A key's entry is found by its fingerprint in one of its two lines, and changed by compare-and-swap of the whole slot.
//! No lock is taken, and nobody else's entry is touched.
//!
//! # A new key
//!
//! Who finds no entry takes the lock that belongs to the key's first line ([`Table::lock`]) and looks again: only the holder
//! of that lock puts in an entry for this key, so that there are never two. It goes into a vacant slot, by compare-and-swap
//! too, since others may use the same slot for other keys, or the vacant entry's own key may be back.
//!
//! # What is forgotten
//!
//! A vacant entry is overwritten without a trace, because its key is treated alike without it, at that time and
//! later. Were the clock to run backward, it would not be: so the latest instant with which any overwritten entry stopped
//! to matter is kept ([`Table::forgotten`]), and before that, no more is known of a key without an entry than that.
//!
//! An entry that still matters is overwritten only after the [sketch](super::sketch) remembers it. Whoever finds it
//! gone has read that slot after the swap, and so reads the sketch after it was told.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `lines` | everyone | everyone (CAS); from one key to another or to none: the holder of the new key's lock | the slot's contents |
//! | `locks` | | | one key is in only one slot |
//! | `forgotten_ns` | who finds no entry | who overwrites a vacant one | raised before that |

use super::entry::{Entry, TICK_BITS, TICKS_PER_NS};
use super::place::Place;
use crate::primitive::{AtomicU64, AtomicU128, Lock, LockGuard, Ordering};
use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

pub(crate) const SLOTS_PER_LINE: usize = 4;
/// What the high half of a hash can tell apart.
pub(crate) const MOST_LINES: usize = 1 << 32;
/// Fewer locks would make those wait who add keys at the same time.
const MOST_LOCKS: usize = 256;

#[derive(Debug)]
pub(crate) struct Table {
    lines: Box<[Line]>,
    locks: Box<[Padded]>,
    forgotten_ns: AtomicU64,
}

#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU128; SLOTS_PER_LINE]);

#[derive(Debug)]
#[repr(align(64))]
struct Padded(Lock<()>);

/// A slot, and what was in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    word: &'a AtomicU128,
    pub(crate) entry: Entry,
}

/// Where an entry for a new key can go.
#[derive(Debug)]
pub(crate) enum Opening<'a> {
    Vacant(Slot<'a>),
    /// In place of the one that stops to matter first.
    Instead(Slot<'a>),
    /// For each slot somebody waits.
    None,
}

impl Table {
    pub(crate) fn new(lines: usize) -> Result<Self, TryReserveError> {
        let mut all = Vec::new();
        all.try_reserve_exact(lines)?;
        all.extend(
            (0..lines).map(|_| Line(core::array::from_fn(|_| AtomicU128::new(Entry::UNUSED.0)))),
        );
        let locks = (0..lines.clamp(1, MOST_LOCKS)).map(|_| Padded(Lock::new(())));
        Ok(Self {
            lines: all.into_boxed_slice(),
            locks: locks.collect(),
            forgotten_ns: AtomicU64::new(0),
        })
    }

    /// What a table of so many lines takes.
    pub(crate) fn bytes(lines: usize) -> u128 {
        let locks = lines.clamp(1, MOST_LOCKS);
        lines as u128 * size_of::<Line>() as u128 + (locks * size_of::<Padded>()) as u128
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn place(&self, hash: u64) -> Place {
        Place::new(hash, self.lines.len())
    }

    /// The entry of the key at `place`.
    #[inline(always)]
    pub(crate) fn find(&self, place: &Place) -> Option<Slot<'_>> {
        match self.find_in(place) {
            Some(slot) => Some(slot),
            None => self.find_in(&place.turned(self.lines.len())),
        }
    }

    /// The entry of the key at `place`, if it is in the first line.
    #[inline(always)]
    fn find_in(&self, place: &Place) -> Option<Slot<'_>> {
        for word in &self.lines[place.line].0 {
            let slot = Slot::load(word);
            if slot.entry.fingerprint() == place.fingerprint {
                return Some(slot);
            }
        }
        None
    }

    /// To be held while an entry for a new key at `place` is put in.
    pub(crate) fn lock(&self, place: &Place) -> LockGuard<'_, ()> {
        self.locks[place.line % self.locks.len()].0.lock()
    }

    /// Waits until whoever is putting in an entry now has done so.
    pub(crate) fn let_in(&self) {
        for lock in &self.locks {
            drop(lock.0.lock());
        }
    }

    /// Where an entry for the key at `place` can go: in the slot that has not mattered for longest, of those that have never been
    /// used in the line that has more of them.
    pub(crate) fn opening(&self, place: &Place, now: u128) -> Opening<'_> {
        let lines = [*place, place.turned(self.lines.len())]
            .map(|place| self.lines[place.line].0.each_ref().map(Slot::load));
        let vacant = lines.map(|slots| {
            slots
                .iter()
                .filter(|slot| slot.entry.is_vacant(now))
                .count()
        });
        let free = lines.iter().flatten().filter(|slot| !slot.entry.waits());
        let [here, there] = vacant;
        let first = match there > here {
            true => free.rev().min_by_key(|slot| slot.entry.state()),
            false => free.min_by_key(|slot| slot.entry.state()),
        };
        match first {
            Some(slot) if slot.entry.is_vacant(now) => Opening::Vacant(*slot),
            Some(slot) => Opening::Instead(*slot),
            None => Opening::None,
        }
    }

    /// Puts `entry` in place of a vacant one.
    pub(crate) fn settle(&self, vacant: Slot<'_>, entry: Entry) -> bool {
        self.forget(vacant.entry.state());
        vacant.swap(entry)
    }

    /// Puts `entry` into the line, if that has a slot that has never been used.
    pub(crate) fn add(&self, line: usize, entry: Entry) -> bool {
        let mut slots = self.lines[line].0.iter().map(Slot::load);
        let unused = slots.find(|slot| slot.entry == Entry::UNUSED);
        unused.is_some_and(|mut slot| {
            while !slot.swap(entry) {
                slot = slot.again();
            }
            true
        })
    }

    /// Nobody knows any longer what was until `free`.
    pub(crate) fn forget(&self, free: u128) {
        let ns = u64::try_from(free.div_ceil(u128::from(TICKS_PER_NS))).unwrap_or(u64::MAX);
        if ns > self.forgotten_ns.load(Ordering::Relaxed) {
            // Release: who finds the entry gone finds this.
            self.forgotten_ns.fetch_max(ns, Ordering::Release);
        }
    }

    /// Since when, at the latest, a key without an entry has been whole.
    pub(crate) fn forgotten(&self) -> u128 {
        u128::from(self.forgotten_ns.load(Ordering::Acquire)) << TICK_BITS
    }

    /// Every slot, with its line.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, Slot<'_>)> {
        let lines = self.lines.iter().enumerate();
        lines.flat_map(|(index, line)| line.0.iter().map(move |word| (index, Slot::load(word))))
    }
}

impl<'a> Slot<'a> {
    #[inline]
    fn load(word: &'a AtomicU128) -> Self {
        Self {
            word,
            entry: Entry(word.load(Ordering::Acquire)),
        }
    }

    /// Puts `entry` here, if nothing has changed; it may also fail for no reason.
    #[inline]
    pub(crate) fn swap(&self, entry: Entry) -> bool {
        let (old, new) = (self.entry.0, entry.0);
        // Release: who finds the old entry gone finds what was remembered of it.
        let swapped =
            self.word
                .compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed);
        swapped.is_ok()
    }

    /// What is here now.
    pub(crate) fn again(&self) -> Self {
        Self::load(self.word)
    }
}
