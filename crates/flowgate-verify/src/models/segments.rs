//! Windows on the clock, divided into segments: at most the limit in the current segment and some before it.
//!
//! With one segment it is a fixed window: the count restarts with each window, whether or not requests arrive.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::pairs::{Pair, Pairs, PairsByLength};
use super::{Decide, GRAIN, floor};
use crate::evidence::Evidence;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Segments {
    /// A whole number.
    pub(crate) limit: f64,
    /// Total length of all segments that count.
    pub(crate) window: f64,
    /// Start of one of the segments.
    pub(crate) phase: f64,
    /// Number of segments that count, including the current one.
    pub(crate) count: u32,
}

impl Segments {
    pub(crate) fn length(&self) -> f64 {
        self.window / f64::from(self.count)
    }

    fn index(&self, at: f64) -> f64 {
        floor((at - self.phase) / self.length())
    }

    /// Returns what the responses imply for the limit.
    fn pairs(&self, evidence: &Evidence) -> Pairs {
        Pairs::of(self.limit as usize, evidence)
    }

    /// Returns whether both times are in segments that count together.
    fn sees(&self, pair: &Pair) -> bool {
        self.index(pair.last) < self.index(pair.first) + f64::from(self.count)
    }

    /// Counts the admissions beyond the limit, all certainly in segments that still count.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        self.pairs(evidence).over(|pair| self.sees(pair))
    }

    /// Returns the lengths of pairs of which some are in segments that count together, and others are not.
    fn open(&self) -> RangeInclusive<f64> {
        self.window - self.length() - GRAIN..=self.window + GRAIN
    }

    /// Counts as [`over`](Self::over). Stops early beyond `most`.
    pub(crate) fn over_within(&self, pairs: &PairsByLength, most: u64) -> u64 {
        pairs.over(most, &self.open(), |pair| self.sees(pair))
    }

    /// Counts the refusals although the segments that count cannot hold the limit. Stops early beyond `most`.
    pub(crate) fn wasted_within(&self, pairs: &PairsByLength, most: u64) -> u64 {
        pairs.wasted(most, &self.open(), |pair| self.sees(pair))
    }

    /// Passes to `each` whether a refusal can be right: the segments that count can hold the limit.
    pub(crate) fn judge_refusals(&self, evidence: &Evidence, each: impl FnMut(bool)) {
        self.pairs(evidence)
            .judge_refusals(|pair| self.sees(pair), each);
    }

    pub(crate) fn start(self) -> Decide {
        let mut admitted = VecDeque::new();
        Box::new(move |now| {
            let index = self.index(now);
            while admitted
                .front()
                .is_some_and(|before| before + f64::from(self.count) <= index)
            {
                admitted.pop_front();
            }
            let admits = (admitted.len() as f64) < self.limit;
            if admits {
                admitted.push_back(index);
            }
            admits
        })
    }
}
