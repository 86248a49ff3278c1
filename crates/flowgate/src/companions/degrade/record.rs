//! The state of a [`Degrade`](super::Degrade): a word for the level, and a ring of counts of the calls that began.
//!
//! ```text
//!  127                            64 63                        8 7         0
//! ┌─────────────────────────────────┬───────────────────────────┬───────────┐
//! │ judged                          │ since                     │ level     │   standing
//! └─────────────────────────────────┴───────────────────────────┴───────────┘
//! ```
//!
//! A call is counted in the bucket in which it began, by one compare-and-swap. The first call of a later bucket replaces the old
//! bucket in its slot; no judgment reads the old one any more. A call that ends in time is marked as fast in its bucket, by
//! another compare-and-swap.
//!
//! A call that does not end in time writes nothing: every call is slow unless it is known to be fast. So a hang is detected
//! without any action of a thread, and a call that never ends disappears with its bucket.
//!
//! The level is judged once for each bucket of time, by the first threads that read it ([`Judged`]).
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `standing` | every thread | the first thread in a bucket (CAS) | its contents; `judged` only grows |
//! | `calls` | judgments, reports | calls that begin, end in time, or are ignored (CAS) | the bucket's number |
//!
//! If a thread is suspended between reading the clock and its compare-and-swap, its call is counted late. If the bucket in
//! which the call began was judged in between, the call counts from the next judgment on. If the call ended in time, it counts
//! as slow until then.

use super::judge::{Counts, Rules, Standing};
use crate::store::judged::{self, Judged};
use crate::store::ring::buckets::Buckets;
use core::ops::Range;

/// The most slots, 16 KiB of them, of which one is for the bucket that calls are beginning in.
pub(super) const MAX_SLOTS: u64 = 1024;

const LEVEL_BITS: u32 = 8;

impl judged::Standing for Standing {
    /// `since` and `judged` are below 2⁵⁶ because a bucket is longer than 256 ns; `level` is below 2⁸.
    fn pack(self) -> u128 {
        let low = self.since << LEVEL_BITS | self.level as u64;
        (self.judged as u128) << 64 | low as u128
    }

    fn unpack(word: u128) -> Self {
        let low = word as u64;
        Self {
            judged: (word >> 64) as u64,
            since: low >> LEVEL_BITS,
            level: (low & ((1 << LEVEL_BITS) - 1)) as u32,
        }
    }

    fn judged(self) -> u64 {
        self.judged
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Record {
    standing: Judged<Standing>,
    /// In each bucket, the calls that began, and those that were fast: never more than began.
    pub(super) calls: Buckets,
}

impl Record {
    /// Creates a record for judgments that look back `reach` buckets, which is less than [`MAX_SLOTS`].
    pub(super) fn new(reach: u64) -> Self {
        Self {
            standing: Judged::new(Standing::default()),
            calls: Buckets::new(reach),
        }
    }

    /// Returns the level at `now_ns`, or at the latest time for which it has been judged, if that is later.
    #[inline]
    pub(super) fn look(&self, rules: &Rules, now_ns: u64) -> Standing {
        let step = |old, to| rules.judge(old, to, |buckets| self.counts(buckets));
        self.standing.at(now_ns, rules.bucket_ns, step)
    }

    /// Returns the level as last judged.
    pub(super) fn standing(&self) -> Standing {
        self.standing.last()
    }

    /// Returns the calls that began in `buckets`, as far as the ring still has them.
    pub(super) fn counts(&self, buckets: Range<u64>) -> Counts {
        let [begun, fast] = self.calls.sum(buckets);
        Counts { begun, fast }
    }

    /// Counts a call that begins in `bucket`. Returns `false` if the call is not counted. This happens if the bucket is full
    /// (2³² − 1 calls), or so old that a later bucket has its slot.
    #[inline]
    pub(super) fn begin(&self, bucket: u64) -> bool {
        self.calls
            .change(bucket, |[begun, fast]| Some([begun.checked_add(1)?, fast]))
    }

    /// Marks a call that was counted in `bucket` as fast.
    #[inline]
    pub(super) fn end_fast(&self, bucket: u64) {
        self.calls.change(bucket, |[begun, fast]| {
            Some([begun, fast.saturating_add(1)])
        });
    }

    /// Counts a call that was counted in `bucket` no more.
    pub(super) fn forget(&self, bucket: u64) {
        self.calls.change(bucket, |[begun, fast]| {
            Some([begun.saturating_sub(1), fast])
        });
    }
}
