//! Compares the limits of a fleet with what programs do without it. See ../README.md.
//!
//! - [`strict`]: answers of the store, one by one or shared
//! - [`leased`]: decisions on tokens that were leased before

mod leased;
mod shared;
mod store;
mod strict;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::shared::harness;
use crate::shared::machine::Machine;
use crate::shared::options::Options;
use crate::shared::outcome::Verdict;
use crate::store::Store;

#[derive(Parser)]
#[command(
    name = "flowgate-bench-fleet",
    about = "Compares the limits of a fleet with scripts and counters at the same Redis, and leased decisions with local ones"
)]
struct Arguments {
    /// What to measure [default: all]
    sections: Vec<Section>,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Answers of a store, with 64 callers
    Strict,
    /// Decisions on leased tokens
    Leased,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Record {
    machine: Machine,
    quick: bool,
    strict: Vec<strict::Row>,
    leased: Vec<leased::Row>,
    goals: Vec<Verdict>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flowgate-bench-fleet: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, prints tables and goals, and writes them where the options say.
///
/// # Errors
///
/// A message if the options cannot be followed, or the store fails while it is measured.
fn run(arguments: &Arguments) -> Result<(), String> {
    let Arguments { sections, options } = arguments;
    let (quick, only) = (options.quick, options.only.as_deref());
    options.check_only(&[&strict::SUBJECTS[..], &leased::SUBJECTS].concat())?;
    let destination = options.destination()?;
    // With `--only`, each section that has such a subject: all of its subjects are divided by each other.
    let is_asked = |section, subjects: &[&str]| {
        let is_named = only.is_none_or(|only| subjects.iter().any(|name| name.contains(only)));
        is_named && (sections.is_empty() || sections.contains(&section))
    };
    let machine = Machine::describe();
    println!("{machine}");
    let (mut strict, mut leased, mut goals) = (Vec::new(), Vec::new(), Vec::new());
    if is_asked(Section::Strict, &strict::SUBJECTS) {
        match Store::start() {
            Ok(store) => {
                strict = strict::measure(&store, quick)?;
                print!("{}", strict::table(&strict));
            }
            Err(why) => println!("\nstrict: left out, because {why}"),
        }
        goals.extend(strict::verdicts(&strict));
    }
    if is_asked(Section::Leased, &leased::SUBJECTS) {
        // The store's section is not pinned: its threads share the cores with the store.
        let cores = harness::pinned_cores()?;
        leased = leased::measure(quick, &cores)?;
        print!("{}", leased::table(&leased));
        goals.push(leased::verdict(&leased));
    }
    println!();
    goals.iter().for_each(|goal| println!("{goal}"));
    let disturbances = [strict::disturbance(&strict), leased::disturbance(&leased)];
    for disturbance in disturbances.into_iter().flatten() {
        println!("DISTURBED, do not quote: {disturbance}");
    }
    if quick {
        println!("quick run: too short to quote");
    }
    destination.write(&Record {
        machine,
        quick,
        strict,
        leased,
        goals,
    })
}
