//! The pause after a lost compare-and-swap.

/// The shortest pause, in turns of an empty loop.
const LEAST_TURNS: u64 = 8;
/// A pause has fewer turns than 2 to this power on top, so that threads that have lost together do not return together.
const JITTER_BITS: u32 = 3;
/// A pause doubles this number of times at most.
const DOUBLINGS: u32 = 3;

/// Pauses after the loss of a compare-and-swap, before which this operation has lost `before` others.
///
/// A thread that repeats a swap without a pause takes the cache line back from the thread that has just written it. The line then moves with
/// each swap, and moving takes several times as long as the swap. During a pause, the other thread swaps several times in its own
/// cache. The longest pause has 71 turns, which are one to three microseconds.
///
/// `varying` differs between threads and calls, such as a clock reading. Where there is none, it is 0.
#[cold]
#[inline(never)]
pub(crate) fn pause(before: u32, varying: u64) {
    // Models explore what another thread does meanwhile in any case.
    if cfg!(any(flowgate_loom, flowgate_shuttle)) {
        return;
    }
    // The upper bits of the product depend on all bits of the factor.
    let jitter = varying.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - JITTER_BITS);
    for _ in 0..(LEAST_TURNS << before.min(DOUBLINGS)) + jitter {
        core::hint::spin_loop();
    }
}
