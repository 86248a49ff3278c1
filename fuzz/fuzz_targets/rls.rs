//! Whatever Envoy's message is, it is refused or answered: a status for each descriptor, and nothing panics.
//!
//! `cargo +nightly fuzz run rls -- -dict=fuzz_targets/rls.dict`
#![no_main]

use flowgate::ManualClock;
use flowgate_server::{Config, DecideLimits, DecisionTime, rls_answer};
use libfuzzer_sys::fuzz_target;
use prost::Message;

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 3/h, capacity: 100 }
  - { key: site, value: a, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: own, quota: 3/h, capacity: 100, allow_override: true }
  - { key: two, quota: 3/h; 10/day, capacity: 100, allow_override: true }
  - { key: shadow, quota: 1/h, capacity: 100, shadow_mode: true }
  - { key: free, rate_limit: { unlimited: true } }
";

/// The descriptors of a request, uninterpreted.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(bytes = "vec", repeated, tag = "2")]
    descriptors: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
}

fuzz_target!(|input: &[u8]| {
    let config = Config::parse("limits.yaml", LIMITS).expect("it is well formed");
    let time = DecisionTime::from_epoch(ManualClock::new());
    let limits = DecideLimits::new(&config, &time).expect("there is room");
    // A request that is repeated may be refused, and is then refused again, as no time passes.
    let mut before = 1;
    for _ in 0..4 {
        let Some(response) = rls_answer(&limits, input) else {
            return;
        };
        let request = Request::decode(input).expect("it has been read");
        let response = Response::decode(&*response).expect("it is well formed");
        assert_eq!(response.statuses.len(), request.descriptors.len());
        let code = response.statuses.iter().map(|status| status.code).max();
        assert_eq!(Some(response.overall_code), code);
        assert!(response.overall_code >= before);
        before = response.overall_code;
    }
});
