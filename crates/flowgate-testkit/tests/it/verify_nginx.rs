//! What nginx's `limit_req` looks like, whose clock stands still from tick to tick, and that no such clock excuses more than
//! there is.

use std::time::Duration;

use fastrand::Rng;
use flowgate::{ManualClock, Timestamp};
use flowgate_testkit::verify::nginx::LimitReq;
use flowgate_testkit::verify::{
    DetectedKind, ExpectedLimit, ExpectedVerdict, Findings, Investigation, verify_at,
};

use crate::effort::seeds;

/// Times for which its clock may stand still, and what that makes of 100 per second if only one goes at a time.
const TICKS: [(Duration, f64); 2] = [
    (Duration::from_millis(1), 100.0),
    (Duration::from_millis(4), 1_000.0 / 12.0),
];

/// How long answers take at most. A seed has one of these.
const SERVICES: [Duration; 3] = [
    Duration::from_micros(100),
    Duration::from_micros(300),
    Duration::from_micros(800),
];

/// From a time on its clock that is drawn from `seed`, as are the delays.
fn look(mut limit: LimitReq, expected: Option<&str>, seed: u64) -> Findings {
    let clock = ManualClock::new();
    let began_ns = Rng::with_seed(seed).u64(0..1_000_000_000_000);
    clock.set(Timestamp::from_nanos(began_ns));
    let mut investigation = Investigation::new().seed(seed);
    if let Some(expected) = expected {
        let expected: ExpectedLimit = expected.parse().unwrap();
        investigation = investigation.expected(expected);
    }
    let service = SERVICES[seed as usize % SERVICES.len()];
    verify_at(&clock, &investigation, service, seed, |question| {
        limit.answer(question)
    })
}

/// All of what is wrong.
fn judge(expected: (DetectedKind, f64, f64), findings: &Findings) -> Option<String> {
    let (kind, rate, burst) = expected;
    let detected = &findings.detected;
    let is_near = |found: Option<f64>, expected: f64, off: f64| {
        found.is_some_and(|found| (found - expected).abs() <= off)
    };
    let found_rate = detected.rate.map(|rate| rate.value);
    let found_burst = detected.burst.map(|burst| burst.value);
    let is_right = detected.kind == kind
        && is_near(found_rate, rate, 0.02 * rate)
        && is_near(found_burst, burst, 1.0)
        && findings.defects.is_empty();
    (!is_right).then(|| findings.to_string())
}

#[test]
fn a_limit_of_one_at_a_time_is_recognised_by_the_ticks_of_its_clock() {
    let mut wrong = Vec::new();
    for (tick, rate) in TICKS {
        for seed in seeds(3, 6) {
            let findings = look(LimitReq::new(100, 0).tick(tick), None, seed);
            let off = judge((DetectedKind::TokenBucket, rate, 1.0), &findings);
            wrong.extend(off.map(|off| format!("{tick:?} {seed}: {off}")));
            let ticks = format!("if its clock advances every {} ms", tick.as_millis());
            if !findings.to_string().contains(&ticks) {
                wrong.push(format!("{tick:?} {seed}: {}", findings.detected));
            }
        }
    }
    assert!(wrong.is_empty(), "{} {wrong:#?}", wrong.len());
}

#[test]
fn with_burst_it_is_a_queue_and_with_nodelay_a_bucket() {
    let mut wrong = Vec::new();
    for (tick, _) in TICKS {
        for seed in seeds(3, 6) {
            let queue = LimitReq::new(100, 20).tick(tick);
            for (limit, kind) in [
                (queue.clone(), DetectedKind::LeakyQueue),
                (queue.nodelay(), DetectedKind::TokenBucket),
            ] {
                let findings = look(limit, None, seed);
                let off = judge((kind, 100.0, 21.0), &findings);
                wrong.extend(off.map(|off| format!("{tick:?} {seed}: {off}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} {wrong:#?}", wrong.len());
}

#[test]
fn c1_a_clock_that_stands_still_does_not_excuse_what_is_too_much() {
    for (tick, _) in TICKS {
        for seed in seeds(1, 2) {
            for (rate, burst, expected) in [
                (130, 0, "100/s burst 1"),
                (110, 20, "100/s burst 21"),
                (100, 22, "100/s burst 20"),
            ] {
                let limit = LimitReq::new(rate, burst).nodelay().tick(tick);
                let findings = look(limit, Some(expected), seed);
                let verdict = &findings.expected.as_ref().unwrap().verdict;
                assert_ne!(
                    *verdict,
                    ExpectedVerdict::Consistent,
                    "{tick:?} {seed}: {findings}"
                );
            }
        }
    }
}
