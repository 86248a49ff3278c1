//! A sliding window that remembers every admission: at most the limit in every window.

use std::collections::VecDeque;

use super::pairs::Pairs;
use super::{Decide, GRAIN};
use crate::evidence::Evidence;

/// Numbers of windows for which over-admission is certain.
const WINDOWS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Log {
    /// A whole number.
    pub(crate) limit: f64,
    pub(crate) window: f64,
}

impl Log {
    pub(crate) fn new(limit: f64, window: f64) -> Self {
        Self { limit, window }
    }

    /// Counts the admissions that certainly came within one window after as many as it allows.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        let limit = self.limit as usize;
        let surely = &evidence.surely;
        let pairs = surely.iter().zip(surely.iter().skip(limit));
        let over = pairs.filter(|(first, last)| last.to - first.from < self.window - GRAIN);
        over.count() as u64
    }

    /// Passes to `each` whether a refusal can be right: the previous window can have reached the limit.
    pub(crate) fn judge_refusals(&self, evidence: &Evidence, each: impl FnMut(bool)) {
        let limit = self.limit as usize;
        let possibly = &evidence.possibly;
        let mut before = 0_usize;
        evidence.judge_refusals(
            &mut before,
            |before, _| *before += 1,
            |before, span| {
                if limit == 0 {
                    return true;
                }
                let oldest = before.checked_sub(limit).map(|index| possibly[index]);
                oldest.is_some_and(|oldest| oldest.to > span.from - self.window - GRAIN)
            },
            each,
        );
    }

    /// Returns how often more than n + 1 limits were certainly admitted within n windows, for the worst n. No window
    /// that enforces the limit allows that, so this is certain however vague the times are.
    pub(crate) fn surely_over(&self, evidence: &Evidence) -> u64 {
        let over = WINDOWS.map(|windows| {
            let limit = (windows + 1.0) * self.limit;
            Self::new(limit, windows * self.window).over(evidence)
        });
        over.into_iter().max().unwrap_or(0)
    }

    /// Returns the maximum and minimum window lengths for which each admission and refusal is right.
    pub(crate) fn bounds(limit: u64, evidence: &Evidence) -> (Vec<f64>, Vec<f64>) {
        let pairs = Pairs::of(limit as usize, evidence);
        (pairs.at_most().collect(), pairs.at_least().collect())
    }

    pub(crate) fn start(self) -> Decide {
        let mut admitted = VecDeque::new();
        Box::new(move |now| {
            while admitted
                .front()
                .is_some_and(|at| at + self.window <= now + GRAIN)
            {
                admitted.pop_front();
            }
            let admits = (admitted.len() as f64) < self.limit;
            if admits {
                admitted.push_back(now);
            }
            admits
        })
    }
}

/// What no window that enforces its limit allows, by the length of the window. For searches over many lengths.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// For each number of windows: the maximum length at which each admission is right, in order.
    over: Vec<(f64, Vec<f64>)>,
    /// For this number of windows: the minimum length at which each refusal is right, in order.
    wasted: (f64, Vec<f64>),
}

impl Bounds {
    /// Bounds of windows that admit `limit` and refuse if the previous window admitted that many.
    pub(crate) fn of(limit: f64, evidence: &Evidence) -> Self {
        Self {
            over: surely_over(limit, evidence),
            wasted: (1.0, surely_wasted(limit, evidence)),
        }
    }

    /// Bounds of windows of two counters. They refuse if all but one were admitted in the previous two windows.
    pub(crate) fn of_counters(limit: f64, evidence: &Evidence) -> Self {
        Self {
            over: surely_over(limit, evidence),
            wasted: (2.0, surely_wasted(limit - 1.0, evidence)),
        }
    }

    /// Counts the inconsistent responses by these bounds and by the model itself (`over`, `wasted`). Stops early beyond
    /// `most`.
    pub(crate) fn unexplained_within(
        &self,
        window: f64,
        most: u64,
        over: impl FnOnce(u64) -> u64,
        wasted: impl FnOnce(u64) -> u64,
    ) -> u64 {
        let count_over = |(windows, at_most): &(f64, Vec<f64>)| {
            let length = windows * window - GRAIN;
            at_most.partition_point(|most| *most < length) as u64
        };
        let surely_over = self.over.iter().map(count_over).max().unwrap_or(0);
        let (windows, at_least) = &self.wasted;
        let length = windows * window + GRAIN;
        let right = at_least.partition_point(|least| *least < length);
        let surely_wasted = (at_least.len() - right) as u64;
        if surely_over + surely_wasted > most {
            return surely_over + surely_wasted;
        }
        let over = surely_over.max(over(most));
        if over + surely_wasted > most {
            return over + surely_wasted;
        }
        over + surely_wasted.max(wasted(most - over))
    }
}

fn surely_over(limit: f64, evidence: &Evidence) -> Vec<(f64, Vec<f64>)> {
    let over = WINDOWS.map(|windows| {
        let pairs = Pairs::of(((windows + 1.0) * limit) as usize, evidence);
        (windows, in_order(pairs.at_most()))
    });
    over.into()
}

fn surely_wasted(limit: f64, evidence: &Evidence) -> Vec<f64> {
    match limit as usize {
        0 => Vec::new(),
        limit => in_order(Pairs::of(limit, evidence).at_least()),
    }
}

fn in_order(lengths: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut lengths: Vec<f64> = lengths.collect();
    lengths.sort_unstable_by(f64::total_cmp);
    lengths
}
