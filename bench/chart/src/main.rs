//! Draws what the benchmarks wrote with `--json`: one SVG for each file.

mod draw;
mod record;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(
    name = "flowgate-bench-chart",
    about = "Draws what the benchmarks wrote with --json: NAME.json becomes NAME.svg beside it"
)]
struct Arguments {
    /// Files that a benchmark wrote
    #[arg(required = true)]
    records: Vec<PathBuf>,
}

fn main() -> ExitCode {
    for path in Arguments::parse().records {
        if let Err(message) = chart(&path) {
            eprintln!("flowgate-bench-chart: {}: {message}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn chart(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let record = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let panels = record::panels(&record);
    if panels.is_empty() {
        return Err("nothing in it can be drawn".to_owned());
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let title = format!("{name}: {}", record::machine(&record));
    let svg = path.with_extension("svg");
    fs::write(&svg, draw::svg(&title, &panels)).map_err(|error| error.to_string())?;
    println!("{}", svg.display());
    Ok(())
}
