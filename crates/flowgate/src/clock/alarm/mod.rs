//! Waking somebody at a time: what all waiting sleeps on.
//!
//! [`Clock::alarm`](crate::Clock) is the way in. Who wakes depends on who moves the clock:
//!
//! ```text
//! the machine's clocks ──▶ one thread per process     (thread, over sleep)
//! a manual clock ────────▶ whoever moves it           (manual)
//! a source of your own ──▶ itself, where it can; else the thread, in real time, as often as needed
//! ```
//!
//! A process that was made by `fork()` has a thread of its own (`thread/forked.rs`).
//!
//! Where there is no thread to be had (without the feature `std`; when the system grants none), an alarm wakes at once.
//! That is correct, since whoever is woken looks at the clock and asks again, and busy.

mod manual;
#[cfg(all(test, flowgate_loom))]
mod model;
#[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
mod sleep;
#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests;
#[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
mod thread;
mod timetable;
pub(crate) mod wake;

pub(crate) use manual::ManualAlarms;

use alloc::sync::Arc;
use core::task::Waker;
use timetable::Key;

/// A wake-up that has been asked for, once. Dropping it takes it back.
///
/// Taking back is prompt but not a barrier: a wake-up that is under way while the alarm is dropped still arrives. The
/// waker is dropped with the alarm, or after it has been woken.
#[derive(Debug)]
#[must_use = "an alarm that is dropped does not ring"]
pub(crate) struct Alarm(Entry);

#[derive(Debug)]
enum Entry {
    /// The waker has been woken, or somebody else has taken it.
    Nowhere,
    #[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
    Thread(thread::Booking),
    Manual(Arc<ManualAlarms>, Key),
}

impl Alarm {
    /// Nothing to take back.
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

    /// Wakes `waker` at once: nobody is there to do it later.
    #[cfg(any(not(feature = "std"), flowgate_loom, flowgate_shuttle))]
    pub(crate) fn after(_: u64, waker: Waker) -> Self {
        Self::at_once(waker)
    }

    /// Whether whoever rings it is in this process: not if it was asked for in one that this one was forked from.
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
        // Each drops the waker after its lock has been let go of.
        drop(match &self.0 {
            Entry::Nowhere => None,
            #[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
            Entry::Thread(booking) => booking.take_back(),
            Entry::Manual(alarms, key) => alarms.remove(*key),
        });
    }
}
