//! Parameters of which only the current version exists. For the memory ordering see [`super::versioned`].

use super::versioned::Version;
use crate::primitive::{Ordering, const_unless_loom};

/// Words that readers use together, or not at all while they change.
///
/// The tag announces its own generation. It is even, or odd while the writer stores the words.
#[derive(Debug)]
pub(crate) struct Seqlock<const N: usize>(Version<N>);

impl<const N: usize> Seqlock<N> {
    const_unless_loom! {
        pub(crate) const fn new(words: &[u64; N]) -> Self {
            Self(Version::new(0, words))
        }
    }

    /// Returns what `read` makes of the words, or `None` if they change meanwhile.
    #[inline(always)]
    pub(crate) fn read<T>(&self, read: impl FnOnce([u64; N]) -> T) -> Option<T> {
        let announced = self.0.tag() & !1;
        let value = read(self.0.all_words());
        (self.0.tag() == announced).then_some(value)
    }

    /// Replaces the words. The caller holds the lock of all writers.
    pub(crate) fn store(&self, words: &[u64; N]) {
        let changing = self.0.tag.load(Ordering::Relaxed) | 1;
        self.0.fill(changing, words);
        self.0
            .tag
            .store(changing.wrapping_add(1), Ordering::Release);
    }
}
