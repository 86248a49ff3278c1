//! Sliding windows of two counters.

use super::track::{Place, track};
use super::{Reach, parts_for};
use crate::evidence::Evidence;
use crate::fit::Hints;
use crate::models::{Counter, Model};
use crate::plateau::Plateau;

/// Phases that are tried.
const PHASES: u32 = 32;

/// By how much the guess of a length may be off.
const OFF: f64 = 0.06;

/// Of either sort: one more has to fit as a whole, or anything free is enough.
pub(super) fn counter(_: &Evidence, hints: &Hints, reach: Reach) -> Option<(Plateau, Model)> {
    let limit = reach.burst;
    let model = |place: Place<f64>| {
        Model::Counter(Counter {
            limit,
            window: place.length,
            phase: place.phase,
            spare: place.kind,
        })
    };
    let places = |first: &Evidence| {
        let middle = (first.began() + first.ended()) / 2.0;
        let sorts = [Counter::WHOLE, Counter::ANY].into_iter();
        sorts
            .flat_map(|spare| {
                // What must be free is never used.
                let guess = (limit - spare).max(limit / 2.0) / hints.rate;
                let wide = OFF + 0.8 / limit;
                let lengths = (wide * 200.0).ceil() as u32;
                (0..lengths).flat_map(move |length| {
                    let part = (f64::from(length) + 0.5) / f64::from(lengths);
                    (0..PHASES).map(move |phase| Place {
                        kind: spare,
                        length: guess * (1.0 - wide + 2.0 * wide * part),
                        phase: middle + guess * f64::from(phase) / f64::from(PHASES),
                    })
                })
            })
            .collect()
    };
    track(&parts_for(hints, reach), places, model)
}
