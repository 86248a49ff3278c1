//! A comparison of decisions: what each costs beside the baseline's.

use std::time::Duration;

use serde::Serialize;

use crate::harness::{self, Plan};
use crate::machine::Machine;
use crate::options::Options;
use crate::report::{self, Row};
use crate::section::Section;
use flowgate_bench::cases::Case;

/// What `--json` writes.
#[derive(Serialize)]
struct Record {
    machine: Machine,
    quick: bool,
    baseline: &'static str,
    rows: Vec<Row>,
}

/// One thread has no others that disturb it, and needs the shorter windows.
fn plan(threads: usize, quick: bool) -> Plan {
    let (rounds, window_ms) = match (threads, quick) {
        (1, true) => (9, 1),
        (1, false) => (31, 4),
        (_, true) => (5, 4),
        (_, false) => (11, 20),
    };
    Plan {
        threads,
        rounds,
        window: Duration::from_millis(window_ms),
    }
}

/// Runs `section`, prints its tables and goals, and writes them where `options` say.
///
/// # Errors
///
/// A message if `options` cannot be followed or threads not be pinned.
pub fn run(section: &Section, options: &Options) -> Result<(), String> {
    let machine = Machine::describe();
    let cases = section.cases(options.only.as_deref())?;
    let destination = options.destination()?;
    println!("{machine}");
    let rows = measure(section, &cases, options.quick)?;
    if options.quick {
        println!("quick run: too short to quote");
    }
    destination.write(&Record {
        machine,
        quick: options.quick,
        baseline: section.baseline,
        rows,
    })
}

/// Measures `cases`, prints tables and goals, and gives the rows. Leaves the calling thread pinned.
///
/// # Errors
///
/// A message if threads cannot be pinned.
pub fn measure(section: &Section, cases: &[Case], quick: bool) -> Result<Vec<Row>, String> {
    let cores = harness::pinned_cores()?;
    let allocations: Vec<f64> = cases.iter().map(harness::allocations_per_op).collect();
    let mut rows = Vec::new();
    for plan in section.threads.iter().map(|&threads| plan(threads, quick)) {
        if plan.threads > cores.len() {
            println!("left out: {} threads need as many cores", plan.threads);
            continue;
        }
        println!(
            "{} pinned: {} rounds of {} ms per case, interleaved; median (p10..p90)",
            match plan.threads {
                1 => "1 thread".to_owned(),
                threads => format!("{threads} threads"),
            },
            plan.rounds,
            plan.window.as_millis()
        );
        let samples = harness::measure(cases, plan, &cores);
        rows.extend(report::rows(section, cases, &samples, &allocations, plan));
    }
    print!("{}", report::tables(section, &rows));
    print!("{}", report::sizes(&rows));
    print!("{}", report::verdicts(section, &rows));
    print!("{}", report::disturbances(section, &rows));
    Ok(rows)
}
