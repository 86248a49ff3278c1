//! Waking a waiter at a given time: every wait in this crate sleeps on an alarm.
//!
//! [`Clock::alarm`](crate::Clock) is the entry point. The code that moves the clock also wakes the waiters:
//!
//! ```text
//! the machine's clocks ──▶ one thread per process     (thread, over sleep)
//! a manual clock ────────▶ whoever moves it           (manual)
//! a source of your own ──▶ itself, where it can; else the thread, in real time, as often as needed
//! ```
//!
//! A process that was made by `fork()` has its own thread (`thread/forked.rs`).
//!
//! If there is no thread (without the feature `std`, or if the system refuses one), an alarm wakes its waiter immediately. That
//! is correct, because a woken waiter reads the clock and asks again. But the waiter is then busy.

mod manual;
#[cfg(all(test, flowgate_loom))]
mod model;
#[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
mod sleep;
#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
pub(super) mod tests;
#[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
mod thread;
mod timetable;
pub(crate) mod wake;

pub(crate) use manual::ManualAlarms;

use alloc::sync::Arc;
use core::task::Waker;
use timetable::Key;

/// A requested wake-up. It wakes once. Dropping it cancels it.
///
/// Canceling is prompt, but not a barrier: a wake-up in flight while the alarm is dropped still arrives. The waker is dropped
/// with the alarm, or after it has been woken.
#[derive(Debug)]
#[must_use = "an alarm that is dropped does not ring"]
pub(crate) struct Alarm(Entry);

#[derive(Debug)]
enum Entry {
    /// The waker has been woken, or another thread has taken it.
    Nowhere,
    #[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
    Thread(thread::Booking),
    Manual(Arc<ManualAlarms>, Key),
}

impl Alarm {
    /// There is nothing to cancel.
    pub(crate) const NOWHERE: Self = Self(Entry::Nowhere);

    /// Wakes `waker` before it returns.
    pub(crate) fn at_once(waker: Waker) -> Self {
        waker.wake();
        Self::NOWHERE
    }

    /// Has `waker` woken after `wait_ns` of real time.
    #[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
    pub(crate) fn after(wait_ns: u64, waker: Waker) -> Self {
        match thread::timer() {
            Some(timer) => timer.after(wait_ns, waker),
            None => Self::at_once(waker),
        }
    }

    /// Wakes `waker` immediately, because there is no thread to do so later.
    #[cfg(any(not(feature = "std"), flowgate_loom, flowgate_shuttle))]
    pub(crate) fn after(_: u64, waker: Waker) -> Self {
        Self::at_once(waker)
    }

    /// Returns whether its thread is in this process. If the alarm was requested before a `fork()`, the thread is in the
    /// parent.
    pub(crate) fn is_of_this_process(&self) -> bool {
        match &self.0 {
            #[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
            Entry::Thread(booking) => booking.is_of_this_process(),
            Entry::Nowhere | Entry::Manual(..) => true,
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // Each branch releases its lock before the waker is dropped.
        drop(match &self.0 {
            Entry::Nowhere => None,
            #[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
            Entry::Thread(booking) => booking.take_back(),
            Entry::Manual(alarms, key) => alarms.remove(*key),
        });
    }
}
