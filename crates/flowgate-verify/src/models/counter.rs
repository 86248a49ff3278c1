//! A sliding window estimated from two counters. The previous window counts in proportion to its overlap.
//!
//! Some limiters admit while the estimate is below the limit, others only if one more request fits.

use super::{Decide, GRAIN, floor};
use crate::evidence::{Evidence, Span};

/// Tolerance of an estimate, for rounding errors.
const SLACK: f64 = 1e-6;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counter {
    pub(crate) limit: f64,
    pub(crate) window: f64,
    /// Start of one of the windows.
    pub(crate) phase: f64,
    /// Free capacity needed for one more request: 1, or nearly 0.
    pub(crate) spare: f64,
}

/// Counts of the last window used and of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TwoCounts {
    pub(super) index: f64,
    before: f64,
    current: f64,
}

impl TwoCounts {
    pub(super) fn new() -> Self {
        Self {
            index: f64::NEG_INFINITY,
            ..Self::default()
        }
    }

    /// Advances to the window `index`, if that is later.
    pub(super) fn advance(&mut self, index: f64) {
        if index > self.index {
            self.before = if index == self.index + 1.0 {
                self.current
            } else {
                0.0
            };
            self.current = 0.0;
            self.index = index;
        }
    }

    /// Returns the count in the window `index`.
    pub(super) fn at(&self, index: f64) -> f64 {
        if index == self.index {
            self.current
        } else if index == self.index - 1.0 {
            self.before
        } else {
            0.0
        }
    }

    /// Adds an admission that may have been in any window from `first` to `last`.
    pub(super) fn add_to(&mut self, first: f64, last: f64) {
        self.advance(last);
        if last >= self.index {
            self.current += 1.0;
        }
        if first < self.index {
            self.before += 1.0;
        }
    }

    /// Adds one that was in any window from `first` to `last`, in the one in which it counts least.
    pub(super) fn add_at_least(&mut self, first: f64, last: f64) {
        self.advance(last);
        if first == self.index {
            self.current += 1.0;
        } else if first == self.index - 1.0 {
            self.before += 1.0;
        }
    }
}

impl Counter {
    /// A whole request must fit.
    pub(crate) const WHOLE: f64 = 1.0;
    /// Any free capacity is enough.
    pub(crate) const ANY: f64 = 2.0 * SLACK;

    fn index(&self, at: f64) -> f64 {
        floor((at - self.phase) / self.window)
    }

    /// Returns the window of a time, and the share of the previous window that still counts.
    fn place(&self, at: f64) -> (f64, f64) {
        let windows = (at - self.phase) / self.window;
        let index = floor(windows);
        (index, 1.0 - (windows - index))
    }

    fn estimate(counts: &TwoCounts, (index, in_sight): (f64, f64)) -> f64 {
        counts.at(index - 1.0) * in_sight + counts.at(index)
    }

    /// Counts the admissions although the estimate had certainly reached the limit. Stops early beyond `most`.
    pub(crate) fn over(&self, evidence: &Evidence, most: u64) -> u64 {
        let mut counts = TwoCounts::new();
        let mut over = 0;
        for span in &evidence.surely {
            let place @ (index, _) = self.place(span.to);
            counts.advance(index);
            let earliest = self.index(span.from);
            if earliest != index {
                // It weighs at least as much as one in the previous window.
                counts.before += f64::from(u8::from(earliest == index - 1.0));
                continue;
            }
            if Self::estimate(&counts, place) + self.spare <= self.limit + SLACK {
                counts.current += 1.0;
            } else {
                over += 1;
                if over > most {
                    break;
                }
            }
        }
        over
    }

    /// Counts the refusals although one more request certainly fitted. Stops early beyond `most`.
    pub(crate) fn wasted(&self, evidence: &Evidence, most: u64) -> u64 {
        let mut wasted = 0;
        self.judge_refusals(evidence, |is_right| {
            wasted += u64::from(!is_right);
            wasted <= most
        });
        wasted
    }

    /// Passes to `each` whether a refusal can be right: one more request may not have fitted. Ends once `each` returns
    /// `false`.
    pub(crate) fn judge_refusals(&self, evidence: &Evidence, mut each: impl FnMut(bool) -> bool) {
        let mut counts = TwoCounts::new();
        let mut admitted = evidence.possibly.as_slice();
        for refused in &evidence.refused {
            while let [span, later @ ..] = admitted
                && span.from <= refused.to
            {
                counts.add_to(self.index(span.from), self.index(span.to));
                admitted = later;
            }
            if !each(self.may_refuse(&counts, *refused)) {
                break;
            }
        }
    }

    /// Returns whether a refusal can be right after these admissions.
    fn may_refuse(&self, counts: &TwoCounts, refused: Span) -> bool {
        let from = refused.from - GRAIN;
        let place @ (index, _) = self.place(from);
        let straddles = self.index(refused.to) != index || counts.index > index;
        // A whole count is exact, and reaching the limit does not exceed it.
        let slack = if counts.at(index - 1.0) > 0.0 {
            SLACK
        } else {
            -SLACK
        };
        straddles || Self::estimate(counts, place) + self.spare > self.limit - slack
    }

    pub(crate) fn start(self) -> Decide {
        let mut counts = TwoCounts::new();
        Box::new(move |now| {
            let place @ (index, _) = self.place(now);
            counts.advance(index);
            let admits = Self::estimate(&counts, place) + self.spare <= self.limit + SLACK;
            if admits {
                counts.current += 1.0;
            }
            admits
        })
    }
}
