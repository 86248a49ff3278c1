//! No header field of an answer makes the client's reader panic, and what it cannot read says nothing.
//!
//! `cargo +nightly fuzz run told -- -dict=fuzz_targets/told.dict -max_len=512`
#![no_main]

use std::time::{Duration, UNIX_EPOCH};

use flowgate_tower::client::Told;
use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;

const FIELDS: [&str; 7] = [
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

// Lines, each of a field that its first byte selects.
fuzz_target!(|answer: &[u8]| {
    let mut headers = HeaderMap::new();
    for line in answer.split(|byte| *byte == b'\n') {
        let Some((first, text)) = line.split_first() else {
            continue;
        };
        let name = HeaderName::from_static(FIELDS[usize::from(*first) % FIELDS.len()]);
        if let Ok(value) = HeaderValue::from_bytes(text) {
            headers.append(name, value);
        }
    }
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let told = Told::of(&headers, now);
    if headers.is_empty() {
        assert_eq!(told, Told::default());
    }
    if told.retry_after.is_some() {
        assert!(headers.contains_key("retry-after"), "{told:?}");
    }
    // The same answer says the same.
    assert_eq!(told, Told::of(&headers, now));
});
