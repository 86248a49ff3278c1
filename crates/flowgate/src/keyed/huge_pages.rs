//! Huge pages for large tables.
//!
//! A decision for a random key of a large table finds neither the entry nor the address of its page in the processor's caches. A
//! huge page has one address for 2 MiB, so the addresses of all its pages stay cached.
//!
//! Besides the read of the time stamp counter, this is the only unsafe code in this crate.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use rustix::mm::{Advice, madvise};

/// The size on most processors. Where pages of another size are huge, the kernel uses that.
const HUGE_PAGE: usize = 2 << 20;
/// Memory of this size contains a huge page wherever it begins.
const LEAST_BYTES: usize = 2 * HUGE_PAGE;

/// Asks the kernel to hold `memory` in huge pages, if it is large. Returns whether the kernel accepted.
///
/// Only huge pages that lie in `memory` as a whole are asked for, so it takes no more memory than before.
pub(super) fn advise<T>(memory: &mut [MaybeUninit<T>]) -> bool {
    let bytes = size_of_val(memory);
    if bytes < LEAST_BYTES {
        return false;
    }
    let start = memory.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(HUGE_PAGE);
    let advised = (bytes - skipped) / HUGE_PAGE * HUGE_PAGE;
    let from = start.wrapping_add(skipped).cast();
    // SAFETY: The range lies in `memory`, which is allocated, and borrowed by this function alone. Whether or not the kernel takes
    // this advice, it changes neither contents nor protection.
    unsafe { madvise(from, advised, Advice::LinuxHugepage) }.is_ok()
}
