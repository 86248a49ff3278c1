//! A refund is sent to a database again, because its reply was lost.
//!
//! A call without a reply may have been carried out. To debit twice is safe, to refund twice is not. Here the reply of every refund is
//! lost once.
//!
//! Detected by: C5 (sound refunds). Use instead: refunds that go to what the process holds, and never to the database.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket that gets each refund twice.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::broken::repeated_refund::RepeatedRefund;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = RepeatedRefund::new(Quota::per_hour(1).burst(4));
/// let mut at_start = |op| bucket.step(&Step { at_ns: 0, op });
/// assert_eq!(at_start(Op::Try { n: 4 }), OperationOutcome::Admitted);
/// assert_eq!(at_start(Op::Refund { n: 1 }), OperationOutcome::Back(1));
/// assert_eq!(at_start(Op::Try { n: 2 }), OperationOutcome::Admitted); // 5 in one burst of 4
/// ```
#[derive(Clone, Debug)]
pub struct RepeatedRefund {
    rate: Rate,
    /// In grains, at the last time.
    debt: i128,
    last_ns: u64,
}

impl RepeatedRefund {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            debt: 0,
            last_ns: 0,
        }
    }
}

impl Subject for RepeatedRefund {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            refund: true,
            ..TRIES
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let passed_ns = step.at_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(step.at_ns);
        self.debt = (self.debt - self.rate.accrual * i128::from(passed_ns)).max(0);
        match step.op {
            Op::Try { n } => {
                let debt = self.debt + self.rate.cost(n);
                let enough = debt <= self.rate.full;
                if enough {
                    self.debt = debt;
                }
                verdict(enough)
            }
            Op::Refund { n } => {
                // The mistake: the first time, it arrived.
                for _ in 0..2 {
                    self.debt = (self.debt - self.rate.cost(n)).max(0);
                }
                OperationOutcome::Back(n)
            }
            _ => OperationOutcome::Skipped,
        }
    }
}
