//! Exit codes, and the two output streams.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;

/// The exit codes of all subcommands: the end of every help text.
macro_rules! exit_codes {
    () => {
        "\
Exit codes of all subcommands:
  0    success: load held the rate or kept the limit, or had none, and few
       requests failed; verify found the expected limit, or had none
  1    could not run: no connection, no free port, a file that cannot be opened
  2    bad arguments; decide: a mistake in FILE, an address in use, a bad
       certificate, or a state that cannot be read or written
  3    load: a condition of --fail-if is true
       verify: the limiter does not match --expect, or has a defect of
       --fail-on
       simulate: no number keeps --suggest
       find: no load keeps --slo
  4    load: rate not held, or rate limit not kept
       verify: too few responses to decide about --expect
       find: no result within --within or --max-requests, or this client was
       always late
  5    load: more requests failed than --max-errors allows
       find: the server was lost, or did not recover
  130  stopped by Ctrl-C or SIGTERM; serve and decide then
       exit with 0"
    };
}
pub(crate) use exit_codes;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did what it was asked to do.
    Success,
    /// The command could not start, or could not write its results: refused port, unknown host, …
    CouldNotRun,
    /// The arguments are invalid.
    Usage,
    /// A condition of `--fail-if` is true, or the limiter does not match `--expect`.
    GateFailed,
    /// The rate was not held, or the rate limit not kept.
    RateMissed,
    /// More requests failed than allowed, or the server was lost.
    ServerFailed,
    /// There were too few responses to decide about `--expect`, or too little time for a search.
    Undecided,
    /// Ctrl-C or SIGTERM stopped the command.
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
            Exit::ServerFailed => 5,
            // 128 + SIGINT, as a shell reports it.
            Exit::Interrupted => 130,
        })
    }
}

/// Why the command ends early: one line of text, and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    message: String,
    exit: Exit,
}

impl Refusal {
    /// Creates a refusal of invalid arguments.
    pub(crate) fn usage(message: impl Into<String>) -> Refusal {
        Refusal {
            message: message.into(),
            exit: Exit::Usage,
        }
    }

    /// Creates a refusal of valid arguments that cannot be carried out.
    pub(crate) fn could_not_run(message: impl Into<String>) -> Refusal {
        Refusal {
            message: message.into(),
            exit: Exit::CouldNotRun,
        }
    }

    /// Prints the line, and returns the exit code.
    pub(crate) fn say(self) -> Exit {
        complain(&self.message);
        self.exit
    }
}

/// Writes to standard output. A reader that has exited (`… | head -1`) is not an error.
pub(crate) fn print(text: &dyn Display) -> Result<(), Refusal> {
    print_bytes(text.to_string().as_bytes())
}

/// Writes bytes to standard output, as [`print()`] does.
pub(crate) fn print_bytes(content: &[u8]) -> Result<(), Refusal> {
    let write = || -> io::Result<()> {
        let mut stdout = stdout().lock();
        stdout.write_all(content)?;
        stdout.flush()
    };
    match write() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Refusal::could_not_run(
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Prints one line on standard error.
pub(crate) fn complain(message: &dyn Display) {
    // One write, so that the output of other processes does not split the line.
    let _ = stderr().write_all(format!("flowgate: {message}\n").as_bytes());
}
