//! What the command's exit codes mean, and its two streams.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked to do.
    Success,
    /// It could not begin: refused port, unknown host, …
    CouldNotRun,
    /// The arguments make no sense.
    Usage,
    /// It ran, but the rate was not held.
    NotHeld,
    /// It was stopped by Ctrl-C.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Success => 0,
            Exit::CouldNotRun => 1,
            Exit::Usage => 2,
            Exit::NotHeld => 4,
            // 128 + SIGINT, as a shell reports it.
            Exit::Interrupted => 130,
        })
    }
}

/// Writes to standard output. A reader that has gone away (`… | head -1`) is no reason to panic.
pub(crate) fn print(text: &dyn Display) {
    let _ = write!(stdout(), "{text}");
}

/// Says in one line on standard error what is wrong.
pub(crate) fn complain(message: &dyn Display) {
    let _ = writeln!(stderr(), "flowgate: {message}");
}
