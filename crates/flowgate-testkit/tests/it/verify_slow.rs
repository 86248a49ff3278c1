//! Limiters that take a good part of a minute to be whole again: with the default budget and without a claim they look like what
//! they are, and nothing is said against them.

use std::time::Duration;

use flowgate::{
    ApproximateWindow, FixedWindow, Limiter, ManualClock, Quota, SlidingWindow, TokenBucket,
};
use flowgate_testkit::verify::{
    Alignment, Budget, DetectedKind, Findings, Investigation, verify_at,
};

use crate::effort::seeds;

const SERVICES: [Duration; 3] = [
    Duration::from_micros(100),
    Duration::from_micros(300),
    Duration::from_millis(1),
];

const ON_REQUEST: DetectedKind = DetectedKind::FixedWindow(Alignment::FirstRequest);

/// A limiter, what it looks like, its quota, and how many seconds there are.
const CASES: [(&str, DetectedKind, &str, u64); 11] = [
    ("token", DetectedKind::TokenBucket, "5/s burst 40", 60),
    ("token", DetectedKind::TokenBucket, "10/s burst 50", 60),
    ("token", DetectedKind::TokenBucket, "2/s burst 10", 60),
    ("token", DetectedKind::TokenBucket, "20/s burst 100", 60),
    ("token", DetectedKind::TokenBucket, "60/min", 60),
    ("approximate", DetectedKind::SlidingCounter, "20/2s", 60),
    ("sliding", DetectedKind::SlidingLog, "30/5s", 60),
    ("sliding", DetectedKind::SlidingLog, "100/10s", 60),
    ("sliding", DetectedKind::SlidingLog, "10/3s", 60),
    ("fixed", ON_REQUEST, "20/6s", 55),
    ("fixed", ON_REQUEST, "50/5s", 60),
];

fn look(name: &str, text: &str, seconds: u64, seed: u64) -> Findings {
    let quota: Quota = text.parse().unwrap();
    let clock = ManualClock::new();
    let limiter: Box<dyn Limiter> = match name {
        "token" => Box::new(TokenBucket::builder(quota).clock(&clock).build().unwrap()),
        "approximate" => {
            let built = ApproximateWindow::builder(quota).clock(&clock).build();
            Box::new(built.unwrap())
        }
        "sliding" => Box::new(SlidingWindow::builder(quota).clock(&clock).build().unwrap()),
        _ => Box::new(FixedWindow::builder(quota).clock(&clock).build().unwrap()),
    };
    let budget = Budget {
        time: Duration::from_secs(seconds),
        ..Budget::default()
    };
    let investigation = Investigation::new().budget(budget).seed(seed);
    let service = SERVICES[seed as usize % SERVICES.len()];
    verify_at(&clock, &investigation, service, seed, |_| {
        limiter.try_acquire().is_ok().into()
    })
}

#[test]
fn c1_what_takes_long_to_come_back_is_known_and_not_accused() {
    let mut wrong = Vec::new();
    for (name, kind, text, seconds) in CASES {
        let quota: Quota = text.parse().unwrap();
        for seed in seeds(1, 3) {
            let findings = look(name, text, seconds, seed);
            let detected = &findings.detected;
            let burst = detected.burst.map(|burst| burst.value);
            let is_right = detected.kind == kind
                && burst == Some(quota.max_burst() as f64)
                && findings.defects.is_empty();
            let is_over = findings
                .worst
                .is_some_and(|worst| worst.admitted as f64 > worst.allowed + 0.5);
            if !is_right || is_over {
                wrong.push(format!("{name} {text} {seed}: {findings}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}
