//! Selects the timer of this process.

use super::{Timer, start};
use crate::primitive::{AtomicU64, Ordering};
use std::process;

/// The largest number of generations of processes that may wait. In later generations, an alarm wakes immediately, which is
/// correct but keeps the waiter busy.
const GENERATIONS: usize = 64;

const IDLE_NS: u64 = 10_000_000_000;

/// A process that was made by `fork()` inherits a copy of its parent's timer, but not the thread. It cannot use the
/// copy: the lock may have been held by a thread that does not exist in the child, and what the sleeper sleeps on is shared with
/// the parent. So the first wait in a child takes the next timer, which no ancestor has touched.
static TIMERS: [Timer; GENERATIONS] = [const { Timer::new(IDLE_NS, start) }; GENERATIONS];

/// The timer in use, and its process; 0 if no timer is in use.
///
/// ```text
///   63 ········ 32   31 ········ 0
///   process          timer
/// ```
static IN_USE: AtomicU64 = AtomicU64::new(0);

/// Returns the timer of this process; `None` if it has too many ancestors that waited.
pub(in crate::clock::alarm) fn timer() -> Option<&'static Timer> {
    let process = u64::from(process::id()) << 32;
    let mut in_use = IN_USE.load(Ordering::Relaxed);
    while in_use >> 32 != process >> 32 {
        let next = match in_use {
            0 => 0,
            _ => (in_use & u64::from(u32::MAX)) + 1,
        };
        let next = process | next.min(GENERATIONS as u64);
        // It guards no other data: the timers exist from the beginning.
        match IN_USE.compare_exchange(in_use, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => in_use = next,
            Err(current) => in_use = current,
        }
    }
    TIMERS.get((in_use & u64::from(u32::MAX)) as usize)
}
