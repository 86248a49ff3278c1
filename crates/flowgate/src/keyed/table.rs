//! Where entries are: lines of four slots, of which each key may have one in two.
//!
//! # Finding and changing
//!
//! A key's entry is found by its fingerprint in one of its two lines, and changed by compare-and-swap of the whole slot.
//! No lock is taken, and nobody else's entry is touched.
//!
//! # A new key
//!
//! Who finds no entry takes the lock that belongs to the lesser of the key's lines ([`Table::lock`]) and looks again: only the holder
//! of that lock puts in an entry for this key, so that there are never two. It goes into a vacant slot, by compare-and-swap
//! too, since others may use the same slot for other keys, or the vacant entry's own key may be back.
//!
//! # What is forgotten
//!
//! A vacant entry is overwritten without a trace, because its key is treated alike without it, at that time and
//! later. Were the clock to run backward, it would not be: so the latest instant with which any overwritten entry stopped
//! to matter is kept ([`Table::forgotten`]), and before that, no more is known of a key without an entry than that. An instant is a
//! debt only by the terms that it was told in, which are forgotten too. So the latest one of keys in terms of their own is kept
//! beside it ([`Table::own_forgotten`]): before it, a key without an entry gets nothing by the table's terms, and before either
//! a key gets nothing by terms of its own.
//!
//! # Exchanged terms
//!
//! An entry does not tell since when it has been in its terms. So when a key exchanges them, the time is kept with the key's lock
//! ([`Table::exchanged`]), for it and for all others of that lock.
//!
//! An entry that still matters is overwritten only after the [sketch](super::sketch) remembers it. Whoever finds it
//! gone has read that slot after the swap, and so reads the sketch after it was told.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `lines` | everyone | everyone (CAS); from one key to another or to none: the holder of the new key's lock | the slot's contents |
//! | `locks` | | | one key is in only one slot |
//! | `forgotten_ns`, `own_forgotten_ns` | who finds no entry | who overwrites a vacant one | raised before that |
//! | `exchanged_ns` | who decides at a time that is not settled | who exchanges a key's terms | raised before that |

use super::entry::{Entry, FINGERPRINT_SHIFT, Place, Seed, TICK_BITS, TICKS_PER_NS};
use crate::primitive::{AtomicU64, AtomicU128, Lock, LockGuard, Ordering};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{Hash, Hasher};
use siphasher::sip::SipHasher13;

/// A line of memory. The fewer, the fewer schedules there are to explore.
pub(crate) const SLOTS_PER_LINE: usize = if cfg!(flowgate_loom) { 2 } else { 4 };
/// A line with so many vacant slots takes whoever looks there first; with fewer, only if the other line has no more. So
/// five keys in six are found in the line that is looked at first, as the other costs another miss; of the emptier line
/// alone it would be two in three.
const SPARE: usize = 2;
/// A slot that has not mattered for so many times as long is taken instead, although it is in the other line. So keys that are
/// asked again and again, and are whole each time, soon each have a slot of their own, and do not take each other's.
const MUCH_LONGER: u128 = 4;
/// What the high half of a hash can tell apart.
pub(crate) const MOST_LINES: usize = 1 << 32;
/// Fewer locks would make those wait who add keys at the same time.
const MOST_LOCKS: usize = 256;

pub(crate) struct Table<N: Names> {
    lines: Box<[Line]>,
    pub(crate) seed: Seed,
    /// By slot, if keys are kept. Whoever changes a slot, or decides by it, holds its lock.
    names: Box<[Lock<Option<N::Owned>>]>,
    locks: Box<[Padded]>,
    forgotten_ns: AtomicU64,
    /// The same, of keys in terms of their own.
    own_forgotten_ns: AtomicU64,
}

#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU128; SLOTS_PER_LINE]);

#[derive(Debug)]
#[repr(align(64))]
struct Padded {
    lock: Lock<()>,
    /// When any key of this lock last exchanged the table's terms for its own, or its own for others: before that, nobody knows
    /// in which it was.
    exchanged_ns: AtomicU64,
}

/// A key, and where it is.
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

/// A slot that stays the same key's for as long as this is held; none: keys are not kept.
pub(crate) type Held<'a, N> = Option<LockGuard<'a, Option<<N as Names>::Owned>>>;

/// A slot, and what was in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    word: &'a AtomicU128,
    /// Among all slots.
    pub(crate) index: usize,
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
        Ok(Self {
            lines: filled(lines, line)?,
            seed,
            names: filled(names, || Lock::new(None))?,
            locks: locks.collect(),
            forgotten_ns: AtomicU64::new(0),
            own_forgotten_ns: AtomicU64::new(0),
        })
    }

    /// What a table of so many lines takes.
    pub(crate) fn bytes(lines: u128) -> u128 {
        let locks = lines.clamp(1, MOST_LOCKS as u128);
        let per_line = size_of::<Line>() + SLOTS_PER_LINE * Self::BYTES_PER_NAME;
        lines * per_line as u128 + locks * size_of::<Padded>() as u128
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Where this key is, if it has an entry.
    #[inline]
    pub(crate) fn who<'k, K: Hash + Named<N> + ?Sized>(&self, key: &'k K) -> Who<'k, N> {
        let mut hasher = SipHasher13::new_with_keys(self.seed.0[0], self.seed.0[1]);
        key.hash(&mut hasher);
        Who {
            place: Place::new(hasher.finish(), self.lines.len()),
            key: key.key(),
        }
    }

    /// The slot of this key, held.
    ///
    /// All slots of a line are looked at before it is asked which of them it is: asked one after the other, the answers are
    /// what a processor guesses wrong, and that costs more than to look at all.
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
                // It may have been another's that has the same fingerprint.
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

    /// Says in the entry of this key, if it has one, whether somebody waits; and returns its slot, with what was there before.
    pub(crate) fn mark(&self, who: Who<'_, N>, waits: bool) -> Option<Slot<'_>> {
        loop {
            let (slot, _held) = self.find(who)?;
            if slot.swap(slot.entry.with_waits(waits)) {
                return Some(slot);
            }
        }
    }

    /// Puts `entry`, one of this key's, in place of another key's, if nothing has changed.
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

    /// The key of the slot at `index`, if that is still one with this fingerprint.
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

    /// To be held while an entry for a new key at `place` is put in. It is the same whichever line comes first.
    pub(crate) fn lock(&self, place: &Place) -> LockGuard<'_, ()> {
        self.padded(place).lock.lock()
    }

    fn padded(&self, place: &Place) -> &Padded {
        let line = place.line.min(place.turned(self.lines.len()).line);
        &self.locks[line % self.locks.len()]
    }

    /// Waits until whoever is putting in an entry now has done so.
    pub(crate) fn let_in(&self) {
        for padded in &self.locks {
            drop(padded.lock.lock());
        }
    }

    /// Since when, at the latest, the key at `place` has been in the terms that it is in.
    pub(crate) fn exchanged(&self, place: &Place) -> u128 {
        u128::from(self.padded(place).exchanged_ns.load(Ordering::Acquire)) << TICK_BITS
    }

    /// The key at `place` exchanges its terms at `at`. To be said before it does.
    pub(crate) fn exchange(&self, place: &Place, at: u128) {
        self.padded(place)
            .exchanged_ns
            .fetch_max(whole_ns(at), Ordering::AcqRel);
    }

    /// Nobody knows in what terms any key was before `at`, nor what it had taken.
    pub(crate) fn begin(&self, at: u128) {
        for padded in &self.locks {
            padded
                .exchanged_ns
                .fetch_max(whole_ns(at), Ordering::AcqRel);
        }
        self.forget(at, true);
    }

    /// Where an entry for the key at `place` can go: in the slot that has not mattered for longest, of its first line
    /// if that has slots to spare, and otherwise of the line that has more of them; but of the other line, if there one has
    /// not mattered for much longer.
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

    /// Puts `entry` into the line, if that has a slot that has never been used.
    pub(crate) fn add(&self, line: usize, entry: Entry) -> bool {
        let unused = self.line(line).find(|slot| slot.entry == Entry::UNUSED);
        unused.is_some_and(|mut slot| {
            while !slot.swap(entry) {
                slot = slot.again();
            }
            true
        })
    }

    /// Nobody knows any longer what was until `free`, of a key that may have been in terms of its own.
    pub(crate) fn forget(&self, free: u128, is_own: bool) {
        let ns = whole_ns(free);
        let raise = |latest: &AtomicU64| {
            if ns > latest.load(Ordering::Relaxed) {
                // Release: who finds the entry gone finds this.
                latest.fetch_max(ns, Ordering::Release);
            }
        };
        raise(&self.forgotten_ns);
        if is_own {
            raise(&self.own_forgotten_ns);
        }
    }

    /// Since when, at the latest, a key without an entry has been whole.
    pub(crate) fn forgotten(&self) -> u128 {
        u128::from(self.forgotten_ns.load(Ordering::Acquire)) << TICK_BITS
    }

    /// The same, if it had terms of its own.
    pub(crate) fn own_forgotten(&self) -> u128 {
        u128::from(self.own_forgotten_ns.load(Ordering::Acquire)) << TICK_BITS
    }

    /// Every slot, with its line.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, Slot<'_>)> {
        let lines = 0..self.lines.len();
        lines.flat_map(|line| self.line(line).map(move |slot| (line, slot)))
    }
}

/// How keys are told apart; [`KeyNames`](super::KeyNames) to those outside.
pub trait Names: Sized + 'static {
    /// Whether keys are kept, and may have changed while a slot was not held.
    const KEEPS: bool;
    /// What all keys are called if they are not kept.
    const NAMELESS: Option<Self::Owned>;
    /// What is compared.
    type Key: Eq + Sync + ToOwned<Owned = Self::Owned> + ?Sized + 'static;
    /// What is kept of it.
    type Owned: Borrow<Self::Key> + Send + Sync + 'static;
}

/// What is looked for in a table that tells keys apart by `N`; [`AsKey`](super::AsKey) to those outside.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of a table with `{N}` names",
    note = "with `Exact<Q>`, only `Q` is a key (and a `String`, if `Q` is `str`): name the type of your keys in `exact::<Q>()`",
    note = "a table that is built without `exact` takes any type that is `Hash`"
)]
pub trait Named<N: Names> {
    fn key(&self) -> &N::Key;
}

/// So many of what `make` makes, if there is memory for them.
pub(super) fn filled<T>(n: usize, make: impl FnMut() -> T) -> Result<Box<[T]>, TryReserveError> {
    let mut all = Vec::new();
    all.try_reserve_exact(n)?;
    all.resize_with(n, make);
    Ok(all.into_boxed_slice())
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
        Self::load(self.word, self.index)
    }
}

#[cfg(all(test, not(flowgate_loom)))]
mod tests {
    use super::super::entry::Reading;
    use super::super::names::Hashed;
    use super::*;

    const KEYS: usize = 30_000;

    /// As many slots as a limiter has that evicts.
    fn table() -> Table<Hashed> {
        Table::new(KEYS / 3, Seed([1, 2])).expect("there is room")
    }

    /// Puts in a new key until `free`, if a slot is vacant at `now`, and says whether that is in its first line.
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
        // One comes in each tick, and stays for as many as there are keys.
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
        // The slots are those of others, who do not come back.
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
