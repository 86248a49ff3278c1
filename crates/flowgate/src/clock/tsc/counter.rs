//! The processor's time stamp counter: the only unsafe code in this crate.
#![allow(unsafe_code)]

use core::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

/// Ticks since the processor was reset.
///
/// Not a serialising read: the processor may take it a few nanoseconds before or after what stands
/// next to it in the program, as it may any load.
#[inline(always)]
pub(super) fn read() -> u64 {
    // SAFETY: RDTSC is part of the x86-64 baseline and touches no memory. An operating system may forbid
    // it to user code (CR4.TSD; on Linux `prctl(PR_SET_TSC)`, which a process does to itself); it then
    // raises a fault, it does not misbehave.
    unsafe { _rdtsc() }
}

/// [`read`], after every load that stands before it in the program has been done: what another thread was
/// seen to have done with a reading, it did with an earlier one.
pub(super) fn read_in_order() -> u64 {
    // SAFETY: LFENCE is part of SSE2, and that of the x86-64 baseline; RDTSC as above.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}

/// Whether the counter ticks at one rate in every power state (CPUID 8000_0007h, EDX bit 8).
pub(super) fn is_invariant() -> bool {
    const HIGHEST_EXTENDED: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    // Safe since Rust 1.94, and unsafe before.
    #[allow(unused_unsafe)]
    let leaf = |number| {
        // SAFETY: CPUID is part of the x86-64 baseline and touches no memory.
        unsafe { __cpuid(number) }
    };
    leaf(HIGHEST_EXTENDED).eax >= POWER && leaf(POWER).edx & (1 << 8) != 0
}
