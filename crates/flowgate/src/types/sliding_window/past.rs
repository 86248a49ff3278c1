//! Times before the last change of quota.
//!
//! The log keeps the time of each admission, so a change restates nothing. But with the current limit and window, more fits
//! before the change than the quota before it allowed.
//!
//! A caller can bring such a time if it read the clock before the change, or if its clock was set back. While nothing has been
//! admitted since the change, it is admitted only if both quotas admit it. Both are judged by the log at that time. Nothing is
//! known of the times before the previous change: callers with such a time are refused until that change.
//!
//! A change leaves a blank in the free slot, and so does an admission at such a time, which takes the lock of changes for that. So
//! decisions compare their time with the change only while the free slot has a blank.

use crate::primitive::{AtomicU64, Ordering};

/// The last change, and what was current before it. Stored while the log is frozen.
#[derive(Debug)]
pub(super) struct Past {
    /// The last change; 0: none.
    since_ns: AtomicU64,
    /// The change before it.
    known_ns: AtomicU64,
    limit: AtomicU64,
    window_ns: AtomicU64,
}

/// The terms until the last change, as they were while the log was in one state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) since_ns: u64,
    pub(super) known_ns: u64,
    pub(super) limit: u64,
    pub(super) window_ns: u64,
}

impl Past {
    pub(super) fn none() -> Self {
        Self {
            since_ns: AtomicU64::new(0),
            known_ns: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            window_ns: AtomicU64::new(1),
        }
    }

    /// The last change.
    #[inline(always)]
    pub(super) fn since_ns(&self) -> u64 {
        self.since_ns.load(Ordering::Acquire)
    }

    /// The terms before it.
    pub(super) fn before(&self) -> Before {
        Before {
            since_ns: self.since_ns(),
            known_ns: self.known_ns.load(Ordering::Acquire),
            limit: self.limit.load(Ordering::Acquire),
            window_ns: self.window_ns.load(Ordering::Acquire),
        }
    }

    /// Replaces everything by a change at `now_ns`. The parameters are the terms before it. The log is frozen.
    pub(super) fn replace(&self, now_ns: u64, limit: u64, window_ns: u64) {
        let known_ns = self.since_ns();
        let since_ns = now_ns.max(known_ns);
        self.known_ns.store(known_ns, Ordering::Release);
        self.limit.store(limit, Ordering::Release);
        self.window_ns.store(window_ns, Ordering::Release);
        self.since_ns.store(since_ns, Ordering::Release);
    }
}
