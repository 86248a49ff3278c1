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

fn plans(quick: bool) -> [Plan; 2] {
    let ms = Duration::from_millis;
    if quick {
        [
            Plan {
                threads: 1,
                rounds: 9,
                window: ms(1),
            },
            Plan {
                threads: 2,
                rounds: 5,
                window: ms(4),
            },
        ]
    } else {
        [
            Plan {
                threads: 1,
                rounds: 31,
                window: ms(4),
            },
            Plan {
                threads: 2,
                rounds: 11,
                window: ms(20),
            },
        ]
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
    for plan in plans(quick) {
        if plan.threads > cores.len() {
            println!("left out: {} threads need as many cores", plan.threads);
            continue;
        }
        println!(
            "{} pinned: {} rounds of {} ms per case, interleaved; median (p10..p90)",
            if plan.threads == 1 {
                "1 thread"
            } else {
                "2 threads"
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
