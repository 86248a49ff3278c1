//! A ring of 128-bit records: what the windows that remember their admissions are kept in.

use crate::primitive::{AtomicU128, Ordering};
use alloc::boxed::Box;

/// A power of two of atomic slots, found by a position that counts on and on.
///
/// It knows nothing of what is in them. Loads acquire and stores release: whoever reads a record sees
/// everything that its writer had seen.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Box<[AtomicU128]>,
}

impl Ring {
    /// At least `slots` slots, each with what `first` says of its index.
    pub(crate) fn new(slots: u64, first: impl Fn(u64) -> u128) -> Self {
        Self {
            slots: (0..Self::slots_for(slots))
                .map(|index| AtomicU128::new(first(index)))
                .collect(),
        }
    }

    /// How many slots a ring of at least `slots` has; saturates.
    pub(crate) const fn slots_for(slots: u64) -> u64 {
        match slots.checked_next_power_of_two() {
            Some(slots) => slots,
            None => u64::MAX,
        }
    }

    /// How many slots there are, a power of two.
    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// What the slots take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    #[inline(always)]
    fn slot(&self, position: u64) -> &AtomicU128 {
        // Less than the number of slots, whatever the position.
        &self.slots[position as usize & (self.slots.len() - 1)]
    }

    #[inline(always)]
    pub(crate) fn load(&self, position: u64) -> u128 {
        self.slot(position).load(Ordering::Acquire)
    }

    pub(crate) fn store(&self, position: u64, record: u128) {
        self.slot(position).store(record, Ordering::Release);
    }

    /// Puts `new` in the place of `old`, if that is what is there; may fail for no reason.
    #[inline(always)]
    pub(crate) fn replace(&self, position: u64, old: u128, new: u128) -> bool {
        self.slot(position)
            .compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// The last number before `end` for which `holds`, which is so for `from` and all up to one that is to be
/// found, and for none after it.
///
/// Looks close to `from` first, and in at most 2 · log₂(`end` − `from`) places; if others
/// change the answers meanwhile it still ends, with some number from `from` to before `end`.
#[inline]
pub(crate) fn last_that(from: u64, end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut last, mut step) = (from, 1);
    let mut end = loop {
        let next = last + step;
        if next >= end {
            break end;
        }
        if !holds(next) {
            break next;
        }
        last = next;
        step *= 2;
    };
    while last + 1 < end {
        let middle = last + (end - last) / 2;
        if holds(middle) {
            last = middle;
        } else {
            end = middle;
        }
    }
    last
}

#[cfg(all(test, not(flowgate_loom)))]
mod tests {
    use super::{Ring, last_that};

    #[test]
    fn a_search_finds_every_place_in_few_looks() {
        for end in 1..70 {
            for from in 0..end {
                for last in from..end {
                    let looks = core::cell::Cell::new(0);
                    let holds = |at: u64| {
                        assert!((from..end).contains(&at));
                        looks.set(looks.get() + 1);
                        at <= last
                    };
                    assert_eq!(last_that(from, end, holds), last);
                    assert!(looks.get() <= 2 * (end - from).ilog2() + 2, "{looks:?}");
                }
            }
        }
    }

    #[test]
    fn a_ring_has_a_power_of_two_of_slots() {
        let ring = Ring::new(5, u128::from);
        assert_eq!((ring.len(), ring.bytes()), (8, 128));
        assert_eq!(ring.load(8 + 3), 3);
        assert_eq!(Ring::slots_for(u64::MAX), u64::MAX);
    }
}
