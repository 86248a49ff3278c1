//! On a busy machine, requests and decisions stand still for a time: what that explains is not held against the limiter.

use std::time::Duration;

use fastrand::Rng;
use flowgate::{ManualClock, Quota, Timestamp, TokenBucket};
use flowgate_verify::{Answer, DetectedKind, Findings, Investigation, Question, Simulated};

/// Looks at a token bucket in a process that stands still: at a time, for as long as `stands_still` returns.
fn investigate(service: Duration, seed: u64, stands_still: impl Fn(u64) -> u64) -> Findings {
    let quota: Quota = "150/s burst 15".parse().unwrap();
    let bucket = TokenBucket::builder(quota)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let mut subject = Simulated::new(|asked: Question| {
        let late_ns = stands_still(asked.at_ns);
        let at = Timestamp::from_nanos(asked.at_ns + late_ns);
        Answer {
            held: Duration::from_nanos(late_ns),
            ..bucket.at(at).try_acquire().is_ok().into()
        }
    })
    .service(service, seed);
    let Ok(findings) = Investigation::new()
        .seed(seed)
        .run(&mut subject, &mut |_| ());
    findings
}

/// Stands still for `stall_ns` after every `every_ns`.
fn look(stall_ns: u64, every_ns: u64, seed: u64) -> Findings {
    investigate(Duration::from_micros(800), seed, |at_ns| {
        let into = (at_ns + seed * 37_000_000) % (every_ns + stall_ns);
        match into.saturating_sub(every_ns) {
            0 => 0,
            since => stall_ns - since,
        }
    })
}

#[test]
fn stalls_do_not_make_a_token_bucket_unknown() {
    let mut wrong = Vec::new();
    for (stall_ms, every_ms) in [(30, 300), (120, 700), (250, 700), (300, 1_100), (400, 900)] {
        for seed in 0..6 {
            let findings = look(stall_ms * 1_000_000, every_ms * 1_000_000, seed);
            let detected = &findings.detected;
            if detected.kind != DetectedKind::TokenBucket || !findings.defects.is_empty() {
                wrong.push(format!(
                    "{stall_ms} ms per {every_ms} ms, seed {seed}: {findings}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// Looks at a limiter in a process that stands still at random times: after `gap_ms` and for `stall_ms`, both on average.
fn look_at_random(gap_ms: f64, stall_ms: f64, service_ms: u64, seed: u64) -> Findings {
    let mut rng = Rng::with_seed(seed + 99);
    let mut lasting = |mean_ms: f64| -(1.0 - rng.f64()).ln() * mean_ms * 1e6;
    let mut stalls: Vec<(u64, u64)> = Vec::new();
    let mut at = 0.0;
    while at < 70e9 {
        at += lasting(gap_ms);
        let until = at + lasting(stall_ms);
        stalls.push((at as u64, until as u64));
        at = until;
    }
    let service = Duration::from_millis(service_ms);
    investigate(service, seed, |at_ns| {
        let begun = stalls.partition_point(|(from, _)| *from <= at_ns);
        let last = begun.checked_sub(1).map(|last| stalls[last].1);
        last.map_or(0, |until| until.saturating_sub(at_ns))
    })
}

#[test]
fn random_stalls_and_slow_responses_hide_a_limiter_at_most() {
    let mut wrong = Vec::new();
    for (gap_ms, stall_ms, service_ms, may_be_hidden) in [
        (50.0, 30.0, 1, false),
        (20.0, 20.0, 5, false),
        (100.0, 100.0, 5, false),
        (20.0, 60.0, 10, false),
        // A quarter of the time in which everything refills is too slow to see anything.
        (300.0, 100.0, 20, true),
    ] {
        for seed in 0..5 {
            let findings = look_at_random(gap_ms, stall_ms, service_ms, seed);
            let is_known = match findings.detected.kind {
                DetectedKind::Unknown => may_be_hidden,
                kind => kind == DetectedKind::TokenBucket,
            };
            if !is_known || !findings.defects.is_empty() {
                wrong.push(format!(
                    "{stall_ms} ms per {gap_ms} ms, seed {seed}: {findings}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}
