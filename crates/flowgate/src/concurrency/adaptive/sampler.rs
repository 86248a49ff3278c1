//! Which calls are measured.

use crate::primitive::{AtomicU64, Ordering};

/// The stride doubles above this number of successes in a window, and halves below a quarter of it.
const MOST: u64 = 2_048;
/// A power of two.
const LARGEST_STRIDE: u64 = 256;

/// One call in `stride` is measured, chosen at random.
#[derive(Debug)]
pub(super) struct Sampler {
    /// A power of two. Written by the windower.
    stride: AtomicU64,
}

impl Sampler {
    pub(super) fn new() -> Self {
        Self {
            stride: AtomicU64::new(1),
        }
    }

    pub(super) fn stride(&self) -> u64 {
        self.stride.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn is_measured(&self) -> bool {
        let stride = self.stride();
        stride == 1 || random() & (stride - 1) == 0
    }

    /// Adapts the stride to the successes of a window.
    pub(super) fn adapt(&self, successes: u64) {
        let stride = self.stride();
        let next = if successes > MOST {
            (stride * 2).min(LARGEST_STRIDE)
        } else if successes < MOST / 4 {
            (stride / 2).max(1)
        } else {
            return;
        };
        self.stride.store(next, Ordering::Relaxed);
    }
}

/// A number of this thread's own sequence (xorshift). A period of calls that several limiters share leaves no pattern.
#[cfg(all(feature = "std", not(flowgate_loom)))]
#[inline]
fn random() -> u64 {
    use core::cell::Cell;
    std::thread_local! {
        static STATE: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
    }
    STATE.with(|state| {
        let mut x = state.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        state.set(x);
        x >> 20
    })
}

/// Without threads' own storage: the sequence of all threads, where two may get the same number.
#[cfg(not(all(feature = "std", not(flowgate_loom))))]
fn random() -> u64 {
    static STATE: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(1);
    let mut x = STATE.load(Ordering::Relaxed);
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    STATE.store(x, Ordering::Relaxed);
    u64::from(x >> 8)
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_stride_follows_the_number_of_successes() {
        let sampler = Sampler::new();
        assert!((0..1000).all(|_| sampler.is_measured()));
        (0..20).for_each(|_| sampler.adapt(MOST + 1));
        assert_eq!(sampler.stride(), LARGEST_STRIDE);
        sampler.adapt(MOST);
        assert_eq!(sampler.stride(), LARGEST_STRIDE);
        (0..20).for_each(|_| sampler.adapt(0));
        assert_eq!(sampler.stride(), 1);
    }

    #[test]
    fn one_call_in_a_stride_is_measured() {
        let sampler = Sampler::new();
        sampler.adapt(MOST + 1);
        sampler.adapt(MOST + 1);
        let measured = (0..40_000).filter(|_| sampler.is_measured()).count();
        assert!((9_500..10_500).contains(&measured), "{measured}");
    }
}
