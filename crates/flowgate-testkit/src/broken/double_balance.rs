//! Stores the balance in floating point.
//!
//! Credits per second, balance and maximum are doubles under a lock, and each call adds elapsed seconds × rate. Ten
//! times 0.1 credit is not one credit: a call is refused at its scheduled time, and at other rates one is admitted
//! early.
//!
//! Detected by: C8 (exact rates), with polling: too few are admitted. Use instead: [`flowgate::TokenBucket`], which
//! counts in integers. For fractional costs, use [`units_per_token`](flowgate::Quota::units_per_token).

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket whose balance is nearly right.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::double_balance::DoubleBalance;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = DoubleBalance::new(Quota::per_second(1));
/// let mut at_tenth = |tenth: u64| bucket.step(&Step { at_ns: tenth * 100_000_000, op: Op::Try { n: 1 } });
/// assert_eq!(at_tenth(0), OperationOutcome::Admitted);
/// // Ten times 0.1 token is a little less than one.
/// assert!((1..=10).all(|tenth| at_tenth(tenth) != OperationOutcome::Admitted));
/// ```
#[derive(Clone, Debug)]
pub struct DoubleBalance {
    credits_per_second: f64,
    most: f64,
    balance: f64,
    last_ns: u64,
}

impl DoubleBalance {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        let most = rate.burst_units as f64;
        Self {
            credits_per_second: rate.accrual as f64 / rate.price as f64 * 1e9,
            most,
            balance: most,
            last_ns: 0,
        }
    }
}

impl Subject for DoubleBalance {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let elapsed = step.at_ns.saturating_sub(self.last_ns) as f64 / 1e9;
        self.last_ns = self.last_ns.max(step.at_ns);
        // The mistake: each addition rounds.
        self.balance = (self.balance + elapsed * self.credits_per_second).min(self.most);
        let enough = self.balance >= n as f64;
        if enough {
            self.balance -= n as f64;
        }
        verdict(enough)
    }
}
