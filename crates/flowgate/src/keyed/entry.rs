//! What the table knows about one key, in 128 bits, and where the entry can be: two lines of slots, and a fingerprint.
//!
//! ```text
//!  127           90 89    88   87                77 76                                     0
//! ┌────────────────┬─────┬────┬────────────────────┬────────────────────────────────────────┐
//! │  fingerprint   │waits│own │generation, or class│                 state                  │
//! └────────────────┴─────┴────┴────────────────────┴────────────────────────────────────────┘
//! ```
//!
//! The state is an instant in ticks, of which [`TICKS_PER_NS`] make a nanosecond. At that instant the entry expires: it then holds
//! no information, because a key without an entry is treated in the same way. The [rule](super::rule) defines everything else about
//! the state. The entry of a key that was idle for long enough is therefore *vacant*, and no thread has to remove it.
//!
//! The 12 bits before the state determine the terms in which it is read. These are the table's terms, in a generation given by its
//! lowest bits, or per-key terms, whose class is enough to restate the state in others. A decision that is delayed between reading
//! the terms and the entry must not confuse them. The generation therefore uses all of these bits, so a confusion takes 2048
//! changes in between.

/// The resolution of times. The cost of a token is rounded up to whole ticks.
pub(crate) const TICKS_PER_NS: u64 = 1 << TICK_BITS;
pub(crate) const TICK_BITS: u32 = 12;

pub(crate) const fn ticks(ns: u64) -> u128 {
    (ns as u128) << TICK_BITS
}

const STATE_BITS: u32 = 77;
pub(crate) const CLASS_BITS: u32 = 10;
/// The largest state.
pub(crate) const MOST_STATE: u128 = (1 << STATE_BITS) - 1;

const GENERATION_BITS: u32 = CLASS_BITS + 1;
const OWN: u128 = 1 << (STATE_BITS + GENERATION_BITS);
const WAITS: u128 = OWN << 1;
const TERMS: u128 = OWN | (OWN - (1 << STATE_BITS));
pub(crate) const FINGERPRINT_SHIFT: u32 = 90;

/// The bits of a hash that an entry keeps.
pub(crate) const FINGERPRINT_BITS: u32 = u128::BITS - FINGERPRINT_SHIFT;

/// The entry of one key; see the module. All bits 0: a slot that has never been used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u128);

/// The terms in which a state is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading(u128);

impl Reading {
    /// Returns the table's terms in this generation.
    pub(crate) const fn of_table(generation: u64) -> Self {
        Self((generation as u128) << STATE_BITS & (OWN - 1))
    }

    /// Returns the per-key terms of a class, of which only the lowest [`CLASS_BITS`] are kept.
    pub(crate) const fn own(class: u16) -> Self {
        Self(OWN | ((class as u128) & ((1 << CLASS_BITS) - 1)) << STATE_BITS)
    }

    pub(crate) const fn is_own(self) -> bool {
        self.0 & OWN != 0
    }

    /// Returns whether the generation is odd.
    pub(crate) const fn is_odd(self) -> bool {
        self.0 & 1 << STATE_BITS != 0
    }

    /// Returns a number that differs for each generation and each class; never 0.
    pub(crate) const fn number(self) -> u64 {
        (self.0 >> STATE_BITS) as u64 + 1
    }

    pub(crate) const fn class(self) -> u16 {
        (self.0 >> STATE_BITS) as u16 & ((1 << CLASS_BITS) - 1)
    }
}

impl Entry {
    pub(crate) const UNUSED: Self = Self(0);

    /// Creates an entry. `state` is at most [`MOST_STATE`].
    pub(crate) const fn new(fingerprint: u64, reading: Reading, state: u128) -> Self {
        debug_assert!(state <= MOST_STATE);
        Self((fingerprint as u128) << FINGERPRINT_SHIFT | reading.0 | state)
    }

    /// Returns the fingerprint; 0 if the entry belongs to no key.
    pub(crate) const fn fingerprint(self) -> u64 {
        (self.0 >> FINGERPRINT_SHIFT) as u64
    }

    pub(crate) const fn state(self) -> u128 {
        self.0 & MOST_STATE
    }

    pub(crate) const fn reading(self) -> Reading {
        Reading(self.0 & TERMS)
    }

    /// Returns whether callers wait for this key. New requests then must not overtake them, and the entry has to stay.
    pub(crate) const fn waits(self) -> bool {
        self.0 & WAITS != 0
    }

    pub(crate) const fn with_waits(self, waits: bool) -> Self {
        Self(if waits {
            self.0 | WAITS
        } else {
            self.0 & !WAITS
        })
    }

    /// Returns the entry of the same key with other terms and another state.
    pub(crate) const fn with(self, reading: Reading, state: u128) -> Self {
        debug_assert!(state <= MOST_STATE);
        Self(self.0 & !(TERMS | MOST_STATE) | reading.0 | state)
    }

    /// Returns the state, if it is in the terms of the table's `generation` and no caller waits.
    #[inline(always)]
    pub(crate) const fn plain_state(self, generation: u64) -> Option<u128> {
        match self.0 & (TERMS | WAITS) == (generation as u128) << STATE_BITS & (OWN - 1) {
            true => Some(self.0 & MOST_STATE),
            false => None,
        }
    }

    /// Returns whether the entry holds no information at `now` ticks.
    pub(crate) const fn is_vacant(self, now: u128) -> bool {
        self.state() <= now && !self.waits()
    }
}

/// The secret with which keys are hashed, so that callers cannot choose keys that collide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) [u64; 2]);

/// The place of a key's entry, and its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// The fingerprint is not 0.
    pub(crate) fingerprint: u64,
    /// The line that is read first. The other one follows from it and the fingerprint.
    pub(crate) line: usize,
}

impl Seed {
    /// Returns a seed from the operating system.
    #[cfg(feature = "std")]
    pub(crate) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};

        // Each hasher has keys that the operating system gave this process.
        Self([0, 1].map(|n: u64| RandomState::new().hash_one(n)))
    }
}

impl core::fmt::Debug for Seed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed(secret)")
    }
}

impl Place {
    /// The place of no key.
    pub(crate) const NOWHERE: Self = Self {
        fingerprint: 0,
        line: 0,
    };

    /// Among `lines` lines, not 0 and at most 2³². The high half of the hash chooses the first line, and the low bits are
    /// the fingerprint; where there are more than 2²⁶ lines the two have bits in common.
    #[inline]
    pub(crate) fn new(hash: u64, lines: usize) -> Self {
        Self {
            fingerprint: (hash & ((1 << FINGERPRINT_BITS) - 1)).max(1),
            // As `part` does.
            line: (((hash >> 32) * lines as u64) >> 32) as usize,
        }
    }

    /// The same key's, with its lines the other way round.
    #[inline]
    pub(crate) fn turned(&self, lines: usize) -> Self {
        let sum = part(spread(self.fingerprint) >> 32, lines) as u64;
        let line = self.line as u64;
        let other = match sum.checked_sub(line) {
            Some(other) => other,
            None => sum + lines as u64 - line,
        };
        Self {
            line: other as usize,
            ..*self
        }
    }
}

/// Which of `parts`, at most 2³² of them, 32 bits choose.
#[inline]
pub(crate) fn part(bits: u64, parts: usize) -> usize {
    ((bits * parts as u64) >> 32) as usize
}

/// Mixes all bits of a fingerprint into all others.
///
/// Source: the finalizer of SplitMix64 (G. Steele, D. Lea, C. Flood, *Fast Splittable Pseudorandom Number
/// Generators*, 2014).
pub(crate) fn spread(fingerprint: u64) -> u64 {
    let mut x = fingerprint.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::super::names::Hashed;
    use super::super::table::Table;
    use super::*;

    #[test]
    fn every_part_is_kept_apart_from_the_others() {
        let fingerprint = (1 << FINGERPRINT_BITS) - 1;
        for reading in [
            Reading::of_table(0),
            Reading::of_table(7),
            Reading::own(0),
            Reading::own((1 << CLASS_BITS) - 1),
        ] {
            for state in [0, 1, MOST_STATE] {
                for waits in [false, true] {
                    let entry = Entry::new(fingerprint, reading, state).with_waits(waits);
                    assert_eq!(entry.fingerprint(), fingerprint);
                    assert_eq!(entry.reading(), reading);
                    assert_eq!(entry.state(), state);
                    assert_eq!(entry.waits(), waits);
                    let other = entry.with(Reading::own(1), 5);
                    assert_eq!((other.fingerprint(), other.waits()), (fingerprint, waits));
                    assert_eq!((other.reading(), other.state()), (Reading::own(1), 5));
                }
            }
        }
    }

    #[test]
    fn a_reading_says_what_it_was_made_of() {
        let own = Reading::own(700);
        assert_eq!((own.is_own(), own.class()), (true, 700));
        let table = Reading::of_table(4);
        assert!(!table.is_own());
        for other in [Reading::of_table(5), Reading::of_table(6), Reading::own(4)] {
            assert_ne!(table, other);
        }
        assert_eq!(table, Reading::of_table(4 + 2048));
    }

    #[test]
    fn an_entry_for_which_somebody_waits_is_never_vacant() {
        let entry = Entry::new(1, Reading::of_table(0), 10);
        assert!(!entry.is_vacant(9) && entry.is_vacant(10));
        assert!(!entry.with_waits(true).is_vacant(10));
    }

    fn table(lines: usize, seed: [u64; 2]) -> Table<Hashed> {
        Table::new(lines, Seed(seed)).expect("there is room")
    }

    #[test]
    fn either_line_leads_to_the_other() {
        for lines in [1, 2, 3, 16, 1000, 333_334] {
            let table = table(lines, [1, 2]);
            for key in 0..1000_u64 {
                let place = table.who(&key).place;
                let turned = place.turned(lines);
                assert!(place.line < lines && turned.line < lines);
                assert_eq!(turned.turned(lines), place);
            }
        }
    }

    #[test]
    fn lines_are_chosen_evenly() {
        let lines = 64;
        let table = table(lines, [1, 2]);
        let mut met = [[0_u32; 64]; 2];
        for key in 0..64_000_u64 {
            let place = table.who(&key).place;
            met[0][place.line] += 1;
            met[1][place.turned(lines).line] += 1;
        }
        // Six standard deviations.
        let range = 810..1190;
        assert!(
            met.iter().flatten().all(|count| range.contains(count)),
            "{met:?}"
        );
    }

    #[test]
    fn another_seed_is_another_place() {
        let places = [[1, 2], [1, 3], [2, 2]].map(|seed| table(1, seed).who("key").place);
        assert!(places[0] != places[1] && places[0] != places[2]);
    }

    #[test]
    fn no_fingerprint_is_that_of_nobody() {
        assert_eq!(Place::new(0, 1).fingerprint, 1);
    }
}
