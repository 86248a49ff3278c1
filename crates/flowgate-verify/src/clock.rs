//! The clock that a limiter reads. Many clocks advance in ticks, and only the responses show when they tick.

use crate::Observation;
use crate::evidence::Evidence;
use crate::fit::{Fit, Hints};
use crate::search::{Reach, SEARCHES};

/// Known tick lengths, in nanoseconds: whole milliseconds, kernel clocks that tick 250 or 100 times per second, and whole seconds.
const TICKS: [f64; 4] = [SHORTEST_TICK, 4e6, 1e7, 1e9];

/// A whole millisecond.
pub(crate) const SHORTEST_TICK: f64 = 1e6;

/// Number of tick phases that are tried. A phase that is off by less than a tick may be late.
const PHASES: u32 = 32;

/// Jitter of a tick, as a share of its length.
const OFF: f64 = 0.05;

/// A tick is too short to matter if one token takes more than this many ticks.
const TOO_SHORT: f64 = 128.0;

/// With at most this many ticks per refill, the algorithm is not observable.
const TOO_LONG: f64 = 2.0;

/// Maximum number of responses on which tick phases are tried.
const SAMPLE: usize = 2_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clock {
    /// Length of a tick, in nanoseconds; 0 for an exact clock.
    tick: f64,
    /// Time of one of the ticks.
    phase: f64,
    /// How much earlier than it is a time may be read.
    early: f64,
}

impl Clock {
    /// A clock without ticks.
    pub(crate) const EXACT: Self = Self {
        tick: 0.0,
        phase: 0.0,
        early: 0.0,
    };

    /// A clock of whole milliseconds whose ticks are not known.
    pub(crate) const WHOLE_MILLISECONDS: Self = Self {
        early: SHORTEST_TICK,
        ..Self::EXACT
    };

    /// Returns the tick length in nanoseconds, if the clock ticks.
    pub(crate) fn tick(self) -> Option<f64> {
        (self.tick > 0.0).then_some(self.tick)
    }

    /// Returns whether the clock ticks often enough to observe an algorithm that forgets everything after `memory`.
    pub(crate) fn can_see(self, memory: f64) -> bool {
        memory > TOO_LONG * self.tick
    }

    /// Returns the earliest time that the clock can show at `at`.
    pub(crate) fn earliest(self, at: f64) -> f64 {
        self.shows(at - OFF * self.tick) - self.early
    }

    /// Returns the latest time that the clock can show at `at`.
    pub(crate) fn latest(self, at: f64) -> f64 {
        self.shows(at + OFF * self.tick)
    }

    fn shows(self, at: f64) -> f64 {
        if self.tick == 0.0 {
            return at;
        }
        self.phase + ((at - self.phase) / self.tick).floor() * self.tick
    }
}

/// Returns clocks with ticks that may be consistent with `record`, the shortest tick first; each with its best phase.
///
/// `exactly` holds the best fits for an exact clock.
pub(crate) fn clocks(record: &[Observation], hints: &Hints, exactly: &[Fit]) -> Vec<Clock> {
    let sample = &record[..record.len().min(SAMPLE)];
    let blur = Evidence::of(record).blur();
    let matters = |clock: &Clock| {
        // Responses that take longer than a tick do not show it.
        let is_shown = blur <= clock.tick;
        exactly.first().is_some_and(|best| {
            let (interval, memory) = (1e9 / best.model.rate(), best.model.memory());
            is_shown && interval < TOO_SHORT * clock.tick && clock.can_see(memory)
        })
    };
    let ticks = TICKS.map(|tick| Clock {
        tick,
        ..Clock::EXACT
    });
    let ticks = ticks.into_iter().filter(matters);
    ticks
        .filter_map(|clock| best_phase(clock.tick, sample, hints, exactly))
        .collect()
}

/// Returns the phase with the fewest inconsistent responses; of several, the one in the middle.
fn best_phase(tick: f64, sample: &[Observation], hints: &Hints, exactly: &[Fit]) -> Option<Clock> {
    let clocks = (0..PHASES).map(|index| Clock {
        tick,
        phase: tick * f64::from(index) / f64::from(PHASES),
        early: 0.0,
    });
    let clocks: Vec<Clock> = clocks.collect();
    let scores: Vec<u64> = clocks
        .iter()
        .map(|clock| unexplained(&Evidence::on(*clock, sample), hints, exactly))
        .collect();
    let n = scores.len();
    let around = |index: usize| {
        [0, 1, 2, 3].map(|away| {
            let neighbours = [index + away, index + n - away].map(|next| scores[next % n]);
            neighbours
                .iter()
                .fold(0, |sum: u64, score| sum.saturating_add(*score))
        })
    };
    (0..n)
        .min_by_key(|index| around(*index))
        .map(|index| clocks[index])
}

/// Returns the inconsistent responses of the best algorithm whose windows are not on the clock. Without ticks, one more
/// request seems to fit immediately.
fn unexplained(evidence: &Evidence, hints: &Hints, exactly: &[Fit]) -> u64 {
    let kinds = exactly.iter().filter(|fit| !fit.kind().is_on_clock());
    let found = kinds.flat_map(|fit| {
        let search = SEARCHES.iter().find(|(kind, _)| *kind == fit.kind());
        let bursts = [fit.burst.value - 1.0, fit.burst.value];
        let bursts = bursts.into_iter().filter(|burst| *burst >= 1.0);
        bursts.filter_map(move |burst| search?.1(evidence, hints, Reach::rough(burst)))
    });
    found
        .map(|(plateau, _)| plateau.score)
        .min()
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_ticks_it_shows_what_it_did_and_near_one_either() {
        let clock = Clock {
            tick: 100.0,
            phase: 30.0,
            early: 0.0,
        };
        for (at, earliest, latest) in [
            (80.0, 30.0, 30.0),
            (126.0, 30.0, 130.0),
            (134.0, 30.0, 130.0),
            (140.0, 130.0, 130.0),
            (-60.0, -70.0, -70.0),
        ] {
            assert_eq!(clock.earliest(at), earliest, "{at}");
            assert_eq!(clock.latest(at), latest, "{at}");
        }
        assert_eq!(Clock::EXACT.earliest(7.5), 7.5);
        assert_eq!(Clock::EXACT.latest(7.5), 7.5);
    }
}
