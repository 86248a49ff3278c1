//! The stopwatch's readings, and what a layer adds to the service behind it.

use std::time::Duration;

use crate::report::{Measured, Row};
use crate::shared::harness::{self, Plan};
use crate::subject::{self, BARE, GOVERNOR, Situation};

/// Measures every situation with the subjects whose name contains `only`, and their baselines.
///
/// # Errors
///
/// Returns a message if the thread cannot be pinned.
pub fn all(quick: bool, only: Option<&str>) -> Result<Vec<Row>, String> {
    let cores = harness::pinned_cores()?;
    let (rounds, window_ms) = if quick { (5, 1) } else { (31, 4) };
    let plan = Plan {
        threads: 1,
        rounds,
        window: Duration::from_millis(window_ms),
    };
    let is_base = |name| name == BARE || name == GOVERNOR;
    let mut rows = Vec::new();
    for situation in Situation::all() {
        let mut cases = subject::cases(situation);
        cases.retain(|case| {
            is_base(case.subject) || only.is_none_or(|text| case.subject.contains(text))
        });
        let allocations: Vec<f64> = cases.iter().map(harness::allocations_per_op).collect();
        let mut samples = Vec::new();
        // Counting allocations takes time in each, and those who allocate most would look worst.
        allocation_counter::opt_out(|| samples = harness::measure(&cases, plan, &cores));
        let measured = cases.iter().zip(samples).zip(allocations);
        let measured = measured.map(|((case, samples), allocations_per_op)| Measured {
            subject: case.subject,
            admitted_share: samples.admitted as f64 / samples.operations as f64,
            ns_per_op: samples.ns_per_op,
            allocations_per_op,
        });
        rows.extend(Row::of(situation, &measured.collect::<Vec<_>>()));
    }
    Ok(rows)
}
