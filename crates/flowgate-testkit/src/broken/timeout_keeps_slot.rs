//! A call that gives up keeps its position in the queue.
//!
//! A call takes its position in the queue, finds that the wait exceeds its maximum, and returns without releasing the
//! position. After a hundred calls that time out concurrently at 10 per second, the next one waits for 10.1 s, although
//! the queue is empty.
//!
//! Detected by: the oracle: after a refusal the next wait is too long. Use instead:
//! [`flowgate::TokenBucket::reserve_n_within`], in which a refusal takes nothing.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Retry, Step};
use crate::subject::{Capabilities, Subject};

/// Queue in which abandoned positions remain.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::timeout_keeps_slot::TimeoutKeepsSlot;
/// use flowgate_testkit::subject::Subject;
///
/// let mut queue = TimeoutKeepsSlot::new(Quota::per_second(10).burst(1));
/// let mut reserve = |within_ns| queue.step(&Step { at_ns: 0, op: Op::Reserve { n: 1, within_ns } });
/// assert_eq!(reserve(None), OperationOutcome::Promised { at_ns: 0 });
/// for _ in 0..100 {
///     assert!(matches!(reserve(Some(0)), OperationOutcome::Refused(_))); // they do not wait
/// }
/// assert_eq!(reserve(None), OperationOutcome::Promised { at_ns: 10_100_000_000 }); // behind nobody
/// ```
#[derive(Clone, Debug)]
pub struct TimeoutKeepsSlot {
    rate: Rate,
    /// The arrival time, in grains.
    full_at: i128,
}

impl TimeoutKeepsSlot {
    /// Creates a queue for `quota`.
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

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let (Op::Try { n } | Op::Reserve { n, .. }) = step.op else {
            return OperationOutcome::Skipped;
        };
        if n > self.rate.burst_units {
            return OperationOutcome::Refused(Retry::Never);
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
            return OperationOutcome::Refused(Retry::Never);
        };
        // The mistake: this is before the wait has been accepted.
        self.full_at = next;
        if within_ns.is_some_and(|within_ns| wait_ns > i128::from(within_ns)) {
            return verdict(false);
        }
        OperationOutcome::Promised { at_ns }
    }
}
