//! Compares flowgate with other limiters, all in one process and interleaved. See README.md.

mod cases;
mod harness;
mod machine;
mod report;
#[cfg(target_arch = "x86_64")]
mod tsc;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use serde::Serialize;

use crate::cases::{BASELINE, Case};
use crate::harness::Plan;
use crate::machine::Machine;
use crate::report::Row;

#[derive(Parser)]
#[command(
    name = "flowgate-bench",
    about = "Compares flowgate with other rate limiters"
)]
struct Arguments {
    #[command(subcommand)]
    section: Section,
}

#[derive(Subcommand)]
enum Section {
    /// One limiter: admit and refuse, one thread and two threads on the same object
    Single {
        /// Few and short rounds: to see that everything runs, not to quote
        #[arg(long)]
        quick: bool,
        /// Only the subjects whose name contains TEXT, beside governor
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Also write every number to FILE
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
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
    let Section::Single { quick, only, json } = Arguments::parse().section;
    match single(quick, only.as_deref(), json) {
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

fn single(quick: bool, only: Option<&str>, json: Option<PathBuf>) -> Result<(), String> {
    let cores = harness::pinned_cores()?;
    let mut cases: Vec<Case> = cases::all();
    if let Some(text) = only {
        if !cases.iter().any(|case| case.subject.contains(text)) {
            let mut subjects: Vec<_> = cases.iter().map(|case| case.subject).collect();
            subjects.sort_unstable();
            subjects.dedup();
            return Err(format!(
                "--only {text:?} names no subject; say a part of one of: {}",
                subjects.join(" | ")
            ));
        }
        cases.retain(|case| case.subject == BASELINE || case.subject.contains(text));
    }
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
        rows.extend(report::rows(&cases, &samples, &allocations, plan));
    }
    print!("{}{}", report::tables(&rows), report::verdicts(&rows));
    print!("{}", report::disturbances(&rows));
    if quick {
        println!("quick run: too short to quote");
    }

    if let Some((path, mut file)) = json {
        let record = Record {
            machine,
            quick,
            baseline: BASELINE,
            rows,
        };
        serde_json::to_writer_pretty(&mut file, &record)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(b"\n"))
            .map_err(|error| format!("--json {}: {error}", path.display()))?;
    }
    Ok(())
}
