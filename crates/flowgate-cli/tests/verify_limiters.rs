//! `flowgate verify` against real limiters: our own through `flowgate serve`, and nginx.
//!
//! Each is asked once, and up to twice more if that was not right: it happens in real time, on a machine that may stand still
//! for a moment. `FLOWGATE_REPETITIONS=20` asks each so often, prints how often it was right, and wants 95 in 100 of them.
#![cfg(debug_assertions)] // Not a second time, for the optimised build.

mod support;

use std::sync::{Condvar, Mutex};
use std::thread;

use serde_json::Value;
#[cfg(unix)]
use support::nginx::Nginx;
use support::{Serve, run};

/// What a server is, and what should be found out.
struct Case {
    limiter: &'static str,
    url: String,
    kind: &'static str,
    rate: f64,
    burst: f64,
}

/// What was found out, and whether that is right.
struct Outcome {
    kind: bool,
    rate: bool,
    burst: bool,
    /// Nothing is wrong with it.
    no_fault: bool,
    text: String,
}

/// How often one is asked until it is right, where nothing is counted.
const TRIES: usize = 3;

fn repetitions() -> usize {
    let asked = std::env::var("FLOWGATE_REPETITIONS").ok();
    asked.map_or(1, |asked| asked.parse().expect("a number"))
}

/// How long one may take. A machine that has other things to do is not asked for precision.
fn patience() -> &'static str {
    if repetitions() > 1 { "60s" } else { "20s" }
}

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

/// How many may ask at once: each wants a processor at the instant at which it sends.
static FREE: Mutex<usize> = Mutex::new(2);
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
        patience(),
    ];
    let (exit, out, err) = run(&[&fixed, arguments].concat());
    *FREE.lock().expect("nobody panics with it") += 1;
    FREED.notify_one();
    assert!([0, 3, 4].contains(&exit), "{url}: {out}{err}");
    (exit, serde_json::from_str(&out).expect("JSON"), err)
}

/// Asks once.
fn ask(case: &Case) -> Outcome {
    let (_, found, _) = verify(&case.url, &[]);
    let likeness = &found["likeness"];
    let estimate = |name: &str| likeness[name]["value"].as_f64().unwrap_or(f64::NAN);
    let is_near = |value: f64, expected: f64, least: f64| {
        (value - expected).abs() <= (0.02 * expected).max(least)
    };
    let (rate, burst) = (estimate("rate"), estimate("burst"));
    Outcome {
        kind: kind(&likeness["kind"]) == case.kind,
        rate: is_near(rate, case.rate, 0.0),
        burst: is_near(burst, case.burst, 1.0),
        no_fault: found["faults"].as_array().is_some_and(Vec::is_empty),
        text: format!(
            "{}: {likeness}, faults {}, {} requests in {} s",
            case.limiter, found["faults"], found["requests"], found["seconds"]
        ),
    }
}

impl Outcome {
    fn is_right(&self) -> bool {
        self.kind && self.rate && self.burst && self.no_fault
    }
}

/// Once, and again if it was not right.
fn ask_until_right(case: &Case) -> Outcome {
    let mut outcome = ask(case);
    for _ in 1..TRIES {
        if outcome.is_right() {
            break;
        }
        println!("again: {}", outcome.text);
        outcome = ask(case);
    }
    outcome
}

/// Asks each as often as is wanted, all at once, and judges.
fn judge(cases: &[Case]) {
    let times = repetitions();
    let ask = if times == 1 { ask_until_right } else { ask };
    let all: Vec<(&str, Vec<Outcome>)> = thread::scope(|scope| {
        let asking: Vec<_> = cases
            .iter()
            .map(|case| {
                let ask = move || (0..times).map(|_| ask(case)).collect();
                (case.limiter, scope.spawn(ask))
            })
            .collect();
        let done = asking.into_iter();
        done.map(|(name, asked)| (name, asked.join().expect("no panic")))
            .collect()
    });
    let enough = (times * 95).div_ceil(100);
    let mut is_good = true;
    for (name, outcomes) in &all {
        let count = |is_right: fn(&Outcome) -> bool| {
            outcomes.iter().filter(|outcome| is_right(outcome)).count()
        };
        let counts = [
            count(|outcome| outcome.kind),
            count(|outcome| outcome.rate),
            count(|outcome| outcome.burst),
            count(|outcome| outcome.no_fault),
        ];
        let [kind, rate, burst, no_fault] = counts;
        println!(
            "{name:<24} of {times}: kind {kind}, rate {rate}, burst {burst}, no fault {no_fault}"
        );
        for outcome in outcomes {
            if !outcome.is_right() {
                println!("    {}", outcome.text);
            }
        }
        is_good &= counts.iter().all(|count| *count >= enough);
    }
    assert!(is_good, "see the table");
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
        kind,
        rate: 100.0,
        burst: *burst,
    };
    judge(&servers.iter().map(case).collect::<Vec<_>>());
}

/// nginx holds back what is over the rate, or with `nodelay` lets it through and counts it all the same. Its clock has
/// milliseconds, which a limit without a burst shows: it lets the next through when 9.1 ms have passed.
#[cfg(unix)]
#[test]
#[ignore = "needs nginx: ./ci/test"]
fn nginx_is_recognised() {
    let cases = [
        ("nginx burst=20", "burst=20", "leaky-queue"),
        ("nginx burst=20 nodelay", "burst=20 nodelay", "token-bucket"),
    ]
    .map(|(name, burst, kind)| {
        let nginx = Nginx::start(
            "limit_req_zone $binary_remote_addr zone=z:1m rate=100r/s; limit_req_status 429;",
            &format!("limit_req zone=z {burst}; try_files /ok =404;"),
        );
        let case = Case {
            limiter: name,
            url: format!("http://127.0.0.1:{}/", nginx.port),
            kind,
            rate: 100.0,
            // One goes at once, and 20 more.
            burst: 21.0,
        };
        (nginx, case)
    });
    let (_servers, cases): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    judge(&cases);
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
        ("token 100/s burst 20", "ban=50", "ban", 3),
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
    let faults = found["faults"].as_array().expect("a list");
    let is_named = faults.iter().any(|fault| !fault[name].is_null());
    (!is_named || exit_code != exit).then(|| {
        format!(
            "{fault}: exit {exit_code}, {faults:?} {}\n{err}",
            found["likeness"]
        )
    })
}
