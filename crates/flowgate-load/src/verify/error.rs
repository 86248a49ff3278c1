use std::error::Error;
use std::fmt;

use hyper::StatusCode;

use super::StatusRanges;
use crate::engine::RunError;
use crate::failure::Failure;

/// Why a server could not be asked, or not any longer.
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
///     Err(VerifyError::Neither { status, .. }) => assert_eq!(status, 200),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum VerifyError {
    /// It was not found, or no connection could be made.
    Run(RunError),
    /// It gave no answer, or none any longer.
    NoAnswer(Failure),
    /// It sends those who ask to somewhere else.
    Redirect {
        /// What it answered.
        status: StatusCode,
        /// Where to, if it says so: a whole URL, if it is not beside the path that was asked for.
        location: Option<String>,
    },
    /// It sends those who ask to where they are.
    RedirectLoop {
        /// What it answered.
        status: StatusCode,
    },
    /// What it answers is neither yes nor no.
    Neither {
        /// What it answered.
        status: StatusCode,
        /// What would be yes.
        admitted: StatusRanges,
        /// What would be no.
        refused: StatusRanges,
    },
    /// It was stopped.
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
                write!(f, "no answer: {failure}")?;
                match failure.advice() {
                    Some(advice) => write!(f, "; {advice}"),
                    None if *failure == Failure::Timeout => f.write_str("; -t gives it longer"),
                    None => Ok(()),
                }
            }
            VerifyError::Redirect { status, location } => {
                write!(f, "it answers {status}")?;
                match location {
                    Some(location) => write!(f, ", to {location}: type that URL"),
                    None => f.write_str(" and does not say where to: type another URL"),
                }
            }
            VerifyError::RedirectLoop { status } => write!(
                f,
                "it answers {status}, to this same URL: type another, or say with -H what it wants to see"
            ),
            VerifyError::Neither {
                status,
                admitted,
                refused,
            } => {
                write!(
                    f,
                    "it answers {status}, which is neither yes ({admitted}) nor no ({refused}): "
                )?;
                if matches!(*status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                    f.write_str("say who asks with -a or -H, ")?;
                }
                f.write_str("type another URL, or say what it is with --admitted or --refused")
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
