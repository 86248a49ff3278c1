use std::fmt;

use hyper::StatusCode;

use crate::failure::Failure;

/// What came of a request, if it was neither let through nor refused.
///
/// # Examples
///
/// ```
/// use flowgate_load::Failure;
/// use flowgate_load::verify::Neither;
/// use hyper::StatusCode;
///
/// assert_eq!(Neither::Answer(StatusCode::NOT_FOUND).to_string(), "404 Not Found");
/// assert_eq!(Neither::Failure(Failure::Timeout).to_string(), "timed out");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Neither {
    /// An answer with a status that stands for neither.
    Answer(StatusCode),
    /// No answer.
    Failure(Failure),
}

impl fmt::Display for Neither {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Neither::Answer(status) => status.fmt(f),
            Neither::Failure(failure) => failure.fmt(f),
        }
    }
}
