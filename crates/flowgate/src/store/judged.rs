//! A word that says what holds now, and is judged anew once for each bucket of time.
//!
//! The first threads that read it in a bucket judge it. They all compute the same step, and one of them swaps it in. The bucket of
//! a judgment only grows, so a clock that goes back changes nothing.

use crate::primitive::{AtomicU128, Ordering};
use core::marker::PhantomData;

/// What holds, with the bucket at whose beginning it was judged.
pub(crate) trait Standing: Copy {
    fn pack(self) -> u128;

    fn unpack(word: u128) -> Self;

    fn judged(self) -> u64;
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Judged<S> {
    word: AtomicU128,
    unpacked: PhantomData<fn() -> S>,
}

impl<S: Standing> Judged<S> {
    pub(crate) fn new(first: S) -> Self {
        Self {
            word: AtomicU128::new(first.pack()),
            unpacked: PhantomData,
        }
    }

    /// Returns what was judged last.
    pub(crate) fn last(&self) -> S {
        // Acquire: pairs with the swap in `judge`, so that this thread also sees the data of that judgment.
        S::unpack(self.word.load(Ordering::Acquire))
    }

    /// Returns what holds at `now_ns`, in buckets of `bucket_ns`, or at the latest time for which it has been judged, if that is
    /// later. `step` judges what holds in a bucket after the last judged one.
    #[inline]
    pub(crate) fn at(&self, now_ns: u64, bucket_ns: u64, step: impl Fn(S, u64) -> S) -> S {
        let last = self.last();
        // Without a division; no bucket that was judged begins after the last instant.
        if now_ns.saturating_sub(last.judged() * bucket_ns) < bucket_ns {
            return last;
        }
        self.judge(now_ns / bucket_ns, step)
    }

    /// Judges what holds in bucket `to`, unless that is done; once per bucket and thread.
    #[inline(never)]
    fn judge(&self, to: u64, step: impl Fn(S, u64) -> S) -> S {
        loop {
            let old = self.last();
            if old.judged() >= to {
                return old;
            }
            let new = step(old, to);
            let swapped = self.word.compare_exchange_weak(
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
}
