//! Whatever a configuration says, it is refused at a line and a column, or it can be written and read again.
//!
//! `cargo +nightly fuzz run config -- -dict=fuzz_targets/config.dict`
#![no_main]

use flowgate_server::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let config = match Config::parse("limits.yaml", text) {
        Ok(config) => config,
        Err(problem) => {
            assert!(
                problem.line() >= Some(1) && problem.column() >= Some(1),
                "{problem}"
            );
            return;
        }
    };
    let written = config.to_yaml();
    let again = Config::parse("again.yaml", &written).expect("it can be read again");
    assert_eq!(again.to_yaml(), written);
});
