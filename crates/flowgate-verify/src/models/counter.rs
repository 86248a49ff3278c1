//! A sliding window estimated from two counters: of the window before, the share counts that is still in sight.
//!
//! Some admit while the estimate is below the limit, others if one more still fits.

use super::Decide;
use super::fixed::TwoCounts;
use crate::evidence::Evidence;

/// By so much an estimate may be off, for what is lost in fractions.
const SLACK: f64 = 1e-6;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counter {
    pub(crate) limit: f64,
    pub(crate) window: f64,
    /// When one of the windows begins.
    pub(crate) phase: f64,
    /// How much must be free for one more: 1, or next to nothing.
    pub(crate) spare: f64,
}

impl Counter {
    /// One more has to fit as a whole.
    pub(crate) const WHOLE: f64 = 1.0;
    /// Anything free is enough.
    pub(crate) const ANY: f64 = 2.0 * SLACK;

    fn index(&self, at: f64) -> f64 {
        ((at - self.phase) / self.window).floor()
    }

    fn estimate(&self, counts: &TwoCounts, at: f64) -> f64 {
        let windows = (at - self.phase) / self.window;
        let index = windows.floor();
        let in_sight = 1.0 - (windows - index);
        counts.at(index - 1.0) * in_sight + counts.at(index)
    }

    /// Admissions although the estimate had surely reached the limit.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        let mut counts = TwoCounts::new();
        let mut over = 0;
        for span in &evidence.surely {
            let index = self.index(span.to);
            counts.advance(index);
            let straddles = self.index(span.from) != index;
            if straddles {
                continue;
            }
            if self.estimate(&counts, span.to) + self.spare <= self.limit + SLACK {
                counts.current += 1.0;
            } else {
                over += 1;
            }
        }
        over
    }

    /// Refusals although one more surely fitted.
    pub(crate) fn wasted(&self, evidence: &Evidence) -> u64 {
        let mut counts = TwoCounts::new();
        evidence.wasted(
            &mut counts,
            |counts, span| counts.add_to(self.index(span.from), self.index(span.to)),
            |counts, span| {
                let index = self.index(span.from);
                let straddles = self.index(span.to) != index || counts.index > index;
                straddles || self.estimate(counts, span.from) + self.spare > self.limit - SLACK
            },
        )
    }

    pub(crate) fn start(self) -> Decide {
        let mut counts = TwoCounts::new();
        Box::new(move |now| {
            counts.advance(self.index(now));
            let admits = self.estimate(&counts, now) + self.spare <= self.limit + SLACK;
            if admits {
                counts.current += 1.0;
            }
            admits
        })
    }
}
