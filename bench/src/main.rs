//! Compares flowgate with other limiters, and its own with one another, all in one process and
//! interleaved. See README.md.

mod compare;
mod harness;
mod machine;
mod options;
mod report;
mod section;
mod semaphores;
mod striped;
mod types;
mod waiting;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::options::Options;
use crate::section::{SINGLE, STRIPED, TYPES};

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
    /// One limiter, in stripes and in batches: admit and refuse, by the number of threads
    Striped(Options),
    /// A task, and a thread, that wait for slot after slot: how many they get, and how evenly
    Waiting(Options),
    /// Permits beside other libraries': taking one, contention, long lines, fair shares
    Semaphores(Options),
}

fn main() -> ExitCode {
    let compared = match Arguments::parse().comparison {
        Comparison::Single(options) => compare::run(&SINGLE, &options),
        Comparison::Types(options) => compare::run(&TYPES, &options),
        Comparison::Striped(options) => compare::run(&STRIPED, &options),
        Comparison::Waiting(options) => waiting::run(&options),
        Comparison::Semaphores(options) => semaphores::run(&options),
    };
    match compared {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flowgate-bench: {message}");
            ExitCode::FAILURE
        }
    }
}
