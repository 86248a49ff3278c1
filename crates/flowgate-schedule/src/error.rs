//! Errors of creating a schedule.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use flowgate::Quota;

use crate::poisson::MAX_POISSON;
use crate::replay::MAX_REPLAYED;
use crate::segments::MAX_SEGMENTS;

/// Error of creating a schedule. `Display` names the value and what is accepted.
///
/// # Examples
///
/// ```
/// use flowgate_schedule::{Schedule, ScheduleError};
///
/// let error = Schedule::segments(&[]).unwrap_err();
/// assert_eq!(error, ScheduleError::NoRequests);
/// assert_eq!(error.to_string(), "the plan has no requests: at least one rate must be above 0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The last request would be scheduled more than 2⁶⁴ − 1 ns (about 584 years) after the start.
    TooLong,
    /// All segments together last longer than 2⁶² ns (about 146 years).
    SegmentsTooLong,
    /// The number of segments exceeds [`MAX_SEGMENTS`].
    TooManySegments(usize),
    /// All segments are pauses, or there are none.
    NoRequests,
    /// The rate is higher than one request per nanosecond.
    TooFast(Quota),
    /// The amplitude exceeds the mean, so the rate would be negative.
    AmplitudeAboveMean {
        /// The amplitude.
        amplitude: Quota,
        /// The mean rate.
        mean: Quota,
    },
    /// The mean plus the amplitude exceeds one request per nanosecond.
    SwingTooFast {
        /// The amplitude.
        amplitude: Quota,
        /// The mean rate.
        mean: Quota,
    },
    /// The period is zero.
    NoPeriod,
    /// One period has this number of requests, more than 10¹².
    LongPeriod(u128),
    /// The periods of the rates have no common multiple below 2⁶¹ ns.
    NoCommonPeriod,
    /// More than [`MAX_POISSON`] random times.
    TooManyPoisson(u64),
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScheduleError::TooLong => f.write_str(
                "the last request would be scheduled more than 584 years after the first",
            ),
            ScheduleError::SegmentsTooLong => f.write_str("the plan lasts longer than 146 years"),
            ScheduleError::TooManySegments(count) => {
                write!(f, "{count} parts exceed the maximum of {MAX_SEGMENTS}")
            }
            ScheduleError::NoRequests => {
                f.write_str("the plan has no requests: at least one rate must be above 0")
            }
            ScheduleError::TooFast(rate) => {
                write!(f, "{rate} exceeds the maximum of 1000000000/s")
            }
            ScheduleError::AmplitudeAboveMean { amplitude, mean } => write!(
                f,
                "an amplitude of {amplitude} exceeds the mean {mean}: write at most {mean}"
            ),
            ScheduleError::SwingTooFast { amplitude, mean } => write!(
                f,
                "{mean} ± {amplitude} exceeds the maximum of 1000000000/s"
            ),
            ScheduleError::NoPeriod => f.write_str("a period must be longer than 0"),
            ScheduleError::LongPeriod(requests) => {
                write!(
                    f,
                    "{requests} requests per period exceed the maximum of 1000000000000"
                )
            }
            ScheduleError::NoCommonPeriod => {
                f.write_str("the periods of the rates have no common multiple below 73 years")
            }
            ScheduleError::TooManyPoisson(count) => {
                write!(
                    f,
                    "{count} random times exceed the maximum of {MAX_POISSON}"
                )
            }
        }
    }
}

impl Error for ScheduleError {}

/// Error of reading a list of times. `Display` names the line.
///
/// # Examples
///
/// ```
/// use flowgate_schedule::{ReplayError, Schedule};
///
/// match Schedule::replay("0\n0.25\nsoon\n".as_bytes()) {
///     Err(ReplayError::NotATime { line, text }) => assert_eq!((line, text.as_str()), (3, "soon")),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// Reading failed.
    Read(io::Error),
    /// The line is not a time.
    NotATime {
        /// Line number; the first is 1.
        line: u64,
        /// Start of the line.
        text: String,
    },
    /// The time exceeds 584 years, the maximum in nanoseconds.
    TooLong {
        /// Line number; the first is 1.
        line: u64,
        /// Text of the line.
        text: String,
    },
    /// The time is earlier than the previous one.
    Unsorted {
        /// Line number; the first is 1.
        line: u64,
        /// Text of the line.
        text: String,
        /// The previous time.
        before: Duration,
    },
    /// There are more than [`MAX_REPLAYED`] times.
    TooMany,
    /// There are no times.
    Empty,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Read(error) => write!(f, "cannot be read: {error}"),
            ReplayError::NotATime { line, text } => write!(
                f,
                "line {line}: {text:?} is not a time: write seconds since the start, such as 0.25"
            ),
            ReplayError::TooLong { line, text } => {
                write!(f, "line {line}: {text} s exceed the maximum of 584 years")
            }
            ReplayError::Unsorted { line, text, before } => write!(
                f,
                "line {line}: {text} is earlier than {}, the previous time",
                before.as_secs_f64(),
            ),
            ReplayError::TooMany => write!(f, "more than {MAX_REPLAYED} times"),
            ReplayError::Empty => {
                f.write_str("contains no times: write one per line, in seconds since the start")
            }
        }
    }
}

impl Error for ReplayError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ReplayError::Read(error) => Some(error),
            _ => None,
        }
    }
}
