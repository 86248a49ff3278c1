//! The protocol of [`Sometimes`](super::Sometimes): three counters, each changed by one atomic operation.
//!
//! | field | read by | written by | ordering |
//! |---|---|---|---|
//! | `calls` | calls, while the count matters | the same, one each | relaxed: only its own value matters |
//! | `due_ns` | calls, where there is an interval | those that speak | relaxed, likewise |
//! | `silent` | those that speak | silent calls add one, who speaks takes all | relaxed, likewise |
//!
//! A call that speaks because of its number sets the next time afterwards; one that speaks because it is time
//! does so by setting the next time, which only one can. So no call speaks because it is time
//! within an interval of one that has set it. A silent call is counted in `silent` by one addition and
//! taken out by one exchange, so that the counts told, and what is still in `silent`, add up to the calls
//! that were silent, on every schedule.

use crate::primitive::{AtomicU64, Ordering, const_unless_loom};

/// `due_ns` before anybody has spoken. A time set is later, since an interval is at least 1 ns.
const NOT_YET: u64 = 0;
/// `due_ns` when the interval ends after the last instant there is.
const NEVER: u64 = u64::MAX;

/// Which calls speak: any that one of these picks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// So many at the beginning.
    pub(super) first: u64,
    /// And then each of which the number is a multiple of this; 0: none.
    pub(super) every: u64,
    /// And any that is so long after the last that spoke; 0: none.
    pub(super) interval_ns: u64,
}

impl Policy {
    /// Whether the number of a call matters.
    ///
    /// Where nothing is set the first call speaks, and no other.
    const fn counts(&self) -> bool {
        self.first != 0 || self.every != 0 || self.interval_ns == 0
    }

    /// Whether the call after `calls` others speaks because of that.
    const fn picks(&self, calls: u64) -> bool {
        let by_every = match calls.checked_rem(self.every) {
            Some(rest) => rest == 0,
            None => false,
        };
        calls < self.beginning() || by_every
    }

    /// The first call speaks always, whatever else is set.
    const fn beginning(&self) -> u64 {
        if self.first == 0 { 1 } else { self.first }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tally {
    calls: AtomicU64,
    /// From when on it is time again; or `NOT_YET`, or `NEVER`.
    due_ns: AtomicU64,
    /// Silent calls that nobody has been told of.
    silent: AtomicU64,
}

impl Tally {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self {
                calls: AtomicU64::new(0),
                due_ns: AtomicU64::new(NOT_YET),
                silent: AtomicU64::new(0),
            }
        }
    }

    /// Whether this call speaks, and then, how many were silent since the last that did.
    #[inline]
    pub(super) fn check(&self, policy: &Policy, now_ns: impl FnOnce() -> u64) -> Option<u64> {
        if self.is_picked(policy) {
            if policy.interval_ns != 0 {
                let due_ns = now_ns().saturating_add(policy.interval_ns);
                self.due_ns.fetch_max(due_ns, Ordering::Relaxed);
            }
        } else if policy.interval_ns == 0 || !self.claims_time(policy, now_ns()) {
            self.silent.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.silent.swap(0, Ordering::Relaxed))
    }

    /// Numbers the call, if that matters, and whether its number is one that speaks.
    fn is_picked(&self, policy: &Policy) -> bool {
        if !policy.counts() {
            return false;
        }
        // Past the beginning nothing hangs on the number, and it need not be counted.
        let is_over = policy.every == 0 && self.calls.load(Ordering::Relaxed) >= policy.beginning();
        !is_over && policy.picks(self.calls.fetch_add(1, Ordering::Relaxed))
    }

    /// Sets the next time, if it is time and nobody else has done so.
    fn claims_time(&self, policy: &Policy, now_ns: u64) -> bool {
        let mut due_ns = self.due_ns.load(Ordering::Relaxed);
        loop {
            let is_due = match due_ns {
                // Where calls are numbered the first one speaks, and it will have set a time soon.
                NOT_YET => !policy.counts(),
                NEVER => false,
                _ => now_ns >= due_ns,
            };
            if !is_due {
                return false;
            }
            match self.due_ns.compare_exchange_weak(
                due_ns,
                now_ns.saturating_add(policy.interval_ns),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(current) => due_ns = current,
            }
        }
    }

    /// Silent calls that nobody has been told of.
    pub(super) fn silent(&self) -> u64 {
        self.silent.load(Ordering::Relaxed)
    }
}
