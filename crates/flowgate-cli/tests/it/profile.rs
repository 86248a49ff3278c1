//! `flowgate load` with rates that change, as users type them; none asserts how exact the pacing was.

use std::fs;

use crate::support::{number, run};

#[test]
fn every_shape_sends_what_it_asks_for() {
    let times = std::env::temp_dir().join(format!("flowgate-times-{}.txt", std::process::id()));
    fs::write(&times, "# seconds\n0\n0\n0.05\n0.25\n").unwrap();
    let times_path = times.to_str().unwrap();
    let table: &[(&[&str], u64, &str)] = &[
        (
            &["-q", "0:200", "-z", "400ms"],
            40,
            "asked 0 to 200/s in 400 ms ",
        ),
        (
            &["--plan", "200ms@50,100ms@0, 200ms@50:150"],
            30,
            "asked 200 ms at 50/s, 100 ms at 0, 200 ms at 50/s to 150/s ",
        ),
        (
            &["--plan", "200ms@50", "-n", "3"],
            3,
            "asked 50/s to 50/s in 200 ms ",
        ),
        (
            &["-q", "100", "--sine", "200ms@100", "-z", "400ms"],
            40,
            "asked 100/s ± 100/s every 200 ms ",
        ),
        (
            &["-q", "100", "--burst", "20", "-z", "400ms"],
            40,
            "asked 100/s in bursts of 20 ",
        ),
        (
            &["-q", "300", "--poisson", "-n", "60"],
            60,
            "asked 300/s Poisson, seed 1 ",
        ),
        (
            &["-q", "300", "--poisson", "--seed", "7", "-n", "60"],
            60,
            "asked 300/s Poisson, seed 7 ",
        ),
        (&["--replay", times_path], 4, "asked replay of 4 times "),
    ];
    for (arguments, count, asked) in table {
        let (exit, out, err) = run(&[&["load"], *arguments].concat());
        assert!(exit == 0 || exit == 4, "{arguments:?}: {out}{err}");
        assert!(
            out.contains(&format!("sent       {count} of {count} in ")),
            "{out}"
        );
        assert_eq!(number(&out, "status", "2xx"), *count, "{out}");
        assert!(out.contains(asked), "{asked:?} is not in: {out}");
        assert!(out.contains("\nseconds    "), "{out}");
        let is_held = out
            .lines()
            .last()
            .is_some_and(|line| line.starts_with("verdict    RATE HELD: "));
        assert_eq!(is_held, exit == 0, "{out}");
    }
    fs::remove_file(times).unwrap();
}

#[test]
fn shapes_that_make_no_sense_are_answered_in_one_line() {
    let bad = std::env::temp_dir().join(format!("flowgate-bad-{}.txt", std::process::id()));
    fs::write(&bad, "0\n2\n1\n").unwrap();
    let bad_path = bad.to_str().unwrap();
    let table: &[(i32, &[&str], &str)] = &[
        (2, &["-q", "5:x"], "\"x\""),
        (2, &["-q", "1:2:3"], "\"2:3\""),
        (2, &["-q", "0:0"], "at least one rate must be above 0"),
        (2, &["-q", "1:2G"], "exceeds the maximum of 1000000000/s"),
        (2, &["-q", "1:2", "-n", "5"], "write --duration 60s"),
        (
            2,
            &["-q", "1:2", "--poisson"],
            "--poisson needs a constant rate",
        ),
        (2, &["--plan", "30s"], "\"30s\": write TIME@RATE"),
        (2, &["--plan", "1s@0"], "at least one rate must be above 0"),
        (
            2,
            &["--plan", "1s@5,0s@5"],
            "\"0s@5\": must be longer than 0",
        ),
        (2, &["--plan", "1s@5,1s@-5"], "\"1s@-5\""),
        (
            2,
            &["--plan", "1s@5", "-q", "5"],
            "cannot be used with '--rate",
        ),
        (
            2,
            &["--plan", "1s@5", "-z", "5s"],
            "cannot be used with '--duration",
        ),
        (
            2,
            &["--plan", "1s@5", "--poisson"],
            "cannot be used with '--poisson",
        ),
        (2, &["--sine", "1s@5"], "write --rate 1000/s"),
        (2, &["-q", "5", "--sine", "5"], "write TIME@RATE"),
        (2, &["-q", "5", "--sine", "1s@6"], "write at most 5/s"),
        (2, &["-q", "5", "--burst", "0"], "number from 1 to"),
        (
            2,
            &["-q", "5", "--poisson", "--seed", "-1"],
            "from 0 to 18446744073709551615",
        ),
        (2, &["-q", "5", "--seed", "1"], "--poisson"),
        (
            2,
            &["-q", "1M", "--poisson", "-z", "1h"],
            "exceed the maximum of 100000000",
        ),
        (2, &["--replay", bad_path], "line 3: 1 is earlier than 2"),
        (
            1,
            &["--replay", "/no/such/file"],
            "cannot read /no/such/file: ",
        ),
    ];
    for (code, arguments, expected) in table {
        let (exit, out, err) = run(&[&["load"], *arguments].concat());
        assert_eq!((exit, out.as_str()), (*code, ""), "{arguments:?}: {err}");
        assert!(
            err.contains(expected),
            "{arguments:?} does not say {expected:?}: {err}"
        );
        assert!(
            err.starts_with("flowgate: ") && err.ends_with('\n'),
            "{err:?}"
        );
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    fs::remove_file(bad).unwrap();
}
