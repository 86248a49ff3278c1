//! What a run is to keep.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::TextError;
use crate::outcome::RunOutcome;
use crate::share::Share;
use crate::text::{duration, in_words, number};

/// Something that a run is to keep.
///
/// | text | kept if |
/// |---|---|
/// | `refused <= 1%` | at most 1 % of the attempts are refused |
/// | `p99 <= 200ms` | 99 % of the operations that are served take at most 200 ms |
/// | `goodput >= 100/s` | at least 100 operations per second are served within their deadline |
/// | `in-time >= 99%` | at least 99 % of the operations are served within their deadline |
///
/// ```
/// use flowgate_sim::Wish;
/// use std::time::Duration;
///
/// let wish: Wish = "p99 <= 200ms".parse()?;
/// let limit = Duration::from_millis(200);
/// assert_eq!(wish, Wish::LatencyAtMost { quantile: 0.99, limit });
/// assert_eq!(wish.to_string(), "p99 <= 200ms");
/// # Ok::<(), flowgate_sim::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Wish {
    /// At most this share of the attempts is refused.
    RefusedAtMost(Share),
    /// This share of the operations that are served takes at most this long. It is not kept if none is served.
    LatencyAtMost {
        /// The share, from 0 to 1.
        quantile: f64,
        /// The latency.
        limit: Duration,
    },
    /// At least this many operations per second are served within their deadline.
    GoodputAtLeast(f64),
    /// At least this share of the operations is served within its deadline.
    InTimeAtLeast(Share),
}

impl Wish {
    /// Returns the measured value: a share, seconds, or operations per second.
    pub fn measure(&self, outcome: &RunOutcome) -> f64 {
        match self {
            Self::RefusedAtMost(_) => outcome.refused_share(),
            Self::LatencyAtMost { quantile, .. } => {
                outcome.latency.quantile(*quantile).as_secs_f64()
            }
            Self::GoodputAtLeast(_) => outcome.goodput(),
            Self::InTimeAtLeast(_) => {
                outcome.counts.in_time as f64 / outcome.counts.operations.max(1) as f64
            }
        }
    }

    /// Returns whether a run keeps it. A run that was stopped before its time does not.
    pub fn is_kept(&self, outcome: &RunOutcome) -> bool {
        let measured = self.measure(outcome);
        outcome.stopped.is_none()
            && match self {
                Self::RefusedAtMost(most) => measured <= most.get(),
                Self::LatencyAtMost { quantile, limit } => {
                    outcome.latency.count() > 0 && outcome.latency.quantile(*quantile) <= *limit
                }
                Self::GoodputAtLeast(least) => measured >= *least,
                Self::InTimeAtLeast(least) => measured >= least.get(),
            }
    }
}

impl FromStr for Wish {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["refused", "<=", most] => Ok(Self::RefusedAtMost(most.parse()?)),
            ["in-time", ">=", least] => Ok(Self::InTimeAtLeast(least.parse()?)),
            ["goodput", ">=", least] => {
                let least = least.strip_suffix("/s").unwrap_or(least);
                Ok(Self::GoodputAtLeast(number(least, 0.0..=1e9)?))
            }
            [percentile, "<=", limit] if percentile.starts_with('p') => Ok(Self::LatencyAtMost {
                quantile: number(&percentile[1..], 0.0..=100.0)? / 100.0,
                limit: duration(limit)?,
            }),
            _ => Err(TextError::new(
                text,
                "a wish is 'refused <= 1%', 'p99 <= 200ms', 'goodput >= 100/s' or 'in-time >= 99%'",
            )),
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RefusedAtMost(most) => write!(f, "refused <= {most}"),
            Self::LatencyAtMost { quantile, limit } => {
                // 99.9 and not 99.90000000000001.
                let percentile = (quantile * 100.0 * 1e6).round() / 1e6;
                write!(f, "p{percentile} <= {}", in_words(*limit))
            }
            Self::GoodputAtLeast(least) => write!(f, "goodput >= {least}/s"),
            Self::InTimeAtLeast(least) => write!(f, "in-time >= {least}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Wish;

    #[test]
    fn wishes_are_written_as_they_are_read() {
        for text in [
            "refused <= 1%",
            "p99.9 <= 200ms",
            "goodput >= 100/s",
            "in-time >= 99.5%",
        ] {
            let wish: Wish = text.parse().expect(text);
            assert_eq!(wish.to_string(), text);
        }
    }

    #[test]
    fn errors_say_what_to_type() {
        for text in [
            "",
            "p99",
            "p99 < 1s",
            "p101 <= 1s",
            "refused <= 101%",
            "goodput >= x",
        ] {
            let error = text.parse::<Wish>().expect_err(text).to_string();
            assert!(error.contains('\''), "{text}: {error}");
        }
    }
}
