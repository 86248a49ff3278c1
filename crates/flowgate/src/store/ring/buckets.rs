//! Two counts for each bucket of time, in a ring.
//!
//! ```text
//!  127                            64 63             32 31                  0
//! ┌─────────────────────────────────┬─────────────────┬─────────────────────┐
//! │ bucket                          │ first           │ second              │   a slot of the ring
//! └─────────────────────────────────┴─────────────────┴─────────────────────┘
//! ```
//!
//! The number of a bucket selects its slot. The first count of a later bucket replaces the old bucket in its slot, so the ring
//! has to be longer than what its readers look back. Each change is one compare-and-swap.

use super::Ring;
use core::ops::Range;

/// See the module.
#[derive(Debug)]
pub(crate) struct Buckets {
    ring: Ring,
}

impl Buckets {
    /// Creates a ring for readers that look back `reach` buckets from the current one.
    pub(crate) fn new(reach: u64) -> Self {
        Self {
            // Empty slots of bucket 0.
            ring: Ring::new(reach + 1, |_| 0),
        }
    }

    /// Returns the memory of the slots, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.ring.bytes()
    }

    /// Returns the sums over `buckets`, as far as the ring still has them.
    pub(crate) fn sum(&self, buckets: Range<u64>) -> [u64; 2] {
        buckets.fold([0; 2], |sum, bucket| match unpack(self.ring.load(bucket)) {
            (of, [first, second]) if of == bucket => {
                [sum[0] + u64::from(first), sum[1] + u64::from(second)]
            }
            _ => sum,
        })
    }

    /// Replaces the counts of `bucket` by the result of `to`. Returns `false` if `to` returns `None`, or if a later bucket has
    /// the slot.
    #[inline(always)]
    pub(crate) fn change(&self, bucket: u64, to: impl Fn([u32; 2]) -> Option<[u32; 2]>) -> bool {
        loop {
            let old = self.ring.load(bucket);
            let counts = match unpack(old) {
                (of, _) if of > bucket => return false,
                (of, counts) if of == bucket => counts,
                _ => [0; 2],
            };
            let Some(counts) = to(counts) else {
                return false;
            };
            if self.ring.replace(bucket, old, pack(bucket, counts)) {
                return true;
            }
        }
    }
}

const fn pack(bucket: u64, [first, second]: [u32; 2]) -> u128 {
    (bucket as u128) << 64 | (first as u128) << 32 | second as u128
}

const fn unpack(word: u128) -> (u64, [u32; 2]) {
    ((word >> 64) as u64, [(word >> 32) as u32, word as u32])
}
