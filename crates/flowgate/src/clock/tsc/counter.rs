//! The processor's time stamp counter. Besides the advice for huge pages, this is the only unsafe code in this crate.
#![allow(unsafe_code)]

use core::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

/// Returns the ticks since the processor was reset.
///
/// The read does not serialize: like any load, the processor may take it a few nanoseconds before or after the instructions
/// next to it.
#[inline(always)]
pub(super) fn read() -> u64 {
    // SAFETY: RDTSC is part of the x86-64 baseline and touches no memory. An operating system may forbid
    // it to user code (CR4.TSD; on Linux `prctl(PR_SET_TSC)`, which a process does to itself); it then
    // raises a fault, it does not misbehave.
    unsafe { _rdtsc() }
}

/// As [`read`], after every earlier load of the program is complete. If another thread was seen to act on a reading, then that
/// reading was earlier.
pub(super) fn read_in_order() -> u64 {
    // SAFETY: LFENCE is part of SSE2, and that of the x86-64 baseline; RDTSC as above.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}

/// Returns whether the counter ticks at one rate in every power state (CPUID 8000_0007h, EDX bit 8).
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
