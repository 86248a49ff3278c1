//! Another configuration in place of one that is used.

use crate::support::Bench;
use flowgate_server::{Config, DecideLimits};

const BEFORE: &str = "
domain: api
descriptors:
  - { key: same, quota: 5/h }
  - { key: faster, quota: 5/h }
  - { key: other, quota: 5/h }
  - { key: window, rate_limit: { unit: hour, requests_per_unit: 5 } }
";
const AFTER: &str = "
domain: api
descriptors:
  - { key: same, quota: 5/h }
  - { key: faster, quota: 9/h }
  - { key: other, quota: 5/h, algorithm: leaky }
  - { key: window, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - { key: new, quota: 5/h }
";

fn reloaded(bench: Bench, text: &str) -> Bench {
    let config = Config::parse("b.yaml", text).unwrap();
    let limits = bench.limits.reloaded(&config).unwrap();
    Bench { limits, ..bench }
}

#[test]
fn c1_what_was_taken_stays_taken() {
    let bench = Bench::new(BEFORE);
    for key in ["same", "faster", "other", "window"] {
        assert_eq!(bench.admitted("api", &format!("{key}=a"), 4), 4);
    }
    let bench = reloaded(bench, AFTER);
    let admitted = |key: &str| bench.admitted("api", &format!("{key}=a"), 9);
    assert_eq!(admitted("same"), 1);
    assert_eq!(admitted("faster"), 5, "9 less the 4 that were taken");
    assert_eq!(admitted("other"), 1, "another algorithm begins anew");
    assert_eq!(admitted("window"), 1);
    assert_eq!(admitted("new"), 5);
}

#[test]
fn a_limit_that_cannot_be_kept_changes_nothing() {
    let bench = Bench::new(BEFORE);
    assert_eq!(bench.admitted("api", "faster=a", 4), 4);
    // The first quota is fine. The second cannot be kept: two quotas of very different sizes share 16 bytes.
    let text = "
domain: api
descriptors:
  - { key: faster, quota: 9/h }
  - { key: pair, quota: 1000/s; 1000000/day }
";
    let config = Config::parse("b.yaml", text).unwrap();
    let problem = bench.limits.reloaded(&config).unwrap_err();
    assert_eq!(
        (problem.line(), problem.column()),
        (Some(5), Some(5)),
        "{problem}"
    );
    assert_eq!(bench.admitted("api", "faster=a", 9), 1);
    let _: &DecideLimits = &bench.limits;
}
