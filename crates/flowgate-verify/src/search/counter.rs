//! Search for sliding windows of two counters.

use super::track::{Place, Tracked, track};
use super::{Reach, parts_for};
use crate::evidence::Evidence;
use crate::fit::Hints;
use crate::models::{Bounds, Counter, Model};
use crate::plateau::Plateau;

/// Number of phases that are tried.
const PHASES: u32 = 32;

/// Relative uncertainty of the estimated length.
const OFF: f64 = 0.06;

pub(super) fn counter(_: &Evidence, hints: &Hints, reach: Reach) -> Option<(Plateau, Model)> {
    let counters = Counters {
        limit: reach.burst,
        rate: hints.rate,
    };
    track(&counters, &parts_for(hints, reach))
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
