//! `flowgate load` as users run it, against its own server and against servers that misbehave.
//!
//! None of these asserts how exact the pacing was: that depends on what else the machine is doing.

#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::{
    answer_with, finished, flowgate, hang_up, number, read_request, run, server, signal,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The verdict's word, which must agree with the exit code.
fn verdict(exit: i32, report: &str) -> &str {
    let mut lines = report.lines();
    let line = lines
        .find(|line| line.starts_with("verdict    "))
        .expect("a report");
    if line.starts_with("verdict    RATE HELD: ") {
        assert_eq!(exit, 0, "{report}");
        "RATE HELD"
    } else if line.starts_with("verdict    TOO MANY ERRORS: ") {
        assert_eq!(exit, 5, "{report}");
        "TOO MANY ERRORS"
    } else {
        assert!(line.starts_with("verdict    RATE NOT HELD: "), "{report}");
        assert_eq!(exit, 4, "{report}");
        "RATE NOT HELD"
    }
}

#[test]
fn without_a_url_it_serves_itself_and_says_so() {
    let (exit, out, err) = run(&["load", "--rate", "300/s", "--duration", "1s"]);
    verdict(exit, &out);
    assert_eq!(err, "");
    assert!(out.contains("(built-in test server)"), "{out}");
    assert!(out.contains("sent       300 of 300 in "), "{out}");
    assert_eq!(number(&out, "status", "2xx"), 300);
    assert!(out.contains("errors     none\n"), "{out}");
    assert!((8..=16).contains(&out.lines().count()), "{out}");
}

#[test]
fn a_count_of_requests_ends_the_run() {
    let (exit, out, _) = run(&["load", "-q", "500", "-n", "20"]);
    verdict(exit, &out);
    assert!(out.contains("sent       20 of 20 in "), "{out}");
    let (exit, out, _) = run(&["load", "-q", "500", "-z", "1s", "-n", "20"]);
    verdict(exit, &out);
    assert!(out.contains("sent       20 of 20 in "), "{out}");
}

#[test]
fn method_headers_and_body_reach_the_server() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/a?b=c", listener.local_addr().unwrap());
    let request = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 1024];
        while !request.ends_with(b"hello") {
            let length = stream.read(&mut buffer).unwrap();
            assert_ne!(length, 0, "{}", String::from_utf8_lossy(&request));
            request.extend_from_slice(&buffer[..length]);
        }
        stream.write_all(OK).unwrap();
        String::from_utf8(request).unwrap()
    });
    let arguments = ["load", "-q", "10", "-n", "1", "-m", "post", "-d", "hello"];
    let headers = ["-H", "X-One: 1", "-H", "x-one: 2", "-H", "User-Agent: me"];
    let (_, out, _) = run(&[&arguments[..], &headers, &[&url]].concat());
    assert_eq!(number(&out, "status", "2xx"), 1);

    let request = request.join().unwrap();
    assert!(request.starts_with("POST /a?b=c HTTP/1.1\r\n"), "{request}");
    let host = url.trim_start_matches("http://").trim_end_matches("/a?b=c");
    let host = format!("host: {host}\r\n");
    for line in [
        &host,
        "x-one: 1\r\n",
        "x-one: 2\r\n",
        "user-agent: me\r\n",
        "content-length: 5\r\n",
    ] {
        assert_eq!(request.matches(line).count(), 1, "{line:?} in {request}");
    }
    assert_eq!(request.matches("user-agent").count(), 1, "{request}");
}

#[test]
fn what_hey_and_oha_users_type_reaches_the_server() {
    let (arrived, arrival) = mpsc::channel();
    let url = server(move |stream, _| {
        let arrived = arrived.clone();
        thread::spawn(move || {
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut stream = stream;
            let mut request = String::new();
            while lines.read_line(&mut request).is_ok_and(|length| length > 0) {
                if request.ends_with("\r\n\r\n") {
                    let _ = lines.read_exact(&mut [0; 4]);
                    let _ = arrived.send(std::mem::take(&mut request));
                    if stream.write_all(OK).is_err() {
                        return;
                    }
                }
            }
        });
        true
    });
    let body = std::env::temp_dir().join(format!("flowgate-body-{}", std::process::id()));
    fs::write(&body, "\0\r\n\n").unwrap();
    let run_for = ["load", "-n", "3", "-c", "1", "-t", "20", "-X", "POST"];
    let says = [
        "-T",
        "text/x",
        "-A",
        "text/y",
        "-a",
        "a:b",
        "--host",
        "example.org",
    ];
    let from = ["-D", body.to_str().unwrap(), "--disable-keepalive"];
    let (exit, out, err) = run(&[&run_for[..], &says, &from, &[&url]].concat());
    fs::remove_file(body).unwrap();
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("verdict    UNPACED"), "{out}");
    assert_eq!(number(&out, "status", "2xx"), 3, "{out}");
    let request = arrival.recv().unwrap();
    assert!(request.starts_with("POST / HTTP/1.1\r\n"), "{request}");
    for line in [
        "content-type: text/x\r\n",
        "accept: text/y\r\n",
        "authorization: Basic YTpi\r\n",
        "host: example.org\r\n",
        "content-length: 4\r\n",
        "connection: close\r\n",
    ] {
        assert_eq!(request.matches(line).count(), 1, "{line:?} in {request}");
    }
}

#[test]
fn urls_are_taken_in_turn() {
    let (arrived, arrival) = mpsc::channel();
    let url = server(move |stream, _| {
        let arrived = arrived.clone();
        thread::spawn(move || {
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut stream = stream;
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
                if line.starts_with("GET ") {
                    let _ = arrived.send(line.clone());
                } else if line == "\r\n" && stream.write_all(OK).is_err() {
                    return;
                }
                line.clear();
            }
        });
        true
    });
    let urls = std::env::temp_dir().join(format!("flowgate-urls-{}", std::process::id()));
    fs::write(&urls, format!("{url}a\n\n# no more\n {url}b\n")).unwrap();
    let path = urls.to_str().unwrap();
    let (_, out, err) = run(&["load", "-q", "50", "-n", "4", "-c", "1", "--urls", path]);
    fs::remove_file(&urls).unwrap();
    assert_eq!(err, "");
    assert_eq!(number(&out, "status", "2xx"), 4, "{out}");
    let lines: String = arrival.try_iter().collect();
    let expected = "GET /a HTTP/1.1\r\nGET /b HTTP/1.1\r\n";
    assert_eq!(lines, expected.repeat(2));
}

#[test]
fn a_rate_to_stay_under_and_a_limiter() {
    let (exit, out, err) = run(&["load", "--at-most", "50/s", "-n", "5"]);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("asked at most 50/s"), "{out}");
    assert!(
        out.contains("verdict    RATE LIMIT KEPT: all gaps at least 20 ms"),
        "{out}"
    );
    let limiter = [
        "load",
        "--limiter",
        "token 50/s burst 3",
        "--margin",
        "1ms",
        "-z",
        "200ms",
    ];
    let (exit, out, err) = run(&limiter);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert!(
        out.contains("asked token 50/s burst 3, margin 1 ms"),
        "{out}"
    );
}

#[test]
fn too_few_open_files_are_told_before_anything_is_sent() {
    let binary = env!("CARGO_BIN_EXE_flowgate");
    let script =
        format!("ulimit -n 30; exec {binary} load -q 10 -c 100 --threads 1 http://127.0.0.1:1/");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let (exit, out, err) = finished(output);
    assert_eq!((exit, out.as_str()), (1, ""));
    assert_eq!(
        err,
        "flowgate: 100 connections need about 130 open files, but 30 are allowed: \
         run ulimit -n 130 first\n"
    );
    // Some fit.
    let script = script.replace("ulimit -n 30", "ulimit -n 40");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let (exit, _, err) = finished(output);
    assert_eq!(exit, 1);
    assert_eq!(
        err,
        "flowgate: 100 connections need about 130 open files, but 40 are allowed: \
         write -c 10, or run ulimit -n 130 first\n"
    );
    // A soft limit is no obstacle.
    let script = format!("ulimit -S -n 30; exec {binary} load -q 500 -c 100 -n 100");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let (_, out, err) = finished(output);
    assert_eq!(err, "");
    assert!(out.contains("sent       100 of 100 in "), "{out}");
}

#[test]
fn statuses_are_counted_by_class_and_limits_apart() {
    let answers: [&[u8]; 5] = [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: /x\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n",
    ];
    let count = Arc::new(AtomicUsize::new(0));
    let url = server(move |mut stream, _| {
        let count = Arc::clone(&count);
        thread::spawn(move || {
            while read_request(&mut stream) {
                let answer = answers[count.fetch_add(1, Relaxed) % answers.len()];
                stream.write_all(answer).unwrap();
            }
        });
        true
    });
    let (exit, out, _) = run(&["load", "-q", "200", "-n", "50", &url]);
    assert_ne!(verdict(exit, &out), "RATE HELD");
    assert!(
        out.contains("20 of 50 requests failed (answered 5xx), more than 1 %"),
        "{out}"
    );
    let expected = "status     2xx 10   3xx 10   4xx 10   5xx 10   limited 10 (429, 503)\n";
    assert!(out.contains(expected), "{out}");
    // Those that were limited are none.
    let expected = "errors     10 answered 4xx   10 answered 5xx\n";
    assert!(out.contains(expected), "{out}");
}

#[test]
fn a_server_that_closes_after_each_answer_costs_no_request() {
    let url = server(|stream, _| {
        answer_with(
            stream,
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        );
        true
    });
    let (exit, out, _) = run(&["load", "-q", "200", "-n", "60", "-c", "4", &url]);
    verdict(exit, &out);
    assert_eq!(number(&out, "status", "2xx"), 60, "{out}");
    assert!(out.contains("errors     none\n"), "{out}");
}

#[test]
fn a_server_that_closes_without_saying_so_is_connected_to_again() {
    let url = server(|mut stream, _| {
        thread::spawn(move || read_request(&mut stream) && stream.write_all(OK).is_ok());
        true
    });
    let (exit, out, _) = run(&["load", "-q", "50", "-n", "30", "-c", "2", &url]);
    verdict(exit, &out);
    // On a busy machine a request may cross with the closing, which is then counted as an error.
    assert!(out.contains("sent       30 of 30 in "), "{out}");
    assert!(number(&out, "status", "2xx") >= 15, "{out}");
}

#[test]
fn a_port_that_nobody_listens_on_cannot_be_run_against() {
    // Bound and closed again: free for now.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (exit, out, err) = run(&["load", "-q", "10", &format!("http://{address}/")]);
    assert_eq!((exit, out.as_str()), (1, ""));
    assert_eq!(
        err,
        format!("flowgate: cannot connect to {address}: connection refused\n")
    );
}

#[test]
fn garbage_is_counted_and_reported() {
    let url = server(|stream, _| {
        answer_with(stream, b"220 mail.example ESMTP\r\n\r\n");
        true
    });
    let (exit, out, _) = run(&["load", "-q", "200", "-n", "40", &url]);
    verdict(exit, &out);
    assert!(
        out.contains("errors     40 answer is not HTTP/1.1\n"),
        "{out}"
    );
}

#[test]
fn a_server_that_hangs_up_is_counted_and_reported() {
    let url = server(|stream, _| {
        hang_up(stream);
        true
    });
    let load = ["load", "-q", "200", "-n", "40", &url];
    let (exit, out, _) = run(&load);
    assert_ne!(verdict(exit, &out), "RATE HELD");
    assert!(
        out.contains("errors     40 closed without a full answer\n"),
        "{out}"
    );
    let errors = "40 of 40 requests failed (closed without a full answer), more than 1 %";
    assert!(out.contains(errors), "{out}");

    // As many as are allowed are said, and no more.
    let (exit, out, _) = run(&[&load[..], &["--max-errors", "100%"]].concat());
    assert_ne!(verdict(exit, &out), "TOO MANY ERRORS");
    // The verdict comes before the conditions.
    let unpaced = [
        "load",
        "-n",
        "10",
        "-c",
        "1",
        &url,
        "--fail-if",
        "err>0",
        "--quiet",
    ];
    let (exit, out, err) = run(&unpaced);
    assert_eq!((exit, out.as_str()), (5, ""), "{err}");
    assert_eq!(
        err,
        "flowgate: --fail-if err>0: share of errors was 100 %\n\
         flowgate: too many errors: 10 of 10 requests failed (closed without a full answer), more than 1 %\n"
    );
    let allowed = [
        "load",
        "-n",
        "10",
        "-c",
        "1",
        &url,
        "--max-errors",
        "1",
        "--fail-if",
        "err>0",
    ];
    assert_eq!(run(&allowed).0, 3);
}

#[test]
fn inputs_come_from_standard_input() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let request = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 1024];
        while !request.ends_with(b"hello") {
            let length = stream.read(&mut buffer).unwrap();
            assert_ne!(length, 0, "{}", String::from_utf8_lossy(&request));
            request.extend_from_slice(&buffer[..length]);
        }
        stream.write_all(OK).unwrap();
        String::from_utf8(request).unwrap()
    });
    let fed = |arguments: &[&str], input: &str| {
        let mut command = flowgate(arguments);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        finished(child.wait_with_output().unwrap())
    };
    let (_, out, err) = fed(&["load", "-n", "1", "-m", "POST", "-D", "-", &url], "hello");
    assert_eq!(number(&out, "status", "2xx"), 1, "{err}");
    assert!(request.join().unwrap().ends_with("\r\n\r\nhello"));

    let url = server(|stream, _| {
        answer_with(stream, OK);
        true
    });
    let (_, out, err) = fed(
        &["load", "-q", "50", "-n", "3", "--urls", "-"],
        &format!("{url}a\n{url}b\n"),
    );
    assert_eq!(number(&out, "status", "2xx"), 3, "{err}");
    let (_, out, err) = fed(&["load", &url, "--replay", "-", "-j"], "0\n0.02\n");
    assert_eq!(err, "");
    let (exit, shown, err) = fed(&["report", "-"], &out);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(shown.contains("sent       2 of 2"), "{shown}");
}

#[test]
fn a_line_per_request_is_written() {
    let url = server(|stream, _| {
        answer_with(stream, b"HTTP/1.1 404 No\r\ncontent-length: 3\r\n\r\n404");
        true
    });
    let log = std::env::temp_dir().join(format!("flowgate-log-{}", std::process::id()));
    let path = log.to_str().unwrap();
    // What was there before is gone.
    fs::write(&log, "x".repeat(100_000)).unwrap();
    let load = ["load", "-q", "500", "-n", "20", "--warm-up", "100ms", &url];
    let (_, _, err) = run(&[&load[..], &["--log", path, "--quiet", "--max-errors", "1"]].concat());
    let written = fs::read_to_string(&log).unwrap();
    fs::remove_file(&log).unwrap();
    assert!(!err.contains("--log"), "{err}");
    let lines: Vec<serde_json::Value> = written
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 20, "{written}");
    let mut scheduled: Vec<u64> = lines
        .iter()
        .map(|line| line["scheduled_ns"].as_u64().unwrap())
        .collect();
    scheduled.sort();
    let expected: Vec<u64> = (0..20).map(|index| index * 2_000_000).collect();
    assert_eq!(scheduled, expected);
    for line in &lines {
        assert_eq!(
            (&line["status"], &line["bytes"]),
            (&404.into(), &3.into()),
            "{line}"
        );
        assert!(
            line["sent_ns"].as_u64() >= line["scheduled_ns"].as_u64(),
            "{line}"
        );
        assert!(
            line["done_ns"].as_u64() >= line["sent_ns"].as_u64(),
            "{line}"
        );
    }
}

#[test]
fn a_server_behind_a_unix_socket_or_another_port() {
    let path = std::env::temp_dir().join(format!("flowgate-cli-{}.sock", std::process::id()));
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut request = Vec::new();
                let mut byte = [0];
                while matches!(stream.read(&mut byte), Ok(1)) {
                    request.push(byte[0]);
                    if request.ends_with(b"\r\n\r\n") {
                        assert!(request.windows(12).any(|part| part == b"shop.invalid"));
                        request.clear();
                        let _ = stream.write_all(OK);
                    }
                }
            });
        }
    });
    let name = path.to_str().unwrap();
    let load = ["load", "-q", "200", "-n", "5", "http://shop.invalid/"];
    let (_, out, err) = run(&[&load[..], &["--unix-socket", name]].concat());
    assert_eq!(number(&out, "status", "2xx"), 5, "{err}");
    let url = server(|stream, _| {
        answer_with(stream, OK);
        true
    });
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let (_, out, err) = run(&[&load[..], &["--connect-to", address]].concat());
    assert_eq!(number(&out, "status", "2xx"), 5, "{err}");
    fs::remove_file(&path).unwrap();
    let (exit, _, err) = run(&[&load[..], &["--unix-socket", name]].concat());
    assert_eq!(exit, 1);
    assert_eq!(
        err,
        format!("flowgate: cannot connect to {name}: could not connect\n")
    );
}

#[test]
fn percentiles_and_circumstances_are_in_the_report() {
    let load = [
        "load",
        "-q",
        "500",
        "-n",
        "20",
        "--percentiles",
        "75,99.5",
        "-a",
        "me:sesame",
    ];
    let (_, out, _) = run(&load);
    let head: Vec<&str> = out
        .lines()
        .find(|line| line.contains("p75"))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(head, ["p75", "p99.5", "max"]);
    let (_, out, _) = run(&[&load[..], &["-j"]].concat());
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["percentiles"]["response"][0]["share"], 0.75);
    let from = &json["provenance"];
    assert_eq!(
        from["command"],
        "flowgate load -q 500 -n 20 --percentiles 75,99.5 -a … -j"
    );
    assert_eq!(from["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        from["started"].as_str().unwrap().starts_with("20"),
        "{from}"
    );
    assert!(!out.contains("sesame"), "{out}");
}

#[test]
fn a_server_that_dies_midway_ends_in_a_report() {
    // Two connections, ten answers each; then nobody listens any more.
    let url = server(|mut stream, number| {
        thread::spawn(move || {
            for _ in 0..10 {
                if !read_request(&mut stream) || stream.write_all(OK).is_err() {
                    return;
                }
            }
        });
        number < 1
    });
    let (exit, out, _) = run(&["load", "-q", "200", "-n", "100", "-c", "2", &url]);
    assert_eq!(exit, 4, "{out}");
    assert_eq!(number(&out, "status", "2xx"), 20, "{out}");
    assert!(out.contains(" connection refused"), "{out}");
    assert!(out.contains("RATE NOT HELD: "), "{out}");
    assert!(out.contains(" of 100 (connection refused)"), "{out}");
}

#[test]
fn a_server_that_never_answers_ends_in_timeouts() {
    let url = server(|stream, _| {
        // Read, so that nothing but the answer is missing.
        answer_with(stream, b"");
        true
    });
    let limits = ["-c", "5", "--timeout", "200ms", "--fail-if", "err>0"];
    let run_for = ["load", "-q", "100", "-z", "500ms"];
    let (exit, out, err) = run(&[&run_for[..], &limits, &[&url]].concat());
    // The condition is so as well, but not being held says more.
    assert_eq!(exit, 4, "{out}");
    assert_eq!(
        err,
        "flowgate: --fail-if err>0: share of errors was 100 %\n"
    );
    assert!(
        out.contains("RATE NOT HELD: connections busy: needs about "),
        "{out}"
    );
    assert!(out.contains(", allowed 5; sent "), "{out}");
    assert!(out.contains(" timed out\n"), "{out}");
    assert_eq!(number(&out, "status", "2xx"), 0);
}

/// Starts a load on a server that gives these bytes for every request, waits until that many have
/// arrived, and interrupts it. Returns how it ended, and how many arrived in all.
fn interrupted_after(
    arrivals: usize,
    answer: &'static [u8],
    name: &str,
    load: &[&str],
) -> (String, String, usize) {
    let (arrived, arrival) = mpsc::channel();
    let url = server(move |mut stream, _| {
        let arrived = arrived.clone();
        thread::spawn(move || {
            while read_request(&mut stream) {
                // Counted before it is answered, so that no answered request is missing below.
                if arrived.send(()).is_err() || stream.write_all(answer).is_err() {
                    return;
                }
            }
        });
        true
    });
    let child = flowgate(&[load, &[&url]].concat()).spawn().unwrap();
    for _ in 0..arrivals {
        arrival
            .recv_timeout(Duration::from_secs(20))
            .expect("a request");
    }
    signal(child.id(), name);
    let (exit, out, err) = finished(child.wait_with_output().unwrap());
    assert_eq!(exit, 130, "{out}{err}");
    assert!(err.contains("stopping"), "{err}");
    (out, err, arrivals + arrival.try_iter().count())
}

#[test]
fn ctrl_c_stops_sending_and_still_reports() {
    for name in ["-INT", "-TERM"] {
        let (out, err, arrived) =
            interrupted_after(10, OK, name, &["load", "-q", "100", "-z", "60s"]);
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(
            out.contains("verdict    RATE NOT HELD: interrupted; sent "),
            "{out}"
        );
        assert_eq!(number(&out, "status", "2xx"), arrived as u64, "{out}");
        assert!(out.contains("errors     none\n"), "{out}");
    }
}

#[test]
fn conditions_are_not_looked_at_when_interrupted() {
    let load = ["load", "-q", "100", "-z", "60s", "--fail-if", "sent>0"];
    let (_, err, _) = interrupted_after(2, OK, "-INT", &load);
    assert!(
        err.ends_with("\nflowgate: --fail-if was not checked, because the run was stopped\n"),
        "{err}"
    );
}

#[test]
fn ctrl_c_gives_up_on_answers_after_a_second() {
    let load = ["load", "-q", "1000", "-n", "3", "--timeout", "1h"];
    let (out, _, _) = interrupted_after(3, b"", "-INT", &load);
    assert!(
        out.contains("errors     3 unanswered at the end\n"),
        "{out}"
    );
}
