//! On a busy machine, requests and decisions stand still for a time: what that explains is not held against the limiter.

use std::time::Duration;

use flowgate::{ManualClock, Quota, Timestamp, TokenBucket};
use flowgate_verify::{Answer, DetectedKind, Findings, Investigation, Question, Simulated};

/// Looks at a limiter in a process that is not scheduled for `stall_ns` after every `every_ns`.
fn look(stall_ns: u64, every_ns: u64, seed: u64) -> Findings {
    let quota: Quota = "150/s burst 15".parse().unwrap();
    let bucket = TokenBucket::builder(quota)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let mut subject = Simulated::new(|asked: Question| {
        let into = (asked.at_ns + seed * 37_000_000) % (every_ns + stall_ns);
        let late = into.saturating_sub(every_ns);
        let late = if late > 0 { stall_ns - late } else { 0 };
        let at = Timestamp::from_nanos(asked.at_ns + late);
        Answer {
            held: Duration::from_nanos(late),
            ..bucket.at(at).try_acquire().is_ok().into()
        }
    })
    .service(Duration::from_micros(800), seed);
    let Ok(findings) = Investigation::new()
        .seed(seed)
        .run(&mut subject, &mut |_| ());
    findings
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
