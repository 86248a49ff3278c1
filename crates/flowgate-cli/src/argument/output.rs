//! The arguments about reports.

use std::borrow::Cow;
use std::path::PathBuf;

use clap::Args;
use flowgate_load::Target;
use hyper::header::{HeaderName, HeaderValue};

use super::gate::{self, Gate};
use super::{header, percentile, url};
use crate::exit::Refusal;
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

    /// Write a line of JSON per request
    #[arg(long, value_name = "FILE", value_parser = file)]
    log: Option<PathBuf>,

    /// Send the progress each second to this OpenTelemetry collector (OTLP, JSON)
    #[arg(long, value_name = "URL", value_parser = collector)]
    pub(crate) otlp: Option<Target>,

    /// Add a header to what --otlp sends, 'Name: value'; repeatable
    #[arg(
        long,
        value_name = "HEADER",
        value_parser = header::of_collector,
        requires = "otlp",
    )]
    pub(crate) otlp_header: Vec<(HeaderName, HeaderValue)>,

    /// Report these percentiles of the durations: 50,95,99.9
    #[arg(
        long,
        value_name = "LIST",
        value_parser = percentiles,
        allow_hyphen_values = true,
    )]
    percentiles: Option<Percentiles>,

    /// Exit with 5 if more than this share of the requests fails: 5%, 0.05, 100%
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "1%",
        value_parser = gate::share,
        allow_hyphen_values = true,
    )]
    pub(crate) max_errors: f64,

    /// Compare with the report of an earlier run, written by --json
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,

    /// Write the verdict and each --fail-if as JUnit XML
    #[arg(long, value_name = "FILE", value_parser = file)]
    junit: Option<PathBuf>,

    /// Add a summary in Markdown to FILE, such as "$GITHUB_STEP_SUMMARY"
    #[arg(long, value_name = "FILE", value_parser = file)]
    summary: Option<PathBuf>,

    /// Exit with 3 if this is true: 'p99>50ms', 'err>0.1%', 'rate<990',
    /// 'p99>baseline+10%'; repeatable
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
            log: self.log.take(),
            junit: self.junit.take(),
            summary: self.summary.take(),
        }
    }

    /// Returns the percentiles of the report, as shares.
    ///
    /// # Errors
    ///
    /// Returns an error if a condition is about a percentile that is not one of them.
    pub(crate) fn percentiles(&self) -> Result<Vec<f64>, Refusal> {
        let listed = self
            .percentiles
            .clone()
            .map_or(Vec::new(), |listed| listed.0);
        match self.fail_if.iter().find_map(|gate| gate.lacks(&listed)) {
            Some(missing) => Err(Refusal::usage(missing)),
            None => Ok(listed),
        }
    }
}

/// Percentiles, as shares.
#[derive(Clone, Debug)]
struct Percentiles(Vec<f64>);

fn percentiles(text: &str) -> Result<Percentiles, String> {
    percentile::parse(text).map(Percentiles)
}

/// Parses the URL of a collector.
pub(crate) fn collector(text: &str) -> Result<Target, String> {
    match url::without_credentials(text) {
        Cow::Borrowed(text) => url::parse(text),
        Cow::Owned(_) => Err(
            "the URL contains a user name: write --otlp-header 'Authorization: Basic …'".to_owned(),
        ),
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
