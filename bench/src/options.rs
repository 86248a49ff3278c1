//! What every comparison can be asked.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

#[derive(Args)]
pub struct Options {
    /// Few and short rounds: to see that everything runs, not to quote
    #[arg(long)]
    pub quick: bool,
    /// Only the subjects whose name contains TEXT, and what they are divided by
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Also write every number to FILE
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl Options {
    /// Returns the destination of the numbers. Call it before the measurement, so that a bad path is reported
    /// immediately.
    ///
    /// # Errors
    ///
    /// Returns a message if the file cannot be written.
    pub fn destination(&self) -> Result<Destination, String> {
        let Some(path) = self.json.clone() else {
            return Ok(Destination(None));
        };
        match File::create(&path) {
            Ok(file) => Ok(Destination(Some((path, file)))),
            Err(error) => Err(format!("--json {}: {error}", path.display())),
        }
    }

    /// # Errors
    ///
    /// A message that lists the subjects, if `--only` is part of none.
    pub fn check_only(&self, subjects: &[&'static str]) -> Result<(), String> {
        match self.only.as_deref() {
            Some(text) => names_one(text, subjects),
            None => Ok(()),
        }
    }
}

/// # Errors
///
/// A message that lists the subjects, if `text` is part of none.
pub fn names_one(text: &str, subjects: &[&'static str]) -> Result<(), String> {
    if subjects.iter().any(|subject| subject.contains(text)) {
        return Ok(());
    }
    let mut subjects = subjects.to_vec();
    subjects.sort_unstable();
    subjects.dedup();
    Err(format!(
        "--only {text:?} names no subject; say a part of one of: {}",
        subjects.join(" | ")
    ))
}

/// The file of `--json`, if there is one.
pub struct Destination(Option<(PathBuf, File)>);

impl Destination {
    /// # Errors
    ///
    /// A message if the file cannot be written.
    pub fn write(self, record: &impl Serialize) -> Result<(), String> {
        let Some((path, mut file)) = self.0 else {
            return Ok(());
        };
        serde_json::to_writer_pretty(&mut file, record)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(b"\n"))
            .map_err(|error| format!("--json {}: {error}", path.display()))
    }
}
