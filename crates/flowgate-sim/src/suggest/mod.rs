//! The smallest or the largest number that keeps a wish, found by deterministic runs.
//!
//! ```text
//!   kept      ●──────●──●●────●     the smallest number from which on all are kept
//!   not kept ─────●●─┘              bisection, between the first numbers, which are spread over the range
//!             1   8  16       100
//! ```

mod wish;

pub use wish::Wish;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::outcome::RunOutcome;

/// How many numbers are tried first, spread over the range.
const SPREAD: u32 = 8;
/// The most runs, unless set.
const MOST_RUNS: u32 = 40;

/// The numbers that [`suggest`] tries: rates, bursts, permits, workers or places of a queue.
///
/// ```
/// use flowgate_sim::Search;
///
/// let rates = Search::smallest(1..=10_000).most_runs(30);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    range: RangeInclusive<u64>,
    is_for_largest: bool,
    most_runs: u32,
}

impl Search {
    /// Creates a search for the smallest number, where larger ones keep the wish better.
    pub fn smallest(range: RangeInclusive<u64>) -> Self {
        Self {
            range,
            is_for_largest: false,
            most_runs: MOST_RUNS,
        }
    }

    /// Creates a search for the largest number, where smaller ones keep the wish better.
    pub fn largest(range: RangeInclusive<u64>) -> Self {
        Self {
            is_for_largest: true,
            ..Self::smallest(range)
        }
    }

    /// Sets the most runs (default: 40).
    pub fn most_runs(mut self, runs: u32) -> Self {
        self.most_runs = runs;
        self
    }
}

/// A number, and what came of the run with it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tried {
    /// The number.
    pub value: u64,
    /// Whether the run kept the wish.
    pub is_kept: bool,
    /// What the run had of what the wish is about; see [`Wish::measure`].
    pub measured: f64,
}

/// What [`suggest`] found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Suggestion {
    /// The number that keeps the wish.
    ///
    /// All numbers that were tried and are larger keep it, too; smaller ones in a search for the largest number. It is `None` if
    /// the number at the end of the range does not keep the wish.
    pub value: Option<u64>,
    /// Whether no number beyond one that fails keeps the wish, of those that were tried.
    ///
    /// If not, the wish depends on more than the size of the number.
    pub is_monotone: bool,
    /// Whether the numbers next to [`value`](Self::value) were tried. If not, the runs were used up.
    pub is_settled: bool,
    /// All numbers that were tried, in order.
    pub tried: Vec<Tried>,
}

/// Finds the smallest or the largest number with which a run keeps `wish`.
///
/// `run` runs a simulation with a number. It has the same seed each time, so that the runs differ only by the number.
///
/// # Examples
///
/// ```
/// use flowgate::{ManualClock, Quota, QuotaError, TokenBucket};
/// use flowgate_schedule::Schedule;
/// use flowgate_sim::{Arrivals, LimiterPolicy, Search, Share, Simulation, Traffic, Wish, suggest};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let schedule = Schedule::poisson("100/s".parse()?, 1, 3_000)?;
/// let simulation = Simulation::new(1, Duration::from_secs(60))
///     .traffic(Traffic::new("users", Arrivals::Scheduled(schedule)));
///
/// // How large a burst does a limit of 110/s need?
/// let wish = Wish::RefusedAtMost(Share::new(0.01));
/// let found = suggest(&wish, &Search::smallest(1..=1_000), |burst| {
///     simulation.run("burst", |time: &ManualClock| {
///         let bucket = TokenBucket::builder(Quota::per_second(110).burst(burst)).clock(time);
///         Ok::<_, QuotaError>(LimiterPolicy::rate(Arc::new(bucket.build()?)))
///     })
/// })?;
/// let burst = found.value.expect("a burst of 1,000 is enough");
/// assert!((2..100).contains(&burst), "{burst}");
/// assert!(found.is_monotone && found.is_settled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// That of `run`.
pub fn suggest<E>(
    wish: &Wish,
    search: &Search,
    mut run: impl FnMut(u64) -> Result<RunOutcome, E>,
) -> Result<Suggestion, E> {
    search.find(|value| {
        let outcome = run(value)?;
        Ok(Tried {
            value,
            is_kept: wish.is_kept(&outcome),
            measured: wish.measure(&outcome),
        })
    })
}

impl Search {
    fn find<E>(&self, mut run: impl FnMut(u64) -> Result<Tried, E>) -> Result<Suggestion, E> {
        let mut tried = BTreeMap::new();
        let mut is_settled = false;
        while (tried.len() as u64) < self.most_runs.into() {
            let Some(value) = self.next(&tried) else {
                is_settled = true;
                break;
            };
            tried.insert(value, run(value)?);
        }
        let value = self.edge(&tried).and_then(|edge| edge.keeps);
        let beyond = |tried: &Tried| match (value, self.is_for_largest) {
            (None, _) => true,
            (Some(value), false) => tried.value < value,
            (Some(value), true) => tried.value > value,
        };
        Ok(Suggestion {
            value,
            is_monotone: !tried.values().any(|tried| tried.is_kept && beyond(tried)),
            is_settled: is_settled || self.next(&tried).is_none(),
            tried: tried.into_values().collect(),
        })
    }

    /// The number to try next.
    fn next(&self, tried: &BTreeMap<u64, Tried>) -> Option<u64> {
        let (start, end) = (*self.range.start(), *self.range.end());
        let is_new = |value: &u64| self.range.contains(value) && !tried.contains_key(value);
        if let Some(first) = self.first_values().find(is_new) {
            return Some(first);
        }
        let edge = self.edge(tried)?;
        match (edge.keeps, edge.fails) {
            (Some(keeps), Some(fails)) if keeps.abs_diff(fails) > 1 => Some(between(keeps, fails)),
            // The neighbors: does one more fail, or one less succeed?
            (keeps, fails) => {
                let neighbors = [
                    keeps.and_then(|keeps| self.safer(keeps)),
                    fails
                        .filter(|_| keeps.is_some())
                        .and_then(|fails| self.riskier(fails)),
                ];
                let neighbors = neighbors.into_iter().flatten();
                neighbors
                    .filter(|value| (start..=end).contains(value))
                    .find(is_new)
            }
        }
    }

    /// Numbers spread over the range, the farther apart the larger. The one that keeps the wish best comes first.
    fn first_values(&self) -> impl Iterator<Item = u64> {
        let (start, end) = (*self.range.start(), *self.range.end());
        let ratio = (end.max(1) as f64 / start.max(1) as f64).max(1.0);
        let is_for_largest = self.is_for_largest;
        (0..SPREAD).map(move |place| {
            let place = if is_for_largest {
                place
            } else {
                SPREAD - 1 - place
            };
            let share = f64::from(place) / f64::from(SPREAD - 1);
            match place {
                0 => start,
                place if place == SPREAD - 1 => end,
                _ => (start.max(1) as f64 * libm::pow(ratio, share)) as u64,
            }
        })
    }

    /// Where the numbers that keep the wish end, from the safe end of the range on.
    fn edge(&self, tried: &BTreeMap<u64, Tried>) -> Option<Edge> {
        let mut all: Vec<&Tried> = tried.values().collect();
        if !self.is_for_largest {
            all.reverse();
        }
        all.first()?;
        let kept = all.iter().take_while(|tried| tried.is_kept).count();
        Some(Edge {
            keeps: kept.checked_sub(1).map(|last| all[last].value),
            fails: all.get(kept).map(|tried| tried.value),
        })
    }

    fn safer(&self, value: u64) -> Option<u64> {
        match self.is_for_largest {
            true => value.checked_sub(1),
            false => value.checked_add(1),
        }
    }

    fn riskier(&self, value: u64) -> Option<u64> {
        match self.is_for_largest {
            true => value.checked_add(1),
            false => value.checked_sub(1),
        }
    }
}

/// The last number that keeps the wish, with all before it, and the first one that does not.
#[derive(Clone, Copy, Debug)]
struct Edge {
    keeps: Option<u64>,
    fails: Option<u64>,
}

/// A number strictly between two: in the middle, or by ratio if they are far apart.
fn between(one: u64, other: u64) -> u64 {
    let (low, high) = (one.min(other), one.max(other));
    let middle = match low > 0 && high / low >= 4 {
        true => libm::sqrt(low as f64 * high as f64) as u64,
        false => low.midpoint(high),
    };
    middle.clamp(low + 1, high - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn find(search: &Search, is_kept: impl Fn(u64) -> bool) -> Suggestion {
        let found = search.find(|value| {
            let is_kept = is_kept(value);
            let measured = value as f64;
            Ok::<_, Infallible>(Tried {
                value,
                is_kept,
                measured,
            })
        });
        found.unwrap_or_else(|never| match never {})
    }

    #[test]
    fn bisection_finds_every_edge_in_few_runs() {
        for range in [
            1..=1_000_000_u64,
            0..=1_000,
            5..=5,
            7..=9,
            1..=1_000_000_000_000,
        ] {
            let (start, end) = (*range.start(), *range.end());
            for edge in [
                start,
                start + 1,
                (start + end) / 2,
                end / 3,
                end.saturating_sub(1),
                end,
            ] {
                if !range.contains(&edge) {
                    continue;
                }
                let found = find(&Search::smallest(range.clone()).most_runs(60), |value| {
                    value >= edge
                });
                assert_eq!(
                    (found.value, found.is_monotone, found.is_settled),
                    (Some(edge), true, true)
                );
                let found = find(&Search::largest(range.clone()).most_runs(60), |value| {
                    value <= edge
                });
                assert_eq!(
                    (found.value, found.is_monotone, found.is_settled),
                    (Some(edge), true, true)
                );
            }
        }
    }

    #[test]
    fn nothing_keeps_it_if_the_end_does_not() {
        let found = find(&Search::smallest(1..=100), |_| false);
        assert_eq!(
            (found.value, found.is_monotone, found.is_settled),
            (None, true, true)
        );
        // Two of the eight first numbers are 1.
        assert_eq!(found.tried.len(), 7);
        // Some in the middle do, and that is reported.
        let found = find(&Search::smallest(1..=100), |value| (3..90).contains(&value));
        assert_eq!((found.value, found.is_monotone), (None, false));
        assert!(found.tried.iter().any(|tried| tried.is_kept));
    }

    #[test]
    fn with_a_gap_the_number_above_the_gap_is_found() {
        let found = find(&Search::smallest(1..=1_000), |value| {
            (10..60).contains(&value) || value >= 200
        });
        assert_eq!((found.value, found.is_monotone), (Some(200), false));
        // The neighbor of the edge fails: the edge is above it.
        let found = find(&Search::smallest(1..=1_000), |value| {
            value >= 200 && value != 201
        });
        assert_eq!((found.value, found.is_monotone), (Some(202), false));
    }

    #[test]
    fn runs_are_bounded() {
        let found = find(&Search::smallest(1..=u64::MAX).most_runs(12), |value| {
            value > 1 << 40
        });
        assert_eq!((found.tried.len(), found.is_settled), (12, false));
        assert!(found.value.is_some_and(|value| value > 1 << 40));
    }
}
