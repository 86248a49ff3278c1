//! The processor's time stamp counter, read with nothing around it: the clock of the "ideal" cases.
//!
//! This is the only unsafe code in the workspace. `_rdtsc` touches no memory; it is unsafe only
//! because an operating system may forbid the instruction, which Linux does only for a process that
//! asked for it.

use std::time::{Duration, Instant};

/// Ticks since the processor was reset.
#[inline(always)]
#[allow(unsafe_code)]
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and this process has not had it disabled
    // (`prctl(PR_SET_TSC)`); it reads a register and writes nothing.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Returns ticks per nanosecond, measured against the system clock for 20 ms.
///
/// The error is about 1e-5. The ideal cases need no more, because none of them waits for a token.
pub fn per_ns() -> f64 {
    let (started, first) = (Instant::now(), now());
    while started.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    let ticks = now() - first;
    ticks as f64 / started.elapsed().as_nanos() as f64
}
