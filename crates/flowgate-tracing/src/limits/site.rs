//! One callsite: its limit, and its suppressed events that are not reported yet.

use super::limit::Limit;
use crate::summary::Summary;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_core::{Event, Metadata};

/// A callsite.
pub(super) struct Site {
    pub(super) of: &'static Metadata<'static>,
    /// Its place among all callsites, counted from 0.
    pub(super) number: usize,
    pub(super) limit: Limit,
    untold: AtomicU64,
    /// `untold` at the last look.
    seen: AtomicU64,
    /// When to look whether it has fallen silent. Says nothing while nothing is untold, except that it is not to be told before.
    look_ns: AtomicU64,
    summary: OnceLock<&'static Summary>,
}

/// What a look at a callsite has found.
pub(super) enum Look {
    Nothing,
    /// It has to be looked at again at this time.
    At(u64),
    /// It has fallen silent.
    Silent,
}

impl Site {
    pub(super) fn new(of: &'static Metadata<'static>, number: usize, limit: Limit) -> Self {
        Self {
            of,
            number,
            limit,
            untold: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            look_ns: AtomicU64::new(0),
            summary: OnceLock::new(),
        }
    }

    pub(super) fn untold(&self) -> u64 {
        self.untold.load(Ordering::Relaxed)
    }

    /// Counts a suppressed event. Returns whether it is the first that has not been reported.
    pub(super) fn leave_out(&self) -> bool {
        self.untold.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Has it looked at when `look_ns` has come.
    pub(super) fn look_at(&self, look_ns: u64) {
        self.seen.store(0, Ordering::Relaxed);
        self.look_ns.store(look_ns, Ordering::Relaxed);
    }

    /// Takes over `n` events that were left out by a value that has become silent. Returns when to report them.
    pub(super) fn take_over(&self, n: u64, now_ns: u64) -> u64 {
        let untold = self.untold.fetch_add(n, Ordering::Relaxed) + n;
        self.seen.store(untold, Ordering::Relaxed);
        self.look_ns
            .fetch_max(now_ns, Ordering::Relaxed)
            .max(now_ns)
    }

    /// Whether it has fallen silent: nothing more was left out during `silence_ns`.
    pub(super) fn look(&self, now_ns: u64, silence_ns: u64) -> Look {
        let untold = self.untold();
        if untold == 0 {
            return Look::Nothing;
        }
        let look_ns = self.look_ns.load(Ordering::Relaxed);
        if now_ns < look_ns {
            return Look::At(look_ns);
        }
        if self.seen.swap(untold, Ordering::Relaxed) == untold {
            return Look::Silent;
        }
        let again_ns = now_ns.saturating_add(silence_ns);
        self.look_ns.store(again_ns, Ordering::Relaxed);
        Look::At(again_ns)
    }

    /// The number of unreported events, which the caller then reports.
    pub(super) fn take_untold(&self) -> u64 {
        // Mostly there is nothing, and the cache line stays with whoever has it.
        match self.untold() {
            0 => 0,
            _ => self.untold.swap(0, Ordering::Relaxed),
        }
    }

    pub(super) fn summary(&self, field: Option<&'static str>) -> &'static Summary {
        self.summary.get_or_init(|| Summary::new(self.of, field))
    }

    /// Its summary, if there has been one.
    pub(super) fn known_summary(&self) -> Option<&'static Summary> {
        self.summary.get().copied()
    }

    /// Has `tell` say how many were left out, if there are any, of no span. The next summary of silence comes at `next_ns` at
    /// the earliest.
    pub(super) fn tell_alone(
        &self,
        field: Option<&'static str>,
        next_ns: u64,
        tell: impl FnOnce(&Event<'_>),
    ) {
        let suppressed = self.take_untold();
        if suppressed != 0 {
            self.look_ns.store(next_ns, Ordering::Relaxed);
            self.summary(field).say_alone(suppressed, tell);
        }
    }
}
