//! The live view, on a terminal made for it.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::support::{flowgate, server};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Makes a terminal of this size. Returns what is drawn on it, and what a process writes to.
pub fn terminal(columns: u16, rows: u16) -> (File, Stdio) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let terminal: OwnedFd = open(name.as_c_str(), flags, Mode::empty()).unwrap();
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).unwrap();
    (File::from(screen), Stdio::from(terminal))
}

/// Runs it with standard error on a terminal of this size. Returns its exit code, its standard output, and what it
/// drew.
pub fn on_terminal(columns: u16, rows: u16, mut command: Command) -> (Option<i32>, String, String) {
    let (mut screen, terminal) = terminal(columns, rows);
    command.stderr(terminal);
    let child = command.spawn().unwrap();
    // Its own end of the terminal goes with it.
    drop(command);
    let drawing = thread::spawn(move || {
        let mut drawn = Vec::new();
        // Ends with an error when the other end is closed.
        let _ = screen.read_to_end(&mut drawn);
        drawn
    });
    let output = child.wait_with_output().unwrap();
    let drawn = String::from_utf8(drawing.join().unwrap()).unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), out, drawn)
}

fn load(arguments: &[&str]) -> Command {
    let run_for = ["load", "-q", "200", "-z", "500ms"];
    let mut command = flowgate(&[&run_for[..], arguments].concat());
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    command.env_remove("CLICOLOR").env_remove("CLICOLOR_FORCE");
    command
}

#[test]
fn it_is_drawn_in_place_and_goes_away() {
    for (columns, rows) in [(80, 24), (40, 24), (25, 6)] {
        let mut command = load(&[]);
        command.env("NO_COLOR", "1");
        let (exit, out, drawn) = on_terminal(columns, rows, command);
        assert!(matches!(exit, Some(0 | 4)), "{out}");
        assert!(out.contains("\nverdict    "), "the report: {out}");
        assert!(drawn.contains("sends"), "{drawn:?}");
        assert!(!drawn.contains("\x1b[3"), "no colour: {drawn:?}");
        assert!(!drawn.contains("\x1b[?"), "no other screen: {drawn:?}");
        // The last frame has no lines.
        let height = (rows - 1).min(9);
        let end = format!("\r\x1b[{height}A\x1b[J");
        assert!(drawn.ends_with(&end), "{drawn:?}");
        for line in drawn.split('\n') {
            let text = line.trim_start_matches('\r').trim_end_matches('\r');
            let text = text.strip_suffix("\x1b[K").unwrap_or("");
            let text =
                text.rsplit_once('A').map_or(
                    text,
                    |(up, rest)| {
                        if up.contains('\x1b') { rest } else { text }
                    },
                );
            assert!(text.chars().count() < usize::from(columns), "{text:?}");
        }
    }
}

#[test]
fn it_has_colour_where_that_is_welcome() {
    let (_, out, drawn) = on_terminal(80, 24, load(&[]));
    assert!(drawn.contains("\x1b[36m"), "{drawn:?}");
    assert!(!out.contains('\x1b'), "{out}");
}

#[test]
fn it_is_left_out_where_it_is_not_wanted() {
    for arguments in [&["--no-tui"][..], &["--quiet"]] {
        let (_, _, drawn) = on_terminal(80, 24, load(arguments));
        assert!(!drawn.contains('\x1b'), "{arguments:?}: {drawn}");
    }
    let mut dumb = load(&[]);
    dumb.env("TERM", "dumb");
    assert_eq!(on_terminal(80, 24, dumb).2, "");
    assert_eq!(on_terminal(15, 24, load(&[])).2, "", "too narrow");
}

#[test]
fn progress_is_a_line_each_second() {
    let load = ["load", "-q", "100", "-z", "2200ms", "--progress", "--quiet"];
    let output = flowgate(&load).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let second = |line: &str| -> u64 {
        let rest = line.strip_prefix("flowgate: ").expect("ours");
        let (second, rest) = rest.split_once(" s: sent ").expect("a time");
        assert!(rest.contains(" of 220 at "), "{err}");
        second.parse().expect("whole")
    };
    let is_progress = |line: &&str| !line.starts_with("flowgate: rate not held: ");
    let seconds: Vec<_> = err.lines().filter(is_progress).map(second).collect();
    // A busy machine may miss one.
    assert!(!seconds.is_empty() && seconds[0] >= 1, "{err}");
    assert!(seconds.windows(2).all(|pair| pair[0] < pair[1]), "{err}");
}

#[test]
fn a_server_that_never_answers_is_seen_while_it_does_not() {
    // Connections stay open, unread.
    let kept = Mutex::new(Vec::new());
    let url = server(move |stream, _| {
        kept.lock().unwrap().push(stream);
        true
    });
    let run_for = ["load", "-q", "50", "-n", "4", "-c", "4", "-t", "2s", &url];
    let progress = [&run_for[..], &["--progress", "--quiet"]].concat();
    let output = flowgate(&progress).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let line = err.lines().next().unwrap_or_default();
    let (_, rest) = line.split_once("; no response for ").unwrap_or_default();
    assert!(rest.ends_with(" s, 4 in flight"), "{err}");

    let mut view = flowgate(&run_for);
    view.env("TERM", "xterm").env("NO_COLOR", "1");
    let (_, _, drawn) = on_terminal(80, 24, view);
    assert!(drawn.contains("no response for 1."), "{drawn:?}");
}
