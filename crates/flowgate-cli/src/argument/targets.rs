//! Requests of a file, and the values of their variables.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use flowgate_load::{Plan, RequestFile, RequestFormat, RequestMix, Rows, Stop, Template};

use super::input;
use crate::exit::Refusal;

/// Requests of a file.
#[derive(Args, Debug)]
#[command(next_help_heading = "Requests")]
pub(crate) struct Targets {
    /// Send the requests in FILE, to one or several servers; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "urls", "method", "form"])]
    targets: Option<PathBuf>,

    /// Read --targets as vegeta's text, an .http file, or JSON lines [default: detected]
    #[arg(long, value_name = "FORMAT", value_enum, requires = "targets")]
    targets_format: Option<Format>,

    /// Replace {{name}} in --targets by columns of this CSV, a row per pass
    #[arg(long, value_name = "FILE", requires = "targets")]
    variables: Option<PathBuf>,

    /// Allow --targets to name this host of yours, which is not this machine; repeatable
    #[arg(long, value_name = "HOST", requires = "targets")]
    own: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Vegeta,
    Http,
    Json,
}

impl Targets {
    /// Returns whether a file of requests is given.
    pub(crate) fn is_in_use(&self) -> bool {
        self.targets.is_some()
    }

    /// Returns the input files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.targets, &self.variables]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }

    /// Returns the requests, if a file is given. `defaults` has the headers and the body of requests without their own.
    pub(crate) fn mix(&self, defaults: &Template) -> Result<Option<RequestMix>, Refusal> {
        let Some(path) = &self.targets else {
            return Ok(None);
        };
        let refuse = |flag: &str, path: &Path, error: &dyn std::fmt::Display| {
            Refusal::usage(format!("{flag}: {}: {error}", path.display()))
        };
        let text = input::read_text("--targets", path, input::REQUESTS_MIB)?;
        let format = match self.targets_format {
            None => RequestFormat::detect(path, &text),
            Some(Format::Vegeta) => RequestFormat::Vegeta,
            Some(Format::Http) => RequestFormat::HttpFile,
            Some(Format::Json) => RequestFormat::JsonLines,
        };
        // Editors look beside the file, and vegeta in the current folder.
        let folder = match format {
            RequestFormat::HttpFile => path.parent().unwrap_or(Path::new("")),
            _ => Path::new(""),
        };
        let file = RequestFile::parse(&text, format, |body| read(&folder.join(body)))
            .map_err(|error| refuse("--targets", path, &error))?;
        let rows = match &self.variables {
            None => None,
            Some(path) => {
                let text = input::read_text("--variables", path, input::REQUESTS_MIB)?;
                Some(Rows::parse(&text).map_err(|error| refuse("--variables", path, &error))?)
            }
        };
        let mix = file.mix(rows.as_ref(), defaults);
        mix.map(Some)
            .map_err(|error| refuse("--targets", path, &error))
    }

    /// Refuses servers of the file that are neither on this machine nor named.
    pub(crate) fn allow(&self, plan: &Plan) -> Result<(), Refusal> {
        if !self.is_in_use() {
            return Ok(());
        }
        let remote = plan
            .remote_servers(&Stop::new())
            .map_err(|error| Refusal::could_not_run(error.to_string()))?;
        let is_own = |host: &str| {
            self.own
                .iter()
                .any(|own| own.trim().eq_ignore_ascii_case(host))
        };
        match remote.iter().find(|target| !is_own(target.host())) {
            None => Ok(()),
            Some(target) => {
                let host = target.host();
                Err(Refusal::usage(format!(
                    "--targets: {host} is not this machine: if the host is yours, add --own {host}"
                )))
            }
        }
    }
}

/// Reads a body.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let body = input::bounded(File::open(path)?, input::REQUESTS_MIB * input::MIB)?;
    body.ok_or_else(|| {
        let message = format!("it has more than {} MiB", input::REQUESTS_MIB);
        io::Error::new(ErrorKind::FileTooLarge, message)
    })
}
