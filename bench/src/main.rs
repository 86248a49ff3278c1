//! Compares flowgate with other limiters, and its own with one another, all in one process and
//! interleaved. See README.md.

mod harness;
mod machine;
mod report;
mod section;
mod types;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use crate::harness::Plan;
use crate::machine::Machine;
use crate::report::Row;
use crate::section::{SINGLE, Section, TYPES};

#[derive(Parser)]
#[command(
    name = "flowgate-bench",
    about = "Compares flowgate with other rate limiters"
)]
struct Arguments {
    #[command(subcommand)]
    comparison: Comparison,
}

#[derive(Subcommand)]
enum Comparison {
    /// One limiter beside other libraries': admit and refuse, one thread and two on the same object
    Single(Options),
    /// Every type of limiter beside TokenBucket: likewise
    Types(Options),
}

#[derive(Args)]
struct Options {
    /// Few and short rounds: to see that everything runs, not to quote
    #[arg(long)]
    quick: bool,
    /// Only the subjects whose name contains TEXT, and what they are divided by
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Also write every number to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Record {
    machine: Machine,
    quick: bool,
    baseline: &'static str,
    rows: Vec<Row>,
}

fn main() -> ExitCode {
    let (section, options) = match Arguments::parse().comparison {
        Comparison::Single(options) => (&SINGLE, options),
        Comparison::Types(options) => (&TYPES, options),
    };
    match compare(section, options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flowgate-bench: {message}");
            ExitCode::FAILURE
        }
    }
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

fn compare(section: &Section, options: Options) -> Result<(), String> {
    let Options { quick, only, json } = options;
    let cores = harness::pinned_cores()?;
    let cases = section.cases(only.as_deref())?;
    // Opened before anything is measured: a bad path is told at once.
    let json = json.map(|path| match File::create(&path) {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(format!("--json {}: {error}", path.display())),
    });
    let json = json.transpose()?;
    let allocations: Vec<f64> = cases.iter().map(harness::allocations_per_op).collect();

    let machine = Machine::describe(cores.len());
    println!(
        "{}, {} cores, clock source {}, {}",
        machine.processor, machine.cores, machine.clock_source, machine.started
    );
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
        let samples = harness::measure(&cases, plan, &cores);
        rows.extend(report::rows(section, &cases, &samples, &allocations, plan));
    }
    print!("{}", report::tables(section, &rows));
    print!("{}", report::sizes(&rows));
    print!("{}", report::verdicts(section, &rows));
    print!("{}", report::disturbances(section, &rows));
    if quick {
        println!("quick run: too short to quote");
    }

    if let Some((path, mut file)) = json {
        let record = Record {
            machine,
            quick,
            baseline: section.baseline,
            rows,
        };
        serde_json::to_writer_pretty(&mut file, &record)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(b"\n"))
            .map_err(|error| format!("--json {}: {error}", path.display()))?;
    }
    Ok(())
}
