//! Reports a retry time for a request that can never fit.
//!
//! A caller requests 30 tokens of a bucket that holds 10. The refusal reports 20 s, when 30 would have flowed in. But
//! only 10 fit, and after 20 s the refusal reports 20 s again. A client that relies on it retries forever.
//!
//! Detected by: C3 (exact retry-after). Use instead: [`flowgate::Denied::is_never`].

use core::time::Duration;

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Retry, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket that reports a wait for a request that never fits.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Retry, Step};
/// use flowgate_testkit::broken::finite_never::FiniteNever;
/// use flowgate_testkit::subject::Subject;
/// use std::time::Duration;
///
/// let mut bucket = FiniteNever::new(Quota::per_second(1).burst(10));
/// let wait = OperationOutcome::Refused(Retry::After(Duration::from_secs(20)));
/// let mut at_second = |second: u64| bucket.step(&Step { at_ns: second * 1_000_000_000, op: Op::Try { n: 30 } });
/// assert_eq!(at_second(0), wait);
/// assert_eq!(at_second(20), wait); // and so on for ever
/// ```
#[derive(Clone, Debug)]
pub struct FiniteNever {
    rate: Rate,
    /// The arrival time, in grains.
    full_at: i128,
}

impl FiniteNever {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            full_at: 0,
        }
    }
}

impl Subject for FiniteNever {
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
        if n == 0 {
            return verdict(true);
        }
        let now = i128::from(step.at_ns) * self.rate.accrual;
        let next = self.full_at.max(now).saturating_add(self.rate.cost(n));
        // The mistake: this is finite for every n.
        let wait_ns = self.rate.wait_ns(next - now - self.rate.full);
        if wait_ns > 0 {
            let wait_ns = u64::try_from(wait_ns).unwrap_or(u64::MAX);
            return OperationOutcome::Refused(Retry::After(Duration::from_nanos(wait_ns)));
        }
        self.full_at = next;
        verdict(true)
    }
}
