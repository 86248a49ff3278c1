//! Parameters that change while other threads read them: several 64-bit words that are only used together.
//!
//! A reader takes no lock and writes nothing. The memory ordering is argued here once; the types that
//! keep parameters in these words (see the table) rely on it.
//!
//! # Tags
//!
//! A [`Version`] holds the words of one generation and a *tag*, the number of that generation. Two
//! rules make a reader safe:
//!
//! - The **writer** stores the new tag first, and the words after it, each with Release. It
//!   announces the generation, with Release, only when all words are stored.
//! - The **reader** learns the generation from that announcement, with Acquire. It loads the words, each
//!   with Acquire, and the tag last. If the tag is that of the announced generation, the reader uses the
//!   words; otherwise it discards them.
//!
//! If the tag matches, all words belong to the announced generation:
//!
//! - No word is older. The announcement was stored after the words, and the reader has seen it.
//!   Relaxed compare-and-swaps of the word that carries the announcement do not break this: they
//!   continue its release sequence.
//! - No word is newer. A newer word is stored after the tag of its generation. A reader that
//!   has loaded that word with Acquire therefore also loads that tag, or a later one.
//!
//! Before the writer announces a generation it may fill its version again, with other words. No reader
//! looks for that tag yet. It must not store a tag that has been announced before: a reader that has loaded a newer
//! word might load that tag after it.
//!
//! No fence is needed. The reader may load only some of the words, and may compute with them before it
//! loads the tag, as long as the computation cannot panic on mixed words.
//!
//! A tag that has come round to the same bits is taken for the same generation. How many bits are compared,
//! and what that means, is documented where the generation is announced.
//!
//! # Where the generation is announced
//!
//! | type | announcement | during a change | used by |
//! |---|---|---|---|
//! | [`Versioned`] | a word of the caller's | readers use the current version | `word` (`cold`), `cell`, `keyed` |
//! | [`Version`] | a word of the caller's | readers find another tag | `word` (`hot`) |
//! | `Seqlock` | the tag itself | readers get `None` | the TSC clock |
//!
//! [`Versioned`] has two versions. The writer fills the one that is not current, so a mismatch means that
//! the generation has changed since the reader learned it. A `Version` alone is overwritten while its generation is
//! still current, so until the next one is announced, its readers have to go another way. The writer then has to announce
//! a generation, even if its change comes to nothing: the tag of the current one must not come back.
//! `Seqlock` has one version, and an odd tag
//! while the writer stores the words. It exists for the clock: to choose between two versions would take
//! two more instructions in every reading, of 24, and a reading that meets a change has another way to go.

use crate::primitive::{AtomicU64, Ordering, const_unless_loom};

/// The words of one generation, and its tag.
#[derive(Debug)]
pub(crate) struct Version<const N: usize> {
    pub(super) tag: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Version<N> {
    const_unless_loom! {
        pub(crate) const fn new(tag: u64, words: &[u64; N]) -> Self {
            Self {
                tag: AtomicU64::new(tag),
                words: atomics(words),
            }
        }
    }

    /// Returns one word, which may not belong to the others until the [`tag`](Self::tag) has been compared.
    #[inline(always)]
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Acquire)
    }

    /// Returns two words as one number, the low half at `index`, as [`word`](Self::word) does.
    #[inline(always)]
    pub(crate) fn double_word(&self, index: usize) -> u128 {
        let [low, high] = [self.word(index), self.word(index + 1)];
        u128::from(high) << 64 | u128::from(low)
    }

    /// Returns the tag. To be loaded after the words.
    #[inline(always)]
    pub(crate) fn tag(&self) -> u64 {
        self.tag.load(Ordering::Acquire)
    }

    /// Returns all words, as [`word`](Self::word) does.
    #[inline(always)]
    pub(super) fn all_words(&self) -> [u64; N] {
        core::array::from_fn(|index| self.word(index))
    }

    #[inline(always)]
    pub(crate) fn fill(&self, tag: u64, words: &[u64; N]) {
        self.tag.store(tag, Ordering::Release);
        for (stored, &word) in self.words.iter().zip(words) {
            stored.store(word, Ordering::Release);
        }
    }
}

/// The current parameters and, while they change, the next ones.
///
/// A tag is the number of a generation, shifted by `SHIFT`: the lowest bit of the generation in the word
/// that announces it. That bit selects the version.
#[derive(Debug)]
pub(crate) struct Versioned<const N: usize, const SHIFT: u32 = 0> {
    versions: [Version<N>; 2],
}

impl<const N: usize, const SHIFT: u32> Versioned<N, SHIFT> {
    const_unless_loom! {
        /// Creates generation 0. The one before it has the same words.
        pub(crate) const fn new(words: &[u64; N]) -> Self {
            let before = 0_u64.wrapping_sub(1 << SHIFT);
            Self {
                versions: [Version::new(0, words), Version::new(before, words)],
            }
        }
    }

    /// Returns the version for the generation in `announced`, a tag or the word that announces it.
    #[inline(always)]
    pub(crate) fn of(&self, announced: u64) -> &Version<N> {
        &self.versions[(announced >> SHIFT & 1) as usize]
    }

    /// Returns what `read` makes of the version with this tag, or `None` if that has been overwritten.
    ///
    /// The even version is tried first, whatever the tag is. The address of its words does not depend on the tag, so the processor
    /// need not wait for the word that announces the generation before it computes with them. `read` must not panic on words of
    /// another generation, or of several.
    #[inline(always)]
    pub(crate) fn read<T>(&self, tag: u64, read: impl Fn(&Version<N>) -> T) -> Option<T> {
        let read = |version: &Version<N>| {
            let value = read(version);
            (version.tag() == tag).then_some(value)
        };
        let [even, odd] = &self.versions;
        read(even).or_else(|| read(odd))
    }

    /// Returns the words of the version with this tag, or `None` if that has been overwritten.
    #[inline(always)]
    pub(crate) fn load(&self, tag: u64) -> Option<[u64; N]> {
        self.read(tag, Version::all_words)
    }

    /// Overwrites the version that is not current. The caller holds the lock of all writers, and announces
    /// the generation afterwards, with Release.
    #[inline(always)]
    pub(crate) fn fill(&self, tag: u64, words: &[u64; N]) {
        self.of(tag).fill(tag, words);
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
