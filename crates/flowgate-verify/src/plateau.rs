//! The minimum of a score, and the range over which the score stays minimal.

use std::cmp::Ordering;

/// Number of refinements of a search.
const ROUNDS: usize = 4;

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
    }
}
