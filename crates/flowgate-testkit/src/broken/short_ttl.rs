//! A record in a database expires before its debt is paid.
//!
//! A bucket without a record is full. So a record may only expire when its debt is paid. Here it expires one period of the quota after
//! the last write. A burst that is larger than the count of a period takes longer to flow back, and the rest of it is forgotten.
//!
//! Detected by: C1 (never over-admits). Use instead: an expiry that is counted from the debt, as `flowgate-fleet` does.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket whose record expires too early.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::broken::short_ttl::ShortTtl;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = ShortTtl::new(Quota::per_second(1).burst(60));
/// let mut at_second = |second: u64, n| bucket.step(&Step { at_ns: second * 1_000_000_000, op: Op::Try { n } });
/// assert_eq!(at_second(0, 60), OperationOutcome::Admitted);
/// assert_eq!(at_second(2, 60), OperationOutcome::Admitted); // and 2 have flowed back
/// ```
#[derive(Clone, Debug)]
pub struct ShortTtl {
    rate: Rate,
    /// The debt in grains, and when it was written.
    record: Option<(i128, u64)>,
}

impl ShortTtl {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            record: None,
        }
    }
}

impl Subject for ShortTtl {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let ttl_ns = self.rate.period_ns;
        // The mistake: the debt may take longer.
        let record = self
            .record
            .filter(|(_, at_ns)| step.at_ns.saturating_sub(*at_ns) < ttl_ns);
        let (debt, at_ns) = record.unwrap_or((0, step.at_ns));
        let now_ns = step.at_ns.max(at_ns);
        let paid = self.rate.accrual * i128::from(now_ns - at_ns);
        let debt = (debt - paid).max(0) + self.rate.cost(n);
        let enough = debt <= self.rate.full;
        if enough && debt > 0 {
            self.record = Some((debt, now_ns));
        }
        verdict(enough)
    }
}
