//! Whatever the JSON of a request is, it is refused or answered, and nothing panics.
//!
//! `cargo +nightly fuzz run json -- -dict=fuzz_targets/json.dict`
#![no_main]

use flowgate::ManualClock;
use flowgate_server::{Config, DecideLimits, DecisionTime, json_answer};
use libfuzzer_sys::fuzz_target;

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 3/h, capacity: 100 }
  - { key: site, value: a, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: own, quota: 3/h, capacity: 100, allow_override: true }
  - { key: shadow, quota: 1/h, capacity: 100, shadow_mode: true }
  - { key: free, rate_limit: { unlimited: true } }
";

fuzz_target!(|input: &[u8]| {
    let config = Config::parse("limits.yaml", LIMITS).expect("it is well formed");
    let time = DecisionTime::from_epoch(ManualClock::new());
    let limits = DecideLimits::new(&config, &time).expect("there is room");
    // A request that is repeated may be refused, and is then refused again, as no time passes.
    let mut before = 200;
    for _ in 0..4 {
        let Some((status, body)) = json_answer(&limits, input) else {
            return;
        };
        let begins = match status {
            200 => &br#"{"overallCode":"OK","statuses":[{"#[..],
            429 => br#"{"overallCode":"OVER_LIMIT","statuses":[{"#,
            _ => panic!("{status}"),
        };
        assert!(body.starts_with(begins));
        assert!(status >= before);
        before = status;
    }
});
