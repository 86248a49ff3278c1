//! A sliding window estimated from two counters: of the window before, the share counts that is still in sight.
//!
//! Some admit while the estimate is below the limit, others if one more still fits.

use super::{Decide, GRAIN, floor};
use crate::evidence::{Evidence, Span};

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

/// Counts of the window that was touched last and of the one before.
#[derive(Clone, Copy, Debug, Default)]
struct TwoCounts {
    index: f64,
    before: f64,
    current: f64,
}

impl TwoCounts {
    fn new() -> Self {
        Self {
            index: f64::NEG_INFINITY,
            ..Self::default()
        }
    }

    /// Moves on to the window `index`, if it is not there yet.
    fn advance(&mut self, index: f64) {
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

    /// The count in the window `index`.
    fn at(&self, index: f64) -> f64 {
        if index == self.index {
            self.current
        } else if index == self.index - 1.0 {
            self.before
        } else {
            0.0
        }
    }

    /// One more that may have been in any window from `first` to `last`.
    fn add_to(&mut self, first: f64, last: f64) {
        self.advance(last);
        if last >= self.index {
            self.current += 1.0;
        }
        if first < self.index {
            self.before += 1.0;
        }
    }
}

impl Counter {
    /// One more has to fit as a whole.
    pub(crate) const WHOLE: f64 = 1.0;
    /// Anything free is enough.
    pub(crate) const ANY: f64 = 2.0 * SLACK;

    fn index(&self, at: f64) -> f64 {
        floor((at - self.phase) / self.window)
    }

    fn estimate(&self, counts: &TwoCounts, at: f64) -> f64 {
        let windows = (at - self.phase) / self.window;
        let index = floor(windows);
        let in_sight = 1.0 - (windows - index);
        counts.at(index - 1.0) * in_sight + counts.at(index)
    }

    /// Admissions although the estimate had surely reached the limit. If these are more than `most`, something that is
    /// more.
    pub(crate) fn over(&self, evidence: &Evidence, most: u64) -> u64 {
        let mut counts = TwoCounts::new();
        let mut over = 0;
        for span in &evidence.surely {
            let index = self.index(span.to);
            counts.advance(index);
            let earliest = self.index(span.from);
            if earliest != index {
                // It has at least the weight of one in the window before.
                counts.before += f64::from(u8::from(earliest == index - 1.0));
                continue;
            }
            if self.estimate(&counts, span.to) + self.spare <= self.limit + SLACK {
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

    /// Refusals although one more surely fitted; the same.
    pub(crate) fn wasted(&self, evidence: &Evidence, most: u64) -> u64 {
        let mut counts = TwoCounts::new();
        let mut admitted = evidence.possibly.as_slice();
        let mut wasted = 0;
        for refused in &evidence.refused {
            while let [span, later @ ..] = admitted
                && span.from <= refused.to
            {
                counts.add_to(self.index(span.from), self.index(span.to));
                admitted = later;
            }
            wasted += u64::from(!self.may_refuse(&counts, *refused));
            if wasted > most {
                break;
            }
        }
        wasted
    }

    /// Whether a refusal can be right if no more than this was admitted.
    fn may_refuse(&self, counts: &TwoCounts, refused: Span) -> bool {
        let from = refused.from - GRAIN;
        let index = self.index(from);
        let straddles = self.index(refused.to) != index || counts.index > index;
        // A whole count is exact, and a limit that it just reaches is not passed.
        let slack = if counts.at(index - 1.0) > 0.0 {
            SLACK
        } else {
            -SLACK
        };
        straddles || self.estimate(counts, from) + self.spare > self.limit - slack
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
