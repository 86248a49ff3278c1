//! Lengths and phases of windows on an unknown clock.
//!
//! A small error in the length accumulates from window to window. Over a long record, the right length is therefore
//! hard to find; over a few windows it is not. So the search tries all pairs of a length and a phase on the beginning,
//! and follows the best through longer and longer prefixes, each of which determines them more exactly.
//!
//! The parameters that fit a prefix form a narrow strip, whose direction depends on the requests. Differential
//! evolution (R. Storn, K. Price, 1997) moves along the strip: its steps are differences between good pairs.

use fastrand::Rng;

use crate::evidence::Evidence;
use crate::fit::seen_vaguely;
use crate::models::Model;
use crate::plateau::{FINEST, Plateau, as_good_as, edge};

/// Size of the population, at first and later on.
const FIRST_POPULATION: usize = 60;
const POPULATION: usize = 20;

/// Number of variants that are followed after each prefix.
const KINDS: [usize; 4] = [6, 3, 2, 1];

/// Number of generations: for the first prefix, for each one, and at most for the last.
const FIRST_GENERATIONS: usize = 30;
const GENERATIONS: usize = 10;
const LAST_GENERATIONS: usize = 24;

/// Number of phases in the width of the best ones that are tried for another length.
const AROUND: i32 = 12;

/// Distance of the lengths around the best one that are tried with every phase, as a share.
const APART: f64 = 0.005;

/// Leaving more than 1 in this many responses inconsistent means that the search was misled.
const ASTRAY: u64 = 500;

/// Leaving more than 1 in this many responses of a prefix inconsistent rules a place out.
const HOPELESS: u64 = 4;

/// A length and a phase, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<K> {
    /// The variant of the algorithm.
    pub(super) kind: K,
    /// Length of the period.
    pub(super) length: f64,
    /// A boundary; others follow in both directions.
    pub(super) phase: f64,
}

/// Places of one variant, each with its number of inconsistent responses.
struct Population<K> {
    members: Vec<(u64, Place<K>)>,
}

/// An algorithm that the search tracks.
pub(super) trait Tracked {
    /// A variant of the algorithm.
    type DetectedKind: Copy + PartialEq;
    /// A prefix of the evidence, prepared for repeated scoring.
    type Part<'a>;

    /// Returns everything that is tried on the first prefix.
    fn places(&self, first: &Evidence) -> Vec<Place<Self::DetectedKind>>;

    fn part<'a>(&self, evidence: &'a Evidence) -> Self::Part<'a>;

    /// Counts the responses of a prefix that are inconsistent with a place. Stops early beyond `most`.
    fn unexplained_within(
        &self,
        part: &Self::Part<'_>,
        place: Place<Self::DetectedKind>,
        most: u64,
    ) -> u64;

    fn model(&self, place: Place<Self::DetectedKind>) -> Model;
}

/// Returns the best place at the end, and the range of its length. Each of `starts` is a list of prefixes of increasing
/// length; the next list is used if the previous one was misleading.
pub(super) fn track<T: Tracked>(tracked: &T, starts: &[&[Evidence]]) -> Option<(Plateau, Model)> {
    let mut best: Option<(Plateau, Model)> = None;
    for parts in starts {
        let found = track_from(tracked, parts)?;
        if best.is_none_or(|(best, _)| found.0.score < best.score) {
            best = Some(found);
        }
        let left = best.map_or(0, |(best, _)| best.score);
        if left * ASTRAY <= parts.last()?.len() {
            break;
        }
    }
    best
}

fn track_from<T: Tracked>(tracked: &T, parts: &[Evidence]) -> Option<(Plateau, Model)> {
    let first = parts.first()?;
    let part = tracked.part(first);
    let score = |place: Place<T::DetectedKind>| tracked.unexplained_within(&part, place, u64::MAX);
    let places = tracked.places(first).into_iter();
    let mut tried: Vec<_> = places.map(|place| (score(place), place)).collect();
    tried.sort_by_key(|(score, _)| *score);
    let mut populations: Vec<Population<T::DetectedKind>> = Vec::new();
    for (score, place) in tried {
        let is_its = |known: &Population<T::DetectedKind>| known.members[0].1.kind == place.kind;
        match populations.iter().position(is_its) {
            Some(index) if populations[index].members.len() < FIRST_POPULATION => {
                populations[index].members.push((score, place));
            }
            None => populations.push(Population {
                members: vec![(score, place)],
            }),
            _ => {}
        }
    }
    let mut rng = Rng::with_seed(0);
    let mut plateau = None;
    let mut is_hopeless = false;
    for (index, evidence) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        if is_hopeless && !is_last {
            continue;
        }
        let part = tracked.part(evidence);
        let too_much = evidence.len() / HOPELESS;
        let score = |place: Place<T::DetectedKind>, most: u64| {
            tracked.unexplained_within(&part, place, most)
        };
        let generations = match index {
            _ if is_hopeless => 0,
            0 => FIRST_GENERATIONS,
            _ if is_last => LAST_GENERATIONS,
            _ => GENERATIONS,
        };
        for population in &mut populations {
            population.align(evidence);
            population.rescore(&score);
            for _ in 0..generations {
                if is_last && population.best().0 == 0 {
                    break;
                }
                population.evolve(&score, &mut rng);
            }
        }
        populations.sort_by_key(|population| population.best().0);
        populations.truncate(KINDS[index.min(KINDS.len() - 1)]);
        if populations.first()?.best().0 > too_much {
            is_hopeless = true;
            populations.truncate(1);
        }
        for population in &mut populations {
            population.members.sort_by_key(|(score, _)| *score);
            population.members.truncate(POPULATION);
        }
        if is_last {
            let best = populations.first()?;
            let (least, place) = best.middle(&score);
            let (low, high) = range(tracked, evidence, place);
            let (score, model) = (least, tracked.model(place));
            plateau = Some((Plateau { score, low, high }, model));
        }
    }
    plateau
}

impl<K: Copy> Population<K> {
    fn best(&self) -> (u64, Place<K>) {
        let mut best = self.members[0];
        for member in &self.members {
            if member.0 < best.0 {
                best = *member;
            }
        }
        best
    }

    /// Moves the best to the boundary nearest to the middle of `part`, and all others to the same boundary.
    fn align(&mut self, part: &Evidence) {
        let best = self.best().1;
        let middle = best.boundary_near((part.began() + part.ended()) / 2.0);
        for (_, place) in &mut self.members {
            place.phase = place.boundary_near(middle);
        }
    }

    fn rescore(&mut self, score: &impl Fn(Place<K>, u64) -> u64) {
        for (known, place) in &mut self.members {
            *known = score(*place, u64::MAX);
        }
    }

    /// Lets a new place compete with each.
    fn evolve(&mut self, score: &impl Fn(Place<K>, u64) -> u64, rng: &mut Rng) {
        let n = self.members.len();
        for index in 0..n {
            let [a, b, c] = [(); 3].map(|()| self.members[rng.usize(0..n)].1);
            // From another place, or sometimes from the best.
            let from = if rng.u8(0..4) > 0 { a } else { self.best().1 };
            let step = 0.2 + 0.8 * rng.f64();
            let next = Place {
                length: from.length + step * (b.length - c.length),
                phase: from.phase + step * (b.phase - c.phase),
                ..from
            };
            let (known, _) = self.members[index];
            let scored = score(next, known);
            if scored <= known {
                self.members[index] = (scored, next);
            }
        }
    }

    /// Returns the fewest inconsistent responses, and the place in the middle of those that have them.
    fn middle(&self, score: &impl Fn(Place<K>, u64) -> u64) -> (u64, Place<K>) {
        let (least, best) = self.best();
        let alike = || {
            self.members
                .iter()
                .filter(|(score, _)| *score == least)
                .map(|(_, place)| place)
        };
        let count = alike().count() as f64;
        let middle = Place {
            length: alike().map(|place| place.length).sum::<f64>() / count,
            phase: alike().map(|place| place.phase).sum::<f64>() / count,
            ..best
        };
        let is_as_good = score(middle, least) <= least;
        (least, if is_as_good { middle } else { best })
    }
}

/// Returns the range of lengths that are about as good as that of `place`, each with its best phase.
fn range<T: Tracked>(
    tracked: &T,
    evidence: &Evidence,
    place: Place<T::DetectedKind>,
) -> (f64, f64) {
    let seen = seen_vaguely(evidence, &tracked.model(place));
    let part = tracked.part(seen.as_ref().unwrap_or(evidence));
    let least = tracked.unexplained_within(&part, place, u64::MAX);
    let most = as_good_as(least, evidence.len());
    let holds = |length: f64, phase: f64| {
        let other = Place {
            length,
            phase,
            ..place
        };
        tracked.unexplained_within(&part, other, most) <= most
    };
    let [early, late] = [-1.0, 1.0].map(|sign| {
        let furthest = place.phase + sign * place.length / 2.0;
        let step = sign * FINEST * place.length;
        edge(place.phase, step, furthest, |phase| {
            holds(place.length, phase)
        })
    });
    // The best phase moves with the length.
    let wide = (late - early).max(FINEST * place.length);
    let phases = |k: i32| (early + late) / 2.0 + wide * f64::from(k) / f64::from(AROUND);
    let holds_somewhere =
        |length: f64| (-2 * AROUND..=2 * AROUND).any(|k| holds(length, phases(k)));
    // Over a few windows, lengths further away may explain as much, with other phases.
    let whole = |k: i32| place.phase + place.length * f64::from(k) / f64::from(4 * AROUND);
    let holds_elsewhere = |length: &f64| (0..4 * AROUND).any(|k| holds(*length, whole(k)));
    let others = (-AROUND..=AROUND).map(|k| place.length * (1.0 + f64::from(k) * APART));
    let others: Vec<f64> = others.filter(holds_elsewhere).collect();
    let [low, high] = [-1.0, 1.0].map(|sign| {
        let furthest = place.length * if sign < 0.0 { 0.5 } else { 2.0 };
        let step = sign * FINEST * place.length;
        edge(place.length, step, furthest, holds_somewhere)
    });
    let low = others.iter().copied().fold(low, f64::min);
    (low, others.iter().copied().fold(high, f64::max))
}

impl<K> Place<K> {
    fn boundary_near(&self, at: f64) -> f64 {
        self.phase + ((at - self.phase) / self.length).round() * self.length
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::models::Bucket;
    use crate::{Phase, Probe, ProbeBatch, ProbeSubject, Simulated};

    /// Returns the responses of a bucket with 100/s and a burst of 7, offered three times the rate over four
    /// connections.
    pub(in crate::search) fn evidence() -> Evidence {
        let bucket = Bucket {
            interval: 1e7,
            burst: 7.0,
        };
        let mut decide = bucket.start();
        let mut subject = Simulated::new(|question| decide(question.at_ns as f64).into())
            .service(Duration::from_millis(3), 1);
        let probes = (0..500).map(|index| Probe {
            at_ns: u64::from(index / 5) * 16_000_000,
            connection: index % 4,
            key: 0,
        });
        let Ok(seen) = subject.send(&ProbeBatch {
            phase: Phase::Shape,
            probes: probes.collect(),
        });
        Evidence::of(&seen)
    }

    /// Asserts that a prepared prefix scores exactly like the model, up to `most`.
    pub(in crate::search) fn counts_as_its_model<T: Tracked>(tracked: &T, evidence: &Evidence) {
        let part = tracked.part(evidence);
        for place in tracked.places(evidence) {
            let unexplained = tracked.model(place).unexplained(evidence);
            let exactly = tracked.unexplained_within(&part, place, u64::MAX);
            assert_eq!(exactly, unexplained);
            for most in [0, unexplained / 2, unexplained] {
                let within = tracked.unexplained_within(&part, place, most);
                assert_eq!(within > most, unexplained > most, "{most}");
                assert!(within > most || within == unexplained, "{most}");
            }
        }
    }
}
