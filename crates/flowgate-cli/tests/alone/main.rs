//! Real time, and little of it: these tests need the machine for themselves. Cargo runs test programs one after the other.

#[expect(dead_code, reason = "the other tests use the rest of it")]
#[path = "../it/support/mod.rs"]
mod support;

use support::{Serve, run};

/// How often it is asked until the limiter is recognised: the machine may stand still for a moment. How often that succeeds is what
/// `bench/verify` counts.
const TRIES: usize = 3;

#[test]
fn a_search_that_knows_of_limits_detects_the_limiter() {
    let mut reports = Vec::new();
    let mut is_recognised = || {
        let serve = Serve::start("token 150/s burst 15", &[]);
        let slo = ["--slo", "errors<1%", "--rate-limit-aware"];
        let asked = [&["find", &serve.url], &slo[..], &["--within", "30s"]].concat();
        let (exit, report, err) = run(&asked);
        assert_eq!(exit, 0, "{report}{err}");
        let ended = "ended        the server limits the load: 429 or 503";
        assert!(report.contains(ended), "{report}");
        assert!(report.contains("rate limiter of the server"), "{report}");
        let is_right = report.contains("token bucket");
        reports.push(report);
        is_right
    };
    let is_recognised = (0..TRIES).any(|_| is_recognised());
    assert!(is_recognised, "{}", reports.join("\n"));
}
