//! `flowgate simulate`, as a user runs it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{finished, flowgate, number, run, signal};

const TRAFFIC: [&str; 5] = ["--arrivals", "poisson 150/s", "--for", "10s", "--quiet"];

/// A path in a folder of these tests.
fn path(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("simulate");
    fs::create_dir_all(&folder).expect("a folder");
    folder.join(name).to_str().expect("UTF-8").to_owned()
}

fn simulate(arguments: &[&str]) -> (i32, String, String) {
    run(&[&["simulate"], arguments].concat())
}

#[test]
fn two_limits_are_compared_and_a_run_is_the_same_each_time() {
    let arguments = [
        "--limiter",
        "token 100/s burst 20",
        "--limiter",
        "fixed 100/s",
        "--arrivals",
        "poisson 150/s",
    ];
    let (code, report, _) = simulate(&arguments);
    assert_eq!(code, 0);
    assert!(
        report.contains("admitted                 3018          3000"),
        "{report}"
    );
    assert_eq!(simulate(&arguments).1, report);
    let (_, other, _) = simulate(&[&arguments[..], &["--seed", "7"]].concat());
    assert_ne!(other, report);
}

/// Beside each named scenario is the report of its run.
#[test]
fn the_report_of_each_named_scenario_is_the_same() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/scenarios");
    let files = fs::read_dir(folder).expect("a folder");
    let files = files.map(|file| file.expect("a file").path());
    let scenarios: Vec<PathBuf> = files
        .filter(|file| {
            file.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    assert_eq!(scenarios.len(), 9, "{scenarios:?}");
    for scenario in scenarios {
        let mut command = flowgate(&["simulate", scenario.to_str().expect("UTF-8")]);
        let output = command.env("LC_ALL", "C.UTF-8").output().expect("it runs");
        let expected = scenario.with_extension("txt");
        let expected = fs::read_to_string(&expected).expect("a report");
        assert_eq!(
            finished(output),
            (0, expected, String::new()),
            "{scenario:?}"
        );
    }
}

/// Runs the command with each output, and returns the JSON and the CSV. The page and the pictures are what their names say.
fn outputs_of(name: &str, arguments: &[&str]) -> (Value, String) {
    let names = ["html", "svg", "png", "json", "csv"];
    let files = names.map(|kind| path(&format!("{name}.{kind}")));
    let flags = names.map(|kind| format!("--{kind}"));
    let mut arguments = [&TRAFFIC[..], arguments].concat();
    for (flag, file) in flags.iter().zip(&files) {
        arguments.extend([flag.as_str(), file]);
    }
    let (code, said, errors) = simulate(&arguments);
    assert_eq!((code, said.as_str(), errors.as_str()), (0, "", ""));
    let [html, svg, png, json, csv] = files.map(|file| fs::read(file).expect("it is written"));
    assert!(html.starts_with(b"<!DOCTYPE html>"));
    assert!(svg.starts_with(b"<svg"));
    assert!(png.starts_with(b"\x89PNG"));
    let json = serde_json::from_slice(&json).expect("JSON");
    (json, String::from_utf8(csv).expect("UTF-8"))
}

#[test]
fn each_output_is_written() {
    let (json, csv) = outputs_of("all", &["--limiter", "token 100/s burst 20"]);
    assert_eq!(json["policies"][0]["windows"][0]["guarantee"], 120);
    assert!(csv.starts_with("policy,"));
}

#[test]
fn a_printed_scenario_runs_as_the_flags_do() {
    let flags = [
        "--limiter",
        "keyed token 5/s burst 9 wait 200ms",
        "--arrivals",
        "poisson 150/s",
        "--keys",
        "zipf 50 1.1",
        "--deadline",
        "500ms",
        "--attempt-timeout",
        "200ms",
        "--retries",
        "2",
        "--retry-budget",
        "10%",
        "--workers",
        "4",
        "--service",
        "exponential 20ms",
        "--server-queue",
        "50",
        "--server-order",
        "lifo",
        "--drop-expired",
        "--fault",
        "service 3x at 2s for 3s",
        "--seed",
        "5",
        "--for",
        "10s",
    ];
    let (code, report, _) = simulate(&flags);
    assert_eq!(code, 0);
    let (_, scenario, _) = simulate(&[&flags[..], &["--print-scenario"]].concat());
    let file = path("printed.toml");
    fs::write(&file, scenario).expect("a file");
    assert_eq!(simulate(&[&file]).1, report);
}

#[test]
fn a_log_comes_through_standard_input_and_bad_lines_are_shown() {
    let mut log =
        "192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5\n".repeat(50);
    log += "not a line\n";
    let arguments = [
        "simulate",
        "--arrivals",
        "log:-",
        "--limiter",
        "keyed token 10/s burst 30 by ip",
    ];
    let replay = |arguments: &[&str]| {
        let mut command = flowgate(arguments);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it runs");
        let mut input = child.stdin.take().expect("a pipe");
        // A strict reader ends before the last line.
        let _ = input.write_all(log.as_bytes());
        drop(input);
        finished(child.wait_with_output().expect("it ends"))
    };
    let (code, report, errors) = replay(&arguments);
    assert_eq!(code, 0, "{errors}");
    assert!(
        report.contains("admitted                      39"),
        "{report}"
    );
    assert!(errors.contains("skipped 1 of 51 lines"), "{errors}");
    assert!(errors.contains("line 51: "), "{errors}");
    let (code, _, errors) = replay(&[&arguments[..], &["--strict"]].concat());
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("line 51"), "{errors}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_reading_of_a_log_and_reports_what_was_read() {
    const LINE: &[u8] = b"192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5\n";
    // More than a pipe holds, so when it is written, the command reads.
    const BEGIN: usize = 1 << 13;
    const MOST: usize = 1 << 21;
    let arguments = ["--arrivals", "log:-", "--limiter", "keyed token 10/s by ip"];
    let mut command = flowgate(&[&["simulate"], &arguments[..]].concat());
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it runs");
    let mut input = child.stdin.take().expect("a pipe");
    for _ in 0..BEGIN {
        input.write_all(LINE).expect("it reads");
    }
    signal(child.id(), "-INT");
    // The command closes the pipe, long before the log is that long.
    let written = (0..MOST).take_while(|_| input.write_all(LINE).is_ok());
    assert!(written.count() < MOST, "it reads on");
    drop(input);
    let (code, report, errors) = finished(child.wait_with_output().expect("it ends"));
    assert_eq!(code, 130, "{errors}");
    let lines: Vec<&str> = errors.lines().collect();
    let [stopping, after] = lines[..] else {
        panic!("{errors}")
    };
    assert!(stopping.contains("Ctrl-C again quits"), "{errors}");
    let read = number(after, "flowgate: stopped after", "after");
    let report = report.replace(',', "");
    assert_eq!(number(&report, "attempts", "attempts"), read, "{report}");
    assert!(read > 0, "{errors}");
}

#[test]
fn a_limit_for_each_client_of_a_log_and_one_for_all_are_one_limit() {
    let line = |client: &str| {
        format!("{client} - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5\n")
    };
    let log = path("clients.log");
    // All in the same second: 50 requests of one client, and 5 of each of 10 others.
    let others: String = (1..=10)
        .map(|n| line(&format!("192.0.2.{n}")).repeat(5))
        .collect();
    fs::write(&log, line("198.51.100.7").repeat(50) + &others).expect("a file");
    let arrivals = format!("log:{log}");
    let limiter = "keyed token 20/day burst 20 by ip + token 60/day burst 60";
    let (code, report, errors) = simulate(&["--arrivals", &arrivals, "--limiter", limiter]);
    assert_eq!(code, 0, "{errors}");
    // 20 of the first client, and 40 of the others: what is refused to the first one takes none of the 60.
    let admitted = report.lines().find(|line| line.starts_with("admitted"));
    assert_eq!(
        admitted.and_then(|line| line.split_whitespace().last()),
        Some("60"),
        "{report}"
    );
    assert!(report.contains("198.51.100.7: 30 (60.0 %)"), "{report}");
}

#[test]
fn a_suggestion_is_the_smallest_number_that_keeps_the_wish() {
    let traffic = ["--arrivals", "poisson 150/s"];
    let limiter = ["--limiter", "token N/s burst 20", "--suggest"];
    let (code, report, _) = simulate(&[&traffic[..], &limiter, &["refused <= 1%"]].concat());
    assert_eq!(code, 0);
    assert!(
        report.contains("N = 153, the smallest that keeps it"),
        "{report}"
    );
    let impossible = [&traffic[..], &limiter, &["goodput >= 500/s"]].concat();
    let (code, report, _) = simulate(&impossible);
    assert_eq!(code, 3);
    assert!(
        report.contains("no N from 1 to 1000000 keeps it"),
        "{report}"
    );
}

#[test]
fn a_suggestion_is_written_to_each_output() {
    let limiter = ["--limiter", "token N/s burst 20"];
    let wish = ["--suggest", "refused <= 1%"];
    let (json, csv) = outputs_of("suggestion", &[limiter, wish].concat());
    assert!(csv.starts_with("n,measured,is_kept\r\n"));
    // The scenario has the number that was found, and runs.
    let found = path("suggested.toml");
    fs::write(&found, json["scenario"].as_str().expect("text")).expect("a file");
    let (code, report, _) = simulate(&[&found]);
    assert_eq!(code, 0);
    let limiter = format!("token {}/s", json["n"]);
    assert!(report.contains(&limiter), "{report}");
}

#[test]
fn service_times_come_from_a_file() {
    let file = path("times.txt");
    fs::write(&file, "8ms\n0.012\n10ms\n").expect("a file");
    let service = format!("file:{file}");
    let server = ["--limiter", "none", "--arrivals", "5/s", "--workers", "9"];
    let (code, report, _) = simulate(&[&server[..], &["--service", &service]].concat());
    assert_eq!(code, 0);
    assert!(report.contains("latency max     12.0 ms"), "{report}");
}

#[test]
fn what_cannot_be_simulated_says_what_to_write() {
    let typo = path("typo.toml");
    fs::write(&typo, "seed = 1\n[[traffic]]\narivals = '5/s'\n").expect("a file");
    let none = ["--limiter", "none"];
    let arrivals = |text| [&none[..], &["--arrivals", text]].concat();
    let with = |more: &[&'static str]| [&arrivals("5/s")[..], more].concat();
    for (arguments, expected) in [
        (vec![], "write flowgate simulate --limiter"),
        (
            vec![typo.as_str()],
            "line 3: unknown key 'arivals'; write 'arrivals'",
        ),
        (vec!["no-such.toml"], "cannot read no-such.toml"),
        (arrivals("0/s"), "it must be 1 or more"),
        (arrivals("1e99/s"), "1e99"),
        (arrivals("log:no-such.log"), "no-such.log"),
        (with(&["--for", "0s"]), "longer than 0"),
        (
            with(&["--suggest", "refused <= 1%"]),
            "write one --limiter 'token N/s burst 20'",
        ),
        (
            with(&[
                "--limiter",
                "token N/s",
                "--suggest",
                "refused <= 1%",
                "--print-scenario",
            ]),
            "'--suggest <WISH>' cannot be used with '--print-scenario'",
        ),
        (
            vec![
                "mine.toml",
                "--arrivals",
                "5/s",
                "--strict",
                "--workers",
                "1",
                "--service",
                "1s",
            ],
            "'--arrivals <ARRIVALS>', '--strict', '--workers <COUNT>', '--service <TIME>': a scenario has its own",
        ),
        (
            with(&["--arrivals", "6/s"]),
            "write several into a scenario",
        ),
        (with(&["--strict"]), "--strict is about a log"),
        (
            [&arrivals("log:any.log")[..], &["--keys", "uniform 5"]].concat(),
            "a log has its own keys",
        ),
        (
            [&arrivals("log:any.log")[..], &["--cost", "2"]].concat(),
            "--cost-field",
        ),
        (
            with(&["--workers", "0", "--service", "1s"]),
            "'0' for '--workers <COUNT>'",
        ),
        (
            with(&["--limiter", "keyed token 5/s + keyed token 9/s"]),
            "remove a 'keyed'",
        ),
        (
            with(&["--limiter", "keyed token 5/s by ip + concurrency 5"]),
            "remove 'by ip'",
        ),
        (
            with(&["--limiter", "token 5/s + concurrency 5", "--cost", "2"]),
            "remove the cost",
        ),
        (with(&["--workers", "3"]), "--service"),
        (with(&["--limiter", "token N/s"]), "add --suggest"),
        (with(&["--fault", "outage at 1s for 1s"]), "--workers"),
        (
            with(&["--workers", "1", "--service", "file:/no-such"]),
            "cannot read /no-such",
        ),
    ] {
        let (code, said, errors) = simulate(&arguments);
        assert_eq!((code, said.as_str()), (2, ""), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}
