//! Compares milliseconds with microseconds.
//!
//! A caller passes its maximum wait in milliseconds, and the queue compares that with the wait in microseconds: calls
//! wait for at most a thousandth of their maximum. Numbers without a unit in their name or type compare without an
//! error.
//!
//! Detected by: C3 (exact retry-after): without a maximum, the queue reports a wait that was acceptable. Use instead:
//! [`flowgate::TokenBucket::reserve_n_within`], which takes a [`Duration`](core::time::Duration).

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Retry, Step};
use crate::subject::{Capabilities, Subject};

/// Queue with a maximum wait.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::wrong_unit::WrongUnit;
/// use flowgate_testkit::subject::Subject;
///
/// let mut queue = WrongUnit::new(Quota::per_second(10).burst(1));
/// let mut reserve = |within_ns| queue.step(&Step { at_ns: 0, op: Op::Reserve { n: 1, within_ns } });
/// reserve(None);
/// // The wait is 100 ms, and a caller with a maximum wait of one second is refused.
/// assert!(matches!(reserve(Some(1_000_000_000)), OperationOutcome::Refused(_)));
/// assert_eq!(reserve(None), OperationOutcome::Promised { at_ns: 100_000_000 });
/// ```
#[derive(Clone, Debug)]
pub struct WrongUnit {
    rate: Rate,
    /// The arrival time, in grains.
    full_at: i128,
}

impl WrongUnit {
    /// Creates a queue for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            full_at: 0,
        }
    }
}

impl Subject for WrongUnit {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reserve: true,
            ..TRIES
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let (Op::Try { n } | Op::Reserve { n, .. }) = step.op else {
            return OperationOutcome::Skipped;
        };
        if n > self.rate.burst_units {
            return OperationOutcome::Refused(Retry::Never);
        }
        let now = i128::from(step.at_ns) * self.rate.accrual;
        let next = if n == 0 {
            self.full_at
        } else {
            self.full_at.max(now) + self.rate.cost(n)
        };
        let wait_ns = match n {
            0 => 0,
            _ => self.rate.wait_ns(next - self.rate.full - now),
        };
        let Op::Reserve { within_ns, .. } = step.op else {
            if wait_ns == 0 {
                self.full_at = next;
            }
            return verdict(wait_ns == 0);
        };
        let Ok(at_ns) = u64::try_from(i128::from(step.at_ns) + wait_ns) else {
            return OperationOutcome::Refused(Retry::Never);
        };
        let wait_us = (wait_ns + 999) / 1_000;
        let timeout_ms = within_ns.map(|ns| i128::from(ns / 1_000_000));
        // The mistake.
        if timeout_ms.is_some_and(|timeout_ms| wait_us > timeout_ms) {
            return verdict(false);
        }
        self.full_at = next;
        OperationOutcome::Promised { at_ns }
    }
}
