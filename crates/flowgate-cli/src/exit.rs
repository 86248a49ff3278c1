//! What the command's exit codes mean, and its two streams.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked to do.
    Success,
    /// It could not begin, or not write what it found out: refused port, unknown host, …
    CouldNotRun,
    /// The arguments make no sense.
    Usage,
    /// It ran, and what `--fail-if` names was so, or what `--expect` names was not.
    GateFailed,
    /// It ran, but the rate was not held, or the rate limit not kept.
    RateMissed,
    /// It ran, but whether `--expect` is so could not be told.
    Undecided,
    /// It was stopped by Ctrl-C, or asked to end in another way.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Success => 0,
            Exit::CouldNotRun => 1,
            Exit::Usage => 2,
            Exit::GateFailed => 3,
            Exit::RateMissed | Exit::Undecided => 4,
            // 128 + SIGINT, as a shell reports it.
            Exit::Interrupted => 130,
        })
    }
}

/// Why the command ends before its work is done: one line, and the exit code that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    message: String,
    exit: Exit,
}

impl Refusal {
    /// An argument makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Refusal {
        Refusal {
            message: message.into(),
            exit: Exit::Usage,
        }
    }

    /// Nothing is wrong with the arguments, but it cannot be done.
    pub(crate) fn could_not_run(message: impl Into<String>) -> Refusal {
        Refusal {
            message: message.into(),
            exit: Exit::CouldNotRun,
        }
    }

    /// Says the line, and gives the exit code.
    pub(crate) fn say(self) -> Exit {
        complain(&self.message);
        self.exit
    }
}

/// Writes to standard output. A reader that has gone away (`… | head -1`) is no failure.
pub(crate) fn print(text: &dyn Display) -> Result<(), Refusal> {
    let write = |text: &dyn Display| -> io::Result<()> {
        let mut stdout = stdout().lock();
        write!(stdout, "{text}")?;
        stdout.flush()
    };
    match write(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Refusal::could_not_run(
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Says in one line on standard error what is wrong.
pub(crate) fn complain(message: &dyn Display) {
    // In one write, so that what others write does not come in between.
    let _ = stderr().write_all(format!("flowgate: {message}\n").as_bytes());
}
