//! The slots of a comparison as CSV.

use std::fmt::Write;

use super::comparison::Comparison;
use crate::csv::quoted;

const HEADER: &str = "policy,start_s,attempts,admitted,refused,in_time,longest_ms\r\n";

/// Returns a row per slot and policy.
///
/// `longest_ms` is empty in a slot in which nothing was served in time.
pub(super) fn slots(comparison: &Comparison) -> String {
    let mut csv = String::from(HEADER);
    for run in &comparison.policies {
        let policy = quoted(&run.policy);
        for (index, slot) in run.slots.iter().enumerate() {
            let start = comparison.slot_ns.saturating_mul(index as u64) as f64 / 1e9;
            let longest = match slot.in_time {
                0 => String::new(),
                _ => (slot.longest_ns as f64 / 1e6).to_string(),
            };
            // Writing to a string cannot fail.
            let _ = write!(
                csv,
                "{policy},{start},{},{},{},{},{longest}\r\n",
                slot.attempts, slot.admitted, slot.refused, slot.in_time
            );
        }
    }
    csv
}
