//! Reports the used tokens as the remaining ones.
//!
//! Five calls of a burst of 5 report 1, 2, 3, 4, 5 remaining: the number is how many have been taken. The decisions are
//! right, so no test of them fails. But every client that adapts to the header speeds up when the limit comes near.
//!
//! Detected by: the oracle, by reading. Use instead: [`flowgate::TokenBucket::available`], or
//! [`snapshot`](flowgate::TokenBucket::snapshot) for the three numbers of the header.

use flowgate::Quota;

use super::TRIES;
use crate::oracle::Oracle;
use crate::script::{OperationOutcome, Setup, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket with right decisions and a wrong number of remaining tokens.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::rising_remaining::RisingRemaining;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = RisingRemaining::new(Quota::per_second(1).burst(5));
/// let mut act = |op| bucket.step(&Step { at_ns: 0, op });
/// assert_eq!(act(Op::Try { n: 2 }), OperationOutcome::Admitted);
/// assert_eq!(act(Op::Available), OperationOutcome::Holds(2)); // there are three
/// ```
#[derive(Clone, Debug)]
pub struct RisingRemaining(Oracle);

impl RisingRemaining {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self(Oracle::new(&Setup::new(quota)))
    }
}

impl Subject for RisingRemaining {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            available: true,
            retry_after: true,
            ..TRIES
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        match self.0.step(step) {
            // The mistake.
            OperationOutcome::Holds(n) => OperationOutcome::Holds(self.0.rate().burst_units - n),
            other => other,
        }
    }
}
