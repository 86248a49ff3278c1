//! Real time, and little of it: these tests need the machine for themselves. Cargo runs test programs one after the other.

#[expect(dead_code, reason = "the other tests use the rest of it")]
#[path = "../it/support/mod.rs"]
mod support;

use support::{Serve, run};

#[test]
fn a_search_that_knows_of_limits_detects_the_limiter() {
    let serve = Serve::start("token 150/s burst 15", &[]);
    let asked = [
        "find",
        serve.url.as_str(),
        "--slo",
        "errors<1%",
        "--rate-limit-aware",
        "--within",
        "30s",
    ];
    let (exit, report, err) = run(&asked);
    assert_eq!(exit, 0, "{report}{err}");
    assert!(
        report.contains("ended        the server limits the load: 429 or 503"),
        "{report}"
    );
    assert!(
        report.contains("rate limiter of the server") && report.contains("token bucket"),
        "{report}"
    );
}
