//! `flowgate verify` against real limiters: our own through `flowgate serve`, and nginx.
//!
//! Each is asked once, and up to twice more if that was not right: it happens in real time, on a machine that may stand still
//! for a moment. How often it is right is what `bench/verify` counts.

use std::sync::{Condvar, Mutex};
use std::thread;

#[cfg(all(unix, feature = "decide"))]
use crate::decide::{Limits, Server};
#[cfg(unix)]
use crate::support::nginx::Nginx;
use crate::support::{Serve, run};
use serde_json::Value;

/// What a server is, and what should be found out.
struct Case {
    limiter: &'static str,
    url: String,
    /// What else is sent, such as a body.
    arguments: &'static [&'static str],
    kind: &'static str,
    rate: f64,
    burst: f64,
}

/// What was found out, and whether all of that is right.
struct Outcome {
    is_right: bool,
    text: String,
}

/// How often one is asked until it is right.
const TRIES: usize = 3;

/// How long one may take. A machine that has other things to do is not asked for precision.
const PATIENCE: &str = "20s";

/// The kind as one word: `fixed-window clock`.
fn kind(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        Value::Object(map) => {
            let (word, more) = map.iter().next().expect("a kind has a name");
            format!("{word} {}", more.as_str().unwrap_or_default())
        }
        other => panic!("{other}"),
    }
}

/// How many runs of `verify` may be in progress: each waits nearly all of its time, and wants a processor at the instants at
/// which it sends.
static FREE: Mutex<usize> = Mutex::new(8);
static FREED: Condvar = Condvar::new();

/// Asks, and returns the exit code, the report and what was said.
fn verify(url: &str, arguments: &[&str]) -> (i32, Value, String) {
    let free = FREE.lock().expect("nobody panics with it");
    let mut free = FREED.wait_while(free, |free| *free == 0).expect("the same");
    *free -= 1;
    drop(free);
    let fixed = [
        "verify",
        url,
        "--quiet",
        "--json",
        "-",
        "--max-time",
        PATIENCE,
    ];
    let (exit, out, err) = run(&[&fixed, arguments].concat());
    *FREE.lock().expect("nobody panics with it") += 1;
    FREED.notify_one();
    assert!([0, 3, 4].contains(&exit), "{url}: {out}{err}");
    (exit, serde_json::from_str(&out).expect("JSON"), err)
}

/// Asks once.
fn ask(case: &Case) -> Outcome {
    let (_, found, _) = verify(&case.url, case.arguments);
    let detected = &found["detected"];
    let estimate = |name: &str| detected[name]["value"].as_f64().unwrap_or(f64::NAN);
    let is_near = |value: f64, expected: f64, least: f64| {
        (value - expected).abs() <= (0.02 * expected).max(least)
    };
    let is_right = kind(&detected["kind"]) == case.kind
        && is_near(estimate("rate"), case.rate, 0.0)
        && is_near(estimate("burst"), case.burst, 1.0)
        && found["defects"].as_array().is_some_and(Vec::is_empty);
    Outcome {
        is_right,
        text: format!(
            "{}: {detected}, faults {}, {} requests in {} s",
            case.limiter, found["defects"], found["requests"], found["seconds"]
        ),
    }
}

/// Once, and again if it was not right.
fn ask_until_right(case: &Case) -> Outcome {
    let mut outcome = ask(case);
    for _ in 1..TRIES {
        if outcome.is_right {
            break;
        }
        println!("again: {}", outcome.text);
        outcome = ask(case);
    }
    outcome
}

/// All concurrently.
fn judge(cases: &[Case]) {
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let asking = cases
            .iter()
            .map(|case| scope.spawn(move || ask_until_right(case)));
        let asking: Vec<_> = asking.collect();
        let done = asking.into_iter();
        done.map(|asked| asked.join().expect("no panic")).collect()
    });
    let wrong = outcomes.iter().filter(|outcome| !outcome.is_right);
    let wrong: Vec<_> = wrong.map(|outcome| outcome.text.as_str()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_limiter_is_recognised() {
    let servers: Vec<_> = [
        ("token 100/s burst 20", "token-bucket", 20.0),
        ("leaky 100/s", "token-bucket", 1.0),
        ("sliding 100/s", "sliding-log", 100.0),
        ("fixed 100/s", "fixed-window first-request", 100.0),
        ("aligned 100/s", "fixed-window clock", 100.0),
        ("queue 100/s burst 20", "leaky-queue", 20.0),
    ]
    .into_iter()
    .map(|(limiter, kind, burst)| (Serve::start(limiter, &[]), limiter, kind, burst))
    .collect();
    let case = |(serve, limiter, kind, burst): &(Serve, &'static str, &'static str, f64)| Case {
        limiter,
        url: serve.url.clone(),
        arguments: &[],
        kind,
        rate: 100.0,
        burst: *burst,
    };
    judge(&servers.iter().map(case).collect::<Vec<_>>());
}

/// Each door of HTTP tells of the limit that is configured, and of no other.
#[cfg(all(unix, feature = "decide"))]
#[test]
fn each_door_of_a_decision_server_has_the_configured_limit() {
    let file = Limits::new(
        "verified",
        "
domain: api
descriptors:
  - { key: auth, quota: 100/s burst 20 }
  - { key: ask, quota: 100/s, algorithm: fixed }
  - { key: json, rate_limit: { unit: second, requests_per_unit: 100 } }
",
    );
    let server = Server::with(&file.0, &[]);
    let case = |limiter, path, arguments, kind, burst| Case {
        limiter,
        url: format!("http://{}{path}", server.http),
        arguments,
        kind,
        rate: 100.0,
        burst,
    };
    judge(&[
        case(
            "GET /auth",
            "/auth?limit=api.auth&key=a",
            &[],
            "token-bucket",
            20.0,
        ),
        case(
            "POST /v1/ask",
            "/v1/ask",
            &["-m", "POST", "-d", r#"{"limit":"api.ask","key":"a"}"#],
            "fixed-window first-request",
            100.0,
        ),
        case(
            "POST /json",
            "/json",
            &[
                "-m",
                "POST",
                "-d",
                r#"{"domain":"api","descriptors":[{"entries":[{"key":"json","value":"a"}]}]}"#,
            ],
            "fixed-window clock",
            100.0,
        ),
    ]);
}

/// nginx holds back what is over the rate, or with `nodelay` lets it through and counts it all the same. Its clock has
/// milliseconds, which a limit without a burst shows: it lets the next through when 9.1 ms have passed.
#[cfg(unix)]
#[test]
#[ignore = "needs nginx: ./ci/test"]
fn nginx_is_recognised() {
    // One goes immediately, and as many more as `burst` says.
    let cases = [
        ("nginx", "", "token-bucket", 1.0),
        ("nginx burst=20", "burst=20", "leaky-queue", 21.0),
        (
            "nginx burst=20 nodelay",
            "burst=20 nodelay",
            "token-bucket",
            21.0,
        ),
    ]
    .map(|(name, more, kind, burst)| {
        let nginx = Nginx::start(
            "limit_req_zone $binary_remote_addr zone=z:1m rate=100r/s; limit_req_status 429;",
            &format!("limit_req zone=z {more}; try_files /ok =404;"),
        );
        let case = Case {
            limiter: name,
            url: format!("http://127.0.0.1:{}/", nginx.port()),
            arguments: &[],
            kind,
            rate: 100.0,
            burst,
        };
        (nginx, case)
    });
    let (_servers, cases): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    judge(&cases);
}

/// It admits as many as it lets be under way, however fast they come: no rate, and no kind of those that have one.
#[test]
fn a_limit_of_how_many_are_under_way_is_not_taken_for_a_rate() {
    let serve = Serve::start("concurrency 10", &["--delay", "20ms"]);
    let (_, found, _) = verify(&serve.url, &[]);
    let detected = &found["detected"];
    assert_eq!(kind(&detected["kind"]), "unknown", "{detected}");
}

#[test]
fn keys_that_share_a_queue_are_told_from_keys_that_do_not() {
    for (arguments, are_shared) in [(&["--key-header", "X-Api-Key"][..], false), (&[], true)] {
        let serve = Serve::start("queue 100/s burst 20", arguments);
        let is_right = (0..TRIES).any(|_| {
            let (_, found, _) = verify(&serve.url, &["--key-header", "X-Api-Key=a,b"]);
            found["keys"]["are_shared"] == are_shared
        });
        assert!(is_right, "shared: {are_shared}");
    }
}

/// What is wrong with a server is named, and a claim that it breaks is not taken for true.
#[test]
fn each_fault_is_named() {
    let cases = [
        ("token 100/s burst 20", "race", "race", 3),
        ("token 100/s burst 20", "nodes=2", "nodes", 3),
        ("fixed 100/s", "late-reset=25%", "late-reset", 3),
        (
            "token 100/s burst 20",
            "early-retry-after=1s",
            "early-retry-after",
            0,
        ),
        ("token 100/s burst 20", "ban=50", "no-recovery", 3),
        ("token 100/s burst 20", "error=1%", "failures", 0),
        ("token 100/s burst 20", "drop=1%", "failures", 0),
    ];
    let wrong: Vec<String> = thread::scope(|scope| {
        let ask = |case| {
            let mut wrong = misnamed(case);
            for _ in 1..TRIES {
                if wrong.is_some() {
                    wrong = misnamed(case);
                }
            }
            wrong
        };
        let asking = cases.map(|case| scope.spawn(move || ask(case)));
        let asked = asking.into_iter();
        asked
            .filter_map(|asked| asked.join().expect("no panic"))
            .collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What was said instead.
fn misnamed((limiter, fault, name, exit): (&str, &str, &str, i32)) -> Option<String> {
    let serve = Serve::start(limiter, &["--fault", fault]);
    let claim = limiter.strip_prefix("token ").unwrap_or(limiter);
    let (exit_code, found, err) = verify(&serve.url, &["--expect", claim]);
    let faults = found["defects"].as_array().expect("a list");
    let is_named = faults.iter().any(|fault| !fault[name].is_null());
    (!is_named || exit_code != exit).then(|| {
        format!(
            "{fault}: exit {exit_code}, {faults:?} {}\n{err}",
            found["detected"]
        )
    })
}
