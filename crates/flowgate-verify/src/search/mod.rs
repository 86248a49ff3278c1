//! Which parameters make an algorithm consistent with the most responses, for a given burst?

mod counter;
mod segments;
mod track;

use crate::evidence::Evidence;
use crate::fit::Hints;
use crate::models::{Bucket, Log, Model, OnRequest};
use crate::plateau::Plateau;
use crate::{Alignment, DetectedKind};

/// A range that a vague rate makes wider has up to this many times the steps.
const WIDEST: f64 = 8.0;

/// Range of a search: global, or near an earlier result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    pub(crate) burst: f64,
    /// As factors of the estimate.
    low: f64,
    high: f64,
    steps: usize,
}

impl Reach {
    /// For a measured rate.
    pub(crate) fn rough(burst: f64) -> Self {
        Self {
            burst,
            // A window whose period was measured may be shorter: it starts only when a request arrives.
            low: (0.92 - 0.4 / burst).max(0.3),
            high: 1.1,
            steps: 40,
        }
    }

    /// The same range with more steps.
    pub(crate) fn thorough(burst: f64) -> Self {
        Self {
            steps: 160,
            ..Self::rough(burst)
        }
    }

    /// For an estimate that is accurate unless it is completely wrong.
    pub(crate) fn near(burst: f64) -> Self {
        Self {
            low: 0.97,
            high: 1.03,
            ..Self::thorough(burst)
        }
    }

    /// For an accurately measured rate.
    fn narrow(self) -> Self {
        Self {
            low: self.low.max(0.96),
            high: self.high.min(1.04),
            ..self
        }
    }

    fn is_rough(&self) -> bool {
        self.steps < 160
    }
}

/// Returns prefixes of increasing length that a search examines, and others in case these mislead. A rough search gets
/// only a sample.
fn parts_for(hints: &Hints, reach: Reach) -> Vec<&[Evidence]> {
    if reach.is_rough() {
        return vec![&hints.parts[..hints.short]];
    }
    let mut starts: Vec<&[Evidence]> = vec![&hints.parts, &hints.all_parts];
    for parts in [&hints.parts, &hints.all_parts] {
        starts.extend((parts.len() > 2).then(|| &parts[1..]));
    }
    starts
}

/// `None` if there is nothing to try.
pub(crate) type Search = fn(&Evidence, &Hints, Reach) -> Option<(Plateau, Model)>;

/// Simplest first. One entry stands for all numbers of segments.
pub(crate) const SEARCHES: [(DetectedKind, Search); 6] = [
    (DetectedKind::TokenBucket, bucket),
    (
        DetectedKind::FixedWindow(Alignment::FirstRequest),
        on_request,
    ),
    (
        DetectedKind::FixedWindow(Alignment::Clock),
        segments::on_clock,
    ),
    (DetectedKind::SlidingLog, log),
    (DetectedKind::SegmentedWindow(2), segments::in_segments),
    (DetectedKind::SlidingCounter, counter::counter),
];

/// Searches for the time in which `tokens` refill with the lowest score. The search is as fine if the rate is vague.
fn along(tokens: f64, hints: &Hints, reach: Reach, score: impl Fn(f64) -> u64) -> Plateau {
    let (shortest, longest) = (tokens / hints.rate, tokens / hints.with_pauses);
    let (low, high) = (shortest * reach.low, longest * reach.high);
    let wider = (high - low) / (shortest * (reach.high - reach.low));
    let steps = (reach.steps as f64 * wider.min(WIDEST)).ceil() as usize;
    Plateau::find(low, high, steps, score)
}

fn bucket(evidence: &Evidence, hints: &Hints, reach: Reach) -> Option<(Plateau, Model)> {
    let of = |interval| {
        Model::Bucket(Bucket {
            interval,
            burst: reach.burst,
        })
    };
    let plateau = along(1.0, hints, reach, |interval| {
        of(interval).unexplained(evidence)
    });
    Some((plateau, of(plateau.middle())))
}

fn on_request(evidence: &Evidence, hints: &Hints, reach: Reach) -> Option<(Plateau, Model)> {
    let limit = reach.burst;
    let of = |window| Model::OnRequest(OnRequest { limit, window });
    let plateau = along(limit, hints, reach, |window| {
        of(window).unexplained(evidence)
    });
    Some((plateau, of(plateau.middle())))
}

/// Each response bounds the window from one side, so no search is needed, and no good estimate.
fn log(evidence: &Evidence, hints: &Hints, reach: Reach) -> Option<(Plateau, Model)> {
    let limit = reach.burst;
    let (mut at_most, mut at_least) = Log::bounds(limit as u64, evidence);
    at_most.sort_by(f64::total_cmp);
    at_least.sort_by(f64::total_cmp);
    let guess = limit / hints.rate;
    // Above one of the lower bounds, up to the next upper bound.
    let mut best = Plateau {
        score: u64::MAX,
        low: guess,
        high: guess,
    };
    let within = guess / 2.0..guess * 2.0;
    let lows = at_least.iter().copied().filter(|low| within.contains(low));
    for low in lows.chain([within.start]) {
        let over = at_most.partition_point(|most| *most <= low);
        let right = at_least.partition_point(|least| *least <= low);
        let wasted = at_least.len() - right;
        let ends = [at_most.get(over), at_least.get(right), Some(&within.end)];
        let high = ends
            .into_iter()
            .flatten()
            .copied()
            .fold(f64::INFINITY, f64::min);
        let here = Plateau {
            score: (over + wasted) as u64,
            low,
            high: high.max(low),
        };
        if here.order(&best).is_lt() {
            best = here;
        }
    }
    let model = Model::Log(Log::new(limit, best.middle()));
    let score = model.unexplained(evidence);
    Some((Plateau { score, ..best }, model))
}

#[cfg(test)]
mod tests;
