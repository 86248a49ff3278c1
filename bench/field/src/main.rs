//! Conformance of other crates: runs the suite of `flowgate-testkit` over their limiters, repeats their known defects,
//! and tests their waiters. See ../README.md.

mod defects;
mod expected;
mod matrix;
mod paused;
mod peers;
mod quiet;
mod report;
mod seen;
mod time;
mod waiting;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::report::Report;

#[derive(Parser)]
#[command(
    name = "flowgate-bench-field",
    about = "Runs flowgate's conformance suite over other libraries' limiters, and repeats their known defects"
)]
struct Arguments {
    /// Fewer histories: about 10 s instead of a minute
    #[arg(long)]
    quick: bool,
    /// Also print the shortest histories that show what was found, of the limiters whose name contains TEXT, or of all
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "")]
    explain: Option<String>,
    /// Also write everything to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print nothing but the verdicts, as expected.txt has them
    #[arg(long)]
    verdicts: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("flowgate-bench-field: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs everything, prints it, and writes it where the arguments say.
///
/// # Errors
///
/// A message if the file cannot be written.
fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let told = |error: io::Error, path: &PathBuf| format!("--json {}: {error}", path.display());
    // Before anything is run, so that a bad path is told at once.
    let file = match &arguments.json {
        Some(path) => Some((path, File::create(path).map_err(|error| told(error, path))?)),
        None => None,
    };
    let report = Report::of(arguments.quick);
    if arguments.verdicts {
        report.verdicts().iter().for_each(|line| println!("{line}"));
    } else {
        print!("{}", report.text(arguments.explain.as_deref()));
    }
    if let Some((path, mut file)) = file {
        serde_json::to_writer_pretty(&mut file, &report)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(b"\n"))
            .map_err(|error| told(error, path))?;
    }
    let differences = expected::differences(&report.verdicts());
    if !arguments.verdicts {
        println!();
        differences.iter().for_each(|line| println!("{line}"));
        println!("{}", report.verdict_on_ours());
        if differences.is_empty() {
            println!("all verdicts are those of expected.txt");
        }
    }
    let passed = report.ours_are_right() && (differences.is_empty() || arguments.verdicts);
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
