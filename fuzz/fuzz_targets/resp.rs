//! Whatever a client of Redis sends, it is answered the same however the bytes come, and nothing panics.
//!
//! `cargo +nightly fuzz run resp -- -dict=fuzz_targets/resp.dict`
#![no_main]

use flowgate::ManualClock;
use flowgate_server::{Config, DecideLimits, DecisionTime, resp_answers};
use libfuzzer_sys::fuzz_target;

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 3/h, capacity: 100 }
  - { key: site, value: a, rate_limit: { unit: minute, requests_per_unit: 2 } }
";

// First how many bytes come together, then the bytes.
fuzz_target!(|input: &[u8]| {
    let Some((step, sent)) = input.split_first() else {
        return;
    };
    let whole = resp_answers(&limits(), [sent]);
    let pieces = sent.chunks(usize::from(*step) + 1);
    assert_eq!(resp_answers(&limits(), pieces), whole);
    // Each answer begins with its kind.
    assert!(whole.is_empty() || b"+-:$*%_#".contains(&whole[0]));
});

fn limits() -> DecideLimits {
    let config = Config::parse("limits.yaml", LIMITS).expect("it is well formed");
    let time = DecisionTime::from_epoch(ManualClock::new());
    DecideLimits::new(&config, &time).expect("there is room")
}
