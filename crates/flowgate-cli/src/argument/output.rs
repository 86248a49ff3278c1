//! The arguments about reports.

use std::path::PathBuf;

use clap::Args;

use super::gate::{self, Gate};
use crate::reports::Destinations;

/// Destinations of the report.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Write the report as JSON; - is standard output, then without the text
    #[arg(long, value_name = "FILE", value_parser = file)]
    json: Option<PathBuf>,

    /// Same as --json -
    #[arg(short = 'j', conflicts_with = "json")]
    json_to_stdout: bool,

    /// Write counts and times per second as CSV
    #[arg(long, value_name = "FILE", value_parser = file)]
    csv: Option<PathBuf>,

    /// Write the report as a page with charts
    #[arg(long, value_name = "FILE", value_parser = file)]
    html: Option<PathBuf>,

    /// Exit with 3 if this is true: 'p99>50ms', 'err>0.1%', 'rate<990'; repeatable
    #[arg(long, value_name = "CONDITION", value_parser = gate::parse)]
    pub(crate) fail_if: Vec<Gate>,

    /// Print a line of progress per second on standard error
    #[arg(long)]
    pub(crate) progress: bool,

    /// Draw no live view on a terminal
    #[arg(long)]
    pub(crate) no_tui: bool,

    /// Print only errors: no report, no live view
    #[arg(long)]
    pub(crate) quiet: bool,
}

impl Output {
    /// Returns the destinations.
    pub(crate) fn destinations(&mut self) -> Destinations {
        let json = match self.json_to_stdout {
            true => Some(PathBuf::from("-")),
            false => self.json.take(),
        };
        Destinations {
            json,
            csv: self.csv.take(),
            html: self.html.take(),
        }
    }
}

/// Parses a path. Rejects a URL, which follows a flag whose value is missing.
pub(crate) fn file(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("no file: write a path, or - for standard output".to_owned()),
        url if url.contains("://") => {
            Err("a URL, not a file: write a path, or - for standard output".to_owned())
        }
        path => Ok(PathBuf::from(path)),
    }
}
