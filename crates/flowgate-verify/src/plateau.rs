//! Where a score is lowest, and how far it stays so.

use std::cmp::Ordering;

/// How often a search looks closer.
const ROUNDS: usize = 4;

/// A stretch of arguments for which a score is at its lowest.
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

    /// The lower score first, and of the same the wider stretch.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let width = |plateau: &Self| plateau.width() / plateau.low;
        let by_width = || width(other).total_cmp(&width(self));
        self.score.cmp(&other.score).then_with(by_width)
    }

    /// Looks from `low` to `high` in so many steps, and then closer and closer around the lowest.
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

    /// The longest run of the lowest score on an even grid.
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
