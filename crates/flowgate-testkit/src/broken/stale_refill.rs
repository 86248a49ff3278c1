//! A caller with an old time sees the bucket as it was at the change of quota.
//!
//! A bucket stored as one time adjusts that time when its rate changes: a bucket that is full at the change then counts
//! as full at every time. A caller that read the clock before the change is decided by the new rate, as if it had
//! always been current. It takes again what was already gone at its own time: 10 at 0 s, a change at 1 s, and 9 more at
//! 0 s.
//!
//! Detected by: C4 (safe under clock anomalies), at times before a change. Use instead:
//! [`flowgate::TokenBucket::set_quota`].

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket that counts as full before a change because it is full at the change.
///
/// ```
/// use flowgate::{Carry, Quota};
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::stale_refill::StaleRefill;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = StaleRefill::new(Quota::per_second(10).burst(10));
/// let mut at_second = |second: u64, op| bucket.step(&Step { at_ns: second * 1_000_000_000, op });
/// assert_eq!(at_second(0, Op::Try { n: 10 }), OperationOutcome::Admitted);
/// at_second(1, Op::SetQuota { quota: Quota::per_hour(1).burst(10), carry: Carry::Kept });
/// assert_eq!(at_second(0, Op::Try { n: 9 }), OperationOutcome::Admitted); // again, at the same time
/// ```
#[derive(Clone, Debug)]
pub struct StaleRefill {
    rate: Rate,
    /// When the bucket is full, in grains of the current rate.
    full_at: i128,
}

impl StaleRefill {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            full_at: 0,
        }
    }

    fn missing(&self, at_ns: u64) -> i128 {
        (self.full_at - self.rate.accrual * i128::from(at_ns)).max(0)
    }
}

impl Subject for StaleRefill {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            set_quota: true,
            ..TRIES
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        match step.op {
            Op::Try { n } => {
                let missing = self.missing(step.at_ns) + self.rate.cost(n);
                let enough = missing <= self.rate.full;
                if enough {
                    self.full_at = self.rate.accrual * i128::from(step.at_ns) + missing;
                }
                verdict(enough)
            }
            Op::SetQuota { quota, .. } => {
                let left = self.rate.full - self.missing(step.at_ns);
                let rate = Rate::of(quota);
                let level = (left * rate.price)
                    .div_euclid(self.rate.price)
                    .min(rate.full);
                // The mistake: at the new rate, this line says too much of the time before.
                self.full_at = rate.accrual * i128::from(step.at_ns) + rate.full - level;
                self.rate = rate;
                OperationOutcome::Changed
            }
            _ => OperationOutcome::Skipped,
        }
    }
}
