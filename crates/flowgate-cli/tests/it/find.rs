//! `flowgate find`: a real search, and what it says of nonsense.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::Value;

use crate::support::{Serve, answer_with, run, server};

fn find(arguments: &[&str]) -> (i32, String, String) {
    run(&[&["find"], arguments].concat())
}

/// A limiter is a server whose highest rate is known, whatever the machine does.
#[test]
fn the_highest_rate_behind_a_limiter_is_its_rate() {
    let serve = Serve::start("token 200/s burst 10", &[]);
    let asked = [
        serve.url.as_str(),
        "--slo",
        "errors<5%",
        "--within",
        "40s",
        "--json",
        "-",
    ];
    let (exit, json, err) = find(&asked);
    assert_eq!(exit, 0, "{json}{err}");
    assert!(
        err.starts_with("searches for at most 40s, with at most 10000000 requests"),
        "{err}"
    );
    let finding: Value = serde_json::from_str(&json).unwrap();
    let kept = finding["kept"].as_f64().unwrap();
    // 5 % of the requests may be refused, and the burst admits some more.
    assert!((195.0..240.0).contains(&kept), "{json}");
    assert!(finding["steps"].as_array().unwrap().len() > 3, "{json}");
    assert_eq!(finding["slo"][0]["errors"]["below"].as_f64(), Some(0.05));
}

#[test]
fn a_search_that_knows_of_limits_detects_the_limiter() {
    let serve = Serve::start("token 150/s burst 15", &[]);
    let asked = [
        serve.url.as_str(),
        "--slo",
        "errors<1%",
        "--rate-limit-aware",
        "--within",
        "30s",
    ];
    let (exit, report, err) = find(&asked);
    assert_eq!(exit, 0, "{report}{err}");
    assert!(
        report.contains("ended        the server limits the load: 429 or 503"),
        "{report}"
    );
    assert!(
        report.contains("rate limiter of the server")
            && report.contains("  algorithm       token bucket / GCRA, rate 1"),
        "{report}"
    );
}

#[test]
fn a_server_that_only_fails_keeps_no_objective() {
    let url = server(|stream, _| {
        answer_with(stream, b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n");
        true
    });
    let (exit, report, err) = find(&[&url, "--slo", "errors<1%", "--within", "30s", "--from", "5"]);
    assert!([3, 5].contains(&exit), "{exit} {report}{err}");
    assert!(report.contains("broken: errors were 100 %"), "{report}");
    assert!(
        report.contains("no level kept the objective, down to"),
        "{report}"
    );
}

#[test]
fn nonsense_is_refused_in_one_line() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{free}/");
    let slo = ["--slo", "p99<50ms"];
    let cases: [(&[&str], i32, &str); 17] = [
        (&[&url], 2, "--slo"),
        (&["--slo", "p99<50ms"], 2, "<URL>"),
        (&[&url, slo[0], slo[1]], 1, "connection refused"),
        (
            &[&url, slo[0], slo[1], "--cert", "no.pem"],
            2,
            "--cert has no effect without https://",
        ),
        (
            &[&url, slo[0], slo[1], "--http2", "--proxy", &url],
            2,
            "--proxy forwards http:// only over HTTP/1.1",
        ),
        (
            &["http://192.0.2.7/", slo[0], slo[1]],
            2,
            "add --own 192.0.2.7",
        ),
        (&["ftp://127.0.0.1/", slo[0], slo[1]], 2, "http"),
        (
            &[&url, "--slo", "p99>50ms"],
            2,
            "an objective has upper bounds",
        ),
        (
            &[&url, slo[0], slo[1], "--precision", "0"],
            2,
            "from 0.1% to 50%",
        ),
        (
            &[&url, slo[0], slo[1], "--precision", "NaN"],
            2,
            "from 0.1% to 50%",
        ),
        (
            &[&url, slo[0], slo[1], "--from", "0"],
            2,
            "must be more than 0",
        ),
        (&[&url, slo[0], slo[1], "--from", "1e99"], 2, "--from"),
        (
            &[&url, slo[0], slo[1], "--from", "2M"],
            2,
            "from 1 to 1000000",
        ),
        (
            &[&url, slo[0], slo[1], "--within", "0s"],
            2,
            "longer than 0",
        ),
        (
            &[&url, slo[0], slo[1], "--max-requests", "0"],
            2,
            "--max-requests",
        ),
        (
            &[&url, slo[0], slo[1], "--find", "happiness"],
            2,
            "rate, concurrency, spike",
        ),
        (
            &[&url, slo[0], slo[1], "--find", "concurrency", "-c", "5"],
            2,
            "write --from in place of it",
        ),
    ];
    for (arguments, expected, message) in cases {
        let (exit, out, err) = find(arguments);
        assert_eq!((exit, out.as_str()), (expected, ""), "{arguments:?}: {err}");
        let last = err.lines().last().unwrap_or_default();
        assert!(last.contains(message), "{arguments:?}: {err}");
        assert!(err.lines().count() <= 2, "{arguments:?}: {err}");
    }
}
