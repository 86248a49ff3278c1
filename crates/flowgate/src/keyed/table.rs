//! The table of entries: lines of four slots. Each key can have one entry, in one of two lines.
//!
//! # Finding and changing
//!
//! A key's entry is found by its fingerprint in one of its two lines. It is changed by a compare-and-swap of the whole slot. This
//! takes no lock and does not touch the entries of other keys.
//!
//! # A new key
//!
//! A thread that finds no entry takes the lock that belongs to the lower of the key's two lines ([`Table::lock`]), and looks again.
//! Only the holder of that lock adds an entry for this key, so a key never has two entries. The entry goes into a vacant slot. This
//! takes a compare-and-swap too, because other threads may use the same slot for other keys, and the key of the vacant entry may
//! return.
//!
//! # Forgotten entries
//!
//! A vacant entry is overwritten without a trace, because its key is treated in the same way without it, at that time and later.
//! This does not hold if the clock runs backward. The table therefore keeps the latest instant at which any overwritten entry
//! expired ([`Table::forgotten`]). Before that instant, nothing more is known about a key without an entry.
//!
//! An instant is a debt only in the terms of its entry, which are forgotten too. The table therefore also keeps the latest instant
//! of keys with per-key terms ([`Table::own_forgotten`]). Before that, a key without an entry gets nothing in the table's terms.
//! Before either instant, a key gets nothing in per-key terms.
//!
//! # Changed terms
//!
//! An entry does not contain the time since when it has had its terms. When a key changes its terms, the time is therefore kept
//! with the key's lock ([`Table::exchanged`]), for this key and all others of the lock.
//!
//! An active entry is overwritten only after the [sketch](super::sketch) remembers it. A thread that finds the entry gone has read
//! that slot after the swap. It therefore reads the sketch after the sketch was updated.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `lines` | all threads | all threads (CAS); to another key or none: the holder of the new key's lock | the slot's contents |
//! | `locks` | | | one key is in only one slot |
//! | `forgotten_ns`, `own_forgotten_ns` | a thread that finds no entry | a thread that overwrites a vacant one | raised before that |
//! | `exchanged_ns` | decisions at a time that is not settled | a thread that changes a key's terms | raised before that |

use super::entry::{Entry, FINGERPRINT_SHIFT, Place, Seed, TICK_BITS, TICKS_PER_NS};
#[cfg(all(feature = "huge-pages", target_os = "linux"))]
use super::huge_pages;
use crate::primitive::{AtomicU64, AtomicU128, Lock, LockGuard, Ordering};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{Hash, Hasher};
use siphasher::sip::SipHasher13;

/// The slots of a cache line. With fewer slots, there are fewer schedules to explore.
pub(crate) const SLOTS_PER_LINE: usize = if cfg!(flowgate_loom) { 2 } else { 4 };
/// A line with at least this many vacant slots takes any key that looks there first. A line with fewer takes it only if the other
/// line has no more. Five of six keys are therefore found in the line that is read first, which saves the cache miss for the other
/// one. If keys always went into the emptier line, it would be two of three.
const SPARE: usize = 2;
/// A vacant slot in the other line is used instead if its entry expired this many times as long ago. Keys whose bucket is full at
/// every request therefore each have a separate slot soon, and do not take the slots of each other.
const MUCH_LONGER: u128 = 4;
/// The number of lines that the high half of a hash can distinguish.
pub(crate) const MOST_LINES: usize = 1 << 32;
/// With fewer locks, threads that add keys concurrently would wait for each other.
const MOST_LOCKS: usize = 256;

pub(crate) struct Table<N: Names> {
    lines: Box<[Line]>,
    /// Whether the operating system was asked to hold the lines in huge pages, and accepted.
    pub(crate) huge_pages: bool,
    pub(crate) seed: Seed,
    /// The stored keys, by slot. A thread that changes a slot, or decides by it, holds its lock.
    names: Box<[Lock<Option<N::Owned>>]>,
    locks: Box<[Padded]>,
    forgotten_ns: AtomicU64,
    /// The same instant, for keys with per-key terms.
    own_forgotten_ns: AtomicU64,
}

#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU128; SLOTS_PER_LINE]);

#[derive(Debug)]
#[repr(align(64))]
struct Padded {
    lock: Lock<()>,
    /// When any key of this lock last changed from the table's terms to per-key terms, or from per-key terms to others. Before
    /// that, the terms of the key are not known.
    exchanged_ns: AtomicU64,
}

/// A key, and the place of its entry.
pub(crate) struct Who<'a, N: Names> {
    pub(crate) place: Place,
    pub(crate) key: &'a N::Key,
}

impl<N: Names> Clone for Who<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N: Names> Copy for Who<'_, N> {}

/// The guard of a slot, which keeps the slot's key; `None`: keys are not stored.
pub(crate) type Held<'a, N> = Option<LockGuard<'a, Option<<N as Names>::Owned>>>;

/// A slot, and the entry that was read from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    word: &'a AtomicU128,
    /// The index among all slots.
    pub(crate) index: usize,
    pub(crate) entry: Entry,
}

/// The slot for the entry of a new key.
#[derive(Debug)]
pub(crate) enum Opening<'a> {
    Vacant(Slot<'a>),
    /// The slot of the active entry that expires first.
    Instead(Slot<'a>),
    /// Callers wait for the keys of all slots.
    None,
}

impl<N: Names> Table<N> {
    const BYTES_PER_NAME: usize = if N::KEEPS {
        size_of::<Lock<Option<N::Owned>>>()
    } else {
        0
    };

    pub(crate) fn new(lines: usize, seed: Seed) -> Result<Self, TryReserveError> {
        let line = || Line(core::array::from_fn(|_| AtomicU128::new(Entry::UNUSED.0)));
        let names = if N::KEEPS { lines * SLOTS_PER_LINE } else { 0 };
        let locks = (0..lines.clamp(1, MOST_LOCKS)).map(|_| Padded {
            lock: Lock::new(()),
            exchanged_ns: AtomicU64::new(0),
        });
        let (lines, huge_pages) = filled(lines, line)?;
        Ok(Self {
            lines,
            huge_pages,
            seed,
            names: filled(names, || Lock::new(None))?.0,
            locks: locks.collect(),
            forgotten_ns: AtomicU64::new(0),
            own_forgotten_ns: AtomicU64::new(0),
        })
    }

    /// Returns the bytes of a table with this many lines.
    pub(crate) fn bytes(lines: u128) -> u128 {
        let locks = lines.clamp(1, MOST_LOCKS as u128);
        let per_line = size_of::<Line>() + SLOTS_PER_LINE * Self::BYTES_PER_NAME;
        lines * per_line as u128 + locks * size_of::<Padded>() as u128
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns the key with the place where its entry would be.
    #[inline]
    pub(crate) fn who<'k, K: Hash + Named<N> + ?Sized>(&self, key: &'k K) -> Who<'k, N> {
        let mut hasher = SipHasher13::new_with_keys(self.seed.0[0], self.seed.0[1]);
        key.hash(&mut hasher);
        Who {
            place: Place::new(hasher.finish(), self.lines.len()),
            key: key.key(),
        }
    }

    /// Returns the slot of this key, held.
    ///
    /// All slots of a line are compared before the first match is chosen. To compare them one by one would cause mispredicted
    /// branches, which cost more than the additional comparisons.
    #[inline(always)]
    pub(crate) fn find(&self, who: Who<'_, N>) -> Option<(Slot<'_>, Held<'_, N>)> {
        let is_it = |entry: u128| (entry >> FINGERPRINT_SHIFT) as u64 == who.place.fingerprint;
        let mut place = who.place;
        for is_last in [false, true] {
            let words = &self.lines[place.line].0;
            let load = |at: usize| words[at].load(Ordering::Acquire);
            let mut found = (0..SLOTS_PER_LINE)
                .fold(0_u32, |found, at| found | u32::from(is_it(load(at))) << at);
            while found != 0 {
                let at = found.trailing_zeros() as usize % SLOTS_PER_LINE;
                let index = place.line * SLOTS_PER_LINE + at;
                let held = N::KEEPS.then(|| self.names[index].lock());
                // The slot may have belonged to another key with the same fingerprint.
                let entry = load(at);
                let is_named = |name: &Option<N::Owned>| match name {
                    Some(name) => name.borrow() == who.key,
                    None => false,
                };
                if is_it(entry) && held.as_deref().is_none_or(is_named) {
                    let word = &words[at];
                    let entry = Entry(entry);
                    return Some((Slot { word, index, entry }, held));
                }
                found &= found - 1;
            }
            if !is_last {
                place = place.turned(self.lines.len());
            }
        }
        None
    }

    /// Reads from the first line of `place`, so that the processor has it when the entry is looked for.
    #[inline]
    pub(crate) fn request(&self, place: &Place) {
        let _ = self.lines[place.line].0[0].load(Ordering::Relaxed);
    }

    /// Reads from the other line, if the first one does not have the fingerprint.
    #[inline]
    pub(crate) fn request_other(&self, place: &Place) {
        let is_it = |word: &AtomicU128| {
            Entry(word.load(Ordering::Relaxed)).fingerprint() == place.fingerprint
        };
        if !self.lines[place.line].0.iter().any(is_it) {
            self.request(&place.turned(self.lines.len()));
        }
    }

    /// Marks in this key's entry, if it has one, whether callers wait. Returns its slot, with what was there before.
    pub(crate) fn mark(&self, who: Who<'_, N>, waits: bool) -> Option<Slot<'_>> {
        loop {
            let (slot, _held) = self.find(who)?;
            if slot.swap(slot.entry.with_waits(waits)) {
                return Some(slot);
            }
        }
    }

    /// Puts `entry`, one of this key, in place of another key's entry, if nothing has changed.
    pub(crate) fn replace(&self, who: Who<'_, N>, slot: Slot<'_>, entry: Entry) -> bool {
        if !N::KEEPS {
            return slot.swap(entry);
        }
        let new = who.key.to_owned();
        let mut name = self.names[slot.index].lock();
        let is_in = slot.swap(entry);
        if is_in {
            *name = Some(new);
        }
        is_in
    }

    /// Returns the key of the slot at `index`, if the slot still has this fingerprint.
    pub(crate) fn name(&self, index: usize, fingerprint: u64) -> Option<N::Owned> {
        if !N::KEEPS {
            return N::NAMELESS;
        }
        let name = self.names[index].lock();
        let word = &self.lines[index / SLOTS_PER_LINE].0[index % SLOTS_PER_LINE];
        let is_it = Slot::load(word, index).entry.fingerprint() == fingerprint;
        let name = name.as_ref().filter(|_| is_it);
        name.map(|name| name.borrow().to_owned())
    }

    fn line(&self, line: usize) -> impl Iterator<Item = Slot<'_>> {
        let words = self.lines[line].0.iter().enumerate();
        words.map(move |(at, word)| Slot::load(word, line * SLOTS_PER_LINE + at))
    }

    /// Returns the lock that is held while an entry for a new key at `place` is added. It is the same lock whichever line comes
    /// first.
    pub(crate) fn lock(&self, place: &Place) -> LockGuard<'_, ()> {
        self.padded(place).lock.lock()
    }

    fn padded(&self, place: &Place) -> &Padded {
        let line = place.line.min(place.turned(self.lines.len()).line);
        &self.locks[line % self.locks.len()]
    }

    /// Waits until all threads that are adding an entry now have done so.
    pub(crate) fn let_in(&self) {
        for padded in &self.locks {
            drop(padded.lock.lock());
        }
    }

    /// Returns the latest time since when the key at `place` has had its current terms.
    pub(crate) fn exchanged(&self, place: &Place) -> u128 {
        u128::from(self.padded(place).exchanged_ns.load(Ordering::Acquire)) << TICK_BITS
    }

    /// Records that the key at `place` changes its terms at `at`. This comes before the change.
    pub(crate) fn exchange(&self, place: &Place, at: u128) {
        self.padded(place)
            .exchanged_ns
            .fetch_max(whole_ns(at), Ordering::AcqRel);
    }

    /// Records that the terms and the debts of all keys before `at` are not known.
    pub(crate) fn begin(&self, at: u128) {
        for padded in &self.locks {
            padded
                .exchanged_ns
                .fetch_max(whole_ns(at), Ordering::AcqRel);
        }
        self.forget(at, true);
    }

    /// Returns where an entry for the key at `place` can go: into the slot whose entry expired first. The slot is in the key's
    /// first line if that has enough vacant slots, and otherwise in the line that has more of them. A slot in the other line is
    /// used if its entry expired much longer ago.
    pub(crate) fn opening(&self, place: &Place, now: u128) -> Opening<'_> {
        let mut lines = [place.line, place.turned(self.lines.len()).line];
        let is_vacant = |slot: &Slot<'_>| slot.entry.is_vacant(now);
        let [here, there] = lines.map(|line| self.line(line).filter(is_vacant).count());
        if here < SPARE && here < there {
            lines.reverse();
        }
        let oldest = |line| {
            let vacant = self.line(line).filter(is_vacant);
            vacant.min_by_key(|slot| slot.entry.state())
        };
        let age = |slot: &Slot<'_>| now - slot.entry.state();
        let vacant = match lines.map(oldest) {
            [Some(slot), Some(other)] if age(&other) / MUCH_LONGER > age(&slot) => Some(other),
            [slot, other] => slot.or(other),
        };
        if let Some(slot) = vacant {
            return Opening::Vacant(slot);
        }
        let slots = lines.into_iter().flat_map(|line| self.line(line));
        let free = slots.filter(|slot| !slot.entry.waits());
        match free.min_by_key(|slot| slot.entry.state()) {
            Some(slot) if is_vacant(&slot) => Opening::Vacant(slot),
            Some(slot) => Opening::Instead(slot),
            None => Opening::None,
        }
    }

    /// Puts `entry` into the line, if the line has a slot that has never been used.
    pub(crate) fn add(&self, line: usize, entry: Entry) -> bool {
        let unused = self.line(line).find(|slot| slot.entry == Entry::UNUSED);
        unused.is_some_and(|mut slot| {
            while !slot.swap(entry) {
                slot = slot.again();
            }
            true
        })
    }

    /// Records that nothing before `free` is known any longer about a key. With `is_own`, the key may have had per-key terms.
    pub(crate) fn forget(&self, free: u128, is_own: bool) {
        let ns = whole_ns(free);
        let raise = |latest: &AtomicU64| {
            if ns > latest.load(Ordering::Relaxed) {
                // Release: a thread that finds the entry gone finds this.
                latest.fetch_max(ns, Ordering::Release);
            }
        };
        raise(&self.forgotten_ns);
        if is_own {
            raise(&self.own_forgotten_ns);
        }
    }

    /// Returns the latest time since when every key without an entry has been fully refilled.
    pub(crate) fn forgotten(&self) -> u128 {
        u128::from(self.forgotten_ns.load(Ordering::Acquire)) << TICK_BITS
    }

    /// Returns the same time for keys that had per-key terms.
    pub(crate) fn own_forgotten(&self) -> u128 {
        u128::from(self.own_forgotten_ns.load(Ordering::Acquire)) << TICK_BITS
    }

    /// Returns every slot, with its line.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, Slot<'_>)> {
        let lines = 0..self.lines.len();
        lines.flat_map(|line| self.line(line).map(move |slot| (line, slot)))
    }
}

/// How a table distinguishes keys; [`KeyNames`](super::KeyNames) in the public interface.
pub trait Names: Sized + 'static {
    /// Whether keys are stored. The key of a slot can then change while the slot is not held.
    const KEEPS: bool;
    /// The name of all keys if they are not stored.
    const NAMELESS: Option<Self::Owned>;
    /// The type that is compared.
    type Key: Eq + Sync + ToOwned<Owned = Self::Owned> + ?Sized + 'static;
    /// The type that is stored.
    type Owned: Borrow<Self::Key> + Send + Sync + 'static;
}

/// A key that can be looked up in a table with `N` names; [`AsKey`](super::AsKey) in the public interface.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of a table with `{N}` names",
    note = "with `Exact<Q>`, only `Q` is a key (and a `String`, if `Q` is `str`): name the type of your keys in `exact::<Q>()`",
    note = "a table that is built without `exact` takes any type that is `Hash`"
)]
pub trait Named<N: Names> {
    fn key(&self) -> &N::Key;
}

/// Returns `n` values that `make` creates, if there is memory for them, and whether the operating system accepted the advice to hold
/// them in huge pages.
pub(super) fn filled<T>(
    n: usize,
    make: impl FnMut() -> T,
) -> Result<(Box<[T]>, bool), TryReserveError> {
    let mut all = Vec::new();
    all.try_reserve_exact(n)?;
    // Before the values are written: the kernel then gives huge pages at the first write to each.
    #[cfg(all(feature = "huge-pages", target_os = "linux"))]
    let huge_pages = huge_pages::advise(all.spare_capacity_mut());
    #[cfg(not(all(feature = "huge-pages", target_os = "linux")))]
    let huge_pages = false;
    all.resize_with(n, make);
    Ok((all.into_boxed_slice(), huge_pages))
}

fn whole_ns(at: u128) -> u64 {
    u64::try_from(at.div_ceil(u128::from(TICKS_PER_NS))).unwrap_or(u64::MAX)
}

impl<'a> Slot<'a> {
    #[inline]
    fn load(word: &'a AtomicU128, index: usize) -> Self {
        Self {
            word,
            index,
            entry: Entry(word.load(Ordering::Acquire)),
        }
    }

    /// Puts `entry` here, if nothing has changed. It can also fail for no reason.
    #[inline]
    pub(crate) fn swap(&self, entry: Entry) -> bool {
        let (old, new) = (self.entry.0, entry.0);
        // Release: a thread that finds the old entry gone finds what the sketch remembers of it.
        let swapped =
            self.word
                .compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed);
        swapped.is_ok()
    }

    /// Reads the slot again.
    pub(crate) fn again(&self) -> Self {
        Self::load(self.word, self.index)
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::super::entry::Reading;
    use super::super::names::Hashed;
    use super::*;

    const KEYS: usize = 30_000;

    /// Returns a table with as many slots as a limiter with `Evict` has.
    fn table() -> Table<Hashed> {
        Table::new(KEYS / 3, Seed([1, 2])).expect("there is room")
    }

    /// Adds a new key until `free`, if a slot is vacant at `now`. Returns whether it is in the key's first line.
    fn seat(table: &Table<Hashed>, key: u64, now: u128, free: u128) -> Option<bool> {
        let place = table.who(&key).place;
        let entry = Entry::new(place.fingerprint, Reading::of_table(0), free);
        match table.opening(&place, now) {
            Opening::Vacant(mut slot) => {
                while !slot.swap(entry) {
                    slot = slot.again();
                }
                Some(slot.index / SLOTS_PER_LINE == place.line)
            }
            Opening::Instead(_) | Opening::None => None,
        }
    }

    fn is_found(table: &Table<Hashed>, key: u64) -> bool {
        table.find(table.who(&key)).is_some()
    }

    #[test]
    fn keys_are_mostly_in_their_first_line_and_hardly_any_has_no_slot() {
        let table = table();
        let keys = 0..KEYS as u64;
        let seats: Vec<_> = keys.clone().map(|key| seat(&table, key, 0, 1)).collect();
        let first = seats.iter().filter(|seat| **seat == Some(true)).count();
        let none = seats.iter().filter(|seat| seat.is_none()).count();
        assert!(first * 100 > KEYS * 81, "{first} in their first line");
        assert!(none * 1000 < KEYS * 17, "{none} without a slot");
        for (key, seat) in keys.zip(seats) {
            assert_eq!(is_found(&table, key), seat.is_some());
        }
        assert!(!is_found(&table, KEYS as u64), "it was never put in");
    }

    #[test]
    fn where_as_many_keys_come_as_go_hardly_any_finds_no_vacant_slot() {
        let table = table();
        // One key comes in each tick, and stays for `KEYS` ticks.
        let come = |now: u64| seat(&table, now, now.into(), (now + KEYS as u64).into());
        for now in 0..6 * KEYS as u64 {
            come(now);
        }
        let later = 6 * KEYS as u64..9 * KEYS as u64;
        let none = later.filter(|now| come(*now).is_none()).count();
        assert!(none * 1000 < 3 * KEYS * 80, "{none} without a slot");
    }

    #[test]
    fn keys_that_are_whole_each_time_do_not_take_each_others_slots() {
        let table = table();
        // The slots have entries of other keys, which do not come back.
        for key in 0..4 * KEYS as u64 {
            seat(&table, u64::MAX - key, 0, 1);
        }
        let turns = |first: u64, last: u64| {
            (first..last).flat_map(|turn| (0..KEYS as u64).map(move |key| (turn, key)))
        };
        let comes_anew = |&(turn, key): &(u64, u64)| {
            let now = 1_000_000 + u128::from(turn * KEYS as u64 + key);
            let is_new = !is_found(&table, key);
            if is_new {
                seat(&table, key, now, now + 1);
            }
            is_new
        };
        turns(0, 20).filter(comes_anew).count();
        let anew = turns(20, 30).filter(comes_anew).count();
        assert!(
            anew * 1000 < 10 * KEYS,
            "{anew} times a key had lost its slot"
        );
    }
}
