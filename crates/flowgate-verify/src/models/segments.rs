//! Windows on a clock, cut into segments: at most the limit in the segment that it is now and some before it.
//!
//! With one segment it is a fixed window: the count begins anew with each, whether or not anybody asks.

use std::collections::VecDeque;

use super::Decide;
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
        ((at - self.phase) / self.length()).floor()
    }

    /// Admissions that came after as many as the limit, all of them surely in segments that still counted.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        let limit = self.limit as usize;
        let surely = &evidence.surely;
        let pairs = surely.iter().zip(surely.iter().skip(limit));
        let count = f64::from(self.count);
        let over =
            pairs.filter(|(first, last)| self.index(last.to) < self.index(first.from) + count);
        over.count() as u64
    }

    /// Refusals when that many cannot have been in the segments that count.
    pub(crate) fn wasted(&self, evidence: &Evidence) -> u64 {
        let limit = self.limit as usize;
        let possibly = &evidence.possibly;
        let count = f64::from(self.count);
        let mut before = 0_usize;
        evidence.wasted(
            &mut before,
            |before, _| *before += 1,
            |before, span| {
                let oldest = before
                    .checked_sub(limit)
                    .and_then(|index| possibly.get(index));
                oldest.is_some_and(|oldest| self.index(span.from) < self.index(oldest.to) + count)
            },
        )
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
