//! The protocol of [`Sometimes`](super::Sometimes): three counters, each changed by one atomic operation.
//!
//! | field | read by | written by | ordering |
//! |---|---|---|---|
//! | `calls` | calls, while the count matters | the same, one each | relaxed: only its own value matters |
//! | `due_ns` | calls, if there is an interval | picked calls | relaxed, likewise |
//! | `silent` | picked calls | a suppressed call adds one, a picked call takes all | relaxed, likewise |
//!
//! A call that is picked because of its number sets the next time afterward. A call that is picked because of the time is
//! picked by setting the next time, and only one call can do so. So no call is picked because of the time within an interval of
//! another call that has set it.
//!
//! A suppressed call is counted in `silent` by one addition, and taken out by one exchange. So on every schedule of threads,
//! the numbers returned so far and the number in `silent` add up to the suppressed calls.

use crate::primitive::{AtomicU64, Ordering, const_unless_loom};

/// `due_ns` before the first picked call. A time that is set is later, because an interval is at least 1 ns.
const NOT_YET: u64 = 0;
/// `due_ns` if the interval ends after the last instant.
const NEVER: u64 = u64::MAX;

/// Which calls are picked: those that one of these settings picks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Picks this number of calls at the beginning.
    pub(super) first: u64,
    /// Also picks each call whose number is a multiple of this; 0: none.
    pub(super) every: u64,
    /// Also picks a call this long after the last picked call; 0: none.
    pub(super) interval_ns: u64,
}

impl Policy {
    /// Returns whether the number of a call matters.
    ///
    /// If nothing is set, the first call is picked, and no other.
    const fn counts(&self) -> bool {
        self.first != 0 || self.every != 0 || self.interval_ns == 0
    }

    /// Returns whether the call after `calls` others is picked because of its number.
    const fn picks(&self, calls: u64) -> bool {
        let by_every = match calls.checked_rem(self.every) {
            Some(rest) => rest == 0,
            None => false,
        };
        calls < self.beginning() || by_every
    }

    /// The number of calls that are picked at the beginning: at least 1, whatever is set.
    const fn beginning(&self) -> u64 {
        if self.first == 0 { 1 } else { self.first }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tally {
    calls: AtomicU64,
    /// The time from which on the next call is picked, or `NOT_YET`, or `NEVER`.
    due_ns: AtomicU64,
    /// Suppressed calls that no picked call has returned yet.
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

    /// If this call is picked, returns how many calls were suppressed since the last picked call.
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

    /// Numbers the call if the number matters, and returns whether its number is picked.
    fn is_picked(&self, policy: &Policy) -> bool {
        if !policy.counts() {
            return false;
        }
        // After the beginning nothing depends on the number, and it need not be counted.
        let is_over = policy.every == 0 && self.calls.load(Ordering::Relaxed) >= policy.beginning();
        !is_over && policy.picks(self.calls.fetch_add(1, Ordering::Relaxed))
    }

    /// Sets the next time if the interval has passed and no other call has set it. Returns whether it did.
    fn claims_time(&self, policy: &Policy, now_ns: u64) -> bool {
        let mut due_ns = self.due_ns.load(Ordering::Relaxed);
        loop {
            let is_due = match due_ns {
                // If calls are numbered, the first call is picked, and will soon have set a time.
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

    /// Returns the suppressed calls that no picked call has returned yet.
    pub(super) fn silent(&self) -> u64 {
        self.silent.load(Ordering::Relaxed)
    }
}
