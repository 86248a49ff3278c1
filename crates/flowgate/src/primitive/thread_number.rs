//! What tells threads apart, for what is kept in stripes.

#[cfg(all(feature = "std", not(flowgate_loom)))]
mod numbered {
    use crate::primitive::{AtomicU64, Ordering};
    use core::cell::Cell;

    const NONE_YET: usize = usize::MAX;

    std::thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(NONE_YET) };
    }

    /// The number of this thread: they are numbered in the order in which they first ask.
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
        // Not the one that means that there is none.
        NEXT.fetch_add(1, Ordering::Relaxed) as usize & (NONE_YET >> 1)
    }

    /// Has this thread take the next number, where it met another one with its own.
    #[cold]
    pub(crate) fn step_aside() {
        NUMBER.with(|number| number.set((number.get() & (NONE_YET >> 1)) + 1));
    }
}

/// Nothing tells the threads apart.
#[cfg(not(all(feature = "std", not(flowgate_loom))))]
mod numbered {
    pub(crate) fn thread_number() -> usize {
        0
    }

    pub(crate) fn step_aside() {}
}

pub(crate) use numbered::{step_aside, thread_number};

#[cfg(all(test, feature = "std", not(flowgate_loom)))]
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
