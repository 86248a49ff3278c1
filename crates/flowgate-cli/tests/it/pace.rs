//! `flowgate pace` as users run it.
//!
//! Times are only ever bounded from below: how late a line is depends on what else the machine is doing. A line that
//! must not wait for a turn is told by a rate of one per hour.

#![cfg(unix)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{finished, flowgate, run, signal};

/// Longer than anything takes that does not wait for an hour.
const PATIENCE: Duration = Duration::from_secs(60);

/// More than a pipe holds.
const LARGE: usize = 256 << 10;

/// A `flowgate pace` that runs; killed if a test fails, or takes too long.
struct Pace {
    child: Child,
    /// Hangs up when it is dropped.
    _watched: Sender<()>,
    input: Option<ChildStdin>,
    started: Instant,
}

impl Pace {
    fn start(arguments: &[&str]) -> Pace {
        let started = Instant::now();
        let mut child = flowgate(&[&["pace"], arguments].concat())
            .stdin(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let input = child.stdin.take();
        let pid = child.id();
        let (watched, ended) = channel();
        thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                signal(pid, "-KILL");
            }
        });
        Pace {
            child,
            _watched: watched,
            input,
            started,
        }
    }

    /// Gives it all of this, and waits until it has been taken.
    fn give(&mut self, input: &[u8]) {
        let stdin = self.input.as_mut().expect("open");
        stdin.write_all(input).expect("it reads");
    }

    /// Gives it all of this, and the end, while others read what comes of it.
    fn give_all(&mut self, input: &[u8]) {
        let mut stdin = self.input.take().expect("open");
        let input = input.to_vec();
        thread::spawn(move || {
            // It need not read to the end.
            let _ = stdin.write_all(&input);
        });
    }

    /// Its output, as it arrives and when, in parts that `end` ends.
    fn lines(&mut self, end: u8) -> Receiver<(Instant, Vec<u8>)> {
        let mut output = BufReader::new(self.child.stdout.take().expect("not taken before"));
        let (arrived, lines) = channel();
        thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                output.read_until(end, &mut line).expect("readable");
                if line.is_empty() || arrived.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        lines
    }

    fn interrupt(&self) {
        signal(self.child.id(), "-INT");
    }

    /// Its exit code, and what is left of its output and its complaints.
    fn end(mut self) -> (i32, Vec<u8>, String) {
        drop(self.input.take());
        let mut out = Vec::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_end(&mut out).expect("readable");
        }
        let mut err = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut err).expect("UTF-8");
        }
        let status = self.child.wait().expect("it ends");
        (status.code().expect("not by a signal"), out, err)
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs it to its end.
fn paced(arguments: &[&str], input: &[u8]) -> (i32, Vec<u8>, String) {
    let mut pace = Pace::start(arguments);
    pace.give_all(input);
    pace.end()
}

fn next<T>(arrivals: &Receiver<T>) -> T {
    arrivals.recv_timeout(PATIENCE).expect("it comes")
}

#[test]
fn what_is_read_is_written() {
    let every_byte: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let mut long = vec![b'x'; 3 << 20];
    long.push(b'\n');
    let ends_long = [b"a\n", &long[..2 << 20]].concat();
    let one_too_long = [&vec![b'y'; 1 << 20][..], b"\nz\n"].concat();
    for input in [
        b"",
        &b"a"[..],
        b"a\n",
        b"\n",
        b"\n\n\n",
        b"\na",
        b"1\r\n2\r\n\r\n3",
        b"\xff\xfe\0\n\xc3\n\0",
        &every_byte,
        &[b"1\n", &long[..], b"2\n\n", &long, b"3"].concat(),
        &ends_long,
        &one_too_long[..1 << 20],
        &one_too_long,
    ] {
        for arguments in [&["1M/s"][..], &["-0", "1M/s"], &["1M/s", "--precise"]] {
            let (exit, out, err) = paced(arguments, input);
            let length = input.len();
            assert_eq!((exit, err.as_str()), (0, ""), "{arguments:?} {length}");
            assert!(out == input, "{arguments:?} {length}: other bytes");
        }
    }
}

#[test]
fn c1_lines_are_never_closer_than_the_rate_says() {
    let interval = Duration::from_millis(25);
    for arguments in [&["40/s"][..], &["40/s", "--precise"], &["2400/min", "-0"]] {
        let end = if arguments.contains(&"-0") { 0 } else { b'\n' };
        let mut pace = Pace::start(arguments);
        let lines = pace.lines(end);
        pace.give_all(&[b'x', end].repeat(12));
        for turn in 0..12 {
            let (arrived, line) = next(&lines);
            assert_eq!(line, [b'x', end]);
            let after = arrived - pace.started;
            assert!(after >= interval * turn, "{turn}: {after:?} {arguments:?}");
        }
        assert_eq!(pace.end(), (0, Vec::new(), String::new()));
    }
}

#[test]
fn c1_turns_that_were_missed_are_not_made_up_for() {
    let interval = Duration::from_millis(100);
    let mut pace = Pace::start(&["10/s"]);
    let lines = pace.lines(b'\n');
    for _ in 0..3 {
        pace.give(b"early\n");
        next(&lines);
        // A slow producer.
        thread::sleep(interval * 2);
        let given = Instant::now();
        pace.give(b"late\nlater\nlatest\n");
        for turn in 0..3 {
            let (arrived, _) = next(&lines);
            assert!(arrived - given >= interval * turn, "{turn}");
        }
    }
}

#[test]
fn c1_the_distance_counts_from_the_end_of_a_write() {
    let interval = Duration::from_millis(100);
    let mut pace = Pace::start(&["10/s"]);
    let mut output = pace.child.stdout.take().expect("piped");
    pace.give_all(&[&vec![b'x'; LARGE][..], b"\ny\n"].concat());
    let mut byte = [0];
    output.read_exact(&mut byte).expect("the first line");
    // A slow reader: the write has begun, and cannot end.
    thread::sleep(interval * 2);
    let read_on = Instant::now();
    let mut rest = vec![0; LARGE];
    output.read_exact(&mut rest).expect("the first line");
    output.read_exact(&mut byte).expect("the second line");
    assert_eq!((rest[LARGE - 1], byte), (b'\n', *b"y"));
    assert!(read_on.elapsed() >= interval);
}

#[test]
fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
    let interval = Duration::from_millis(50);
    let mut pace = Pace::start(&["20/s burst 3"]);
    let lines = pace.lines(b'\n');
    pace.give_all(&b"x\n".repeat(8));
    for turn in 0u32..8 {
        let after = next(&lines).0 - pace.started;
        let least = interval * turn.saturating_sub(2);
        assert!(after >= least, "{turn}: {after:?}");
    }
    let (exit, out, _) = paced(&["1/h burst 3"], b"1\n2\n3");
    assert_eq!((exit, &out[..]), (0, &b"1\n2\n3"[..]));
}

/// At one per hour there is one line to be seen.
#[test]
fn the_first_line_goes_at_once_whole_and_alone() {
    let long = [&vec![b'x'; 3 << 20][..], b"\n"].concat();
    for (arguments, end, line) in [
        (&["1/h"][..], b'\n', &b"a\n"[..]),
        (&["1/h"], b'\n', b"\n"),
        (&["1/h"], b'\n', b"a\0b\n"),
        (&["1/h", "-0"], 0, b"a\nb\n\nc\0"),
        (&["1/h", "--null"], 0, b"\0"),
        (&["1/h"], b'\n', &long),
    ] {
        // While the input is still open, whatever is behind it.
        for behind in [&b""[..], b"b", &[b'b', end]] {
            let mut pace = Pace::start(arguments);
            let lines = pace.lines(end);
            pace.give(&[line, behind].concat());
            let (_, arrived) = next(&lines);
            assert!(arrived == line, "{arguments:?}: {} bytes", arrived.len());
            assert!(pace.child.try_wait().expect("a child").is_none());
            assert!(lines.try_recv().is_err());
        }
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mut pace = Pace::start(&["1000/s"]);
    let mut output = BufReader::new(pace.child.stdout.take().expect("piped"));
    pace.give_all(&b"x\n".repeat(1_000_000));
    output.read_until(b'\n', &mut Vec::new()).expect("a line");
    drop(output);
    assert_eq!(pace.end(), (0, Vec::new(), String::new()));
}

/// Also while it waits for an hour, or for input.
#[test]
fn a_reader_that_goes_away_is_noticed_at_once() {
    for behind in [&b"2\n"[..], b""] {
        let mut pace = Pace::start(&["1/h"]);
        let mut output = BufReader::new(pace.child.stdout.take().expect("piped"));
        pace.give(&[b"1\n", behind].concat());
        output.read_until(b'\n', &mut Vec::new()).expect("a line");
        drop(output);
        // Its input is still open.
        let status = pace.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{behind:?}");
    }
}

#[test]
fn a_file_is_a_reader_that_stays() {
    let path = std::env::temp_dir().join(format!("flowgate-paced-{}", std::process::id()));
    let file = File::create(&path).expect("writable");
    let mut command = flowgate(&["pace", "100/s"]);
    command.stdin(Stdio::piped()).stdout(file);
    let mut child = command.spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"1\n2\n3\n").expect("a pipe holds it");
    drop(input);
    let (exit, _, err) = finished(child.wait_with_output().expect("it ends"));
    assert_eq!((exit, err.as_str()), (0, ""));
    assert_eq!(std::fs::read(&path).expect("there"), b"1\n2\n3\n");
    std::fs::remove_file(path).expect("there");
}

#[test]
fn ctrl_c_ends_a_wait_at_once() {
    let mut pace = Pace::start(&["1/h"]);
    let lines = pace.lines(b'\n');
    pace.give(b"1\n2\n");
    // After this it waits, for an hour.
    next(&lines);
    pace.interrupt();
    assert_eq!(pace.end().0, 130);
    assert!(lines.recv().is_err());
}

/// Interrupted within a line of 2 MiB, which nobody has read on; many others are behind it.
fn interrupted_within_a_line(rate: &str) -> (Pace, BufReader<ChildStderr>) {
    let mut pace = Pace::start(&[rate]);
    let mut line = vec![b'x'; (2 << 20) - 1];
    line.push(b'\n');
    pace.give_all(&[&line[..], &b"y\n".repeat(1000)].concat());
    let output = pace.child.stdout.as_mut().expect("piped");
    output.read_exact(&mut [0]).expect("it has begun");
    pace.interrupt();
    let mut complaints = BufReader::new(pace.child.stderr.take().expect("piped"));
    let mut complaint = String::new();
    complaints.read_line(&mut complaint).expect("UTF-8");
    assert!(
        complaint.starts_with("flowgate: stopping after the line"),
        "{complaint:?}"
    );
    (pace, complaints)
}

#[test]
fn ctrl_c_cuts_no_line_in_two() {
    // Neither when the next may go immediately, nor when it would be long until then.
    for rate in ["1M/s", "1/h"] {
        let (pace, _complaints) = interrupted_within_a_line(rate);
        let (exit, out, _) = pace.end();
        assert_eq!((exit, out.len()), (130, (2 << 20) - 1));
        assert_eq!(out.last(), Some(&b'\n'));
    }
}

#[test]
fn ctrl_c_again_waits_for_no_reader() {
    let (mut pace, _complaints) = interrupted_within_a_line("1M/s");
    pace.interrupt();
    assert_eq!(pace.child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn what_cannot_be_read_or_written_is_said() {
    let directory = File::open("/").expect("there is one");
    let output = flowgate(&["pace", "1M/s"]).stdin(directory).output();
    let (exit, out, err) = finished(output.expect("the binary runs"));
    assert_eq!((exit, out.as_str()), (1, ""));
    assert!(
        err.starts_with("flowgate: cannot read standard input: "),
        "{err}"
    );
    assert_eq!(err.lines().count(), 1, "{err}");

    if cfg!(target_os = "linux") {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("there");
        let mut command = flowgate(&["pace", "1M/s"]);
        command.stdin(Stdio::piped()).stdout(full);
        let mut child = command.spawn().expect("the binary runs");
        let mut input = child.stdin.take().expect("piped");
        input.write_all(b"1\n2\n").expect("a pipe holds it");
        let (exit, _, err) = finished(child.wait_with_output().expect("it ends"));
        assert_eq!(exit, 1);
        assert!(
            err.starts_with("flowgate: cannot write to standard output: "),
            "{err}"
        );
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn bad_arguments_are_answered_in_one_line() {
    let table: &[(&[&str], &str)] = &[
        (&[], "write flowgate pace 2/s"),
        (&["-0"], "write flowgate pace 2/s"),
        (&[""], "write 1000/s"),
        (&["0"], "must be more than 0"),
        (&["-5"], "no sign"),
        (&["-0", "-5/s"], "no sign"),
        (&["NaN"], "NaN"),
        (&["1e99"], "1e99"),
        (&["5/fortnight"], "fortnight"),
        (&["2/s burst 0"], "1 or more"),
        (&["2/s burst"], "(write '2/s burst 5')"),
        (&["2/s units 5"], "units"),
        (&["10MiB/s"], "bytes"),
        (&["1/400y"], "292 years"),
        (&["10hz"], "write 10/s"),
        (&["2/s", "file"], "write flowgate pace 2/s < file"),
        (&["file", "2/s"], "write flowgate pace 2/s < file"),
        (&["-q", "2"], "write flowgate pace 2"),
        (&["--rate", "2/s"], "write flowgate pace 2/s"),
        (
            &["--burst", "5", "2/s"],
            "write flowgate pace '2/s burst 5'",
        ),
        (&["-z", "5s", "2/s"], "unexpected argument '-z' found"),
        (&["2/s", "--bytes"], "unexpected argument '--bytes'"),
    ];
    for (arguments, expected) in table {
        let (exit, out, err) = run(&[&["pace"], *arguments].concat());
        assert_eq!((exit, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
        assert!(err.starts_with("flowgate: "), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn help_shows_an_example() {
    let (exit, out, err) = run(&["pace", "--help"]);
    assert_eq!((exit, err.as_str()), (0, ""));
    for word in [
        "cat urls.txt | flowgate pace 2/s | xargs -n1 curl -sO",
        "flowgate pace [OPTIONS] <RATE>",
        "about 100,000 lines",
        "--null",
        "--precise",
        "Exit codes",
    ] {
        assert!(out.contains(word), "{word} is not in:\n{out}");
    }
}
