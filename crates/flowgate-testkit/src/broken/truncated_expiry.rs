//! A window in a database whose length is truncated to whole milliseconds.
//!
//! A counter expires after the length of the window, in milliseconds, rounded down. A window of 1.5 ms lasts for 1 ms, and one of less
//! than 1 ms does not last at all. With seconds in place of milliseconds, a window of 1.9 s lasts for 1 s.
//!
//! Detected by: C1 (never over-admits). Use instead: an expiry that is rounded up, or [`flowgate::FixedWindow`].

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

const MILLISECOND_NS: u64 = 1_000_000;

/// Window that ends too early.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::broken::truncated_expiry::TruncatedExpiry;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::subject::Subject;
/// use std::time::Duration;
///
/// let mut window = TruncatedExpiry::new(Quota::new(1, Duration::from_micros(1_500))?);
/// let mut at_us = |us: u64| window.step(&Step { at_ns: us * 1_000, op: Op::Try { n: 1 } });
/// assert_eq!([0, 1_000].map(&mut at_us), [OperationOutcome::Admitted; 2]);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TruncatedExpiry {
    limit: u128,
    length_ns: u64,
    /// The count, and when it expires.
    counter: Option<(u128, u64)>,
}

impl TruncatedExpiry {
    /// Creates a window for `quota`.
    pub fn new(quota: Quota) -> Self {
        let length_ns = u64::try_from(quota.period().as_nanos()).unwrap_or(u64::MAX);
        Self {
            limit: u128::from(quota.count()) * u128::from(quota.scale()),
            // The mistake.
            length_ns: length_ns / MILLISECOND_NS * MILLISECOND_NS,
            counter: None,
        }
    }
}

impl Subject for TruncatedExpiry {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let open = self.counter.filter(|(_, ends_ns)| step.at_ns < *ends_ns);
        let (count, ends_ns) = open.unwrap_or((0, step.at_ns.saturating_add(self.length_ns)));
        let count = count + u128::from(n);
        let enough = count <= self.limit;
        if enough && n > 0 {
            self.counter = Some((count, ends_ns));
        }
        verdict(enough)
    }
}
