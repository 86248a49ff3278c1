//! How long something takes, at random.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::TextError;
use crate::random::Random;
use crate::share::Share;
use crate::text::{duration, in_words, number, serde_by_text};
use crate::time::nanos;

/// A distribution of durations.
///
/// | text | distribution |
/// |---|---|
/// | `10ms` | always 10 ms |
/// | `exponential 10ms` | with this mean |
/// | `lognormal 10ms 1` | with this mean, and this standard deviation of the logarithm |
/// | `bimodal 5ms 50ms 10%` | 5 ms, or 50 ms in 10 % of the cases |
///
/// ```
/// use flowgate_sim::Distribution;
/// use std::time::Duration;
///
/// let service: Distribution = "bimodal 5ms 50ms 10%".parse()?;
/// assert_eq!(service.mean(), Duration::from_micros(9_500));
/// assert_eq!(service.to_string(), "bimodal 5ms 50ms 10%");
/// # Ok::<(), flowgate_sim::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Constant(Duration),
    Exponential(Duration),
    Lognormal {
        mean: Duration,
        sigma: f64,
    },
    Bimodal {
        usual: Duration,
        rare: Duration,
        share: Share,
    },
    Empirical(Arc<[Duration]>),
}

impl Distribution {
    /// Always `duration`.
    pub fn constant(duration: Duration) -> Self {
        Self(Kind::Constant(duration))
    }

    /// Exponential, with this mean: the time between events that do not depend on each other.
    pub fn exponential(mean: Duration) -> Self {
        Self(Kind::Exponential(mean))
    }

    /// One of `durations`, each with the same probability; always 0 if there are none.
    ///
    /// [`DurationReader`](crate::DurationReader) reads them from a file.
    pub fn empirical(durations: impl Into<Arc<[Duration]>>) -> Self {
        Self(Kind::Empirical(durations.into()))
    }

    /// Returns the mean.
    pub fn mean(&self) -> Duration {
        match &self.0 {
            Kind::Constant(mean) | Kind::Exponential(mean) | Kind::Lognormal { mean, .. } => *mean,
            Kind::Bimodal { usual, rare, share } => {
                let (usual, rare) = (usual.as_nanos() as f64, rare.as_nanos() as f64);
                let mean_ns = usual * (1.0 - share.get()) + rare * share.get();
                Duration::from_nanos(mean_ns.round() as u64)
            }
            Kind::Empirical(durations) => {
                let sum: u128 = durations.iter().map(Duration::as_nanos).sum();
                let count = durations.len().max(1) as u128;
                Duration::from_nanos(u64::try_from((sum + count / 2) / count).unwrap_or(u64::MAX))
            }
        }
    }

    /// A duration in nanoseconds.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        match &self.0 {
            Kind::Constant(duration) => nanos(*duration),
            Kind::Exponential(mean) => (nanos(*mean) as f64 * random.exponential()) as u64,
            Kind::Lognormal { mean, sigma } => {
                // The mean of exp(σ·N) is exp(σ²/2).
                let exponent = sigma * random.normal() - sigma * sigma / 2.0;
                (nanos(*mean) as f64 * libm::exp(exponent)) as u64
            }
            Kind::Bimodal { usual, rare, share } => match random.share() <= share.get() {
                true => nanos(*rare),
                false => nanos(*usual),
            },
            Kind::Empirical(durations) if durations.is_empty() => 0,
            Kind::Empirical(durations) => {
                nanos(durations[random.below(durations.len() as u64) as usize])
            }
        }
    }
}

impl FromStr for Distribution {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(Self(match words[..] {
            ["exponential", mean] => Kind::Exponential(duration(mean)?),
            ["lognormal", mean, sigma] => Kind::Lognormal {
                mean: duration(mean)?,
                sigma: number(sigma, 0.0..=5.0)?,
            },
            ["bimodal", usual, rare, share] => Kind::Bimodal {
                usual: duration(usual)?,
                rare: duration(rare)?,
                share: share.parse()?,
            },
            [constant] if constant.starts_with(|first: char| first.is_ascii_digit()) => {
                Kind::Constant(duration(constant)?)
            }
            _ => {
                return Err(TextError::new(
                    text,
                    "a duration is '10ms', 'exponential 10ms', 'lognormal 10ms 1' or 'bimodal 5ms 50ms 10%'",
                ));
            }
        }))
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Constant(duration) => f.write_str(&in_words(*duration)),
            Kind::Exponential(mean) => write!(f, "exponential {}", in_words(*mean)),
            Kind::Lognormal { mean, sigma } => write!(f, "lognormal {} {sigma}", in_words(*mean)),
            Kind::Bimodal { usual, rare, share } => {
                let (usual, rare) = (in_words(*usual), in_words(*rare));
                write!(f, "bimodal {usual} {rare} {share}")
            }
            Kind::Empirical(durations) => write!(f, "{} recorded durations", durations.len()),
        }
    }
}

serde_by_text!(Distribution);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Entity;

    #[test]
    fn draws_have_the_mean() {
        for text in [
            "10ms",
            "exponential 10ms",
            "lognormal 10ms 1",
            "bimodal 5ms 50ms 10%",
        ] {
            let distribution: Distribution = text.parse().expect(text);
            assert_eq!(distribution.to_string(), text);
            let mut random = Random::new(1, Entity::Work, 0);
            let draws = 400_000;
            let sum: u64 = (0..draws).map(|_| distribution.draw(&mut random)).sum();
            let error = (sum / draws) as f64 / distribution.mean().as_nanos() as f64 - 1.0;
            assert!(error.abs() < 0.01, "{text}: {error}");
        }
    }

    #[test]
    fn recorded_durations_are_drawn_with_the_same_probability() {
        let durations = [1, 2, 4, 4].map(Duration::from_nanos);
        let distribution = Distribution::empirical(durations);
        assert_eq!(distribution.to_string(), "4 recorded durations");
        let mut random = Random::new(1, Entity::Work, 0);
        let mut counts = [0_u32; 5];
        for _ in 0..40_000 {
            counts[distribution.draw(&mut random) as usize] += 1;
        }
        for (drawn, expected) in counts.into_iter().zip([0, 10_000, 10_000, 0, 20_000]) {
            assert!(drawn.abs_diff(expected) <= expected / 20, "{counts:?}");
        }
    }

    #[test]
    fn errors_say_what_to_type() {
        for text in [
            "",
            "ten",
            "exponential",
            "lognormal 10ms",
            "bimodal 1ms 2ms 200%",
            "10parsecs",
        ] {
            let error = text.parse::<Distribution>().expect_err(text).to_string();
            assert!(error.contains('\''), "{text}: {error}");
        }
    }
}
