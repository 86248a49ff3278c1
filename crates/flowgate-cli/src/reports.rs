//! Report files: opened before the run, written after it.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write, stdout};
use std::path::{Path, PathBuf};

use flowgate_load::Report;

use crate::argument::input;
use crate::exit::{Refusal, print_bytes};

/// Destinations of reports; `-` is standard output.
#[derive(Debug, Default)]
pub(crate) struct Destinations {
    pub(crate) json: Option<PathBuf>,
    pub(crate) csv: Option<PathBuf>,
    pub(crate) html: Option<PathBuf>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) junit: Option<PathBuf>,
    pub(crate) summary: Option<PathBuf>,
}

/// Open destinations, each written once.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) json: Option<Sink>,
    pub(crate) csv: Option<Sink>,
    pub(crate) html: Option<Sink>,
    pub(crate) log: Option<Sink>,
    pub(crate) junit: Option<Sink>,
    /// Added to what is there.
    pub(crate) summary: Option<Sink>,
}

/// Destination of one report.
#[derive(Debug)]
pub(crate) enum Sink {
    Stdout,
    File(Opened),
}

/// An open file. It keeps its contents until it is written. A new file that is never written is deleted.
#[derive(Debug)]
pub(crate) struct Opened {
    path: PathBuf,
    file: File,
    is_new: bool,
    /// Whether it is added to what is there.
    appends: bool,
}

impl Destinations {
    /// Opens all of them. `inputs` are files that the run reads, and that must not be overwritten.
    ///
    /// # Errors
    ///
    /// Returns an error if one cannot be opened for writing, two are the same, or one is an input.
    pub(crate) fn open(self, inputs: &[PathBuf]) -> Result<Reports, Refusal> {
        let [json, csv, html, log, junit, summary] = open_all(
            [
                ("--json", self.json),
                ("--csv", self.csv),
                ("--html", self.html),
                ("--log", self.log),
                ("--junit", self.junit),
                ("--summary", self.summary),
            ],
            inputs,
        )?;
        Ok(Reports {
            json,
            csv,
            html,
            log,
            junit,
            summary: summary.map(Sink::appending),
        })
    }
}

/// Opens the destination of each flag that has one. `inputs` are files that the run reads, and that must not be overwritten.
///
/// # Errors
///
/// Returns an error if one cannot be opened for writing, two are the same, or one is an input.
pub(crate) fn open_all<const N: usize>(
    destinations: [(&'static str, Option<PathBuf>); N],
    inputs: &[PathBuf],
) -> Result<[Option<Sink>; N], Refusal> {
    let given: Vec<_> = destinations
        .iter()
        .filter_map(|(flag, path)| Some((flag, path.as_ref()?)))
        .collect();
    for (index, (flag, path)) in given.iter().enumerate() {
        if let Some((other, _)) = given[..index].iter().find(|(_, other)| other == path) {
            return Err(Refusal::usage(format!(
                "{other} and {flag} both write to {}: write another path",
                path.display()
            )));
        }
        if inputs.iter().any(|input| is_same_file(input, path)) {
            return Err(Refusal::usage(format!(
                "{flag} would overwrite the input {}: write another path",
                path.display()
            )));
        }
    }
    let mut sinks = [const { None }; N];
    for (sink, (flag, path)) in sinks.iter_mut().zip(destinations) {
        *sink = path.map(|path| Sink::open(flag, path)).transpose()?;
    }
    Ok(sinks)
}

/// Returns whether both paths lead to the same existing file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let [one, other] =
        [one, other].map(|path| path.canonicalize().ok().filter(|path| path.is_file()));
    one.is_some() && one == other
}

impl Reports {
    /// Returns whether one of them uses standard output, which excludes other output there.
    pub(crate) fn take_stdout(&self) -> bool {
        let reports = [&self.json, &self.csv, &self.html, &self.log];
        let mut all = reports.into_iter().chain([&self.junit, &self.summary]);
        all.any(|sink| matches!(sink, Some(Sink::Stdout)))
    }
}

/// Reads a report that `flowgate load --json` wrote.
pub(crate) fn read(flag: &str, path: &Path) -> Result<Report, Refusal> {
    let text = input::read_text(flag, path, input::REPORT_MIB)?;
    Report::from_json(&text).map_err(|error| {
        // Parser messages about fields do not help users.
        let why = match error.is_other_schema() {
            true => error.to_string(),
            false => "not a report: write a file that flowgate load --json wrote".to_owned(),
        };
        let begin = if flag.is_empty() { "" } else { ": " };
        Refusal::usage(format!("{flag}{begin}{}: {why}", path.display()))
    })
}

impl Sink {
    fn open(flag: &str, path: PathBuf) -> Result<Sink, Refusal> {
        if path == Path::new("-") {
            return Ok(Sink::Stdout);
        }
        let is_new = !path.exists();
        // Keep the contents until there is something to replace them.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| {
                Refusal::could_not_run(format!("{flag}: cannot write {}: {error}", path.display()))
            })?;
        Ok(Sink::File(Opened {
            path,
            file,
            is_new,
            appends: false,
        }))
    }

    fn appending(mut self) -> Sink {
        if let Sink::File(opened) = &mut self {
            opened.appends = true;
        }
        self
    }

    /// Returns the destination as a stream, for what is written during the run.
    pub(crate) fn stream(self) -> io::Result<Box<dyn Write + Send>> {
        match self {
            Sink::Stdout => Ok(Box::new(stdout())),
            Sink::File(mut opened) => {
                opened.begin()?;
                Ok(Box::new(opened.file.try_clone()?))
            }
        }
    }

    /// Writes the report.
    pub(crate) fn write(self, content: impl AsRef<[u8]>) -> Result<(), Refusal> {
        let content = content.as_ref();
        match self {
            Sink::Stdout => print_bytes(content),
            Sink::File(mut opened) => opened.write(content).map_err(|error| {
                let path = opened.path.display();
                Refusal::could_not_run(format!("cannot write {path}: {error}"))
            }),
        }
    }
}

impl Opened {
    fn write(&mut self, content: &[u8]) -> io::Result<()> {
        self.begin()?;
        self.file.write_all(content)?;
        self.file.flush()
    }

    /// Discards the contents, or goes to their end.
    fn begin(&mut self) -> io::Result<()> {
        self.is_new = false;
        // A pipe or a terminal has no length and no position.
        if !self.file.metadata()?.is_file() {
            return Ok(());
        }
        if self.appends {
            self.file.seek(SeekFrom::End(0))?;
        } else {
            self.file.set_len(0)?;
            self.file.rewind()?;
        }
        Ok(())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.is_new {
            // The file is empty, and this process created it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
