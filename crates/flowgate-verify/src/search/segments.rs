//! Windows on a clock, whole or in segments.

use super::track::{Place, track};
use super::{Reach, parts_for};
use crate::evidence::Evidence;
use crate::fit::{BLUR, Hints};
use crate::models::{Model, Segments};
use crate::plateau::Plateau;

/// Numbers of segments that are tried, the current one included: those that people take, or one more.
const COUNTS: [u32; 10] = [2, 3, 4, 5, 6, 7, 10, 11, 13, 21];

/// Lengths of each that are tried at most.
const MOST_LENGTHS: f64 = 100.0;

/// Phases of each that are tried.
const PHASES: u32 = 16;

/// A fixed window.
pub(super) fn on_clock(
    evidence: &Evidence,
    hints: &Hints,
    reach: Reach,
) -> Option<(Plateau, Model)> {
    segments(evidence, hints, reach, &[1])
}

/// Two segments or more.
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
    let limit = reach.burst;
    let guess = limit / hints.rate;
    let model = |place: Place<u32>| {
        Model::Segments(Segments {
            limit,
            window: place.length * f64::from(place.kind),
            phase: place.phase,
            count: place.kind,
        })
    };
    let least = BLUR * evidence.blur();
    let places = |first: &Evidence| {
        let middle = (first.began() + first.ended()) / 2.0;
        let windows = ((first.ended() - first.began()) / guess).max(1.0);
        let segment = |count: u32| guess / f64::from(count);
        // One at a time does not show more than two segments.
        let counts = counts
            .iter()
            .copied()
            .filter(|count| limit > 1.0 || *count <= 2);
        let counts = counts.filter(|count| segment(*count) > least);
        counts
            .flat_map(|count| {
                // From the middle to either end, boundaries are off by an eighth of a segment at most.
                let step = segment(count) / windows / 2.0;
                let (low, high) = (guess * reach.low, guess * reach.high);
                let lengths = ((high - low) / step).ceil().clamp(4.0, MOST_LENGTHS);
                let step = (high - low) / lengths;
                (0..lengths as u32).flat_map(move |length| {
                    (0..PHASES).map(move |phase| Place {
                        kind: count,
                        length: (low + (f64::from(length) + 0.5) * step) / f64::from(count),
                        phase: middle + segment(count) * f64::from(phase) / f64::from(PHASES),
                    })
                })
            })
            .collect()
    };
    // A plateau of whole windows, as for other kinds.
    let (plateau, model) = track(&parts_for(hints, reach), places, model)?;
    let scale = model.window().unwrap_or(1.0) / plateau.middle();
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
