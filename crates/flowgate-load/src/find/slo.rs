//! What a service promises: upper bounds of its response times and of its share of errors.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::report::{nanos, text};

/// Number of requests over the bound that a step expects at least, if the share of these is at its limit.
const EXPECTED_OVER: f64 = 10.0;
/// The same for errors. A run without any then shows a share below the limit at 95 %.
const EXPECTED_ERRORS: f64 = 3.0;
/// Requests of a step that judges a mean.
const FOR_A_MEAN: u64 = 500;

/// A service level objective: every condition must hold.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate_load::find::{Condition, Slo};
///
/// let p99 = Condition::quantile(0.99, Duration::from_millis(50))?;
/// let slo = Slo::new([p99, Condition::errors(0.001)?])?;
/// assert_eq!(slo.to_string(), "p99 < 50 ms, errors < 0.1 %");
/// # Ok::<(), flowgate_load::find::SloError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slo(Vec<Condition>);

/// Condition of an [`Slo`]: an upper bound.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate_load::find::Condition;
///
/// let slow = Condition::quantile(0.999, Duration::from_secs(1))?;
/// assert_eq!(slow.to_string(), "p99.9 < 1 s");
/// assert!(Condition::quantile(1.0, Duration::from_secs(1)).is_err()); // a maximum has no interval
/// # Ok::<(), flowgate_load::find::SloError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Condition(pub(super) Bound);

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    /// This share of the response times is below the limit.
    Quantile {
        share: f64,
        #[serde(rename = "below_ns", with = "nanos")]
        below: Duration,
    },
    /// The mean response time is below the limit.
    Mean {
        #[serde(rename = "below_ns", with = "nanos")]
        below: Duration,
    },
    /// The share of requests without a good response is below the limit.
    Errors { below: f64 },
}

/// Error of a condition that cannot be judged, or of an [`Slo`] without a meaning.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SloError {
    /// There is no condition.
    Empty,
    /// The share of a quantile is not from 0.5 to 0.9999.
    Share(f64),
    /// The share of errors is not above 0 and below 1.
    Errors(f64),
    /// The time is not above 0 and at most 60 s.
    Time(Duration),
    /// Two conditions bound the same number.
    Twice(Condition),
}

impl Condition {
    /// Creates the condition that `share` of the response times is below `below`.
    ///
    /// `share` is from 0.5 to 0.9999, and `below` at most 60 s.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them is out of range.
    pub fn quantile(share: f64, below: Duration) -> Result<Condition, SloError> {
        if !(0.5..=0.9999).contains(&share) {
            return Err(SloError::Share(share));
        }
        let below = checked(below)?;
        Ok(Condition(Bound::Quantile { share, below }))
    }

    /// Creates the condition that the mean response time is below `below`, at most 60 s.
    ///
    /// # Errors
    ///
    /// Returns an error if the time is out of range.
    pub fn mean(below: Duration) -> Result<Condition, SloError> {
        let below = checked(below)?;
        Ok(Condition(Bound::Mean { below }))
    }

    /// Creates the condition that the share of errors is below `below`.
    ///
    /// `below` is above 0 and below 1.
    /// Errors are failed requests, timeouts, and the statuses 4xx and 5xx.
    ///
    /// # Errors
    ///
    /// Returns an error if the share is out of range.
    pub fn errors(below: f64) -> Result<Condition, SloError> {
        match below > 0.0 && below < 1.0 {
            true => Ok(Condition(Bound::Errors { below })),
            false => Err(SloError::Errors(below)),
        }
    }

    /// Returns the number of requests that a step needs to judge this.
    fn requests(self) -> u64 {
        match self.0 {
            Bound::Quantile { share, .. } => (EXPECTED_OVER / (1.0 - share)).round() as u64,
            Bound::Mean { .. } => FOR_A_MEAN,
            Bound::Errors { below } => (EXPECTED_ERRORS / below).round() as u64,
        }
    }

    /// Returns whether both bound the same number.
    fn is_about(self, other: Condition) -> bool {
        match (self.0, other.0) {
            (Bound::Quantile { share, .. }, Bound::Quantile { share: other, .. }) => share == other,
            (Bound::Mean { .. }, Bound::Mean { .. }) => true,
            (Bound::Errors { .. }, Bound::Errors { .. }) => true,
            _ => false,
        }
    }
}

fn checked(time: Duration) -> Result<Duration, SloError> {
    match time > Duration::ZERO && time <= Duration::from_secs(60) {
        true => Ok(time),
        false => Err(SloError::Time(time)),
    }
}

impl Slo {
    /// The limit of the share of errors if no condition has one: 1 %.
    pub const ERRORS: f64 = 0.01;

    /// Creates an objective. Without a condition about errors, fewer than [`Slo::ERRORS`] are required.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no condition, or two are about the same number.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate_load::find::{Condition, Slo};
    ///
    /// let slo = Slo::new([Condition::mean(Duration::from_millis(5))?])?;
    /// assert_eq!(slo.to_string(), "mean < 5 ms, errors < 1 %");
    /// # Ok::<(), flowgate_load::find::SloError>(())
    /// ```
    pub fn new(conditions: impl IntoIterator<Item = Condition>) -> Result<Slo, SloError> {
        let mut all: Vec<Condition> = Vec::new();
        for condition in conditions {
            if all.iter().any(|other| other.is_about(condition)) {
                return Err(SloError::Twice(condition));
            }
            all.push(condition);
        }
        if all.is_empty() {
            return Err(SloError::Empty);
        }
        if !all
            .iter()
            .any(|condition| matches!(condition.0, Bound::Errors { .. }))
        {
            all.push(Condition::errors(Slo::ERRORS)?);
        }
        Ok(Slo(all))
    }

    pub(super) fn conditions(&self) -> &[Condition] {
        &self.0
    }

    /// Returns the number of requests that a step needs to judge all conditions.
    pub(super) fn requests(&self) -> u64 {
        let requests = self.0.iter().map(|condition| condition.requests());
        requests.max().unwrap_or(1)
    }

    /// Returns the longest response time that is bounded, if one is.
    pub(super) fn longest(&self) -> Option<Duration> {
        let times = self.0.iter().filter_map(|condition| match condition.0 {
            Bound::Quantile { below, .. } | Bound::Mean { below } => Some(below),
            Bound::Errors { .. } => None,
        });
        times.max()
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, condition) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{condition}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Bound::Quantile { share, below } => {
                write!(f, "p{} < {}", percentile(share), text::brief(below))
            }
            Bound::Mean { below } => write!(f, "mean < {}", text::brief(below)),
            Bound::Errors { below } => write!(f, "errors < {} %", percentile(below)),
        }
    }
}

/// Returns the share in percent, without the digits that the multiplication adds.
pub(super) fn percentile(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

impl fmt::Display for SloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SloError::Empty => f.write_str("there is no condition: write 'p99<50ms'"),
            SloError::Share(share) => write!(
                f,
                "p{} cannot be judged: write a percentile from p50 to p99.99",
                percentile(*share)
            ),
            SloError::Errors(share) => write!(
                f,
                "a share of errors of {} % is out of range: write 'errors<0.1%'",
                percentile(*share)
            ),
            SloError::Time(time) => write!(
                f,
                "a response time of {time:?} is out of range: above 0 and at most 60 s"
            ),
            SloError::Twice(condition) => {
                write!(f, "'{condition}' bounds a number that is bounded already")
            }
        }
    }
}

impl Error for SloError {}
