//! Multiplies interval by burst in 64 bits.
//!
//! The tolerance of GCRA is the time in which a whole burst flows in. At 1 per day with a burst of 10⁶ that is
//! 8.64·10¹⁹ ns, more than 2⁶⁴. In a release build it wraps silently, and 145,984 of a million are admitted. With other
//! numbers it is less, or nearly nothing.
//!
//! Detected by: C8 (exact rates): the burst is missing. Use instead: [`flowgate::TokenBucket`], which represents this
//! quota, and refuses at construction what it cannot represent.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket with a tolerance of 64 bits.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::wrapping_tolerance::WrappingTolerance;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = WrappingTolerance::new(Quota::per_day(1).burst(1_000_000));
/// let burst = Step { at_ns: 0, op: Op::Try { n: 1_000_000 } };
/// assert_ne!(bucket.step(&burst), OperationOutcome::Admitted); // though the bucket is full
/// ```
#[derive(Clone, Debug)]
pub struct WrappingTolerance {
    interval_ns: u64,
    tolerance_ns: u64,
    burst: u64,
    full_at_ns: u64,
}

impl WrappingTolerance {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        let interval_ns =
            u64::try_from((rate.price + rate.accrual - 1) / rate.accrual).unwrap_or(u64::MAX);
        Self {
            interval_ns,
            // The mistake.
            tolerance_ns: interval_ns.wrapping_mul(rate.burst_units),
            burst: rate.burst_units,
            full_at_ns: 0,
        }
    }
}

impl Subject for WrappingTolerance {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        if n > self.burst {
            return verdict(false);
        }
        let start_ns = u128::from(self.full_at_ns.max(step.at_ns));
        let next_ns = start_ns + u128::from(n) * u128::from(self.interval_ns);
        let enough = next_ns <= u128::from(step.at_ns) + u128::from(self.tolerance_ns);
        match u64::try_from(next_ns) {
            Ok(next_ns) if enough && n > 0 => self.full_at_ns = next_ns,
            _ => {}
        }
        verdict(enough)
    }
}
