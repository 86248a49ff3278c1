//! The CSV of a report, letter by letter.

use crate::sample;
use std::time::Duration;

use flowgate_load::Slot;

#[test]
fn a_timeline_is_written_as_pinned() {
    let mut report = sample::full();
    // A slot in which nothing was sent or answered has no durations.
    report.timeline.slots.push(Slot {
        scheduled: 30,
        ..Slot::default()
    });
    let pinned = include_str!("pinned/report.csv")
        .replace("\r\n", "\n")
        .replace('\n', "\r\n");
    assert_eq!(report.to_csv(), pinned);
}

#[test]
fn every_row_has_as_many_cells_as_the_header() {
    let mut report = sample::held(40);
    report.timeline.width = Duration::from_millis(1_500);
    let csv = report.to_csv();
    assert!(csv.ends_with("\r\n"));
    let rows: Vec<Vec<&str>> = csv
        .split_terminator("\r\n")
        .map(|row| row.split(',').collect())
        .collect();
    assert_eq!(rows.len(), 41);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    assert_eq!(rows[0][0], "start_s");
    assert_eq!((rows[1][0], rows[2][0], rows[3][0]), ("0", "1.5", "3"));
}

#[test]
fn a_run_without_slots_is_a_header() {
    assert_eq!(sample::empty().to_csv().lines().count(), 1);
}
