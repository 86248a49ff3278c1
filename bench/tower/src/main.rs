//! Compares what flowgate-tower adds to a request with what tower_governor does. See ../README.md.

mod count;
mod measure;
mod report;
#[path = "../../keyed/src/shared.rs"]
mod shared;
mod subject;
#[path = "../../instructions/src/window.rs"]
mod window;

use std::process::ExitCode;

use clap::Parser;
use serde::Serialize;

use crate::report::Row;
use crate::shared::machine::Machine;
use crate::shared::options::Options;
use crate::shared::outcome::Verdict;

#[derive(Parser)]
#[command(
    name = "flowgate-bench-tower",
    about = "Compares what flowgate-tower adds to a request with what tower_governor does"
)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Does everything so often for callgrind to count, instead of taking the time; `ci/instructions.sh` drives it
    #[arg(long)]
    count: bool,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Record {
    machine: Machine,
    quick: bool,
    rows: Vec<Row>,
    goals: Vec<Verdict>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.count {
        count::all();
        return ExitCode::SUCCESS;
    }
    match run(&arguments.options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flowgate-bench-tower: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, prints tables and goals, and writes them where `options` say.
///
/// # Errors
///
/// A message if the options cannot be followed, or the thread cannot be pinned.
fn run(options: &Options) -> Result<(), String> {
    options.check_only(&subject::NAMES)?;
    let destination = options.destination()?;
    let machine = Machine::describe();
    println!("{machine}");
    let rows = measure::all(options.quick, options.only.as_deref())?;
    print!("{}", report::tables(&rows));
    println!();
    let goals = report::verdicts(&rows);
    goals.iter().for_each(|goal| println!("{goal}"));
    for disturbance in report::disturbances(&rows) {
        println!("DISTURBED, do not quote: {disturbance}");
    }
    if options.quick {
        println!("quick run: too short to quote");
    }
    destination.write(&Record {
        machine,
        quick: options.quick,
        rows,
        goals,
    })
}
