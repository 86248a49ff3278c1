//! The number of the last waiter that was served.

use crate::primitive::{AtomicU64, Ordering, const_unless_loom};

/// The number of the last waiter that was served, for all threads to read.
///
/// A waiter that has that number or a smaller one has what it asked for. It learns of its grant from here, without the
/// queue's lock, if there is nothing else to be told: no timestamp, no receipt and no refusal.
///
/// Numbers are given in order of arrival, and only grants of the oldest waiter are shown here. Every waiter in the queue
/// therefore has a larger number than the one shown. All waiters that have left with a smaller number were served, except
/// those that were given an answer in the queue. While any such answer is unread, a flag says so, and all waiters ask the
/// queue.
///
/// It has a cache line of its own, so that threads that read it do not delay the threads that work on the queue.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Served {
    /// ```text
    ///   63                                  1        0
    ///  ├── the number of the last one served ─┼─ ask ─┤
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

    /// Shows that `number` is served, and whether an answer is unread. The caller holds the queue's lock.
    pub(super) fn show(&self, number: u64, is_to_ask: bool) {
        let ask = if is_to_ask { ASK } else { 0 };
        // Releases what was done with the units before, to the waiter that reads that it is served.
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
