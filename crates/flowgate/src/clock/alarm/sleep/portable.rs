use super::now_ns;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A condition variable with a deadline.
#[derive(Debug)]
pub(in crate::clock::alarm) struct Condition {
    armed_ns: Mutex<u64>,
    changed: Condvar,
}

impl Condition {
    pub(super) fn new() -> Self {
        Self {
            armed_ns: Mutex::new(u64::MAX),
            changed: Condvar::new(),
        }
    }

    pub(super) fn arm(&self, at_ns: u64) {
        *self.lock() = at_ns;
        self.changed.notify_one();
    }

    pub(super) fn sleep(&self) {
        let armed_ns = self.lock();
        let wait_ns = armed_ns.saturating_sub(now_ns());
        if wait_ns > 0 {
            // The time came, or it changed, or there was no reason: in each case the thread reads its table and sleeps again.
            drop(
                self.changed
                    .wait_timeout(armed_ns, Duration::from_nanos(wait_ns))
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }

    /// The lock of the standard library, whatever the other locks are: only that works with a condition variable.
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.armed_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
