//! Why a schedule cannot be made.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use flowgate::Quota;

use super::{MAX_POISSON, MAX_REPLAYED, MAX_SEGMENTS};

/// Why a schedule cannot be made. `Display` names the value and what is accepted.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Schedule, ScheduleError};
///
/// let error = Schedule::segments(&[]).unwrap_err();
/// assert_eq!(error, ScheduleError::NoRequests);
/// assert_eq!(error.to_string(), "it sends nothing: one rate at least must be above 0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// It reaches further than can be counted: no request may be scheduled more than 2⁶⁴ − 1 ns (about
    /// 584 years) after the start.
    TooLong,
    /// All segments together last longer than 2⁶² ns (about 146 years).
    SegmentsTooLong,
    /// This many segments are more than [`MAX_SEGMENTS`].
    TooManySegments(usize),
    /// Segments with pauses only, or none at all.
    NoRequests,
    /// This rate is higher than one request per nanosecond.
    TooFast(Quota),
    /// A swing that would go below zero.
    AmplitudeAboveMean {
        /// The swing.
        amplitude: Quota,
        /// What it swings around.
        mean: Quota,
    },
    /// A swing that would go above one request per nanosecond.
    SwingTooFast {
        /// The swing.
        amplitude: Quota,
        /// What it swings around.
        mean: Quota,
    },
    /// A swing without a period.
    NoPeriod,
    /// A swing with this many requests in one period, more than 10¹².
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
            ScheduleError::SegmentsTooLong => f.write_str("it lasts longer than 146 years"),
            ScheduleError::TooManySegments(count) => {
                write!(f, "{count} parts are more than {MAX_SEGMENTS}")
            }
            ScheduleError::NoRequests => {
                f.write_str("it sends nothing: one rate at least must be above 0")
            }
            ScheduleError::TooFast(rate) => {
                write!(
                    f,
                    "{rate} is more than 1000000000/s, one request per nanosecond"
                )
            }
            ScheduleError::AmplitudeAboveMean { amplitude, mean } => write!(
                f,
                "a rate cannot swing by {amplitude} around {mean}: at most by {mean}"
            ),
            ScheduleError::SwingTooFast { amplitude, mean } => write!(
                f,
                "{mean} ± {amplitude} is more than 1000000000/s, one request per nanosecond"
            ),
            ScheduleError::NoPeriod => f.write_str("a period must be longer than 0"),
            ScheduleError::LongPeriod(requests) => {
                write!(
                    f,
                    "{requests} requests in a period are more than 1000000000000"
                )
            }
            ScheduleError::NoCommonPeriod => {
                f.write_str("the periods of the rates have no common multiple below 73 years")
            }
            ScheduleError::TooManyPoisson(count) => {
                write!(f, "{count} random times are more than {MAX_POISSON}")
            }
        }
    }
}

impl Error for ScheduleError {}

/// Why a list of times cannot be replayed. `Display` names the line.
///
/// # Examples
///
/// ```
/// use flowgate_load::{ReplayError, Schedule};
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
    /// This line is no time.
    NotATime {
        /// Its number; the first is 1.
        line: u64,
        /// Its beginning.
        text: String,
    },
    /// This line's time cannot be counted in nanoseconds: it is more than 584 years.
    TooLong {
        /// Its number; the first is 1.
        line: u64,
        /// What it says.
        text: String,
    },
    /// This line's time is earlier than the one before it.
    Unsorted {
        /// Its number; the first is 1.
        line: u64,
        /// What it says.
        text: String,
        /// The time before it.
        before: Duration,
    },
    /// There are more than [`MAX_REPLAYED`] times.
    TooMany,
    /// There is no time at all.
    Empty,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Read(error) => write!(f, "cannot be read: {error}"),
            ReplayError::NotATime { line, text } => write!(
                f,
                "line {line}: {text:?} is no time: write seconds since the start, such as 0.25"
            ),
            ReplayError::TooLong { line, text } => {
                write!(f, "line {line}: {text} s are more than 584 years")
            }
            ReplayError::Unsorted { line, text, before } => write!(
                f,
                "line {line}: {text} is earlier than {}, the time before it",
                before.as_secs_f64(),
            ),
            ReplayError::TooMany => write!(f, "more than {MAX_REPLAYED} times"),
            ReplayError::Empty => {
                f.write_str("holds no times: write one on each line, in seconds since the start")
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
