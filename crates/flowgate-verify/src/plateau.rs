//! The minimum of a score, and the range over which the score stays minimal.

use std::cmp::Ordering;

/// Number of refinements of a search.
const ROUNDS: usize = 4;

/// Number of arguments of a rough scan about which others are tried, and how many.
const NEAR: usize = 12;
const CLOSER: usize = 40;

/// Number of halvings that find an end of a range.
const HALVINGS: usize = 12;

/// First step outward, as a share, from a range that is a point.
pub(crate) const FINEST: f64 = 1e-7;

/// Parameters that leave more than 1 in this many responses unexplained are those of another model.
const HOPELESS: u64 = 50;

/// A range ends at this multiple of its upper end at the latest.
const FURTHEST: f64 = 4.0;

/// A range of arguments for which a score is minimal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plateau {
    pub(crate) score: u64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Plateau {
    pub(crate) fn middle(&self) -> f64 {
        (self.low + self.high) / 2.0
    }

    pub(crate) fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    fn width(&self) -> f64 {
        self.high - self.low
    }

    /// Orders by score; among equal scores, the wider range comes first.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let width = |plateau: &Self| plateau.width() / plateau.low;
        let by_width = || width(other).total_cmp(&width(self));
        self.score.cmp(&other.score).then_with(by_width)
    }

    /// Scans from `low` to `high` in `steps` steps, then refines around the minimum.
    pub(crate) fn find(low: f64, high: f64, steps: usize, score: impl Fn(f64) -> u64) -> Self {
        let mut best = Self::scan(low, high, steps, &score);
        let mut step = (high - low) / steps as f64;
        for _ in 1..ROUNDS {
            let closer = Self::scan(best.low - step, best.high + step, 16, &score);
            step = (best.width() + 2.0 * step) / 16.0;
            if closer.score <= best.score {
                best = closer;
            }
        }
        best
    }

    /// Scans from `low` to `high` in `steps` steps, each longer by the same share, and then around the best of them.
    ///
    /// That finds a low score that is only close to one argument, while others have one by chance.
    pub(crate) fn find_narrow(
        low: f64,
        high: f64,
        steps: usize,
        score: impl Fn(f64) -> u64,
    ) -> Self {
        let step = (high / low).powf(1.0 / steps as f64);
        let mut rough: Vec<(u64, f64)> = (0..=steps)
            .map(|index| low * step.powf(index as f64))
            .map(|at| (score(at), at))
            .collect();
        rough.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let near = rough.iter().take(NEAR);
        let found = near.map(|(_, at)| Self::find(at / step, at * step, CLOSER, &score));
        found
            .min_by(Self::order)
            .unwrap_or_else(|| Self::find(low, high, steps, &score))
    }

    /// Returns this range as steps around `at`.
    pub(crate) fn around(self, at: f64) -> Self {
        Self {
            low: at,
            high: at,
            ..self
        }
    }

    /// Returns everything around this range for which the score is at most `most`.
    pub(crate) fn widened(self, most: u64, score: impl Fn(f64) -> u64) -> Self {
        let holds = |at: f64| score(at) <= most;
        let step = (self.width() / 16.0).max(self.low * FINEST);
        Self {
            low: edge(self.low, -step, 0.0, holds),
            high: edge(self.high, step, FURTHEST * self.high, holds),
            ..self
        }
    }

    /// Returns the longest run of the lowest score on a uniform grid.
    fn scan(low: f64, high: f64, steps: usize, score: impl Fn(f64) -> u64) -> Self {
        let at = |index: usize| low + (high - low) * index as f64 / steps as f64;
        let mut best: Option<Self> = None;
        let mut run: Option<Self> = None;
        for index in 0..=steps {
            let here = at(index);
            let score = score(here);
            let current = match run {
                Some(run) if run.score == score => Self { high: here, ..run },
                _ => Self {
                    score,
                    low: here,
                    high: here,
                },
            };
            run = Some(current);
            let wins = best.is_none_or(|best| {
                current.score < best.score
                    || (current.score == best.score && current.width() > best.width())
            });
            if wins {
                best = Some(current);
            }
        }
        best.unwrap_or(Self {
            score: u64::MAX,
            low,
            high,
        })
    }
}

/// Returns the score up to which parameters may be the true ones, if the best ones have this score.
///
/// Parameters that leave nothing unexplained are as good as each other. If the best ones leave something unexplained, then
/// the limiter did something that the model does not have, and the true ones may leave more. If they leave more than a few
/// of `of` responses unexplained, there are no true ones.
pub(crate) fn as_good_as(least: u64, of: u64) -> u64 {
    match least {
        0 => 0,
        least if least * HOPELESS > of => least,
        least => 2 * least + 1,
    }
}

/// Returns how far `holds` holds from `from` on, in the direction of `step`, at most until `furthest`.
pub(crate) fn edge(from: f64, step: f64, furthest: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let within = |at: f64| {
        if step < 0.0 {
            at.max(furthest)
        } else {
            at.min(furthest)
        }
    };
    let (mut inside, mut step) = (from, step);
    let mut outside = within(from + step);
    while holds(outside) {
        if outside == furthest {
            return furthest;
        }
        (inside, step) = (outside, 2.0 * step);
        outside = within(inside + step);
    }
    for _ in 0..HALVINGS {
        let middle = (inside + outside) / 2.0;
        match holds(middle) {
            true => inside = middle,
            false => outside = middle,
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_lowest_stretch_are_found() {
        let score = |x: f64| u64::from(x < 3.21) * 2 + u64::from(x > 3.45) * 3;
        let found = Plateau::find(1.0, 9.0, 40, score);
        assert_eq!(found.score, 0);
        assert!((found.low - 3.21).abs() < 0.01, "{found:?}");
        assert!((found.high - 3.45).abs() < 0.01, "{found:?}");
        let exactly = found.widened(0, score);
        assert!((exactly.low - 3.21).abs() < 1e-4, "{exactly:?}");
        assert!((exactly.high - 3.45).abs() < 1e-4, "{exactly:?}");
        assert_eq!(found.widened(2, score).low, 0.0);
    }
}
