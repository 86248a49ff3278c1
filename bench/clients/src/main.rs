//! Compares `flowgate load` with other HTTP load clients, by what the server observes. See ../README.md.
//!
//! - [`pace`]: how constant the arrivals are
//! - [`at_most`]: how many requests a limiting server refuses
//! - [`throughput`]: the maximum rate
//! - [`slices`]: one schedule, sent by several processes

mod arrivals;
mod at_most;
mod client;
mod directory;
mod nginx;
mod nobody;
mod origin;
mod pace;
mod running;
mod shared;
mod slices;
mod subject;
mod throughput;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::client::{Installed, Programs};
use crate::shared::machine::Machine;
use crate::shared::options::Options;
use crate::shared::outcome::Verdict;

#[derive(Parser)]
#[command(
    name = "flowgate-bench-clients",
    about = "Compares flowgate load with other HTTP load clients, by what the server sees"
)]
struct Arguments {
    /// What to measure [default: all]
    sections: Vec<Section>,
    #[command(flatten)]
    options: Options,
    /// Also send 500 requests at 2/s: over four minutes for each client
    #[arg(long)]
    long: bool,
    /// Measure this flowgate, instead of building it
    #[arg(long, value_name = "PATH")]
    flowgate: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// How evenly requests arrive at 100, 1,000 and 10,000/s
    Pace,
    /// How many requests nginx refuses, sent at its own limit
    AtMost,
    /// How many requests a second nginx gets
    Throughput,
    /// How evenly the requests of four slices arrive at 20,000/s
    Slices,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Record {
    machine: Machine,
    quick: bool,
    programs: Vec<Installed>,
    pace: Vec<pace::Row>,
    at_most: Vec<at_most::Row>,
    throughput: Vec<throughput::Row>,
    slices: Vec<slices::Row>,
    goals: Vec<Verdict>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flowgate-bench-clients: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, prints tables and goals, and writes them where the options say.
///
/// # Errors
///
/// A message if the arguments cannot be followed, or if flowgate failed.
fn run(arguments: Arguments) -> Result<(), String> {
    let Arguments {
        sections,
        options,
        long,
        flowgate,
    } = arguments;
    let subjects = [
        pace::subjects(),
        at_most::subjects(),
        throughput::subjects(),
        slices::SUBJECTS.to_vec(),
    ];
    options.check_only(&subjects.concat())?;
    let destination = options.destination()?;
    let (quick, only) = (options.quick, options.only.as_deref());
    let is_asked = |section| sections.is_empty() || sections.contains(&section);

    let programs = Programs::find(flowgate)?;
    let machine = Machine::describe();
    println!("{machine}");
    announce(&programs);

    let (mut pace, mut at_most, mut throughput, mut slices) = Default::default();
    let mut goals = Vec::new();
    if is_asked(Section::Pace) {
        pace = pace::measure(&programs, quick, only);
        print!("{}", pace::tables(&pace));
        goals.extend(pace::verdicts(&pace));
    }
    if is_asked(Section::AtMost) {
        at_most = at_most::measure(&programs, quick, long, only)?;
        print!("{}", at_most::tables(&at_most));
        goals.extend(at_most::verdicts(&at_most));
    }
    if is_asked(Section::Throughput) {
        throughput = throughput::measure(&programs, quick, only)?;
        print!("{}", throughput::tables(&throughput));
        goals.extend(throughput::verdicts(&throughput));
    }
    let has_slices =
        only.is_none_or(|only| slices::SUBJECTS.iter().any(|name| name.contains(only)));
    if is_asked(Section::Slices) && has_slices {
        slices = slices::measure(&programs, quick)?;
        print!("{}", slices::table(&slices));
        goals.extend(slices::verdicts(&slices));
    }
    println!();
    goals.iter().for_each(|goal| println!("{goal}"));
    let mut disturbances = pace::disturbances(&pace);
    disturbances.extend(throughput::disturbance(&throughput));
    for disturbance in disturbances {
        println!("DISTURBED, do not quote: {disturbance}");
    }
    if quick {
        println!("quick run: too short to quote");
    }
    let failures = [
        pace::failures(&pace),
        at_most::failures(&at_most),
        throughput::failures(&throughput),
    ];
    destination.write(&Record {
        machine,
        quick,
        programs: programs.installed().to_vec(),
        pace,
        at_most,
        throughput,
        slices,
        goals,
    })?;
    match failures.concat().as_slice() {
        [] => Ok(()),
        failures => Err(format!("flowgate failed: {}", failures.join("; "))),
    }
}

/// Which versions are measured, and what is not there to be measured.
fn announce(programs: &Programs) {
    let installed = programs.installed().iter();
    let versions: Vec<_> = installed.map(|program| program.version.as_str()).collect();
    println!("{}", versions.join(", "));
    let missing = programs.missing();
    if !missing.is_empty() {
        println!(
            "missing, so left out: {} (bench/setup.sh installs them)",
            missing.join(", ")
        );
    }
}
