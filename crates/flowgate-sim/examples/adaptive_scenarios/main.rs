//! The scenarios by which adaptive limits are judged: against the best fixed limit, and against those of other libraries.
//!
//! ```text
//! cargo run --release -p flowgate-sim --example adaptive_scenarios -- table --help
//! ```

mod algorithm;
mod limit;
mod measure;
mod others;
mod pictures;
mod plant;
mod policy;
mod scenarios;
mod table;
mod trace;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Compares adaptive limits in virtual time")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print a table in Markdown: the median and the worst seed of each algorithm
    Table(table::Options),
    /// Print the windows of one run
    Trace(trace::Options),
    /// Draw the limits over time into a folder
    Pictures { folder: PathBuf },
}

fn main() -> std::io::Result<()> {
    match Arguments::parse().command {
        Command::Table(options) => table::print(&options),
        Command::Trace(options) => trace::print(&options),
        Command::Pictures { folder } => pictures::draw(&folder)?,
    }
    Ok(())
}
