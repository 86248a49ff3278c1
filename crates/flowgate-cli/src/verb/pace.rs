//! `flowgate pace`: copy lines at a rate.

use std::io::{self, BufRead, ErrorKind, Read, Write, stdin, stdout};
use std::process;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use flowgate::{Clock, LeakyBucket, Precision, Quota};

use crate::argument;
use crate::exit::{Exit, Refusal, complain};
use crate::interrupt::Interrupts;

/// The longest line that is held until it is whole, in bytes. A longer one goes through in pieces of this size.
const LONGEST_LINE: u64 = 1 << 20;

const EXPLANATION: &str = "\
Examples:
  cat urls.txt | flowgate pace 2/s | xargs -n1 curl -sO
      Fetch what is listed, one every half second.
  find . -name '*.log' -print0 | flowgate pace -0 30/min | xargs -0 -n1 gzip
      File names with spaces and all.
  tail -f access.log | flowgate pace '10/s burst 5'
      After a pause, up to five lines in one burst.

The first line is written immediately. The gap to the next line counts from the
end of the last write. So the gap is never shorter than the rate allows, and
usually a little longer: the rate is usually a little lower than the one given.
The maximum is about 100,000 lines per second. A line that arrives late is
written immediately, and lost time is not caught up with, except by a burst.

Lines are any bytes, and are not changed. Each line is written whole, as soon as
the rate allows; a line of more than 1 MiB is passed on in pieces. When the
reader has gone away, the command ends: immediately on Unix, elsewhere when it
writes the next line.

Exit codes:
  0    all is written, or nobody reads it
  1    could not read or write
  2    bad arguments
  130  stopped by Ctrl-C, which waits for a line that is being written (again:
       it does not)";

/// Copy lines from standard input to standard output, never faster than at a rate
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Pace {
    /// How often: 2/s, 30/min, 1/10s, '2/s burst 5'; a bare number is per second
    #[arg(value_parser = rate, allow_hyphen_values = true)]
    rate: Quota,

    /// Lines end with NUL instead of newline, as those of find -print0 do
    #[arg(short = '0', long)]
    null: bool,

    /// Come nearer to the rate: wait awake at the end, for up to 60 µs of a processor per line
    #[arg(long)]
    precise: bool,
}

/// Runs the verb: copies until there is no more to read, or nobody who reads.
pub(crate) fn run(pace: Pace) -> Exit {
    match begin(&pace).and_then(|turns| {
        let end = if pace.null { b'\0' } else { b'\n' };
        copy(stdin().lock(), stdout().lock(), end, &turns).map_err(Refusal::could_not_run)
    }) {
        Ok(exit) => exit,
        Err(refusal) => refusal.say(),
    }
}

/// Whose turn it is, and who may end it before its end.
fn begin(pace: &Pace) -> Result<LeakyBucket, Refusal> {
    // The clock that others will measure it by.
    let turns = LeakyBucket::builder(pace.rate)
        .clock(Clock::os())
        .build()
        .map_err(|error| Refusal::usage(error.to_string()))?;
    if pace.precise {
        turns.queue().set_precision(Precision::Strict);
    }
    end_on_ctrl_c()
        .map_err(|error| Refusal::could_not_run(format!("cannot listen for Ctrl-C: {error}")))?;
    // Without it, the next line finds out.
    let _ = end_with_the_reader();
    Ok(turns)
}

/// Copies lines, which `end` ends, each in its turn.
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
        // The turn was taken before the write. That may have lasted, until the reader had made room or because the
        // processor was wanted elsewhere: it is taken anew, as of now.
        turns.refund(1);
        turns.try_acquire().map_err(|denied| denied.to_string())?;
        is_within = piece.last() != Some(&end);
        if !is_within && !change(WITHIN_LINE, BETWEEN_LINES) {
            return Ok(Exit::Interrupted);
        }
    }
}

/// Where the copy is when Ctrl-C comes, and that it has come.
///
/// ```text
///                  a line begins
///   BETWEEN_LINES ───────────────▶ WITHIN_LINE
///      │          ◀───────────────   │
///      │              it ends        │
///      ╰──────────▶ STOPPED ◀────────╯    Ctrl-C; who finds nothing to finish ends the process
/// ```
static STATE: AtomicU8 = AtomicU8::new(BETWEEN_LINES);

const BETWEEN_LINES: u8 = 0;
const WITHIN_LINE: u8 = 1;
const STOPPED: u8 = 2;

/// How long Ctrl-C waits for a line without saying so.
const GRACE: Duration = Duration::from_millis(100);

/// Goes from one state to another, unless it has been stopped.
fn change(from: u8, to: u8) -> bool {
    // Nothing else hangs on it that other threads could see.
    STATE
        .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
}

/// From now on Ctrl-C ends the process with exit code 130, after the line that is being written; a second one does
/// not wait for that. When this returns, no Ctrl-C can be missed.
fn end_on_ctrl_c() -> io::Result<()> {
    let mut interrupts = Interrupts::new()?;
    let ending = move || {
        interrupts.wait();
        if STATE.swap(STOPPED, Ordering::Relaxed) == WITHIN_LINE {
            // Mostly the line has ended, and with it the process, before there is anything to say. A second Ctrl-C
            // is not lost meanwhile.
            thread::sleep(GRACE);
            complain(
                &"stopping after the line that is being written (Ctrl-C again quits immediately)",
            );
            interrupts.wait();
        }
        process::exit(130);
    };
    thread::Builder::new()
        .name("flowgate-ctrl-c".to_owned())
        .spawn(ending)?;
    Ok(())
}

/// From now on the process ends, with exit code 0, when nobody can read its output any more: also while it waits for a
/// turn or for input.
#[cfg(unix)]
fn end_with_the_reader() -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;

    let watching = || {
        let output = stdout();
        loop {
            // Nothing is asked for: that the other end is closed is told anyway. A file has no other end.
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

/// The next line finds out.
#[cfg(not(unix))]
fn end_with_the_reader() -> io::Result<()> {
    Ok(())
}

/// Reads a rate as every verb does, and a burst beside it.
fn rate(text: &str) -> Result<Quota, String> {
    match text.parse::<Quota>() {
        Ok(_) if text.contains('B') => {
            Err("counts bytes, but lines are copied: type 1000/s".to_owned())
        }
        Ok(quota) if quota.scale() != 1 => {
            Err("a line is one unit: leave the word units and its number out".to_owned())
        }
        Ok(quota) => Ok(quota),
        Err(error) if text.contains("burst") => Err(format!("{error} (type '2/s burst 5')")),
        // A bare number, or something of which is known what is wrong with it.
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
            ("", "type 1000/s"),
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
