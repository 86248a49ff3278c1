//! The timeline of a report as CSV, for spreadsheets and plots.

use std::fmt::Write;
use std::time::Duration;

use crate::report::Report;

const HEADER: &str = "start_s,scheduled,sent,admitted,limited,failed,\
    response_p50_ms,response_p99_ms,response_max_ms,lag_p99_ms\r\n";

impl Report {
    /// Returns the timeline as CSV ([RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)).
    ///
    /// Lines end in CR LF. The header names the units. One row per [`Slot`](crate::Slot) follows.
    ///
    /// Counts are per slot; its length is the difference of two `start_s`. Durations are exact to the nanosecond. The
    /// `response_…` cells are empty in a slot without responses, and `lag_p99_ms` in one without sends.
    ///
    /// ```text
    /// start_s,scheduled,sent,admitted,limited,failed,response_p50_ms,response_p99_ms,response_max_ms,lag_p99_ms
    /// 0,1000,1000,1000,0,0,0.112,0.41,1.2,0.061
    /// 1,1000,1000,998,2,0,0.111,0.399,0.97,0.06
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
    /// # let origin = Origin::start()?;
    /// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
    /// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
    /// let report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
    /// let csv = report.to_csv();
    /// assert!(csv.starts_with("start_s,scheduled,sent,admitted,"));
    /// assert_eq!(csv.lines().count(), 1 + report.timeline.slots.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_csv(&self) -> String {
        let mut csv = String::from(HEADER);
        for (start, slot) in self.timeline.starts() {
            let has_answers = slot.response_max > Duration::ZERO;
            let response = |value| cell(value, has_answers);
            // Writing to a string cannot fail.
            let _ = write!(
                csv,
                "{},{},{},{},{},{},{},{},{},{}\r\n",
                decimal(start, 9),
                slot.scheduled,
                slot.sent,
                slot.admitted,
                slot.limited,
                slot.failed,
                response(slot.response_p50),
                response(slot.response_p99),
                response(slot.response_max),
                cell(slot.lag_p99, slot.sent > 0),
            );
        }
        csv
    }
}

/// Returns milliseconds, or nothing.
fn cell(value: Duration, is_there: bool) -> String {
    match is_there {
        true => decimal(value, 6),
        false => String::new(),
    }
}

/// Returns nanoseconds in a unit of 10^`digits` ns, exactly, without trailing zeros.
fn decimal(value: Duration, digits: usize) -> String {
    let nanos = format!("{:0>1$}", value.as_nanos(), digits + 1);
    let (whole, fraction) = nanos.split_at(nanos.len() - digits);
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_short() {
        let table = [
            (0, "0"),
            (1, "0.000001"),
            (999_999, "0.999999"),
            (1_000_000, "1"),
            (1_500_000, "1.5"),
            (12_345_678_901, "12345.678901"),
            (u64::MAX, "18446744073709.551615"),
        ];
        for (nanos, text) in table {
            assert_eq!(decimal(Duration::from_nanos(nanos), 6), text);
        }
    }
}
