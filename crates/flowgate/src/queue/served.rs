//! Where a queue says whose turn it is.

use crate::primitive::{AtomicU64, Ordering, const_unless_loom};

/// The number of whoever was served last, for all to read: who has a smaller one, or that, has what it asked for.
///
/// A turn that has come is learnt from here, without the queue's lock, if there is nothing else to be told: neither a
/// date, nor a receipt, nor a refusal. Numbers are given in the order of coming, and here go by only those of whoever
/// came first of all in the queue. So everybody in the queue has a larger one than is shown; and of those who are not in the queue any
/// longer, all with a smaller one were served, except for those who were told something. While there are such, it says
/// so, and everybody asks the queue.
///
/// A cache line of its own, so that whoever reads it does not take from others what they work on.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Served {
    /// ```text
    ///   63                                  1        0
    ///  ├── the number of who was served last ─┼─ ask ─┤
    /// ```
    word: AtomicU64,
}

const ASK: u64 = 1;
const NUMBER_SHIFT: u32 = 1;

impl Served {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self {
                word: AtomicU64::new(0),
            }
        }
    }

    /// Says that `number` is served; and whether somebody has been told something, and not heard it yet. Called by the
    /// holder of the queue's lock.
    pub(super) fn show(&self, number: u64, is_to_ask: bool) {
        let ask = if is_to_ask { ASK } else { 0 };
        // Releases, to whoever reads that it is served, what was done with what it has now.
        self.word
            .store(number << NUMBER_SHIFT | ask, Ordering::Release);
    }

    /// Whether `number` is known to be served. If not, the queue knows.
    pub(super) fn is_served(&self, number: u64) -> bool {
        // Acquires what `show` releases.
        let shown = self.word.load(Ordering::Acquire);
        shown & ASK == 0 && number <= shown >> NUMBER_SHIFT
    }
}
