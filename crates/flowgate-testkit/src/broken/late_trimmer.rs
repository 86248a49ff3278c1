//! A background task removes expired admissions, and runs late.
//!
//! Admissions are entered in a bounded channel, and a call is admitted if there is space. A task sleeps until the
//! oldest entry leaves the window, and then removes it. The task wakes up late: by a millisecond on an idle machine, by
//! any time on a busy one. Until then, calls are refused needlessly.
//!
//! Detected by: C2 (never refuses needlessly): here the task runs just after the call that needed it. Use instead:
//! [`flowgate::SlidingWindow`], which needs no task, because each call checks the time itself.

use std::collections::VecDeque;

use flowgate::Quota;

use super::verdict;
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Window as a channel of times.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::late_trimmer::LateTrimmer;
/// use flowgate_testkit::subject::Subject;
///
/// let mut window = LateTrimmer::new(Quota::per_second(1));
/// let mut at_second = |second: u64| window.step(&Step { at_ns: second * 1_000_000_000, op: Op::Try { n: 1 } });
/// assert_eq!(at_second(0), OperationOutcome::Admitted);
/// assert_ne!(at_second(5), OperationOutcome::Admitted); // the task has yet to get round to it
/// assert_eq!(at_second(5), OperationOutcome::Admitted);
/// ```
#[derive(Clone, Debug)]
pub struct LateTrimmer {
    limit: u128,
    window_ns: u64,
    channel: VecDeque<u64>,
}

impl LateTrimmer {
    /// Creates a sliding window for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        Self {
            limit: rate.limit_units,
            window_ns: rate.period_ns,
            channel: VecDeque::new(),
        }
    }

    fn trim(&mut self, now_ns: u64) {
        while let Some(oldest_ns) = self.channel.front() {
            if now_ns.saturating_sub(*oldest_ns) < self.window_ns {
                return;
            }
            self.channel.pop_front();
        }
    }
}

impl Subject for LateTrimmer {
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n: 1 } = step.op else {
            return OperationOutcome::Skipped;
        };
        let room = (self.channel.len() as u128) < self.limit;
        if room {
            self.channel.push_back(step.at_ns);
        }
        // The mistake: it matters when this runs.
        self.trim(step.at_ns);
        verdict(room)
    }
}
