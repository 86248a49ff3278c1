//! Windows on a clock, cut into segments: at most the limit in the segment that it is now and some before it.
//!
//! With one segment it is a fixed window: the count begins anew with each, whether or not anybody asks.

use std::collections::VecDeque;

use super::pairs::{Pair, Pairs};
use super::{Decide, floor};
use crate::evidence::Evidence;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Segments {
    /// A whole number.
    pub(crate) limit: f64,
    /// Of all segments that count.
    pub(crate) window: f64,
    /// When one of the segments begins.
    pub(crate) phase: f64,
    /// How many segments count, the current one included.
    pub(crate) count: u32,
}

impl Segments {
    pub(crate) fn length(&self) -> f64 {
        self.window / f64::from(self.count)
    }

    fn index(&self, at: f64) -> f64 {
        floor((at - self.phase) / self.length())
    }

    /// What answers say of the limit.
    pub(crate) fn pairs(&self, evidence: &Evidence) -> Pairs {
        Pairs::of(self.limit as usize, evidence)
    }

    /// Whether both times are in segments that count together.
    fn sees(&self, pair: &Pair) -> bool {
        self.index(pair.last) < self.index(pair.first) + f64::from(self.count)
    }

    /// Admissions that came after as many as the limit, all of them surely in segments that still counted. If these are
    /// more than `most`, something that is more.
    pub(crate) fn over(&self, pairs: &Pairs, most: u64) -> u64 {
        pairs.over(most, |pair| self.sees(pair))
    }

    /// Refusals when that many cannot have been in the segments that count; the same.
    pub(crate) fn wasted(&self, pairs: &Pairs, most: u64) -> u64 {
        pairs.wasted(most, |pair| self.sees(pair))
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
