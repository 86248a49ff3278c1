//! `flowgate verify`: what it says of servers that cannot be asked, and of real limiters.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    Serve, answer_with, finished, flowgate, hang_up, read_request, run, server, signal,
};

/// Exit code and what was said.
fn verify(arguments: &[&str]) -> (i32, String, String) {
    run(&[&["verify"], arguments].concat())
}

#[test]
fn a_server_that_cannot_be_verified_is_reported_in_one_line() {
    let refused = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let answering = |answer: &'static [u8]| {
        server(move |stream, _| {
            answer_with(stream, answer);
            true
        })
    };
    let moved = answering(
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    );
    let moved_within =
        answering(b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n");
    let in_a_circle = answering(b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n");
    let nowhere = answering(b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n");
    let wants_a_name = answering(b"HTTP/1.1 401 Who\r\ncontent-length: 0\r\n\r\n");
    let failing = answering(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n");
    let not_http = answering(b"220 mail.example ESMTP\r\n");
    let hanging_up = server(|stream, _| {
        hang_up(stream);
        true
    });
    let is_tls = refused.replace("http://", "https://");
    let plain = server(|mut stream, _| {
        // Immediately, whatever is asked.
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        true
    });
    for (url, expected) in [
        (&refused, "connection refused"),
        (&is_tls, "connection refused"),
        (
            &moved,
            "the server responds 302 Found to http://127.0.0.1:1/: write that URL",
        ),
        (
            &moved_within,
            &format!("the server responds 302 Found to {moved_within}login: write that URL"),
        ),
        (
            &in_a_circle,
            "the server responds 302 Found to this same URL: write another",
        ),
        (&nowhere, "the server responds 302 Found without a location"),
        (&wants_a_name, "add credentials with -a or -H"),
        (
            &failing,
            "the server responds 500 Internal Server Error, which is in neither --admitted (200-299) nor --refused (429,503)",
        ),
        (&not_http, "not HTTP"),
        (&hanging_up, "closed"),
        (
            &plain.replace("http://", "https://"),
            "check whether the URL should begin with http://",
        ),
    ] {
        let (exit, out, err) = verify(&["--quiet", url]);
        assert_eq!(exit, 1, "{url}: {out}{err}");
        assert!(err.contains(expected), "{url}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

/// Answers so many times like this, over all connections, and then as `then` says: like that, or not at all.
fn at_first(count: u64, answer: &'static [u8], then: Option<&'static [u8]>) -> String {
    let asked = Arc::new(AtomicU64::new(0));
    server(move |mut stream, _| {
        let asked = asked.clone();
        thread::spawn(move || {
            while read_request(&mut stream) {
                let is_first = asked.fetch_add(1, Ordering::Relaxed) < count;
                let answer = if is_first { Some(answer) } else { then };
                if answer.is_some_and(|answer| stream.write_all(answer).is_err()) {
                    return;
                }
            }
        });
        true
    })
}

#[test]
fn inconclusive_results_are_reported_with_what_to_type() {
    let url = at_first(
        20,
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        Some(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n"),
    );
    let (_, out, err) = verify(&[&url, "--quiet", "--max-requests", "50", "--max-time", "5s"]);
    assert!(
        err.contains("were inconclusive: 403 Forbidden ("),
        "{out}{err}"
    );
    assert!(
        err.contains("list their statuses in --admitted or --refused"),
        "{err}"
    );
}

/// Not so many times the time limit as there are requests planned.
#[test]
fn a_server_that_answers_no_longer_is_left_alone() {
    let url = at_first(40, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", None);
    let began = Instant::now();
    let (exit, out, err) = verify(&[&url, "--quiet", "-t", "500ms"]);
    assert_eq!(exit, 1, "{out}{err}");
    assert!(
        err.contains("no response: timed out; increase the timeout with -t"),
        "{err}"
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{err}");
}

#[test]
fn bad_arguments_are_answered_in_one_line() {
    for (arguments, expected) in [
        (&["http://192.0.2.1/"][..], "192.0.2.1 is not this machine"),
        (
            &["http://192.0.2.1/", "--own", "192.0.2.2"],
            "add --own 192.0.2.1",
        ),
        (&["http://127.0.0.1:1/", "--expect", "bucket 5/s"], "bucket"),
        (&["http://127.0.0.1:1/", "--expect", "many"], "many"),
        (
            &["http://127.0.0.1:1/", "--key-header", "X-Key"],
            "write X-Api-Key=ann,bob",
        ),
        (
            &["http://127.0.0.1:1/", "--key-header", "X-Key=a,,b"],
            "write X-Api-Key=ann,bob",
        ),
        (
            &["http://127.0.0.1:1/", "--key-header", "X-Key=a,b,a"],
            "a key occurs twice",
        ),
        (
            &["http://127.0.0.1:1/", "--key-header", "X-Key=a"],
            "one key is not enough",
        ),
        (
            &["http://127.0.0.1:1/", "--admitted", "2xx"],
            "write 200-299,304",
        ),
        (
            &["http://127.0.0.1:1/", "--admitted", "200-503"],
            "have a status in common",
        ),
        (
            &["http://127.0.0.1:1/", "--expect", "1/min burst 5"],
            "to verify, but --max-time is 1m: write --max-time ",
        ),
        (&["http://127.0.0.1:1/", "--max-time", "60"], "write 60s"),
        (
            &["http://127.0.0.1:1/", "--tolerance", "-1ms"],
            "write 1ms, or 0",
        ),
        (
            &["http://127.0.0.1:1/", "--fail-on", "late"],
            "\"late\" is not a defect: write any, or some of race,",
        ),
        (
            &["http://127.0.0.1:1/", "--fail-on", ""],
            "\"\" is not a defect",
        ),
        (&["http://127.0.0.1:1/", "--max-requests", "0"], "0"),
        (&["http://127.0.0.1:1/", "-c", "0"], "0"),
        (
            &["http://me:sesame@127.0.0.1:1/"],
            "write http://127.0.0.1:1/ -a me:…",
        ),
    ] {
        let (exit, out, err) = verify(arguments);
        assert_eq!(exit, 2, "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(!err.contains("sesame"), "{err}");
        assert!(out.is_empty());
    }
}

/// An early `Retry-After` is found each time, and fails the run if it is asked to.
#[test]
fn a_defect_decides_the_exit_code_if_asked_to() {
    let serve = Serve::start("token 50/s burst 5", &["--fault", "early-retry-after=10s"]);
    let run_for = [&serve.url[..], "--max-time", "8s", "--quiet"];
    let fails = |list: &str| verify(&[&run_for[..], &["--fail-on", list]].concat());
    let (exit, out, err) = fails("race,early-retry-after");
    assert_eq!((exit, out.as_str()), (3, ""), "{err}");
    let expected = "flowgate: --fail-on early-retry-after: early Retry-After: ";
    assert!(err.starts_with(expected), "{err}");
    let (exit, _, err) = fails("nodes");
    assert_eq!((exit, err.as_str()), (0, ""));
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_is_known() {
    let (arrived, arrival) = mpsc::channel();
    let url = server(move |mut stream, _| {
        let arrived = arrived.clone();
        thread::spawn(move || {
            while read_request(&mut stream) {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                if arrived.send(()).is_err() || stream.write_all(answer).is_err() {
                    return;
                }
            }
        });
        true
    });
    let child = flowgate(&["verify", &url, "--max-time", "10m"])
        .spawn()
        .unwrap();
    for _ in 0..200 {
        arrival
            .recv_timeout(Duration::from_secs(20))
            .expect("a request");
    }
    signal(child.id(), "-INT");
    let (exit, out, err) = finished(child.wait_with_output().unwrap());
    assert_eq!(exit, 130, "{out}{err}");
    assert!(out.contains("algorithm"), "{out}{err}");
    assert!(err.contains("stopped: these are the findings of "), "{err}");
}

/// What failed is neither admitted nor refused, so the limiter is not blamed for it.
#[test]
fn a_server_that_fails_is_not_judged() {
    let serve = Serve::start("token 50/s burst 5", &["--fault", "error=25%"]);
    let (exit, out, err) = verify(&[&serve.url, "--expect", "50/s burst 5", "--max-time", "12s"]);
    assert_eq!(exit, 4, "{out}{err}");
    assert!(
        out.contains("UNDECIDED") && err.contains(" requests failed"),
        "{out}{err}"
    );
    let defects: Vec<&str> = out
        .lines()
        .filter(|line| line.starts_with("  defect"))
        .collect();
    assert!(
        matches!(defects[..], [only] if only.contains("failures")),
        "{out}"
    );
}

#[test]
fn a_server_without_a_limiter_has_none() {
    let serve = Serve::start("none", &[]);
    let (exit, out, err) = verify(&[&serve.url, "--max-requests", "2000"]);
    assert_eq!(exit, 0, "{err}");
    assert!(out.starts_with(&format!("{}, ", serve.url)), "{out}");
    assert!(out.contains("algorithm       no limit"), "{out}");
    assert!(
        err.starts_with("sends at most 2000 requests, for at most 1m\n"),
        "{err}"
    );
}

#[test]
fn no_more_is_asked_than_may_be() {
    let asked = Arc::new(AtomicU64::new(0));
    let url = server({
        let asked = asked.clone();
        move |mut stream, _| {
            let asked = asked.clone();
            thread::spawn(move || {
                while read_request(&mut stream) {
                    let answer: &[u8] = match asked.fetch_add(1, Ordering::Relaxed) % 3 {
                        0 => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                        _ => b"HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n",
                    };
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
            true
        }
    });
    let (exit, out, err) = verify(&[&url, "--max-requests", "300", "--max-time", "5s"]);
    assert_eq!(exit, 0, "{out}{err}");
    assert!(asked.load(Ordering::Relaxed) <= 300, "{out}");
}
