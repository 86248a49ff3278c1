//! Reads the clock only when the count is used up.
//!
//! While the count is below the limit, a call is admitted without reading the clock, which is fast. But the window does
//! not restart when it is next used. With a limit of 100: one call, an hour's rest, then 99 that the old window still
//! has and 100 of a new one, so 199 in one burst. The true bound is 2 × limit − 1 in any interval of one window, which
//! is weaker than documented.
//!
//! Detected by: C1 (never over-admits), for a bound of windows. Use instead: [`flowgate::FixedWindow`]; if reading the
//! clock is too expensive, its clock-free form, which documents that bound.

use flowgate::Quota;

use super::verdict;
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Window that restarts only when it is found to be used up.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::stale_anchor::StaleAnchor;
/// use flowgate_testkit::subject::Subject;
///
/// let mut window = StaleAnchor::new(Quota::per_second(10));
/// let mut at_second = |second: u64| window.step(&Step { at_ns: second * 1_000_000_000, op: Op::Try { n: 1 } });
/// assert_eq!(at_second(0), OperationOutcome::Admitted);
/// let admitted = (0..100).filter(|_| at_second(3600) == OperationOutcome::Admitted);
/// assert_eq!(admitted.count(), 19); // in one burst, with a limit of ten
/// ```
#[derive(Clone, Debug)]
pub struct StaleAnchor {
    limit: u128,
    window_ns: u64,
    count: u128,
    start_ns: u64,
}

impl StaleAnchor {
    /// Creates a window for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        Self {
            limit: rate.limit_units,
            window_ns: rate.period_ns,
            count: 0,
            start_ns: 0,
        }
    }
}

impl Subject for StaleAnchor {
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n: 1 } = step.op else {
            return OperationOutcome::Skipped;
        };
        // The mistake: perhaps the window is long over.
        if self.count >= self.limit {
            if step.at_ns.saturating_sub(self.start_ns) < self.window_ns {
                return verdict(false);
            }
            (self.start_ns, self.count) = (step.at_ns, 0);
        }
        self.count += 1;
        verdict(true)
    }
}
