//! Search for windows on the clock, whole or in segments.

use super::track::{Place, Tracked, track};
use super::{Reach, parts_for};
use crate::evidence::Evidence;
use crate::fit::{BLUR, Hints};
use crate::models::{Bounds, Model, Pairs, PairsByLength, Segments};
use crate::plateau::Plateau;

/// Numbers of segments that are tried, including the current one: common numbers, and one more.
const COUNTS: [u32; 10] = [2, 3, 4, 5, 6, 7, 10, 11, 13, 21];

/// Maximum number of lengths that are tried for each.
const MOST_LENGTHS: f64 = 100.0;

/// Number of phases that are tried for each.
const PHASES: u32 = 16;

/// Searches for a fixed window.
pub(super) fn on_clock(
    evidence: &Evidence,
    hints: &Hints,
    reach: Reach,
) -> Option<(Plateau, Model)> {
    segments(evidence, hints, reach, &[1])
}

/// Searches for two segments or more.
pub(super) fn in_segments(
    evidence: &Evidence,
    hints: &Hints,
    reach: Reach,
) -> Option<(Plateau, Model)> {
    segments(evidence, hints, reach.narrow(), &COUNTS)
}

fn segments(
    evidence: &Evidence,
    hints: &Hints,
    reach: Reach,
    counts: &[u32],
) -> Option<(Plateau, Model)> {
    let guess = reach.burst / hints.rate;
    let windows = Windows {
        limit: reach.burst,
        guess,
        low: guess * reach.low,
        high: guess * reach.high,
        least: BLUR * evidence.blur(),
        counts,
    };
    // A plateau of whole windows, as for other algorithms.
    let (plateau, model) = track(&windows, &parts_for(hints, reach))?;
    let scale = match model {
        Model::Segments(segments) => f64::from(segments.count),
        _ => 1.0,
    };
    let (low, high) = (plateau.low * scale, plateau.high * scale);
    Some((
        Plateau {
            low,
            high,
            ..plateau
        },
        model,
    ))
}

/// Windows of this many segments, of about this length.
struct Windows<'a> {
    limit: f64,
    guess: f64,
    low: f64,
    high: f64,
    /// Minimum length of a segment.
    least: f64,
    counts: &'a [u32],
}

impl Windows<'_> {
    fn at(&self, place: Place<u32>) -> Segments {
        Segments {
            limit: self.limit,
            window: place.length * f64::from(place.kind),
            phase: place.phase,
            count: place.kind,
        }
    }
}

impl Tracked for Windows<'_> {
    /// The number of segments.
    type DetectedKind = u32;
    type Part<'a> = (PairsByLength, Bounds);

    fn places(&self, first: &Evidence) -> Vec<Place<u32>> {
        let middle = (first.began() + first.ended()) / 2.0;
        let windows = ((first.ended() - first.began()) / self.guess).max(1.0);
        let segment = |count: u32| self.guess / f64::from(count);
        // A limit of one does not show more than two segments.
        let counts = self.counts.iter().copied();
        let counts = counts.filter(|count| self.limit > 1.0 || *count <= 2);
        let counts = counts.filter(|count| segment(*count) > self.least);
        counts
            .flat_map(|count| {
                // From the middle to either end, boundaries are off by at most an eighth of a segment.
                let step = segment(count) / windows / 2.0;
                let wide = self.high - self.low;
                let lengths = (wide / step).ceil().clamp(4.0, MOST_LENGTHS);
                let step = wide / lengths;
                (0..lengths as u32).flat_map(move |length| {
                    (0..PHASES).map(move |phase| Place {
                        kind: count,
                        length: (self.low + (f64::from(length) + 0.5) * step) / f64::from(count),
                        phase: middle + segment(count) * f64::from(phase) / f64::from(PHASES),
                    })
                })
            })
            .collect()
    }

    fn part(&self, evidence: &Evidence) -> (PairsByLength, Bounds) {
        (
            Pairs::of(self.limit as usize, evidence).by_length(),
            Bounds::of(self.limit, evidence),
        )
    }

    fn unexplained_within(
        &self,
        (pairs, bounds): &(PairsByLength, Bounds),
        place: Place<u32>,
        most: u64,
    ) -> u64 {
        let segments = self.at(place);
        bounds.unexplained_within(
            segments.window,
            most,
            |most| segments.over_within(pairs, most),
            |most| segments.wasted_within(pairs, most),
        )
    }

    fn model(&self, place: Place<u32>) -> Model {
        Model::Segments(self.at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::super::track::tests::{counts_as_its_model, evidence};
    use super::*;

    #[test]
    fn what_is_made_ready_counts_as_the_model_does() {
        let windows = Windows {
            limit: 7.0,
            guess: 7e7,
            low: 5e7,
            high: 9e7,
            least: 0.0,
            counts: &[1, 2, 5],
        };
        counts_as_its_model(&windows, &evidence());
    }
}
