use std::error::Error;
use std::fmt;

use hyper::StatusCode;

use super::StatusRanges;
use crate::engine::RunError;
use crate::failure::Failure;

/// Error that prevents or ends an investigation of a server.
///
/// # Examples
///
/// ```
/// use flowgate_load::verify::{Asking, HttpSubject, VerifyError};
/// use flowgate_load::{Origin, Stop, Target};
/// use flowgate_verify::Investigation;
///
/// let origin = Origin::start()?; // answers 200
/// let mut asking = Asking::new(Target::parse(&origin.url())?);
/// asking.admitted = "204".parse()?;
/// let mut subject = HttpSubject::new(asking, &Stop::new())?;
/// match Investigation::new().run(&mut subject, &mut |_| {}) {
///     Err(VerifyError::Inconclusive { status, .. }) => assert_eq!(status, 200),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum VerifyError {
    /// The host was not found, or no connection could be opened.
    Run(RunError),
    /// The server does not respond, or has stopped responding.
    NoAnswer(Failure),
    /// The server redirects to another URL.
    Redirect {
        /// Status of the response.
        status: StatusCode,
        /// Target of the redirect, if the response names one. It is a full URL unless it is relative to the path.
        location: Option<String>,
    },
    /// The server redirects to the same URL.
    RedirectLoop {
        /// Status of the response.
        status: StatusCode,
    },
    /// The status of the response is in neither list.
    Inconclusive {
        /// Status of the response.
        status: StatusCode,
        /// Statuses that count as admitted.
        admitted: StatusRanges,
        /// Statuses that count as refused.
        refused: StatusRanges,
    },
    /// The investigation was stopped.
    Stopped,
}

impl From<RunError> for VerifyError {
    fn from(error: RunError) -> VerifyError {
        match error {
            RunError::Stopped => VerifyError::Stopped,
            error => VerifyError::Run(error),
        }
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyError::Run(error) => error.fmt(f),
            VerifyError::NoAnswer(failure) => {
                write!(f, "no response: {failure}")?;
                match failure.advice() {
                    Some(advice) => write!(f, "; {advice}"),
                    None if *failure == Failure::Timeout => {
                        f.write_str("; increase the timeout with -t")
                    }
                    None => Ok(()),
                }
            }
            VerifyError::Redirect { status, location } => {
                write!(f, "the server responds {status}")?;
                match location {
                    Some(location) => write!(f, " to {location}: write that URL"),
                    None => f.write_str(" without a location: write another URL"),
                }
            }
            VerifyError::RedirectLoop { status } => write!(
                f,
                "the server responds {status} to this same URL: write another URL, or add the header it needs with -H"
            ),
            VerifyError::Inconclusive {
                status,
                admitted,
                refused,
            } => {
                write!(
                    f,
                    "the server responds {status}, which is in neither --admitted ({admitted}) nor --refused ({refused}): "
                )?;
                if matches!(*status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                    f.write_str("add credentials with -a or -H, ")?;
                }
                f.write_str("write another URL, or list the status in --admitted or --refused")
            }
            VerifyError::Stopped => f.write_str("stopped"),
        }
    }
}

impl Error for VerifyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            VerifyError::Run(error) => Some(error),
            _ => None,
        }
    }
}
