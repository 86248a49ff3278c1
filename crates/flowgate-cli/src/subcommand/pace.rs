//! `flowgate pace`: copy lines at a rate.

use std::io::{self, BufRead, ErrorKind, Read, Write, stdin, stdout};
use std::process;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use flowgate::{Clock, LeakyBucket, Precision, Quota};

use crate::argument;
use crate::exit::{Exit, Refusal, complain, exit_codes};
use crate::figure;
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
immediately, and lost time is not caught up with, except by a burst. If more than
1 % of the rate is lost because the system wakes this process late, a line on
standard error reports it at the end.

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
        let mut lateness = Lateness::of(pace.rate);
        let (input, output) = (stdin().lock(), stdout().lock());
        let exit = copy(input, output, end, &turns, &mut lateness);
        if let Some(message) = lateness.message(pace.rate, pace.precise) {
            complain(&message);
        }
        exit.map_err(Refusal::could_not_run)
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
    lateness: &mut Lateness,
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
            lateness.begins(Instant::now());
            turns.take().map_err(|denied| denied.to_string())?;
            lateness.ends(Instant::now());
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
        lateness.wrote(Instant::now());
        is_within = piece.last() != Some(&end);
        if !is_within && !change(WITHIN_LINE, BETWEEN_LINES) {
            return Ok(Exit::Interrupted);
        }
    }
}

/// How late lines were written that had to wait for the rate.
///
/// A gap is never shorter than the rate allows, so a late line delays all later ones, and lost time stays lost.
#[derive(Debug)]
struct Lateness {
    gap: Duration,
    /// Whether a burst can make good for late lines.
    has_burst: bool,
    /// The time from which the next line may be written.
    due: Option<Instant>,
    /// Whether the current line was there before that time.
    waits: bool,
    waited: u32,
    late: Duration,
}

/// Number of lines from which the mean lateness is known.
const ENOUGH: u32 = 100;
/// Share of the rate that may be lost without a message.
const UNNOTICED: f64 = 0.01;

impl Lateness {
    fn of(rate: Quota) -> Lateness {
        let gap = rate.period().as_secs_f64() / rate.count() as f64;
        Lateness {
            gap: Duration::try_from_secs_f64(gap).unwrap_or(Duration::MAX),
            has_burst: rate.explicit_burst().is_some_and(|burst| burst > 1),
            due: None,
            waits: false,
            waited: 0,
            late: Duration::ZERO,
        }
    }

    /// A line has been read.
    fn begins(&mut self, now: Instant) {
        self.waits = self.due.is_some_and(|due| now < due);
    }

    /// The line may be written.
    fn ends(&mut self, now: Instant) {
        if let Some(due) = self.due.filter(|_| self.waits) {
            self.waited = self.waited.saturating_add(1);
            self.late += now.saturating_duration_since(due);
        }
    }

    /// The line has been written.
    fn wrote(&mut self, now: Instant) {
        self.due = now.checked_add(self.gap);
    }

    /// Returns what to print if the rate fell short because this process was woken late.
    fn message(&self, rate: Quota, is_precise: bool) -> Option<String> {
        if self.has_burst || self.waited < ENOUGH {
            return None;
        }
        let late = self.late / self.waited;
        let reached = self.gap.as_secs_f64() / (self.gap + late).as_secs_f64();
        if reached > 1.0 - UNNOTICED {
            return None;
        }
        let per_second = reached / self.gap.as_secs_f64();
        let advice = match is_precise {
            true => "a burst catches up",
            false => "try --precise",
        };
        Some(format!(
            "about {} of {rate}, because lines that waited were {} late: {advice}",
            figure::rate(per_second),
            figure::time(late)
        ))
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

    /// Lines that are there 1 ms early each, and are let through this late.
    fn message(rate: &str, lines: u32, late_us: u64) -> Option<String> {
        let rate: Quota = rate.parse().unwrap();
        let mut lateness = Lateness::of(rate);
        let mut now = Instant::now();
        for _ in 0..=lines {
            lateness.begins(now);
            now += lateness.gap + Duration::from_micros(late_us);
            lateness.ends(now);
            lateness.wrote(now);
        }
        lateness.message(rate, false)
    }

    #[test]
    fn a_rate_that_late_wake_ups_make_lower_is_said() {
        let said = message("1000/s", 500, 0).or(message("1000/s", 99, 500));
        assert_eq!(said, None, "not late, or too few");
        let said = message("1k/s", 500, 39).unwrap();
        let expected =
            "about 962/s of 1000/s, because lines that waited were 39 µs late: try --precise";
        assert_eq!(said, expected);
        assert_eq!(message("1000/s", 500, 10), None, "1 % is not worth a line");
        assert_eq!(message("1000/s burst 5", 500, 39), None, "it catches up");
    }

    #[test]
    fn lines_that_come_late_themselves_do_not_count() {
        let rate: Quota = "1000/s".parse().unwrap();
        let mut lateness = Lateness::of(rate);
        let mut now = Instant::now();
        for _ in 0..500 {
            now += Duration::from_millis(5);
            lateness.begins(now);
            lateness.ends(now);
            lateness.wrote(now);
        }
        assert_eq!(lateness.message(rate, false), None);
    }

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
