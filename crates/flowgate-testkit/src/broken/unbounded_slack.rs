//! An idle queue accumulates unused times without bound.
//!
//! Each caller gets the next scheduled time, and advances it by one interval. The queue does not move that time up to
//! now, so unused times can be used later in one burst: after 10 idle seconds at 10 per second, 100 are admitted
//! immediately. The queue was written for a site that bans by the second, and leads to a ban.
//!
//! Detected by: C1 (never over-admits). Use instead: [`flowgate::LeakyBucket`], whose slack has a bound.

use flowgate::Quota;

use super::verdict;
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Queue whose next time may lie in the past.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::unbounded_slack::UnboundedSlack;
/// use flowgate_testkit::subject::Subject;
///
/// let mut queue = UnboundedSlack::new(Quota::per_second(1));
/// let after_a_rest = Step { at_ns: 100_000_000_000, op: Op::Try { n: 1 } };
/// let admitted = (0..1000).filter(|_| queue.step(&after_a_rest) == OperationOutcome::Admitted);
/// assert_eq!(admitted.count(), 101); // in one burst
/// ```
#[derive(Clone, Debug)]
pub struct UnboundedSlack {
    rate: Rate,
    /// The next scheduled time, in grains since the clock's origin.
    next: i128,
}

impl UnboundedSlack {
    /// Creates a queue for the rate of `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            next: 0,
        }
    }
}

impl Subject for UnboundedSlack {
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n: 1 } = step.op else {
            return OperationOutcome::Skipped;
        };
        // The mistake: it should be the later of the slot and now.
        let slot = self.next;
        let due = slot <= i128::from(step.at_ns) * self.rate.accrual;
        if due {
            self.next = slot + self.rate.price;
        }
        verdict(due)
    }
}
