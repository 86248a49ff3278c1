//! A task takes out what has left the window, when it gets round to it.
//!
//! Admissions are entered in a bounded channel, and a call is admitted if there is room. Room is
//! made by a task that sleeps until the oldest entry leaves the window and then takes it out. It is
//! woken late, by a millisecond on an idle machine and by any time on a busy one; until then calls
//! are refused that would fit.
//!
//! Contract C2 catches it: here the task comes to run just after the call that needed it. Instead:
//! [`flowgate::SlidingWindow`], which needs no task: a call looks at the time itself.

use std::collections::VecDeque;

use flowgate::Quota;

use super::verdict;
use crate::rate::Rate;
use crate::script::{Op, Outcome, Step};
use crate::subject::{Capabilities, Subject};

/// A channel of times.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, Outcome, Step};
/// use flowgate_testkit::specimens::late_trimmer::LateTrimmer;
/// use flowgate_testkit::subject::Subject;
///
/// let mut window = LateTrimmer::new(Quota::per_second(1));
/// let mut at_second = |second: u64| window.step(&Step { at_ns: second * 1_000_000_000, op: Op::Try { n: 1 } });
/// assert_eq!(at_second(0), Outcome::Admitted);
/// assert_ne!(at_second(5), Outcome::Admitted); // the task has yet to get round to it
/// assert_eq!(at_second(5), Outcome::Admitted);
/// ```
#[derive(Clone, Debug)]
pub struct LateTrimmer {
    limit: u128,
    window_ns: u64,
    channel: VecDeque<u64>,
}

impl LateTrimmer {
    /// A sliding window for `quota`.
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

    fn step(&mut self, step: &Step) -> Outcome {
        let Op::Try { n: 1 } = step.op else {
            return Outcome::Skipped;
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
