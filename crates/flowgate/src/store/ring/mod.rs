//! A ring of 128-bit records. It stores the windows that remember their admissions.

pub(crate) mod buckets;
pub(crate) mod sums;

use crate::primitive::{AtomicU128, Ordering};
use alloc::boxed::Box;

/// A power of two of atomic slots, selected by a position that counts up without an end.
///
/// The ring does not interpret the records. Loads acquire and stores release: a thread that reads a record sees everything that
/// the writer of the record had seen.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Box<[AtomicU128]>,
}

impl Ring {
    /// Creates a ring of at least `slots` slots, each with the record that `first` returns for its index.
    pub(crate) fn new(slots: u64, first: impl Fn(u64) -> u128) -> Self {
        Self {
            slots: (0..Self::slots_for(slots))
                .map(|index| AtomicU128::new(first(index)))
                .collect(),
        }
    }

    /// Returns the number of slots of a ring with at least `slots` slots; saturates.
    pub(crate) const fn slots_for(slots: u64) -> u64 {
        match slots.checked_next_power_of_two() {
            Some(slots) => slots,
            None => u64::MAX,
        }
    }

    /// Returns the number of slots, a power of two.
    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Returns the memory of the slots, in bytes.
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

    /// Replaces `old` by `new`, if the slot holds `old`; may fail for no reason.
    #[inline(always)]
    pub(crate) fn replace(&self, position: u64, old: u128, new: u128) -> bool {
        self.slot(position)
            .compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::Ring;

    #[test]
    fn a_ring_has_a_power_of_two_of_slots() {
        let ring = Ring::new(5, u128::from);
        assert_eq!((ring.len(), ring.bytes()), (8, 128));
        assert_eq!(ring.load(8 + 3), 3);
        assert_eq!(Ring::slots_for(u64::MAX), u64::MAX);
    }
}
