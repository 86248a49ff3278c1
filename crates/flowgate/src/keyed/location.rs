//! Where a key's entry may be: two lines of slots, and a fingerprint by which it is known there.

use super::entry::FINGERPRINT_BITS;
use core::hash::{Hash, Hasher};
use siphasher::sip::SipHasher13;

/// What keys are hashed with, so that nobody outside can choose keys that meet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) [u64; 2]);

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// Not 0.
    pub(crate) fingerprint: u64,
    /// The line to look at first; the other one follows from the fingerprint and this.
    pub(crate) line: usize,
}

impl Seed {
    /// From the operating system.
    #[cfg(feature = "std")]
    pub(crate) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};

        // Each is keyed by what the operating system gave this process.
        Self([0, 1].map(|n: u64| RandomState::new().hash_one(n)))
    }

    pub(crate) fn hash<K: Hash + ?Sized>(&self, key: &K) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        key.hash(&mut hasher);
        hasher.finish()
    }
}

impl core::fmt::Debug for Seed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed(secret)")
    }
}

impl Place {
    /// Among `lines` lines, not 0 and at most 2³². The high half of the hash chooses the first line, and the low bits are
    /// the fingerprint; where there are more than 2²⁶ lines the two have bits in common.
    #[inline]
    pub(crate) fn new(hash: u64, lines: usize) -> Self {
        Self {
            fingerprint: (hash & ((1 << FINGERPRINT_BITS) - 1)).max(1),
            line: part(hash >> 32, lines),
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

#[cfg(all(test, not(flowgate_loom)))]
mod tests {
    use super::*;

    const SEED: Seed = Seed([1, 2]);

    #[test]
    fn either_line_leads_to_the_other() {
        for lines in [1, 2, 3, 16, 1000, 333_334] {
            for key in 0..1000_u64 {
                let place = Place::new(SEED.hash(&key), lines);
                let turned = place.turned(lines);
                assert!(place.line < lines && turned.line < lines);
                assert_eq!(turned.turned(lines), place);
            }
        }
    }

    #[test]
    fn lines_are_chosen_evenly() {
        let lines = 64;
        let mut met = [[0_u32; 64]; 2];
        for key in 0..64_000_u64 {
            let place = Place::new(SEED.hash(&key), lines);
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
        let hashes = [Seed([1, 2]), Seed([1, 3]), Seed([2, 2])].map(|seed| seed.hash("key"));
        assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2]);
    }

    #[test]
    fn no_fingerprint_is_that_of_nobody() {
        assert_eq!(Place::new(0, 1).fingerprint, 1);
    }
}
