//! Reports when the bucket is full, not when there are enough tokens.
//!
//! A refusal reports the arrival time, which is when *all* tokens are back. With a burst of 1 both are the same. With
//! more, clients wait up to a whole burst too long. If all clients rely on it, the limiter admits a fraction of its
//! rate.
//!
//! Detected by: C3 (exact retry-after): a retry 1 ns earlier is admitted. Use instead:
//! [`flowgate::Denied::retry_after`], which is the shortest wait.

use core::time::Duration;

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Retry, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket that reports a wait that is too long.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Retry, Step};
/// use flowgate_testkit::broken::late_retry::LateRetry;
/// use flowgate_testkit::subject::Subject;
/// use std::time::Duration;
///
/// let mut bucket = LateRetry::new(Quota::per_second(1).burst(10));
/// let mut at_second = |second: u64, n| bucket.step(&Step { at_ns: second * 1_000_000_000, op: Op::Try { n } });
/// assert_eq!(at_second(0, 10), OperationOutcome::Admitted);
/// assert_eq!(at_second(0, 1), OperationOutcome::Refused(Retry::After(Duration::from_secs(10))));
/// assert_eq!(at_second(1, 1), OperationOutcome::Admitted); // nine seconds before that
/// ```
#[derive(Clone, Debug)]
pub struct LateRetry {
    rate: Rate,
    /// The arrival time, in grains.
    full_at: i128,
}

impl LateRetry {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            full_at: 0,
        }
    }
}

impl Subject for LateRetry {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            retry_after: true,
            ..TRIES
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let cost = self.rate.cost(n);
        let now = i128::from(step.at_ns) * self.rate.accrual;
        if n == 0 {
            return verdict(true);
        }
        if cost > self.rate.full {
            return OperationOutcome::Refused(Retry::Never);
        }
        let next = self.full_at.max(now) + cost;
        if next > now + self.rate.full {
            // The mistake: what is missing is `next - (now + full)`.
            let wait_ns = self.rate.wait_ns(self.full_at - now);
            let wait_ns = u64::try_from(wait_ns).unwrap_or(u64::MAX);
            return OperationOutcome::Refused(Retry::After(Duration::from_nanos(wait_ns)));
        }
        self.full_at = next;
        verdict(true)
    }
}
