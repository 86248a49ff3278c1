//! The number of a thread, by which stripes distinguish threads.

#[cfg(all(feature = "std", not(flowgate_loom)))]
mod numbered {
    use crate::primitive::{AtomicU64, Ordering};
    use core::cell::Cell;

    const NONE_YET: usize = usize::MAX;

    std::thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(NONE_YET) };
    }

    /// Returns the number of this thread. Threads are numbered in the order in which they first call this.
    #[inline]
    pub(crate) fn thread_number() -> usize {
        NUMBER.with(|number| {
            if number.get() == NONE_YET {
                number.set(first());
            }
            number.get()
        })
    }

    #[cold]
    fn first() -> usize {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // The number differs from the one that means that there is none.
        NEXT.fetch_add(1, Ordering::Relaxed) as usize & (NONE_YET >> 1)
    }

    /// Gives this thread the next number, after it met another thread with its number.
    #[cold]
    pub(crate) fn step_aside() {
        NUMBER.with(|number| number.set((number.get() & (NONE_YET >> 1)) + 1));
    }
}

/// Without `std`, the threads cannot be distinguished.
#[cfg(not(all(feature = "std", not(flowgate_loom))))]
mod numbered {
    pub(crate) fn thread_number() -> usize {
        0
    }

    pub(crate) fn step_aside() {}
}

pub(crate) use numbered::{step_aside, thread_number};

#[cfg(all(test, feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::{step_aside, thread_number};
    use std::collections::BTreeSet;
    use std::thread;

    #[test]
    fn threads_have_numbers_of_their_own() {
        let number = || thread::spawn(thread_number).join().unwrap();
        let numbers: BTreeSet<_> = (0..16).map(|_| number()).collect();
        assert_eq!(numbers.len(), 16);
        let own = thread_number();
        assert_eq!(thread_number(), own);
        step_aside();
        assert_ne!(thread_number(), own);
    }
}
