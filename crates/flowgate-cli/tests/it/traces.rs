//! `flowgate decide --otlp`: spans, as a collector receives them.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::decide::{Limits, Server, end, exchange};
use crate::support::{run, server};

const LIMITS: &str = "{domain: api, descriptors: [{key: user, quota: 3/day}]}";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Asks for a span of this trace.
fn ask(server: &Server, user: &str) {
    let traceparent = format!("traceparent: 00-{TRACE}-b7ad6b7169203331-01\r\n");
    let head = format!("GET /auth?limit=api.user&key={user} HTTP/1.1\r\nhost: a\r\n");
    let answer = exchange(
        &server.http,
        &format!("{head}connection: close\r\n{traceparent}\r\n"),
    );
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn a_collector_receives_spans_without_keys_and_a_lost_one_is_told_of_once() {
    let (arrived, arrivals) = mpsc::channel();
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let collector = server(move |stream, _| {
        let (arrived, is_broken) = (arrived.clone(), Arc::clone(&broken));
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut head = String::new();
            while stream.read_line(&mut head).is_ok_and(|read| read > 0) {
                if !head.ends_with("\r\n\r\n") {
                    continue;
                }
                let mut lines = head.lines();
                let length = lines.find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.unwrap().parse().unwrap()];
                stream.read_exact(&mut body).unwrap();
                let status = if is_broken.load(Relaxed) { 503 } else { 200 };
                let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
                let _ = arrived.send((std::mem::take(&mut head), body));
            }
        });
        true
    });
    let next = || arrivals.recv_timeout(Duration::from_secs(60)).unwrap();
    let limits = Limits::new("traces", LIMITS);
    let options = [
        "--otlp",
        &collector,
        "--otlp-header",
        "X-Key: 5",
        "--otlp-share",
        "0%",
    ];
    let server = Server::with(&limits.0, &options);
    ask(&server, "a-name");
    let (head, body) = next();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("\r\nx-key: 5\r\n"), "{head}");
    let text = String::from_utf8(body).unwrap();
    assert!(!text.contains("a-name"), "{text}");
    let body: Value = serde_json::from_str(&text).unwrap();
    let span = body
        .pointer("/resourceSpans/0/scopeSpans/0/spans/0")
        .unwrap();
    assert_eq!(
        (&span["traceId"], &span["name"]),
        (&TRACE.into(), &"GET /auth".into())
    );

    is_broken.store(true, Relaxed);
    ask(&server, "b");
    next();
    let lost = server.line();
    assert!(
        lost.contains("--otlp: the collector does not take spans: answered 503; "),
        "{lost}"
    );
    ask(&server, "c");
    next();
    is_broken.store(false, Relaxed);
    ask(&server, "d");
    next();
    // One line for both that were lost.
    assert_eq!(server.line(), "--otlp: the collector takes spans again");
    let count = |result: &str| {
        let line = format!("flowgate_spans_total{{result=\"{result}\"}}");
        server.metric(&line)
    };
    // The line comes before the count.
    let until = Instant::now() + Duration::from_secs(60);
    while count("sent") != "2" && Instant::now() < until {}
    let counts = ["sent", "failed", "skipped"].map(count);
    assert_eq!(counts, ["2", "2", "0"]);
    // What waits at the end is sent.
    ask(&server, "e");
    assert_eq!(end(server), Some(0));
    let (_, body) = next();
    assert!(String::from_utf8(body).unwrap().contains(TRACE));
}

#[test]
fn wrong_options_of_traces_are_one_line() {
    let limits = Limits::new("traces-wrong", LIMITS);
    let file = limits.0.to_str().unwrap();
    for (options, expected) in [
        (&["--otlp", "collector"][..], "write http://collector"),
        (&["--otlp", "http://a:b@c/"], "write --otlp-header"),
        (
            &["--otlp", "http://a/", "--otlp-share", "2"],
            "a share is from 0% to 100%, such as 1%",
        ),
        (&["--otlp-share", "1%"], "--otlp <URL>"),
        (&["--otlp-header", "a: b"], "--otlp <URL>"),
        (
            &["--otlp", "http://a/", "--otlp-header", "X-Key 5"],
            "a colon is missing: write --otlp-header 'Name: value'",
        ),
    ] {
        let (exit, _, err) = run(&[&["decide", file, "--check"], options].concat());
        assert_eq!(exit, 2, "{err}");
        assert!(err.contains(expected), "{err}");
    }
}
