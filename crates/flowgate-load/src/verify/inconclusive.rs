use std::fmt;

use hyper::StatusCode;

use crate::failure::Failure;

/// Result of a request that was neither admitted nor refused.
///
/// # Examples
///
/// ```
/// use flowgate_load::Failure;
/// use flowgate_load::verify::Inconclusive;
/// use hyper::StatusCode;
///
/// assert_eq!(Inconclusive::Answer(StatusCode::NOT_FOUND).to_string(), "404 Not Found");
/// assert_eq!(Inconclusive::Failure(Failure::Timeout).to_string(), "timed out");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Inconclusive {
    /// A response with a status that is in neither list.
    Answer(StatusCode),
    /// No response.
    Failure(Failure),
}

impl fmt::Display for Inconclusive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inconclusive::Answer(status) => status.fmt(f),
            Inconclusive::Failure(failure) => failure.fmt(f),
        }
    }
}
