//! Reports as files, conditions, and the verbs that need no server.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Serve, finished, flowgate, read_request, run, server};

/// A directory of its own for each test, gone at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("flowgate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SHORT: [&str; 5] = ["load", "-q", "500", "-n", "20"];

#[test]
fn a_run_writes_what_it_is_asked_to() {
    let files = Directory::new("written");
    let (json, csv, html) = (
        files.path("a.json"),
        files.path("a.csv"),
        files.path("a.html"),
    );
    // What was there before is longer than what comes.
    fs::write(&csv, "#".repeat(1 << 20)).unwrap();
    let to = ["--json", &json, "--csv", &csv, "--html", &html];
    let (exit, out, err) = run(&[&SHORT[..], &to].concat());
    assert!(exit == 0 || exit == 4, "{err}");
    assert_eq!(err, "");
    assert!(out.starts_with("target "), "the text all the same: {out}");
    assert!(files.read("a.json").trim_end().ends_with('}'));
    assert!(files.read("a.csv").starts_with("start_s,"));
    assert!(!files.read("a.csv").contains('#'));
    assert!(files.read("a.html").starts_with('<'));

    // What was written can be shown again, alone and beside others.
    let (exit, shown, err) = run(&["report", &json]);
    assert_eq!((exit, shown.as_str(), err.as_str()), (0, out.as_str(), ""));
    let other = files.path("b.json");
    fs::copy(&json, &other).unwrap();
    let (exit, shown, _) = run(&["report", &json, &other]);
    assert_eq!(exit, 0);
    let texts = format!("a\n{out}\nb\n{out}\nb compared with a\n");
    assert!(shown.starts_with(&texts), "{shown}");
    let (exit, table, _) = run(&["report", &json, &other, "--csv", "-"]);
    assert_eq!(exit, 0);
    let rows: Vec<_> = table.lines().map(|line| line.split(',').next()).collect();
    assert_eq!(rows[0], Some("run"), "{table}");
    assert!(
        rows.contains(&Some("a")) && rows.contains(&Some("b")),
        "{table}"
    );
    let page = files.path("both.html");
    let (exit, out, err) = run(&["report", &json, &other, "--html", &page]);
    assert_eq!((exit, out.as_str(), err.as_str()), (0, "", ""));
    assert!(files.read("both.html").starts_with('<'));
}

/// A server that takes 20 ms, one that takes 60 ms, and the first again.
#[test]
fn a_slower_server_is_told_from_an_equal_one() {
    let serve = |ms: u64| {
        server(move |stream, _| {
            let mut stream = stream;
            std::thread::spawn(move || {
                while read_request(&mut stream) {
                    std::thread::sleep(std::time::Duration::from_millis(ms));
                    if stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                        .is_err()
                    {
                        return;
                    }
                }
            });
            true
        })
    };
    let (fast, slow) = (serve(20), serve(60));
    let files = Directory::new("compared");
    let (before, junit, summary) = (
        files.path("before.json"),
        files.path("a.xml"),
        files.path("a.md"),
    );
    let load = |url: &str, more: &[&str]| {
        run(&[
            &["load", url, "-q", "100", "-z", "2s", "--max-errors", "0"],
            more,
        ]
        .concat())
    };
    let (_, _, err) = load(&fast, &["--json", &before]);
    assert_eq!(err, "");
    let gates = [
        "--fail-if",
        "p50>baseline+100%",
        "--fail-if",
        "err>baseline+1%",
    ];
    let to = [
        "--compare",
        &before,
        "--junit",
        &junit,
        "--summary",
        &summary,
    ];
    let (exit, out, err) = load(&slow, &[&gates[..], &to].concat());
    assert!(exit == 3 || exit == 4, "4 on a machine that is busy: {out}");
    assert!(
        err.contains("flowgate: --fail-if p50>baseline+100%: p50 of response changed by "),
        "{err}"
    );
    assert!(
        err.contains("passed: --fail-if err>baseline+1%: share of errors changed by 0 %"),
        "{err}"
    );
    let line = |text: &str, name: &str| {
        let mut lines = text.lines().map(str::to_owned);
        lines
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name} in {text}"))
    };
    let (_, table) = out.split_once("\ncompared with ").expect("a table");
    assert!(line(table, "p50 ").ends_with(" differs"), "{table}");
    assert!(
        line(table, "errors ").ends_with("no difference shown"),
        "{table}"
    );
    let xml = files.read("a.xml");
    let xml = roxmltree::Document::parse(&xml).expect("XML");
    let of = |name: &str| {
        xml.descendants()
            .filter(|node| node.has_tag_name(name))
            .count()
    };
    assert_eq!(of("testcase"), 3);
    assert_eq!(of("failure"), if exit == 3 { 1 } else { 2 });
    // A summary is added to what is there.
    let (exit, _, err) = load(&fast, &["--compare", &before, "--summary", &summary]);
    assert!(exit == 0 || exit == 4, "{err}");
    let text = files.read("a.md");
    assert_eq!(text.matches("### flowgate load: ").count(), 2, "{text}");
    assert!(text.contains("**failed**: p50>baseline+100%"), "{text}");
    let (_, shown, _) = run(&["report", &before, &before]);
    assert!(
        !shown.contains(" differs"),
        "a run does not differ from itself: {shown}"
    );
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_sent() {
    let files = Directory::new("not-compared");
    let before = files.path("before.json");
    let (_, _, err) = run(&[&SHORT[..], &["--json", &before]].concat());
    assert_eq!(err, "");
    let old = files.path("old.json");
    let mut value: serde_json::Value = serde_json::from_str(&files.read("before.json")).unwrap();
    value.as_object_mut().unwrap().remove("detail");
    fs::write(&old, value.to_string()).unwrap();
    for (arguments, expected) in [
        (
            &["-q", "500", "--fail-if", "p99>baseline"][..],
            "write --compare baseline.json, too",
        ),
        (
            &["-q", "400", "--compare", &before],
            "was a run at 500/s, and this one is at 400/s",
        ),
        (
            &["-q", "500", "--compare", &old],
            "written by an older version",
        ),
        (
            &["-q", "500", "--fail-if", "p99>baseline*2"],
            "write 'p99>baseline+10%'",
        ),
    ] {
        let (exit, out, err) = run(&[&["load", "-n", "20"], arguments].concat());
        assert_eq!((exit, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(expected) && err.lines().count() == 1, "{err}");
    }
    let missing = files.path("missing.json");
    let (exit, _, err) = run(&[&SHORT[..], &["--compare", &missing]].concat());
    assert_eq!((exit, err.lines().count()), (1, 1), "{err}");
}

#[test]
fn a_collector_gets_the_progress_or_is_told_of_once() {
    let (seen, arrived) = std::sync::mpsc::channel();
    let collector = server(move |mut stream, _| {
        let seen = seen.clone();
        std::thread::spawn(move || {
            if read_request(&mut stream) {
                let _ = seen.send(());
                // The body is not read, so the connection ends.
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _ = stream.write_all(answer);
            }
        });
        true
    });
    let run_with = |url: &str, more: &[&str]| run(&[&SHORT[..], &["--otlp", url], more].concat());
    let (exit, _, err) = run_with(&collector, &["--otlp-header", "X-Key: 5"]);
    assert!((exit == 0 || exit == 4) && err.is_empty(), "{err}");
    assert!(arrived.try_iter().count() >= 1);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let lost = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let (exit, out, err) = run_with(&lost, &[]);
    assert!(exit == 0 || exit == 4, "{err}");
    assert!(out.contains("sent       20 of 20"), "{out}");
    assert_eq!(
        err,
        "flowgate: --otlp: the collector did not take 1 of 1 points: connection refused\n"
    );
    for (url, expected) in [
        ("collector:4318", "write http://collector:4318"),
        ("ftp://h/", "begins with http://"),
        (
            "http://me:sesame@h/",
            "write --otlp-header 'Authorization: Basic …'",
        ),
    ] {
        let (exit, out, err) = run_with(url, &[]);
        assert_eq!((exit, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(expected) && err.lines().count() == 1, "{err}");
    }
    let (exit, _, err) = run(&[&SHORT[..], &["--otlp-header", "a: b"]].concat());
    assert!(exit == 2 && err.contains("--otlp <URL>"), "{err}");
}

#[test]
fn slices_are_sent_by_several_processes_and_joined() {
    let files = Directory::new("slices");
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = seen.clone();
    let url = server(move |stream, _| {
        let (mut stream, counted) = (stream, counted.clone());
        std::thread::spawn(move || {
            while read_request(&mut stream) {
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                    .is_err()
                {
                    return;
                }
            }
        });
        true
    });
    let start_at = std::time::SystemTime::now() + std::time::Duration::from_secs(4);
    let start_at = humantime::format_rfc3339_millis(start_at).to_string();
    let paths = ["1.json", "2.json"].map(|name| files.path(name));
    let processes: Vec<_> = paths
        .iter()
        .zip(["1/2", "2/2"])
        .map(|(path, slice)| {
            let load = ["load", &url, "-q", "200", "-n", "41", "--slice", slice];
            let to = ["--start-at", &start_at, "--json", path, "--quiet"];
            flowgate(&[&load[..], &to].concat())
                .spawn()
                .expect("the binary runs")
        })
        .collect();
    for process in processes {
        let (exit, _, err) = finished(process.wait_with_output().expect("it ends"));
        assert!(exit == 0 || exit == 4, "{err}");
    }
    assert_eq!(seen.load(std::sync::atomic::Ordering::Relaxed), 41);
    let whole = files.path("whole.json");
    let merge = ["report", "--merge", &paths[1], &paths[0]];
    let (exit, out, err) = run(&merge);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(out.contains("\nrate       asked 200/s\n"), "{out}");
    assert!(out.contains("\nsent       41 of 41 in "), "{out}");
    assert!(out.contains("\nslowest    "), "{out}");
    let (exit, out, err) = run(&[&merge[..], &["--json", &whole]].concat());
    assert_eq!((exit, out.as_str(), err.as_str()), (0, "", ""));
    let (exit, out, _) = run(&["report", &whole]);
    assert_eq!(exit, 0);
    assert!(out.contains("sent       41 of 41 in "), "{out}");
    for (more, expected) in [
        (
            vec![&paths[0]],
            "flowgate: --merge: slice 2/2 is missing: write its report, too\n",
        ),
        (
            vec![&paths[0], &paths[0]],
            "are both slice 1/2: write each slice once\n",
        ),
        (
            vec![&paths[0], &whole],
            "not a slice: write reports of flowgate load --slice\n",
        ),
    ] {
        let mut arguments = vec!["report", "--merge"];
        arguments.extend(more.iter().map(|path| path.as_str()));
        let (exit, out, err) = run(&arguments);
        assert_eq!((exit, out.as_str()), (2, ""), "{err}");
        assert!(err.ends_with(expected) && err.lines().count() == 1, "{err}");
    }
}

/// Two machines, one of which has a clock that is 250 ms late.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs libfaketime: ./ci/test"]
fn a_clock_that_is_late_is_told_by_the_joined_report() {
    let files = Directory::new("clocks");
    let serve = Serve::start("token 100000/s", &[]);
    let start_at = std::time::SystemTime::now() + std::time::Duration::from_secs(4);
    let start_at = humantime::format_rfc3339_millis(start_at).to_string();
    let paths = ["good.json", "late.json"].map(|name| files.path(name));
    let processes = [(&paths[0], "1/2", "+0.0"), (&paths[1], "2/2", "-0.25")];
    let processes = processes.map(|(path, slice, clock)| {
        let load = ["load", &serve.url, "-q", "500", "-n", "1500"];
        let part = ["--slice", slice, "--start-at", &start_at];
        flowgate(&[&load[..], &part, &["--json", path, "--quiet"]].concat())
            .env("LD_PRELOAD", libfaketime())
            .env("FAKETIME", clock)
            .env("DONT_FAKE_MONOTONIC", "1")
            .spawn()
            .expect("the binary runs")
    });
    for process in processes {
        let (exit, _, err) = finished(process.wait_with_output().expect("it ends"));
        assert!(exit == 0 || exit == 4, "{err}");
    }
    let (exit, out, err) = run(&["report", "--merge", &paths[0], &paths[1]]);
    assert_eq!((exit, err.as_str()), (0, ""));
    let line = out.lines().find(|line| line.starts_with("clocks "));
    let line = line.unwrap_or_else(|| panic!("{out}"));
    let words: Vec<_> = line.split_whitespace().collect();
    let [
        "clocks",
        "late",
        "is",
        middle,
        "ms",
        "±",
        error,
        unit,
        "behind",
        "good:",
        ..,
    ] = words[..]
    else {
        panic!("{line}");
    };
    let [middle, error] = [middle, error].map(|number| number.parse::<f64>().unwrap());
    let error = if unit == "ms" { error } else { error / 1e3 };
    assert!((middle - 250.0).abs() <= error, "{line}");
}

#[cfg(target_os = "linux")]
fn libfaketime() -> std::path::PathBuf {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut places = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let library = places.find(|library| library.exists());
    library.expect("libfaketime; ./ci/test installs it")
}

#[test]
fn a_slice_that_cannot_be_sent_is_refused() {
    let far = "2126-12-01T12:00:00Z";
    for (arguments, expected) in [
        (&["-q", "5", "-n", "9", "--slice", "1/2"][..], "--start-at"),
        (
            &["-q", "5", "-n", "9", "--slice", "3/2", "--start-at", far],
            "write 1/8 to 8/8",
        ),
        (
            &["-q", "5", "-n", "2", "--slice", "3/8", "--start-at", far],
            "--slice 3/8 has no request",
        ),
        (
            &[
                "-n",
                "9",
                "--at-most",
                "5",
                "--slice",
                "1/2",
                "--start-at",
                far,
            ],
            "needs a rate that is held",
        ),
        (
            &[
                "-q",
                "5",
                "-n",
                "9",
                "--slice",
                "1/2",
                "--start-at",
                "2020-01-01T00:00:00Z",
            ],
            "--start-at has passed",
        ),
        (
            &["-q", "5", "-n", "9", "--slice", "1/2", "--start-at", "noon"],
            "write 2026-12-01T12:00:00Z",
        ),
    ] {
        let (exit, out, err) = run(&[&["load"], arguments].concat());
        assert_eq!((exit, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(expected) && err.lines().count() == 1, "{err}");
    }
}

#[test]
fn json_on_standard_output_is_alone_there() {
    for arguments in [&["-j"][..], &["--json", "-"]] {
        let (_, out, err) = run(&[&SHORT[..], arguments].concat());
        assert_eq!(err, "");
        assert!(
            out.starts_with('{') && out.trim_end().ends_with('}'),
            "{out}"
        );
        assert!(!out.contains("verdict    "), "{out}");
    }
}

#[test]
fn quiet_runs_say_only_what_is_wrong() {
    let (exit, out, err) = run(&[&SHORT[..], &["--quiet"]].concat());
    assert_eq!(out, "");
    assert_eq!(err.is_empty(), exit == 0, "{err}");
    let too_fast = [
        "load", "-q", "5M", "-z", "200ms", "--late", "skip", "--quiet",
    ];
    let (exit, out, err) = run(&too_fast);
    assert_eq!((exit, out.as_str()), (4, ""));
    assert!(err.starts_with("flowgate: rate not held: "), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn what_cannot_be_written_is_found_before_anything_is_sent() {
    let files = Directory::new("unwritable");
    let nowhere = files.path("no/such/directory/a.json");
    let (exit, out, err) = run(&["load", "-q", "1/h", "-n", "2", "--json", &nowhere]);
    assert_eq!((exit, out.as_str()), (1, ""));
    assert!(
        err.starts_with(&format!("flowgate: --json: cannot write {nowhere}: ")),
        "{err}"
    );
    assert_eq!(err.lines().count(), 1, "{err}");

    // What is opened in vain is left as it was.
    let (old, new) = (files.path("old.csv"), files.path("new.html"));
    fs::write(&old, "old").unwrap();
    let unknown = ["load", "-q", "5", "http://no-such-host.invalid/"];
    let (exit, _, err) = run(&[&unknown[..], &["--csv", &old, "--html", &new]].concat());
    assert_eq!(exit, 1, "{err}");
    assert!(
        err.starts_with("flowgate: cannot find the host \"no-such-host.invalid\": "),
        "{err}"
    );
    assert_eq!(files.read("old.csv"), "old");
    assert!(!fs::exists(&new).unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_in_the_end_is_said_after_the_report() {
    let files = Directory::new("full");
    let csv = files.path("a.csv");
    let to = ["--json", "/dev/full", "--csv", &csv];
    let (exit, out, err) = run(&[&SHORT[..], &to].concat());
    assert_eq!(exit, 1, "{err}");
    assert!(out.contains("\nverdict    "), "{out}");
    assert!(
        err.starts_with("flowgate: cannot write /dev/full: "),
        "{err}"
    );
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(
        files.read("a.csv").starts_with("start_s,"),
        "the others are"
    );

    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = flowgate(&SHORT).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        err.starts_with("flowgate: cannot write to standard output: "),
        "{err}"
    );
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn conditions_decide_the_exit_code() {
    // At a rate at which no lag counts.
    let slow = ["load", "-q", "1/s", "-n", "1"];
    let holds = [
        "--fail-if",
        "p99>1h",
        "--fail-if",
        "err>0",
        "--fail-if",
        "sent<1",
    ];
    let hour = holds.map(|text| text.replace("1h", "60m"));
    let holds: Vec<_> = hour.iter().map(String::as_str).collect();
    let (exit, out, err) = run(&[&slow[..], &holds].concat());
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");

    let fails = [
        "--fail-if",
        "p99 > 0ns",
        "--fail-if",
        "sent>=1",
        "--fail-if",
        "err>0%",
    ];
    let (exit, out, err) = run(&[&slow[..], &fails].concat());
    assert_eq!(exit, 3, "{err}");
    assert!(out.contains("verdict    RATE HELD"), "{out}");
    let lines: Vec<_> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(
        lines[0].starts_with("flowgate: --fail-if p99 > 0ns: p99 of response was "),
        "{err}"
    );
    assert_eq!(
        lines[1],
        "flowgate: --fail-if sent>=1: number of requests sent was 1"
    );

    // One request has no rate.
    let (exit, _, err) = run(&[&slow[..], &["--fail-if", "rate<0.5"]].concat());
    assert_eq!(
        (exit, err.as_str()),
        (3, "flowgate: --fail-if rate<0.5: rate was not measured\n")
    );
}

#[test]
fn what_is_no_report_is_said() {
    let files = Directory::new("no-report");
    let path = files.path("a.json");
    fs::write(&path, "{\"a\":").unwrap();
    let empty = files.path("b.json");
    fs::write(&empty, "{}").unwrap();
    let other = files.path("c.json");
    fs::write(&other, "{\"schema\":1}").unwrap();
    let newer = files.path("d.json");
    fs::write(&newer, "{\"schema\":2}").unwrap();
    for path in [&path, &empty, &other] {
        let (_, _, err) = run(&["report", path]);
        assert_eq!(
            err,
            format!(
                "flowgate: {path}: not a report: write a file that flowgate load --json wrote\n"
            )
        );
    }
    let (_, _, err) = run(&["report", &newer]);
    assert!(err.contains("a report of schema 2"), "{err}");
    for (exit, path, begin) in [
        (2, path.as_str(), format!("flowgate: {path}: ")),
        (
            1,
            "/no/such/file",
            "flowgate: cannot read /no/such/file: ".to_owned(),
        ),
    ] {
        let (code, out, err) = run(&["report", path]);
        assert_eq!((code, out.as_str()), (exit, ""), "{err}");
        assert!(err.starts_with(&begin), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn urls_come_from_a_file() {
    let files = Directory::new("urls");
    let path = files.path("urls");
    for (content, exit, expected) in [
        ("\n# none\n", 2, "contains no URL: write one per line"),
        ("http://h/\nh/2\n", 2, "line 2: \"h/2\" is not a full URL"),
        (
            "http://127.0.0.1:1/a\nhttp://127.0.0.1:2/\n",
            1,
            "differ in host or port",
        ),
    ] {
        fs::write(&path, content).unwrap();
        let (code, out, err) = run(&["load", "-q", "5", "--urls", &path]);
        assert_eq!((code, out.as_str()), (exit, ""), "{err}");
        assert!(err.contains(expected), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn completions_and_manuals_have_all_subcommands_and_flags() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (exit, out, err) = run(&["completions", shell]);
        assert_eq!((exit, err.as_str()), (0, ""));
        assert!(out.contains("at-most") && out.contains("pace"), "{shell}");
    }
    // Files are offered where one is meant, and nowhere else.
    let script = |words: &str, before: &str| {
        let binary = env!("CARGO_BIN_EXE_flowgate");
        let script = format!(
            "source <({binary} completions bash); COMP_WORDS=(flowgate {words} ''); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _flowgate flowgate '' {before} 2>/dev/null; \
             echo ${{#COMPREPLY[@]}}"
        );
        let output = Command::new("bash").args(["-c", &script]).output();
        output.map(|output| String::from_utf8(output.stdout).expect("UTF-8"))
    };
    for (words, before, offers) in [
        ("report", "report", 0),
        ("report a.json", "a.json", 0),
        ("man", "man", 0),
        ("load -q 5 --late", "--late", 1),
        ("load -m", "-m", 1),
        ("load --limiter", "--limiter", 1),
    ] {
        // There may be no bash.
        if let Ok(offered) = script(words, before) {
            assert_eq!(offered, format!("{offers}\n"), "{words}");
        }
    }
    let (exit, out, err) = run(&["man"]);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(out.contains(".TH flowgate 1"), "{out}");

    let files = Directory::new("man");
    let (exit, out, err) = run(&["man", files.0.to_str().unwrap()]);
    assert_eq!((exit, out.as_str(), err.as_str()), (0, "", ""));
    for page in [
        "flowgate.1",
        "flowgate-load.1",
        "flowgate-pace.1",
        "flowgate-report.1",
    ] {
        assert!(files.read(page).contains(".TH"), "{page}");
    }
    let page = files.read("flowgate-load.1");
    for word in ["RATE", "Exit codes", "at\\-most"] {
        assert!(page.contains(word), "{word} is not in:\n{page}");
    }
    let (exit, _, err) = run(&["man", &files.path("no/such")]);
    assert_eq!((exit, err.as_str()), (0, ""), "made");
    assert!(files.read("no/such/flowgate.1").contains(".TH"));
    let (exit, out, err) = run(&["man", &files.path("flowgate.1/no")]);
    assert_eq!((exit, out.as_str()), (1, ""));
    assert!(err.starts_with("flowgate: cannot write to "), "{err}");
}
