//! Sliding windows of two counters: a length and a phase that cannot be seen by themselves.

use super::Reach;
use crate::evidence::Evidence;
use crate::fit::Hints;
use crate::models::{Counter, Model};
use crate::plateau::Plateau;

/// Pairs of a length and a phase that are looked at more closely.
const CLOSER: usize = 6;

/// Lengths that are tried with the whole record at most.
const LENGTHS: f64 = 240.0;

/// Of either sort.
pub(super) fn counter(evidence: &Evidence, hints: &Hints, reach: Reach) -> (Plateau, Model) {
    let whole = counter_of(evidence, hints, reach, Counter::WHOLE);
    let any = counter_of(evidence, hints, reach, Counter::ANY);
    if any.0.score < whole.0.score {
        any
    } else {
        whole
    }
}

/// An even stream looks alike for many phases: it is admitted in even steps, and a phase that is off by one step is as
/// good. So volleys decide first, and only then the whole record, in which a length that is a little off adds up.
fn counter_of(evidence: &Evidence, hints: &Hints, reach: Reach, spare: f64) -> (Plateau, Model) {
    let limit = reach.burst;
    // What must be free is never used.
    let guess = (limit - spare).max(limit / 2.0) / hints.rate;
    let volleys = &hints.volleys;
    let middle = (volleys.began() + volleys.ended()) / 2.0;
    let wide = 0.1 + 0.8 / limit;
    let fine = (wide * 200.0) as u32;
    let (lengths, phases) = if reach.is_rough() {
        (fine / 2, 20)
    } else {
        (fine, 40)
    };
    let mut grid: Vec<(u64, Place)> = (0..lengths * phases)
        .map(|index| {
            let (length, phase) = (index / phases, index % phases);
            let window = guess * (1.0 - wide + 2.0 * wide * f64::from(length) / f64::from(lengths));
            let phase = middle + window * f64::from(phase) / f64::from(phases);
            let place = Place {
                limit,
                spare,
                window,
                phase,
            };
            (place.unexplained(volleys), place)
        })
        .collect();
    grid.sort_by_key(|(score, _)| *score);
    grid.truncate(if reach.is_rough() { 1 } else { CLOSER });
    let closer = grid.iter().map(|(_, place)| {
        let (_, place) = place.closer(volleys, 0.03, 0.03);
        place.closer(volleys, 0.01, 0.01)
    });
    let best = closer.min_by_key(|(plateau, _)| plateau.score);
    let Some((plateau, place)) = best else {
        let nothing = Plateau {
            score: u64::MAX,
            low: guess,
            high: guess,
        };
        return (
            nothing,
            Place {
                limit,
                spare,
                window: guess,
                phase: middle,
            }
            .model(),
        );
    };
    if reach.is_rough() {
        return (plateau, place.model());
    }
    let windows = |part: &Evidence| ((part.ended() - part.began()) / place.window).max(1.0);
    let farthest = windows(evidence);
    // At most half of it: what is left is a window.
    let off = (2.0 / (limit * windows(volleys))).min(0.5);
    let steps = (16.0 * off * limit * farthest).clamp(16.0, LENGTHS) as usize;
    let (low, high) = (place.window * (1.0 - off), place.window * (1.0 + off));
    let found = Plateau::find(low, high, steps, |next| {
        place.with(next).unexplained(evidence)
    });
    let place = place.with(found.middle());
    let (_, place) = place.closer(evidence, 0.5 / limit, 0.5 / (limit * farthest));
    let (plateau, place) = place.closer(evidence, 0.2 / limit, 0.2 / (limit * farthest));
    (plateau, place.model())
}

/// A length, and a boundary from which windows are counted either way.
#[derive(Clone, Copy)]
struct Place {
    limit: f64,
    spare: f64,
    window: f64,
    phase: f64,
}

impl Place {
    fn model(self) -> Model {
        let Self {
            limit,
            spare,
            window,
            phase,
        } = self;
        Model::Counter(Counter {
            limit,
            window,
            phase,
            spare,
        })
    }

    fn with(self, window: f64) -> Self {
        Self { window, ..self }
    }

    fn unexplained(self, part: &Evidence) -> u64 {
        self.model().unexplained(part)
    }

    /// The best phase within this part of a window, and then the best length.
    fn closer(self, part: &Evidence, phase: f64, length: f64) -> (Plateau, Self) {
        let reach = phase * self.window;
        let phases = Plateau::find(self.phase - reach, self.phase + reach, 16, |phase| {
            Self { phase, ..self }.unexplained(part)
        });
        let place = Self {
            phase: phases.middle(),
            ..self
        };
        let reach = length * self.window;
        let lengths = Plateau::find(self.window - reach, self.window + reach, 16, |window| {
            place.with(window).unexplained(part)
        });
        (lengths, place.with(lengths.middle()))
    }
}
