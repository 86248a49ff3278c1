//! `flowgate pace`: copy lines at a rate.

use std::io::{self, BufRead, ErrorKind, Read, Write, stdin, stdout};
use std::process;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use flowgate::{Clock, LeakyBucket, Precision, Quota};

use crate::argument;
use crate::exit::{Exit, Refusal, complain, exit_codes};
use crate::interrupt;

/// Maximum length of a line that is buffered, in bytes. A longer line is passed on in pieces of this size.
const LONGEST_LINE: u64 = 1 << 20;

const EXPLANATION: &str = concat!(
    "\
Examples:
  cat urls.txt | flowgate pace 2/s | xargs -n1 curl -sO
      Fetch the listed URLs, one every half second.
  find . -name '*.log' -print0 | flowgate pace -0 30/min | xargs -0 -n1 gzip
      Compress 30 files per minute; file names may contain spaces.
  tail -f access.log | flowgate pace '10/s burst 5'
      After a pause, up to five lines in one burst.

The first line is written immediately. The gap to the next line counts from the
end of the last write. So the gap is never shorter than the rate allows, and
usually a little longer: the real rate is a little lower than the one given. The
maximum is about 100,000 lines per second. A line that arrives late is written
immediately, and lost time is not caught up with, except by a burst.

Lines are any bytes, and are not changed. Each line is written whole, as soon as
the rate allows; a line of more than 1 MiB is passed on in pieces. When the
reader of the output exits, the command ends with 0: immediately on Unix,
elsewhere when it writes the next line. Ctrl-C waits for the end of a line that
is being written; a second Ctrl-C does not.

",
    exit_codes!()
);

/// Copy lines from standard input to standard output, never above a rate
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Pace {
    /// Never exceed this rate: 2/s, 30/min, 1/10s, '2/s burst 5'; a bare number is per second
    #[arg(value_parser = rate, allow_hyphen_values = true)]
    rate: Quota,

    /// Split at NUL instead of newline, as in the output of find -print0
    #[arg(short = '0', long)]
    null: bool,

    /// Come closer to the rate: busy-wait for up to 60 µs per line
    #[arg(long)]
    precise: bool,
}

/// Runs the subcommand: copies until the end of the input, or until the reader of the output exits.
pub(crate) fn run(pace: Pace) -> Exit {
    match begin(&pace).and_then(|turns| {
        let end = if pace.null { b'\0' } else { b'\n' };
        copy(stdin().lock(), stdout().lock(), end, &turns).map_err(Refusal::could_not_run)
    }) {
        Ok(exit) => exit,
        Err(refusal) => refusal.say(),
    }
}

/// Creates the limiter, and handles Ctrl-C and the end of the reader.
fn begin(pace: &Pace) -> Result<LeakyBucket, Refusal> {
    // The clock that other programs measure with.
    let turns = LeakyBucket::builder(pace.rate)
        .clock(Clock::os())
        .build()
        .map_err(|error| Refusal::usage(error.to_string()))?;
    if pace.precise {
        turns.queue().set_precision(Precision::Strict);
    }
    end_on_ctrl_c()
        .map_err(|error| Refusal::could_not_run(format!("cannot listen for Ctrl-C: {error}")))?;
    // Without it, the next write detects the end.
    let _ = end_with_the_reader();
    Ok(turns)
}

/// Copies lines, which end with `end`, as the limiter allows.
fn copy(
    mut input: impl BufRead,
    mut output: impl Write,
    end: u8,
    turns: &LeakyBucket,
) -> Result<Exit, String> {
    let mut piece = Vec::new();
    let mut is_within = false;
    loop {
        piece.clear();
        (&mut input)
            .take(LONGEST_LINE)
            .read_until(end, &mut piece)
            .map_err(|error| format!("cannot read standard input: {error}"))?;
        if piece.is_empty() {
            let is_stopped = is_within && !change(WITHIN_LINE, BETWEEN_LINES);
            return Ok(if is_stopped {
                Exit::Interrupted
            } else {
                Exit::Success
            });
        }
        if !is_within {
            turns.take().map_err(|denied| denied.to_string())?;
            if !change(BETWEEN_LINES, WITHIN_LINE) {
                return Ok(Exit::Interrupted);
            }
        }
        match output.write_all(&piece).and_then(|()| output.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Success),
            Err(error) => return Err(format!("cannot write to standard output: {error}")),
        }
        // The token was taken before the write, which may have blocked. Take it again as of now.
        turns.refund(1);
        turns.try_acquire().map_err(|denied| denied.to_string())?;
        is_within = piece.last() != Some(&end);
        if !is_within && !change(WITHIN_LINE, BETWEEN_LINES) {
            return Ok(Exit::Interrupted);
        }
    }
}

/// State of the copy when Ctrl-C comes.
///
/// ```text
///                  a line begins
///   BETWEEN_LINES ───────────────▶ WITHIN_LINE
///      │          ◀───────────────   │
///      │              it ends        │
///      ╰──────────▶ STOPPED ◀────────╯    Ctrl-C; between lines the process ends
/// ```
static STATE: AtomicU8 = AtomicU8::new(BETWEEN_LINES);

const BETWEEN_LINES: u8 = 0;
const WITHIN_LINE: u8 = 1;
const STOPPED: u8 = 2;

/// How long Ctrl-C waits for a line before it prints a message.
const GRACE: Duration = Duration::from_millis(100);

/// Changes the state, unless the copy has been stopped.
fn change(from: u8, to: u8) -> bool {
    // No other memory depends on this state.
    STATE
        .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
}

/// Makes Ctrl-C end the process with exit code 130 after the current line; a second Ctrl-C does not wait.
/// When this returns, no Ctrl-C can be missed.
fn end_on_ctrl_c() -> io::Result<()> {
    interrupt::end_by(|interrupts| {
        interrupts.wait();
        if STATE.swap(STOPPED, Ordering::Relaxed) == WITHIN_LINE {
            // Usually the line, and with it the process, ends within this time. A second Ctrl-C is not lost meanwhile.
            thread::sleep(GRACE);
            complain(
                &"stopping after the line that is being written (Ctrl-C again quits immediately)",
            );
            interrupts.wait();
        }
    })
}

/// Makes the process end with exit code 0 when the reader of its output exits, even while it waits for the limiter or
/// for input.
#[cfg(unix)]
fn end_with_the_reader() -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;

    let watching = || {
        let output = stdout();
        loop {
            // No flags: `poll` always reports a closed pipe. A file has no reader.
            let mut watched = [PollFd::new(&output, PollFlags::empty())];
            match poll(&mut watched, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let events = watched[0].revents();
            if events.contains(PollFlags::NVAL) {
                return;
            }
            if events.intersects(PollFlags::ERR | PollFlags::HUP) {
                process::exit(0);
            }
        }
    };
    thread::Builder::new()
        .name("flowgate-reader".to_owned())
        .spawn(watching)?;
    Ok(())
}

/// The next write detects the end.
#[cfg(not(unix))]
fn end_with_the_reader() -> io::Result<()> {
    Ok(())
}

/// Parses a rate as every subcommand does, with an optional burst.
fn rate(text: &str) -> Result<Quota, String> {
    match text.parse::<Quota>() {
        Ok(_) if text.contains('B') => {
            Err("is a rate of bytes, but pace counts lines: write 1000/s".to_owned())
        }
        Ok(quota) if quota.scale() != 1 => {
            Err("a line is one unit: remove the word units and its number".to_owned())
        }
        Ok(quota) => Ok(quota),
        Err(error) if text.contains("burst") => Err(format!("{error} (write '2/s burst 5')")),
        // A bare number, or a common mistake.
        Err(_) => argument::rate::parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_may_have_a_burst() {
        for (text, expected) in [
            ("2/s", "2/s"),
            ("2", "2/s"),
            ("2.5k", "2.5k/s"),
            ("30/min", "30/min"),
            ("1/10s", "1/10s"),
            ("2/s burst 5", "2/s burst 5"),
            (" 2/s burst 5 ", "2/s burst 5"),
        ] {
            assert_eq!(rate(text), Ok(expected.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_of_lines_says_what_to_type() {
        for (text, expected) in [
            ("", "write 1000/s"),
            ("0", "must be more than 0"),
            ("-5/s", "-5"),
            ("5/fortnight", "fortnight"),
            ("10MiB/s", "bytes"),
            ("10MiB/s burst 64KiB", "bytes"),
            ("2/s burst 0", "burst"),
            ("2/s burst 5 units 10", "units"),
            ("2/s bust 5", "bust"),
            ("many", "many"),
        ] {
            let error = rate(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{text:?}: {error}");
        }
    }
}
