//! A sliding window estimated from two counters, whose periods follow the requests, as in HAProxy's stick tables.
//!
//! A period begins when the previous one ends, or with the first request that counts after a period without any. The
//! previous period counts in proportion to its overlap. Requests are admitted while the estimate is below the limit.

use super::counter::TwoCounts;
use super::counting::{FirstRefusal, first_refusals};
use super::{Decide, floor};
use crate::clock::SHORTEST_TICK;
use crate::evidence::{Evidence, Span};

/// Tolerance of an estimate, for rounding errors.
const SLACK: f64 = 1e-6;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Periods {
    pub(crate) limit: f64,
    pub(crate) period: f64,
    /// Whether refused requests count, too.
    pub(crate) counts_refused: bool,
}

/// Periods that follow each other without a gap.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// When the first one can have begun.
    began: Span,
    /// Its number. The first period of the next run does not follow the last one of this run.
    first: f64,
    /// Its first request may also have been in the period before: that is -1 then, and otherwise 0.
    least: f64,
}

/// All periods of a record.
struct Runs {
    runs: Vec<Run>,
    period: f64,
}

/// A place in a period.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The number of the period.
    index: f64,
    /// Share of the previous period that still counts.
    overlap: f64,
}

impl Runs {
    /// Derives the periods from the requests that count, in the order of their starts.
    fn of(counted: &[Span], period: f64) -> Self {
        let mut all = Self {
            runs: Vec::new(),
            period,
        };
        let mut last = 0.0;
        for span in counted {
            let middle = (span.from + span.to) / 2.0;
            let since = |began: Span| {
                // `began` is wider by two ticks.
                middle - (began.from + began.to) / 2.0 - SHORTEST_TICK
            };
            let index = all.place(middle, since).index;
            if index < last + 2.0 && !all.runs.is_empty() {
                last = index.max(last);
                continue;
            }
            let is_certain = all.earliest(span.from).index >= last + 2.0;
            last += 2.0;
            all.runs.push(Run {
                began: Span {
                    // The clock has whole milliseconds, and the start is an even one.
                    from: span.from - 2.0 * SHORTEST_TICK,
                    ..*span
                },
                first: last,
                least: if is_certain { 0.0 } else { -1.0 },
            });
        }
        all
    }

    /// Returns the latest place in a period that `at` can be.
    fn latest(&self, at: f64) -> Place {
        self.place(at, |began| at - began.from)
    }

    /// Returns the earliest one.
    fn earliest(&self, at: f64) -> Place {
        self.place(at, |began| at - SHORTEST_TICK - began.to)
    }

    fn place(&self, at: f64, since: impl Fn(Span) -> f64) -> Place {
        let begun = self.runs.partition_point(|run| run.began.from <= at);
        let run = self.runs.get(begun.saturating_sub(1));
        let Some(run) = run else {
            return Place {
                index: f64::INFINITY,
                overlap: 0.0,
            };
        };
        let periods = (since(run.began) / self.period).max(run.least);
        let whole = floor(periods);
        Place {
            index: run.first + whole,
            overlap: 1.0 - (periods - whole),
        }
    }
}

impl Place {
    fn estimate(&self, counts: &TwoCounts) -> f64 {
        counts.at(self.index - 1.0) * self.overlap + counts.at(self.index)
    }
}

impl Periods {
    /// Counts the responses that cannot be right.
    pub(crate) fn unexplained(&self, evidence: &Evidence) -> u64 {
        let runs = self.runs(evidence);
        let mut wasted = 0;
        self.judge_refusals_in(&runs, evidence, |is_right| wasted += u64::from(!is_right));
        self.over_in(&runs, evidence) + wasted
    }

    /// Derives the periods from the requests that may count, in the order of their starts.
    fn runs(&self, evidence: &Evidence) -> Runs {
        if !self.counts_refused {
            return Runs::of(&evidence.possibly, self.period);
        }
        let mut counted = [&evidence.possibly[..], &evidence.refused].concat();
        counted.sort_by(|a, b| a.from.total_cmp(&b.from));
        Runs::of(&counted, self.period)
    }

    /// Counts the admissions although the estimate had certainly reached the limit.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        self.over_in(&self.runs(evidence), evidence)
    }

    fn over_in(&self, runs: &Runs, evidence: &Evidence) -> u64 {
        let mut counts = TwoCounts::new();
        let refused = evidence.refused.iter();
        let mut refused = refused.filter(|_| self.counts_refused).peekable();
        let mut over = 0;
        for span in &evidence.surely {
            while let Some(before) = refused.next_if(|before| before.to < span.from) {
                let latest = runs.latest(before.to).index;
                counts.add_at_least(runs.earliest(before.from).index, latest);
            }
            let place = runs.latest(span.to);
            counts.advance(place.index);
            if place.estimate(&counts) < self.limit - SLACK {
                counts.add_at_least(runs.earliest(span.from).index, place.index);
            } else {
                over += 1;
            }
        }
        over
    }

    /// Passes to `each` whether a refusal can be right: the estimate can have reached the limit.
    pub(crate) fn judge_refusals(&self, evidence: &Evidence, each: impl FnMut(bool)) {
        self.judge_refusals_in(&self.runs(evidence), evidence, each);
    }

    fn judge_refusals_in(&self, runs: &Runs, evidence: &Evidence, mut each: impl FnMut(bool)) {
        let mut admitted = evidence.possibly.iter().peekable();
        let mut counts = TwoCounts::new();
        for FirstRefusal { decided, own } in self.refusals(evidence) {
            while let Some(span) = admitted.next_if(|span| span.from <= decided.to) {
                counts.add_to(runs.earliest(span.from).index, runs.latest(span.to).index);
            }
            let place = runs.earliest(decided.from);
            let straddles =
                runs.latest(decided.to).index != place.index || counts.index > place.index;
            each(straddles || place.estimate(&counts) >= self.limit - SLACK);
            if self.counts_refused {
                counts.add_to(place.index, runs.latest(own.to).index);
            }
        }
    }

    fn refusals(&self, evidence: &Evidence) -> Vec<FirstRefusal> {
        if self.counts_refused {
            return first_refusals(evidence);
        }
        let refused = evidence.refused.iter();
        let alone = refused.map(|span| FirstRefusal {
            decided: *span,
            own: *span,
        });
        alone.collect()
    }

    pub(crate) fn start(self) -> Decide {
        let mut counts = TwoCounts::new();
        let (mut began, mut first) = (f64::NEG_INFINITY, 0.0);
        Box::new(move |now| {
            let mut periods = (now - began) / self.period;
            if first + floor(periods) >= counts.index + 2.0 {
                (began, first, periods) = (now, counts.index.max(0.0) + 2.0, 0.0);
            }
            let index = first + floor(periods);
            let place = Place {
                index,
                overlap: 1.0 - (periods - floor(periods)),
            };
            let admits = place.estimate(&counts) < self.limit - SLACK;
            if admits || self.counts_refused {
                counts.advance(index);
                counts.add_to(index, index);
            }
            admits
        })
    }
}
