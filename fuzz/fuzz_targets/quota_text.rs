//! No text makes the parser panic; what it accepts, it prints and reads back unchanged; what it
//! refuses, it refuses in one short line.
//!
//! `cargo +nightly fuzz run quota_text -- -dict=fuzz_targets/quota_text.dict -max_len=128`
#![no_main]

use flowgate::{Quota, QuotaError, Quotas};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match text.parse::<Quota>() {
        Ok(quota) => {
            let printed = quota.to_string();
            assert_eq!(
                printed.parse(),
                Ok(quota),
                "{text:?} is printed as {printed:?}"
            );
            // Whatever was accepted can be used.
            let _ = (quota.offset_of(u64::MAX), quota.burst_for(quota.period()));
            assert_eq!(text.parse(), Ok(Quotas::from(quota)));
        }
        Err(error) => is_one_short_line(error),
    }
    match text.parse::<Quotas>() {
        Ok(quotas) => {
            let printed = quotas.to_string();
            assert_eq!(
                printed.parse(),
                Ok(quotas),
                "{text:?} is printed as {printed:?}"
            );
        }
        Err(error) => is_one_short_line(error),
    }
});

fn is_one_short_line(error: QuotaError) {
    let message = error.to_string();
    assert!(message.len() < 1_000, "{message}");
    assert!(!message.chars().any(char::is_control), "{message}");
}
