//! The example does what it says.

use crate::log::Buffer;

#[path = "../../examples/log_lines.rs"]
mod example;

#[test]
fn c1_2000_events_in_20_seconds_are_4_lines_and_a_number() {
    let log = Buffer::default();
    assert_eq!(example::run(log.clone()).expect("it runs"), 799);
    assert_eq!(
        log.take(),
        [
            "WARN connection refused attempt=1",
            "WARN connection refused attempt=2",
            "WARN connection refused attempt=3",
            "INFO another line of code has a limit of its own",
            "WARN similar events were suppressed suppressed=1197",
            "WARN connection refused attempt=1201",
            "INFO another line of code has a limit of its own",
            "ERROR gave up",
        ]
    );
}

#[test]
fn it_is_short() {
    let program = include_str!("../../examples/log_lines.rs");
    assert!(program.lines().count() <= 60);
}
