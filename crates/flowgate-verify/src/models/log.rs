//! A sliding window that remembers every admission: at most the limit in every window.

use std::collections::VecDeque;

use super::{Decide, GRAIN};
use crate::evidence::Evidence;

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

    /// Admissions that came surely within one window after as many as it allows.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        let limit = self.limit as usize;
        let surely = &evidence.surely;
        let pairs = surely.iter().zip(surely.iter().skip(limit));
        let over = pairs.filter(|(first, last)| last.to - first.from < self.window - GRAIN);
        over.count() as u64
    }

    /// Refusals when there cannot have been that many in the window before.
    pub(crate) fn wasted(&self, evidence: &Evidence) -> u64 {
        let limit = self.limit as usize;
        let possibly = &evidence.possibly;
        let mut before = 0_usize;
        evidence.wasted(
            &mut before,
            |before, _| *before += 1,
            |before, span| {
                if limit == 0 {
                    return true;
                }
                let oldest = before.checked_sub(limit).map(|index| possibly[index]);
                oldest.is_some_and(|oldest| oldest.to > span.from - self.window - GRAIN)
            },
        )
    }

    /// How often more than n + 1 limits were surely admitted within n windows, which is more than any window allows
    /// that keeps the limit: the most for some n. However vague the times are, this is certain.
    pub(crate) fn surely_over(&self, evidence: &Evidence) -> u64 {
        let over = [1.0, 4.0, 16.0, 64.0].map(|windows| {
            let limit = (windows + 1.0) * self.limit;
            Self::new(limit, windows * self.window).over(evidence)
        });
        over.into_iter().max().unwrap_or(0)
    }

    /// What the window would have to be for each admission and refusal to be right: at most, and at least.
    pub(crate) fn bounds(limit: u64, evidence: &Evidence) -> (Vec<f64>, Vec<f64>) {
        let limit = limit as usize;
        let surely = &evidence.surely;
        let pairs = surely.iter().zip(surely.iter().skip(limit));
        let at_most = pairs.map(|(first, last)| last.to - first.from).collect();
        let mut at_least = Vec::with_capacity(evidence.refused.len());
        let mut before = 0_usize;
        for refused in &evidence.refused {
            let possibly = &evidence.possibly;
            while possibly
                .get(before)
                .is_some_and(|span| span.from <= refused.to)
            {
                before += 1;
            }
            let oldest = before.checked_sub(limit).map(|index| possibly[index]);
            at_least.push(oldest.map_or(f64::INFINITY, |oldest| refused.from - oldest.to));
        }
        (at_most, at_least)
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
