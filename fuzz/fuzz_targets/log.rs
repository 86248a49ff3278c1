//! No file makes the readers of logs and of durations panic. What they read is in order and complete, however the bytes come; what
//! they refuse, they refuse in one short line.
//!
//! `cargo +nightly fuzz run log -- -dict=fuzz_targets/log.dict -max_len=4096`
#![no_main]

use std::fmt::Display;
use std::io::{Read, Result};
use std::ops::ControlFlow;

use flowgate_sim::{DurationReader, LogFormat, LogReader, MalformedLines};
use libfuzzer_sys::fuzz_target;

/// Reads a few bytes at a time.
struct Dripping<'a>(&'a [u8], usize);

impl Read for Dripping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let length = self.1.min(buffer.len());
        self.0.read(&mut buffer[..length])
    }
}

// First the options, then the file.
fuzz_target!(|input: &[u8]| {
    let Some(([options, step], file)) = input.split_first_chunk() else {
        return;
    };
    let mut reader = LogReader::new()
        .strict(options & 1 != 0)
        .spread_seconds(options & 2 != 0)
        .max_requests(50);
    match options >> 2 & 3 {
        0 => {}
        1 => reader = reader.format(LogFormat::Access).cost("bytes"),
        2 => reader = reader.format(LogFormat::JsonLines),
        _ => reader = reader.format(LogFormat::Csv),
    }
    match options >> 4 & 3 {
        0 => {}
        1 => reader = reader.key("path"),
        2 => reader = reader.key("user"),
        _ => reader = reader.time("2").key("3"),
    }
    let step = usize::from(*step) + 1;
    let log = reader.read(file, |_| ControlFlow::Continue(()));
    match (
        log,
        reader.read(Dripping(file, step), |_| ControlFlow::Continue(())),
    ) {
        (Ok(log), Ok(dripped)) => {
            assert_eq!(log.requests, dripped.requests);
            assert_eq!(log.requests[0].at.as_nanos(), 0);
            assert!(log.requests.is_sorted_by_key(|request| request.at));
            let keys = log.requests.iter().map(|request| request.key);
            assert_eq!(
                keys.max(),
                Some(log.keys.len() as u64 - 1),
                "each key has a request"
            );
            assert!(log.keys.name(log.keys.len() as u64 - 1).is_some());
            let malformed = known(&log.malformed, log.lines);
            assert!(log.requests.len() as u64 + malformed <= log.lines);
        }
        (Err(error), Err(dripped)) => {
            is_one_short_line(&error);
            assert_eq!(error.to_string(), dripped.to_string());
        }
        (log, dripped) => panic!("{log:?}, and in steps of {step}: {dripped:?}"),
    }
    match DurationReader::new().strict(options & 1 != 0).read(file) {
        Ok(read) => {
            assert!(!read.durations.is_empty());
            known(&read.malformed, u64::MAX);
        }
        Err(error) => is_one_short_line(&error),
    }
});

/// How many lines are malformed.
fn known(malformed: &MalformedLines, lines: u64) -> u64 {
    assert_eq!(malformed.first.len() as u64, malformed.count.min(3));
    for line in &malformed.first {
        assert!((1..=lines).contains(&line.number));
        is_one_short_line(line);
    }
    malformed.count
}

fn is_one_short_line(error: &impl Display) {
    let text = error.to_string();
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(text.chars().count() < 2_000, "{text:?}");
}
