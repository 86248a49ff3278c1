//! The number of waits of about each length.
//!
//! Buckets are log-linear, as in HdrHistogram. Each power of two is divided into 16 buckets of the same width, so none is wider
//! than 1/16 of the shortest length in it. Below 32 ns, each bucket holds one length.
//!
//! ```text
//!   0 1 2 … 31 │ 32–33 34–35 … 62–63 │ 64–67 68–71 … 124–127 │ 128–135 …   … u64::MAX
//!      1 ns    │        2 ns         │         4 ns          │   8 ns
//! ```

use crate::primitive::{AtomicU64, Ordering};
use alloc::boxed::Box;

/// 16 for each power of two from 2⁵ to 2⁶³, and 32 below.
pub(super) const BUCKETS: usize = 32 + 16 * 59;

pub(super) const SPLIT_BITS: u32 = 16;

#[derive(Debug)]
pub(super) struct Histogram {
    pub(super) buckets: Box<[AtomicU64]>,
    /// The sum of all waits in ns, its low 16 bits and the others apart: 2⁴⁸ waits and 2⁸⁰ ns until one of them
    /// wraps around.
    pub(super) low: AtomicU64,
    pub(super) high: AtomicU64,
    pub(super) longest_ns: AtomicU64,
}

impl Histogram {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            low: AtomicU64::new(0),
            high: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        })
    }

    /// The bucket is counted last: a thread that reads the wait there reads it in the other fields, too.
    pub(super) fn record(&self, wait_ns: u64) {
        if self.longest_ns.load(Ordering::Relaxed) < wait_ns {
            self.longest_ns.fetch_max(wait_ns, Ordering::Relaxed);
        }
        let low = wait_ns & ((1 << SPLIT_BITS) - 1);
        self.low.fetch_add(low, Ordering::Relaxed);
        let high = wait_ns >> SPLIT_BITS;
        if high != 0 {
            self.high.fetch_add(high, Ordering::Relaxed);
        }
        // Pairs with `Waits::of`.
        self.buckets[bucket_of(wait_ns)].fetch_add(1, Ordering::Release);
    }
}

/// The bucket that holds `wait_ns`.
pub(super) fn bucket_of(wait_ns: u64) -> usize {
    // Its highest five bits are kept.
    let cut = wait_ns.max(1).ilog2().saturating_sub(4);
    (16 * cut as usize) + (wait_ns >> cut) as usize
}

/// The most that a bucket holds.
pub(super) fn top_ns(bucket: usize) -> u64 {
    let cut = (bucket / 16).saturating_sub(1);
    let highest = (bucket - 16 * cut) as u64;
    highest << cut | ((1 << cut) - 1)
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap_and_none_is_wider_than_a_sixteenth() {
        let mut least = 0_u64;
        for bucket in 0..BUCKETS {
            let top = top_ns(bucket);
            assert_eq!((bucket_of(least), bucket_of(top)), (bucket, bucket));
            assert!(top - least <= least / 16, "{least} to {top}");
            least = top.wrapping_add(1);
        }
        assert_eq!(least, 0, "the last holds u64::MAX");
    }

    #[test]
    fn the_longest_waits_there_can_be_are_summed() {
        let histogram = Histogram::new();
        for _ in 0..1_000 {
            histogram.record(u64::MAX);
        }
        let waits = super::super::Waits::of(&histogram, 0);
        assert_eq!(waits.total_ns, u128::from(u64::MAX) * 1_000);
        assert_eq!(waits.mean().as_nanos(), u64::MAX.into());
        assert_eq!(waits.quantile(1, 2).as_nanos(), u64::MAX.into());
    }
}
