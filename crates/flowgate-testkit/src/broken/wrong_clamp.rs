//! Clamps the arrival time to the wrong bound.
//!
//! An arrival time in the past must be moved up to now, or idle time accumulates without bound. If it is moved up to
//! now *minus the tolerance*, idle time accumulates one burst too much. With a burst of 10, after one request and 9
//! idle seconds at 1 per second, 17 are admitted in one burst.
//!
//! Detected by: C1 (never over-admits). Use instead: [`flowgate::TokenBucket`].

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket whose arrival time may lie in the past.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::wrong_clamp::WrongClamp;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = WrongClamp::new(Quota::per_second(1).burst(10));
/// let after_a_rest = Step { at_ns: 100_000_000_000, op: Op::Try { n: 1 } };
/// let admitted = (0..100).filter(|_| bucket.step(&after_a_rest) == OperationOutcome::Admitted);
/// assert_eq!(admitted.count(), 19); // in one burst, with a limit of ten
/// ```
#[derive(Clone, Debug)]
pub struct WrongClamp {
    rate: Rate,
    /// The arrival time, in grains.
    full_at: i128,
}

impl WrongClamp {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            full_at: 0,
        }
    }
}

impl Subject for WrongClamp {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let cost = self.rate.cost(n);
        let now = i128::from(step.at_ns) * self.rate.accrual;
        let tolerance = self.rate.full - self.rate.price;
        // The mistake: it should be `now`.
        let next = self.full_at.max(now - tolerance) + cost;
        let enough = cost <= self.rate.full && next <= now + self.rate.full;
        if enough {
            self.full_at = next;
        }
        verdict(enough)
    }
}
