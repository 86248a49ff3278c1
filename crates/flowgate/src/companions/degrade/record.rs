//! The state of a [`Degrade`](super::Degrade): a word for the level, and a ring of words for the calls that began.
//!
//! ```text
//!  127                            64 63                        8 7         0
//! ┌─────────────────────────────────┬───────────────────────────┬───────────┐
//! │ judged                          │ since                     │ level     │   standing
//! └─────────────────────────────────┴───────────────────────────┴───────────┘
//!  127                            64 63             32 31                  0
//! ┌─────────────────────────────────┬─────────────────┬─────────────────────┐
//! │ bucket                          │ begun           │ fast                │   a slot of the ring
//! └─────────────────────────────────┴─────────────────┴─────────────────────┘
//! ```
//!
//! A call is counted in the bucket in which it began, by one compare-and-swap on the slot of the ring that the bucket's number
//! selects. The first call of a later bucket replaces the old bucket in its slot; no judgment reads the old one any more. A
//! call that ends in time is marked as fast in its bucket, by another compare-and-swap.
//!
//! A call that does not end in time writes nothing: every call is slow unless it is known to be fast. So a hang is detected
//! without any action of a thread, and a call that never ends disappears with its bucket.
//!
//! The level is judged once for each bucket of time, by the first threads that read it. They all compute the same step, and one
//! of them swaps it in.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `standing` | every thread | the first thread in a bucket (CAS) | its contents; `judged` only grows |
//! | `ring` | judgments, reports | calls that begin, end in time, or are ignored (CAS) | the bucket's number |
//!
//! If a thread is suspended between reading the clock and its compare-and-swap, its call is counted late. If the bucket in
//! which the call began was judged in between, the call counts from the next judgment on. If the call ended in time, it counts
//! as slow until then.

use super::judge::{Counts, Rules, Standing};
use crate::primitive::{AtomicU128, Ordering};
use crate::store::ring::Ring;
use core::ops::Range;

/// The most slots, 16 KiB of them, of which one is for the bucket that calls are beginning in.
pub(super) const MAX_SLOTS: u64 = 1024;

const LEVEL_BITS: u32 = 8;

impl Standing {
    /// `since` and `judged` are below 2⁵⁶ because a bucket is longer than 256 ns; `level` is below 2⁸.
    const fn pack(self) -> u128 {
        let low = self.since << LEVEL_BITS | self.level as u64;
        (self.judged as u128) << 64 | low as u128
    }

    const fn unpack(word: u128) -> Self {
        let low = word as u64;
        Self {
            judged: (word >> 64) as u64,
            since: low >> LEVEL_BITS,
            level: (low & ((1 << LEVEL_BITS) - 1)) as u32,
        }
    }
}

/// A slot: the calls that began in one bucket. There are never more fast ones than began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    bucket: u64,
    begun: u32,
    fast: u32,
}

impl Slot {
    const fn pack(self) -> u128 {
        let low = (self.begun as u64) << 32 | self.fast as u64;
        (self.bucket as u128) << 64 | low as u128
    }

    const fn unpack(word: u128) -> Self {
        let low = word as u64;
        Self {
            bucket: (word >> 64) as u64,
            begun: (low >> 32) as u32,
            fast: low as u32,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Record {
    standing: AtomicU128,
    pub(super) ring: Ring,
}

impl Record {
    /// Creates a record for judgments that look back `reach` buckets, which is less than [`MAX_SLOTS`].
    pub(super) fn new(reach: u64) -> Self {
        Self {
            standing: AtomicU128::new(Standing::default().pack()),
            // An empty slot of bucket 0.
            ring: Ring::new(reach + 1, |_| 0),
        }
    }

    /// Returns the level at `now_ns`, or at the latest time for which it has been judged, if that is later.
    #[inline]
    pub(super) fn look(&self, rules: &Rules, now_ns: u64) -> Standing {
        let standing = self.standing();
        match rules.is_judged(standing, now_ns) {
            true => standing,
            false => self.judge(rules, now_ns),
        }
    }

    /// Returns the level as last judged.
    pub(super) fn standing(&self) -> Standing {
        // Acquire: pairs with the swap in `judge`, so that this thread also sees the data of that judgment.
        Standing::unpack(self.standing.load(Ordering::Acquire))
    }

    /// Judges the level, once per bucket and thread.
    #[inline(never)]
    fn judge(&self, rules: &Rules, now_ns: u64) -> Standing {
        let to = now_ns / rules.bucket_ns;
        loop {
            let old = self.standing();
            if old.judged >= to {
                return old;
            }
            let new = rules.judge(old, to, |buckets| self.counts(buckets));
            let swapped = self.standing.compare_exchange_weak(
                old.pack(),
                new.pack(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if swapped.is_ok() {
                return new;
            }
        }
    }

    /// Returns the calls that began in `buckets`, as far as the ring still has them.
    pub(super) fn counts(&self, buckets: Range<u64>) -> Counts {
        buckets.fold(Counts::default(), |sum, bucket| {
            let slot = Slot::unpack(self.ring.load(bucket));
            match slot.bucket == bucket {
                true => sum.plus(Counts {
                    begun: slot.begun.into(),
                    fast: slot.fast.into(),
                }),
                false => sum,
            }
        })
    }

    /// Counts a call that begins in `bucket`. Returns `false` if the call is not counted. This happens if the bucket is full
    /// (2³² − 1 calls), or so old that a later bucket has its slot.
    #[inline]
    pub(super) fn begin(&self, bucket: u64) -> bool {
        self.change(bucket, |slot| {
            if slot.bucket > bucket {
                return None;
            }
            let (begun, fast) = match slot.bucket == bucket {
                true => (slot.begun, slot.fast),
                false => (0, 0),
            };
            Some(Slot {
                bucket,
                begun: begun.checked_add(1)?,
                fast,
            })
        })
    }

    /// Marks a call that was counted in `bucket` as fast.
    #[inline]
    pub(super) fn end_fast(&self, bucket: u64) {
        self.change(bucket, |slot| {
            (slot.bucket == bucket).then_some(Slot {
                fast: slot.fast.saturating_add(1),
                ..slot
            })
        });
    }

    /// Counts a call that was counted in `bucket` no more.
    pub(super) fn forget(&self, bucket: u64) {
        self.change(bucket, |slot| {
            (slot.bucket == bucket).then_some(Slot {
                begun: slot.begun.saturating_sub(1),
                ..slot
            })
        });
    }

    /// Replaces the slot of `bucket` by the result of `to`. Returns `false` if `to` returns `None`.
    #[inline(always)]
    fn change(&self, bucket: u64, to: impl Fn(Slot) -> Option<Slot>) -> bool {
        loop {
            let old = self.ring.load(bucket);
            let Some(new) = to(Slot::unpack(old)) else {
                return false;
            };
            if self.ring.replace(bucket, old, new.pack()) {
                return true;
            }
        }
    }
}
