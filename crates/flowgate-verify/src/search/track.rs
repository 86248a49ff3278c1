//! Lengths and phases of windows on a clock that cannot be seen.
//!
//! A length that is a little off adds up from window to window, so over a long record the right one is a needle in a
//! haystack. Over a few windows it is not. So all pairs of a length and a phase are tried on the beginning, and the best
//! of them followed through longer and longer parts, each of which says more exactly what it has to be.
//!
//! What fits a part is a narrow strip across lengths and phases, in a direction that depends on what was asked when.
//! Differential evolution (R. Storn, K. Price, 1997) goes along it: steps are differences of pairs that are good.

use fastrand::Rng;

use crate::evidence::Evidence;
use crate::models::Model;
use crate::plateau::Plateau;

/// Places that evolve together, at first and later on.
const FIRST_POPULATION: usize = 60;
const POPULATION: usize = 20;

/// How many kinds are followed beyond each part.
const KINDS: [usize; 4] = [6, 3, 2, 1];

/// Generations for the first part, for each, and at most for the last, until all is explained.
const FIRST_GENERATIONS: usize = 30;
const GENERATIONS: usize = 10;
const LAST_GENERATIONS: usize = 24;

/// To leave more than this part of the answers unexplained is to have gone astray.
const ASTRAY: u64 = 500;

/// A length and a phase, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<K> {
    /// What else there is to the kind.
    pub(super) kind: K,
    /// Of what repeats.
    pub(super) length: f64,
    /// A boundary, from which they are counted either way.
    pub(super) phase: f64,
}

/// Places of one kind, each with what it leaves unexplained.
struct Population<K> {
    members: Vec<(u64, Place<K>)>,
}

/// The best place to end up with, and how far its length may vary. Each of `starts` is a
/// list of longer and longer parts; the next is for when the one before has led astray. `places` are all that are tried
/// on the first part.
pub(super) fn track<K: Copy + PartialEq>(
    starts: &[&[Evidence]],
    places: impl Fn(&Evidence) -> Vec<Place<K>>,
    model: impl Fn(Place<K>) -> Model,
) -> Option<(Plateau, Model)> {
    let mut best: Option<(Plateau, Model)> = None;
    for parts in starts {
        let found = track_from(parts, places(parts.first()?), &model)?;
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

fn track_from<K: Copy + PartialEq>(
    parts: &[Evidence],
    places: Vec<Place<K>>,
    model: &impl Fn(Place<K>) -> Model,
) -> Option<(Plateau, Model)> {
    let first = parts.first()?;
    let score =
        |place: Place<K>, part: &Evidence, most: u64| model(place).unexplained_within(part, most);
    let mut tried: Vec<(u64, Place<K>)> = places
        .into_iter()
        .map(|place| (score(place, first, u64::MAX), place))
        .collect();
    tried.sort_by_key(|(score, _)| *score);
    let mut populations: Vec<Population<K>> = Vec::new();
    for (score, place) in tried {
        let is_its = |known: &Population<K>| known.members[0].1.kind == place.kind;
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
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let generations = match index {
            0 => FIRST_GENERATIONS,
            _ if is_last => LAST_GENERATIONS,
            _ => GENERATIONS,
        };
        for population in &mut populations {
            population.align(part);
            population.rescore(part, &score);
            for _ in 0..generations {
                if is_last && population.best().0 == 0 {
                    break;
                }
                population.evolve(part, &score, &mut rng);
            }
        }
        populations.sort_by_key(|population| population.best().0);
        populations.truncate(KINDS[index.min(KINDS.len() - 1)]);
        for population in &mut populations {
            population.members.sort_by_key(|(score, _)| *score);
            population.members.truncate(POPULATION);
        }
    }
    let best = populations.into_iter().next()?;
    let (plateau, place) = best.plateau(parts.last()?, &score);
    Some((plateau, model(place)))
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

    /// Names the boundary that is nearest to the middle of `part` for the best, and the same one for all others.
    fn align(&mut self, part: &Evidence) {
        let best = self.best().1;
        let middle = best.boundary_near((part.began() + part.ended()) / 2.0);
        for (_, place) in &mut self.members {
            place.phase = place.boundary_near(middle);
        }
    }

    fn rescore(&mut self, part: &Evidence, score: &impl Fn(Place<K>, &Evidence, u64) -> u64) {
        for (known, place) in &mut self.members {
            *known = score(*place, part, u64::MAX);
        }
    }

    /// Lets a new place compete with each.
    fn evolve(
        &mut self,
        part: &Evidence,
        score: &impl Fn(Place<K>, &Evidence, u64) -> u64,
        rng: &mut Rng,
    ) {
        let n = self.members.len();
        for index in 0..n {
            let [a, b, c] = [(); 3].map(|()| self.members[rng.usize(0..n)].1);
            // From another, or now and then from the best.
            let from = if rng.u8(0..4) > 0 { a } else { self.best().1 };
            let step = 0.2 + 0.8 * rng.f64();
            let next = Place {
                length: from.length + step * (b.length - c.length),
                phase: from.phase + step * (b.phase - c.phase),
                ..from
            };
            let (known, _) = self.members[index];
            let scored = score(next, part, known);
            if scored <= known {
                self.members[index] = (scored, next);
            }
        }
    }

    /// Those that leave least unexplained, and one in the middle of them.
    fn plateau(
        &self,
        part: &Evidence,
        score: &impl Fn(Place<K>, &Evidence, u64) -> u64,
    ) -> (Plateau, Place<K>) {
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
        let is_as_good = score(middle, part, least) <= least;
        let place = if is_as_good { middle } else { best };
        let off = alike()
            .map(|other| (other.length - place.length).abs())
            .fold(0.0, f64::max);
        let plateau = Plateau {
            score: least,
            low: place.length - off,
            high: place.length + off,
        };
        (plateau, place)
    }
}

impl<K> Place<K> {
    fn boundary_near(&self, at: f64) -> f64 {
        self.phase + ((at - self.phase) / self.length).round() * self.length
    }
}
