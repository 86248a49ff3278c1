//! Compares `flowgate::Keyed` with other limiters that have a limit per key. See ../README.md.
//!
//! - [`speed`]: the cost of a decision
//! - [`memory`]: the bytes per key
//! - [`flood`]: the effect of a flood of new keys
//! - [`refusals`]: needless refusals of flowgate with more live keys than its capacity

mod flood;
mod keys;
mod memory;
mod ours;
mod peers;
mod process;
mod random;
mod refusals;
mod shared;
mod speed;
mod subject;

use std::fs;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::keys::Key;
use crate::shared::machine::Machine;
use crate::shared::options::Options;
use crate::shared::outcome::Verdict;

#[derive(Parser)]
#[command(
    name = "flowgate-bench-keyed",
    about = "Compares flowgate's keyed limiter with others': time, memory, floods, false refusals"
)]
struct Arguments {
    /// What to measure [default: all]
    sections: Vec<Section>,
    #[command(flatten)]
    options: Options,
    /// Do this, and say what came of it on the standard output: how a limiter is measured alone
    #[arg(long, value_name = "JSON", hide = true)]
    alone: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// What a decision costs, with 1, a thousand and a million keys
    Speed,
    /// Bytes per key
    Memory,
    /// A hundred million new keys, into room for a million
    Flood,
    /// Whom ours refuses without need, with up to four times as many live keys as it has room for
    Refusals,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Record {
    machine: Machine,
    huge_pages: String,
    quick: bool,
    speed: Vec<speed::Row>,
    memory: Vec<memory::Row>,
    flood: Vec<flood::Row>,
    refusals: Vec<refusals::Row>,
    goals: Vec<Verdict>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.alone {
        Some(job) => process::serve(job),
        None => run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flowgate-bench-keyed: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, prints tables and goals, and writes them where the options say.
///
/// # Errors
///
/// A message if the options cannot be followed, or a process ended early.
fn run(arguments: &Arguments) -> Result<(), String> {
    let Arguments {
        sections, options, ..
    } = arguments;
    options.check_only(&subjects())?;
    let destination = options.destination()?;
    let (quick, only) = (options.quick, options.only.as_deref());
    let is_asked = |section| sections.is_empty() || sections.contains(&section);

    let (machine, huge_pages) = (Machine::describe(), huge_pages());
    println!("{machine}, transparent huge pages: {huge_pages}");
    let (mut speed, mut memory, mut flood, mut refusals) = Default::default();
    let mut goals = Vec::new();
    if is_asked(Section::Speed) {
        speed = speed::measure(quick, only)?;
        print!("{}", speed::tables(&speed));
        goals.extend(speed::verdicts(&speed, quick));
    }
    if is_asked(Section::Memory) {
        memory = memory::measure(quick, only)?;
        print!("{}", memory::tables(&memory));
        goals.push(memory::verdict(&memory));
    }
    if is_asked(Section::Flood) {
        flood = flood::measure(quick, only)?;
        print!("{}", flood::table(&flood));
        goals.extend(flood::verdicts(&flood));
    }
    if is_asked(Section::Refusals) {
        refusals = refusals::measure(quick);
        print!("{}", refusals::table(&refusals));
        goals.push(refusals::verdict(&refusals));
    }
    println!();
    goals.iter().for_each(|goal| println!("{goal}"));
    for disturbance in speed::disturbances(&speed, quick) {
        println!("DISTURBED, do not quote: {disturbance}");
    }
    if quick {
        println!("quick run: too short to quote");
    }
    destination.write(&Record {
        machine,
        huge_pages,
        quick,
        speed,
        memory,
        flood,
        refusals,
        goals,
    })
}

/// The names of all that can be measured.
fn subjects() -> Vec<&'static str> {
    let mut names: Vec<_> = u64::subjects().iter().map(|subject| subject.name).collect();
    names.extend(String::subjects().iter().map(|subject| subject.name));
    names.extend(flood::subjects().iter().map(|subject| subject.name));
    names
}

/// Whether the kernel gives large tables large pages by itself, or "unknown": translating addresses is much
/// of what a decision among very many keys costs.
fn huge_pages() -> String {
    let choices = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = choices.ok().and_then(|choices| {
        let (_, rest) = choices.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    });
    chosen.unwrap_or_else(|| "unknown".to_owned())
}
