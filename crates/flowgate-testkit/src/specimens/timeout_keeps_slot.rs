//! Gives up waiting and keeps the place.
//!
//! A call takes its place in the queue, finds that the wait is longer than it accepts, and returns
//! without giving the place back. A hundred calls that time out at once, at 10 per second, and the next
//! one waits for 10.1 s behind nobody.
//!
//! The oracle catches it: after a refusal the next wait is too long. Instead:
//! [`flowgate::TokenBucket::reserve_n_within`], where a refusal takes nothing.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, Outcome, Retry, Step};
use crate::subject::{Capabilities, Subject};

/// A queue in which those who left still stand.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, Outcome, Step};
/// use flowgate_testkit::specimens::timeout_keeps_slot::TimeoutKeepsSlot;
/// use flowgate_testkit::subject::Subject;
///
/// let mut queue = TimeoutKeepsSlot::new(Quota::per_second(10).burst(1));
/// let mut reserve = |within_ns| queue.step(&Step { at_ns: 0, op: Op::Reserve { n: 1, within_ns } });
/// assert_eq!(reserve(None), Outcome::Promised { at_ns: 0 });
/// for _ in 0..100 {
///     assert!(matches!(reserve(Some(0)), Outcome::Refused(_))); // they do not wait
/// }
/// assert_eq!(reserve(None), Outcome::Promised { at_ns: 10_100_000_000 }); // behind nobody
/// ```
#[derive(Clone, Debug)]
pub struct TimeoutKeepsSlot {
    rate: Rate,
    /// The arrival time, in grains.
    full_at: i128,
}

impl TimeoutKeepsSlot {
    /// A queue for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            full_at: 0,
        }
    }
}

impl Subject for TimeoutKeepsSlot {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reserve: true,
            ..TRIES
        }
    }

    fn step(&mut self, step: &Step) -> Outcome {
        let (Op::Try { n } | Op::Reserve { n, .. }) = step.op else {
            return Outcome::Skipped;
        };
        if n > self.rate.burst_units {
            return Outcome::Refused(Retry::Never);
        }
        let now = i128::from(step.at_ns) * self.rate.accrual;
        let next = if n == 0 {
            self.full_at
        } else {
            self.full_at.max(now) + self.rate.cost(n)
        };
        let wait_ns = match n {
            0 => 0,
            _ => self.rate.wait_ns(next - self.rate.full - now),
        };
        let Op::Reserve { within_ns, .. } = step.op else {
            if wait_ns == 0 {
                self.full_at = next;
            }
            return verdict(wait_ns == 0);
        };
        let Ok(at_ns) = u64::try_from(i128::from(step.at_ns) + wait_ns) else {
            return Outcome::Refused(Retry::Never);
        };
        // The mistake: this is before the wait has been accepted.
        self.full_at = next;
        if within_ns.is_some_and(|within_ns| wait_ns > i128::from(within_ns)) {
            return verdict(false);
        }
        Outcome::Promised { at_ns }
    }
}
