//! Search for sliding windows of two counters.

use std::iter::repeat;

use super::track::{Place, Tracked, track};
use super::{Reach, parts_for};
use crate::evidence::Evidence;
use crate::fit::Hints;
use crate::models::{Bounds, Counter, Model, Periods};
use crate::plateau::{Plateau, as_good_as};

/// Number of phases that are tried.
const PHASES: u32 = 32;

/// Relative uncertainty of the estimated length.
const OFF: f64 = 0.06;

/// Periods that follow the requests are looked for up to this multiple of the estimated length.
const WIDE: f64 = 1.15;

/// Factor by which they may lie outside what a shorter prefix allows.
const CLOSE: f64 = 1.001;

/// Number of lengths that are tried in each range, and of ranges that are followed after each prefix.
const STEPS: usize = 24;
const FIRST_KEPT: usize = 40;
const KEPT: [usize; 4] = [12, 6, 3, 2];

/// Leaving more than 1 in this many responses of a prefix unexplained rules a length out.
const HOPELESS: u64 = 8;

/// Windows on the clock, unless periods that follow the requests explain more.
pub(super) fn counter(
    evidence: &Evidence,
    hints: &Hints,
    reach: Reach,
) -> Option<(Plateau, Model)> {
    let counters = Counters {
        limit: reach.burst,
        rate: hints.rate,
    };
    let on_clock = track(&counters, &parts_for(hints, reach))?;
    if on_clock.0.score == 0 {
        return Some(on_clock);
    }
    let on_request = periods(evidence, hints, reach, on_clock.0.score);
    on_request.or(Some(on_clock))
}

/// Returns the periods that leave less than `least` unexplained.
///
/// Each length has one begin of the periods, so no phase is searched.
fn periods(
    evidence: &Evidence,
    hints: &Hints,
    reach: Reach,
    least: u64,
) -> Option<(Plateau, Model)> {
    let of = |period| {
        Model::Periods(Periods {
            limit: reach.burst,
            period,
            counts_refused: false,
        })
    };
    let rough = std::slice::from_ref(evidence);
    let parts = if reach.is_rough() {
        rough
    } else {
        &hints.all_parts
    };
    let guess = reach.burst / hints.rate;
    let share = (2.0 * WIDE.ln() / reach.steps as f64).exp();
    let places = (0..reach.steps).map(|index| guess / WIDE * share.powf(index as f64 + 0.5));
    let first = parts.first()?;
    let mut places: Vec<(u64, f64)> = places
        .map(|at| (of(at).unexplained(first), at))
        .filter(|(score, _)| score * HOPELESS <= first.len())
        .collect();
    places.sort_by_key(|(score, _)| *score);
    let places = places.into_iter().take(FIRST_KEPT);
    let mut near: Vec<(f64, f64)> = places.map(|(_, at)| (at / share, at * share)).collect();
    let mut found = Vec::new();
    // A small error in the length accumulates, as in `track`.
    for (part, kept) in parts.iter().zip(KEPT.into_iter().chain(repeat(1))) {
        let score = |period| of(period).unexplained(part);
        let scan = |(low, high)| Plateau::find(low, high, STEPS, score);
        found = near.into_iter().map(scan).collect();
        // A longer prefix leaves no less unexplained.
        found.retain(|found| found.score < least);
        found.sort_by(Plateau::order);
        found.dedup_by(|a, b| a.low <= b.high && a.high >= b.low);
        found.truncate(kept);
        let ends = found.iter();
        near = ends
            .map(|found| (found.low / CLOSE, found.high * CLOSE))
            .collect();
    }
    let best = found.into_iter().next()?;
    let score = |period| of(period).unexplained(evidence);
    let most = as_good_as(best.score, evidence.len());
    Some((best.widened(most, score), of(best.middle())))
}

/// Both variants: a whole request must fit, or any free capacity is enough.
struct Counters {
    limit: f64,
    rate: f64,
}

impl Counters {
    fn at(&self, place: Place<f64>) -> Counter {
        Counter {
            limit: self.limit,
            window: place.length,
            phase: place.phase,
            spare: place.kind,
        }
    }
}

impl Tracked for Counters {
    /// The free capacity that one more request needs.
    type DetectedKind = f64;
    type Part<'a> = (&'a Evidence, Bounds);

    fn places(&self, first: &Evidence) -> Vec<Place<f64>> {
        let limit = self.limit;
        let middle = (first.began() + first.ended()) / 2.0;
        let sorts = [Counter::WHOLE, Counter::ANY].into_iter();
        sorts
            .flat_map(|spare| {
                // The free capacity is never used.
                let guess = (limit - spare).max(limit / 2.0) / self.rate;
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
    }

    fn part<'a>(&self, evidence: &'a Evidence) -> (&'a Evidence, Bounds) {
        (evidence, Bounds::of_counters(self.limit, evidence))
    }

    fn unexplained_within(
        &self,
        (evidence, bounds): &(&Evidence, Bounds),
        place: Place<f64>,
        most: u64,
    ) -> u64 {
        let counter = self.at(place);
        bounds.unexplained_within(
            counter.window,
            most,
            |most| counter.over(evidence, most),
            |most| counter.wasted(evidence, most),
        )
    }

    fn model(&self, place: Place<f64>) -> Model {
        Model::Counter(self.at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::super::track::tests::{counts_as_its_model, evidence};
    use super::*;

    #[test]
    fn what_is_made_ready_counts_as_the_model_does() {
        for limit in [1.0, 7.0] {
            let counters = Counters { limit, rate: 1e-7 };
            counts_as_its_model(&counters, &evidence());
        }
    }
}
