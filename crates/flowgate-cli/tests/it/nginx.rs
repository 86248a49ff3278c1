//! Against a real server that keeps its own count.

#![cfg(unix)]

use std::thread;
use std::time::Duration;

use crate::support::nginx::Nginx;
use crate::support::{number, run, signal};

/// Answers all requests, a hundred on a connection, which are fewer than are sent: connections are closed and opened
/// again.
fn nginx() -> Nginx {
    Nginx::start("keepalive_requests 100;", "return 200 'ok';")
}

#[test]
#[ignore = "needs nginx: ./ci/test"]
fn nginx_logs_as_many_requests_as_were_sent() {
    let mut nginx = nginx();
    let url = format!("http://127.0.0.1:{}/path?query", nginx.port());
    let (exit, out, err) = run(&["load", "-q", "1000/s", "-z", "1s", "-c", "20", &url]);
    assert!(exit == 0 || exit == 4, "{out}{err}");
    assert!(out.contains("sent       1000 of 1000 in "), "{out}");
    assert!(out.contains("errors     none\n"), "{out}");
    assert_eq!(number(&out, "status", "2xx"), 1000, "{out}");

    let log = nginx.stop();
    let line = concat!(
        "200 GET /path?query HTTP/1.1 flowgate/",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(log.lines().filter(|text| *text == line).count(), 1000);
    assert_eq!(log.lines().count(), 1000, "nothing but what was sent");
}

/// A closed loop would have sent nothing meanwhile, and known nothing of it.
#[test]
#[ignore = "needs nginx: ./ci/test"]
fn a_server_that_stands_still_shows_in_the_response_times() {
    let nginx = nginx();
    let url = format!("http://127.0.0.1:{}/", nginx.port());
    let id = nginx.id();
    let standing_still = thread::spawn(move || {
        // When the first requests have been answered.
        thread::sleep(Duration::from_millis(500));
        signal(id, "-STOP");
        thread::sleep(Duration::from_secs(1));
        signal(id, "-CONT");
    });
    // Connections for all that come meanwhile: it is not the client that is late.
    let arguments = ["load", "-q", "150", "-z", "3s", "-c", "200", &url];
    let conditions = [
        "--fail-if",
        "p99>800ms",
        "--fail-if",
        "service.p99>800ms",
        "--fail-if",
        "p50>800ms",
    ];
    let (exit, out, err) = run(&[&arguments[..], &conditions].concat());
    standing_still.join().unwrap();
    assert!(exit == 3 || exit == 4, "{out}{err}");
    for (metric, failed) in [
        ("p99>800ms", true),
        ("service.p99>800ms", true),
        ("p50>800ms", false),
    ] {
        assert_eq!(
            err.contains(&format!("{metric}:")),
            failed,
            "{metric}: {err}"
        );
    }
    assert_eq!(number(&out, "status", "2xx"), 450, "{out}");
}
