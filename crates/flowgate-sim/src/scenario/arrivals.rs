use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use flowgate::Quota;
use flowgate_schedule::{Schedule, Segment};

use super::ScenarioError;
use crate::distribution::Distribution;
use crate::error::TextError;
use crate::text::{duration, in_words, serde_by_text};
use crate::traffic::Arrivals;

/// When requests begin, as text.
///
/// | text | requests |
/// |---|---|
/// | `150/s` | at a constant rate |
/// | `poisson 150/s` | at random times that do not depend on each other, with this mean rate |
/// | `bursts 200 every 2s` | 200 at a time |
/// | `ramp 10/s to 500/s` | at a rate that grows, or falls, over the whole run |
/// | `sine 100/s by 50/s every 10s` | at a rate from 50/s to 150/s, with a period of 10 s |
/// | `plan 10s@50/s, 5s@0, 10s@50/s:500/s` | at rates in sequence; 0 is a pause, and a colon a ramp |
/// | `users 50 think exponential 1s` | from 50 users, who think after each answer, and then ask again |
/// | `log:access.log` | as in a log; see [`LogReader`](crate::LogReader). `log:-` is standard input |
///
/// ```
/// use flowgate_sim::ArrivalsConfig;
///
/// let arrivals: ArrivalsConfig = "bursts 200 every 2s".parse()?;
/// assert_eq!(arrivals.to_string(), "bursts 200 every 2s");
/// # Ok::<(), flowgate_sim::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ArrivalsConfig {
    /// At a constant rate.
    Constant(Quota),
    /// At random times that do not depend on each other, with this mean rate.
    Poisson(Quota),
    /// Several at a time.
    Bursts {
        /// The requests of a burst.
        size: u64,
        /// The time from one burst to the next.
        every: Duration,
    },
    /// At a rate that changes steadily over the whole run.
    Ramp {
        /// The rate at the start.
        from: Quota,
        /// The rate at the end.
        to: Quota,
    },
    /// At a rate that goes up and down as a sine.
    Sine {
        /// The mean rate.
        mean: Quota,
        /// The difference between the highest rate and the mean.
        amplitude: Quota,
        /// The time from one highest rate to the next.
        every: Duration,
    },
    /// At rates in sequence.
    Plan(Vec<Segment>),
    /// From users who think after each answer, and then ask again (a closed loop).
    Users {
        /// The number of users.
        users: u32,
        /// How long a user thinks.
        think: Distribution,
    },
    /// As in the log in this file; `-` is standard input.
    Log(PathBuf),
}

/// The most users of a source.
const MAX_USERS: u32 = 1_000_000;

impl ArrivalsConfig {
    /// Builds the arrivals of source number `source` of a run.
    pub(super) fn build(
        &self,
        duration: Duration,
        seed: u64,
        source: u64,
    ) -> Result<Arrivals, ScenarioError> {
        let schedule = match self {
            Self::Constant(rate) => Schedule::lasting(*rate, duration),
            // Another source of the same rate has other times.
            Self::Poisson(rate) => Schedule::poisson(*rate, seed ^ source << 32, duration),
            Self::Bursts { size, every } => {
                let rate = Quota::new(*size, *every)
                    .map_err(|error| ScenarioError::new(format!("arrivals '{self}': {error}")))?;
                Schedule::bursts(rate, *size, duration)
            }
            Self::Ramp { from, to } => Schedule::ramp(Some(*from), Some(*to), duration),
            Self::Sine {
                mean,
                amplitude,
                every,
            } => Schedule::sine(*mean, *amplitude, *every, duration),
            Self::Plan(segments) => Schedule::segments(segments),
            Self::Users { users, think } => {
                return Ok(Arrivals::Closed {
                    users: *users,
                    think: think.clone(),
                });
            }
            Self::Log(path) => {
                let why = format!("the log {} has not been read", path.display());
                return Err(ScenarioError::new(why));
            }
        };
        let schedule =
            schedule.map_err(|error| ScenarioError::new(format!("arrivals '{self}': {error}")))?;
        Ok(Arrivals::Scheduled(schedule))
    }
}

impl FromStr for ArrivalsConfig {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let text = text.trim();
        let rate = |rate: &str| {
            rate.parse::<Quota>()
                .map_err(|error| TextError::new(text, error.to_string()))
        };
        if let Some(path) = text.strip_prefix("log:") {
            return match path.trim() {
                "" => Err(TextError::new(
                    text,
                    "a path is missing; write 'log:access.log'",
                )),
                path => Ok(Self::Log(PathBuf::from(path))),
            };
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(match words[..] {
            ["poisson", mean] => Self::Poisson(rate(mean)?),
            ["bursts", size, "every", every] => match size.parse() {
                Ok(size) if size > 0 => Self::Bursts {
                    size,
                    every: duration(every)?,
                },
                _ => {
                    return Err(TextError::new(
                        text,
                        "the size of a burst is a whole number above 0",
                    ));
                }
            },
            ["ramp", from, "to", to] => Self::Ramp {
                from: rate(from)?,
                to: rate(to)?,
            },
            ["sine", mean, "by", amplitude, "every", every] => Self::Sine {
                mean: rate(mean)?,
                amplitude: rate(amplitude)?,
                every: duration(every)?,
            },
            ["plan", ..] => {
                let parts = text.trim_start_matches("plan").split(',');
                Self::Plan(
                    parts
                        .map(|part| segment(text, part))
                        .collect::<Result<_, _>>()?,
                )
            }
            ["users", users, "think", ref think @ ..] => match users.parse() {
                Ok(users) if (1..=MAX_USERS).contains(&users) => Self::Users {
                    users,
                    think: think.join(" ").parse()?,
                },
                _ => {
                    let why = format!("the number of users is from 1 to {MAX_USERS}");
                    return Err(TextError::new(text, why));
                }
            },
            ["constant", constant] => Self::Constant(rate(constant)?),
            [constant] if constant.starts_with(|first: char| first.is_ascii_digit()) => {
                Self::Constant(rate(constant)?)
            }
            _ => {
                return Err(TextError::new(
                    text,
                    "not arrivals; write '150/s', 'poisson 150/s', 'bursts 200 every 2s', 'ramp 10/s to 500/s', \
                     'sine 100/s by 50/s every 10s', 'plan 10s@50/s, 5s@0', 'users 50 think 1s' or 'log:access.log'",
                ));
            }
        })
    }
}

fn segment(text: &str, part: &str) -> Result<Segment, TextError> {
    let wrong = || {
        TextError::new(
            text,
            "a part of a plan is '10s@50/s', '10s@50/s:500/s' or '10s@0'",
        )
    };
    let rate = |rate: &str| match rate {
        "0" => Ok(None),
        rate => rate.parse().map(Some).map_err(|_| wrong()),
    };
    let (time, rates) = part.trim().split_once('@').ok_or_else(wrong)?;
    let (from, to) = rates.split_once(':').unwrap_or((rates, rates));
    Ok(Segment {
        duration: duration(time)?,
        from: rate(from)?,
        to: rate(to)?,
    })
}

impl fmt::Display for ArrivalsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(rate) => write!(f, "{rate}"),
            Self::Poisson(rate) => write!(f, "poisson {rate}"),
            Self::Bursts { size, every } => write!(f, "bursts {size} every {}", in_words(*every)),
            Self::Ramp { from, to } => write!(f, "ramp {from} to {to}"),
            Self::Sine {
                mean,
                amplitude,
                every,
            } => write!(f, "sine {mean} by {amplitude} every {}", in_words(*every)),
            Self::Plan(segments) => {
                for (index, segment) in segments.iter().enumerate() {
                    let separator = if index == 0 { "plan " } else { ", " };
                    write!(f, "{separator}{}@", in_words(segment.duration))?;
                    let rate =
                        |rate: Option<Quota>| rate.map_or("0".to_owned(), |rate| rate.to_string());
                    match segment.from == segment.to {
                        true => f.write_str(&rate(segment.from))?,
                        false => write!(f, "{}:{}", rate(segment.from), rate(segment.to))?,
                    }
                }
                Ok(())
            }
            Self::Users { users, think } => write!(f, "users {users} think {think}"),
            Self::Log(path) => write!(f, "log:{}", path.display()),
        }
    }
}

serde_by_text!(ArrivalsConfig);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_read_as_they_are_written() {
        for text in [
            "150/s",
            "poisson 150/s",
            "bursts 200 every 2s",
            "ramp 10/s to 500/s",
            "sine 100/s by 50/s every 10s",
            "plan 10s@50/s, 5s@0, 10s@50/s:500/s",
            "users 50 think exponential 1s",
            "users 50 think 0s",
        ] {
            let arrivals: ArrivalsConfig = text.parse().expect(text);
            assert_eq!(arrivals.to_string(), text);
            arrivals.build(Duration::from_secs(30), 1, 0).expect(text);
        }
    }

    #[test]
    fn what_is_not_arrivals_says_what_to_write() {
        for (text, expected) in [
            ("", "write '150/s'"),
            ("poison 5/s", "write '150/s'"),
            ("poisson", "write '150/s'"),
            ("poisson fast", "fast"),
            ("0/s", "0"),
            ("1e99/s", "1e99"),
            ("bursts 0 every 1s", "above 0"),
            ("bursts 5 every now", "now"),
            ("users 0 think 1s", "from 1 to"),
            ("users 5 think hard", "hard"),
            ("plan 5s", "a part of a plan"),
        ] {
            let error = text.parse::<ArrivalsConfig>().expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
