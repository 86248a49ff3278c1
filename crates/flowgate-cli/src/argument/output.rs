//! What comes of a run, and where it goes: the arguments about reports.

use std::path::PathBuf;

use clap::Args;

use super::gate::{self, Gate};
use crate::reports::Destinations;

/// What comes of a run, and where it goes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Write the report as JSON; - for standard output, and nothing else there
    #[arg(long, value_name = "FILE", value_parser = file)]
    json: Option<PathBuf>,

    /// The same as --json -
    #[arg(short = 'j', conflicts_with = "json")]
    json_to_stdout: bool,

    /// Write what happened in each second, as CSV
    #[arg(long, value_name = "FILE", value_parser = file)]
    csv: Option<PathBuf>,

    /// Write the report as a page with charts
    #[arg(long, value_name = "FILE", value_parser = file)]
    html: Option<PathBuf>,

    /// Exit with 3 if this is true: 'p99>50ms', 'err>0.1%', 'rate<990'; may be given several times
    #[arg(long, value_name = "CONDITION", value_parser = gate::parse)]
    pub(crate) fail_if: Vec<Gate>,

    /// Print the progress: one plain line each second, on standard error
    #[arg(long)]
    pub(crate) progress: bool,

    /// No live view on a terminal
    #[arg(long)]
    pub(crate) no_tui: bool,

    /// Print no report and no live view, only what is wrong
    #[arg(long)]
    pub(crate) quiet: bool,
}

impl Output {
    /// Where reports go.
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

/// A path, and not the URL that came next because no path was given.
pub(crate) fn file(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("not a file: type a path, or - for standard output".to_owned()),
        url if url.contains("://") => {
            Err("a URL, not a file: type a path, or - for standard output".to_owned())
        }
        path => Ok(PathBuf::from(path)),
    }
}
