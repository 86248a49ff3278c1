//! Counters that many threads add to.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A power of two. Threads that share a stripe are correct, and slower.
const STRIPES: usize = 8;

/// `N` counters, each of them in several stripes, so that threads seldom write to one cache line.
#[derive(Debug)]
pub(super) struct Stripes<const N: usize>(Box<[Stripe<N>; STRIPES]>);

/// Two cache lines, because they are fetched in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Stripes<N> {
    fn default() -> Self {
        let stripe = || Stripe(std::array::from_fn(|_| AtomicU64::new(0)));
        Self(Box::new(std::array::from_fn(|_| stripe())))
    }
}

impl<const N: usize> Stripes<N> {
    pub(super) fn add(&self, counter: usize, amount: u64) {
        self.0[own_stripe()].0[counter].fetch_add(amount, Relaxed);
    }

    /// Returns the sum over all threads. It wraps around after 2⁶⁴.
    pub(super) fn sum(&self, counter: usize) -> u64 {
        let each = self.0.iter().map(|stripe| stripe.0[counter].load(Relaxed));
        each.fold(0, u64::wrapping_add)
    }
}

/// Threads have the stripes in turn.
fn own_stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = THREADS.fetch_add(1, Relaxed) % STRIPES;
    }
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use super::Stripes;
    use std::thread;

    #[test]
    fn what_all_threads_add_is_summed() {
        let counters = Stripes::<2>::default();
        thread::scope(|threads| {
            for _ in 0..20 {
                threads.spawn(|| (0..100).for_each(|_| counters.add(1, 3)));
            }
        });
        assert_eq!((counters.sum(0), counters.sum(1)), (0, 6000));
    }
}
