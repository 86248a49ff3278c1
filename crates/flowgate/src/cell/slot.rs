//! One of the two places that hold the parameters in force.

use crate::primitive::{AtomicU64, Ordering, const_unless_loom};

/// The parameters of one generation.
///
/// The writer changes `tag` first and the numbers after it, each with Release. A reader loads the numbers,
/// each with Acquire, and the tag last: if any number was of a later generation, so is the tag.
/// None is of an earlier one, since the reader has found the generation named in the word, which was
/// put there after they were stored. So an equal tag means that all numbers belong together, without
/// a fence and without a lock.
///
/// An unequal one means that the word has changed since it was read: the slot that a word in force
/// names is never filled.
#[derive(Debug)]
pub(super) struct Slot<const N: usize> {
    /// The generation, as the word has it.
    tag: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Slot<N> {
    const_unless_loom! {
        /// Of generation 0.
        pub(super) const fn new(words: &[u64; N]) -> Self {
            Self {
                tag: AtomicU64::new(0),
                words: atomics(words),
            }
        }
    }

    /// The parameters, if they are those of `generation`.
    #[inline(always)]
    pub(super) fn load(&self, generation: u64) -> Option<[u64; N]> {
        let words = core::array::from_fn(|i| self.words[i].load(Ordering::Acquire));
        (self.tag.load(Ordering::Acquire) == generation).then_some(words)
    }

    /// Fills a slot that is not in force.
    pub(super) fn fill(&self, generation: u64, words: &[u64; N]) {
        self.tag.store(generation, Ordering::Release);
        for (slot, &word) in self.words.iter().zip(words) {
            slot.store(word, Ordering::Release);
        }
    }
}

#[cfg(not(flowgate_loom))]
const fn atomics<const N: usize>(values: &[u64; N]) -> [AtomicU64; N] {
    let mut atomics = [const { AtomicU64::new(0) }; N];
    let mut i = 0;
    while i < N {
        atomics[i] = AtomicU64::new(values[i]);
        i += 1;
    }
    atomics
}

#[cfg(flowgate_loom)]
fn atomics<const N: usize>(values: &[u64; N]) -> [AtomicU64; N] {
    values.map(AtomicU64::new)
}
