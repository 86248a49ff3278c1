//! Reports as files: opened before anything is sent, written when all is known.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use crate::exit::{Refusal, print};

/// Where reports are to go; `-` is standard output.
#[derive(Debug)]
pub(crate) struct Destinations {
    pub(crate) json: Option<PathBuf>,
    pub(crate) csv: Option<PathBuf>,
    pub(crate) html: Option<PathBuf>,
}

/// Open files, to be written once.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) json: Option<Sink>,
    pub(crate) csv: Option<Sink>,
    pub(crate) html: Option<Sink>,
}

/// Somewhere that one report goes.
#[derive(Debug)]
pub(crate) enum Sink {
    Stdout,
    File(Opened),
}

/// A file that can be written. Until it is, it keeps what was in it; if it was not there before, and never is written,
/// it goes away again.
#[derive(Debug)]
pub(crate) struct Opened {
    path: PathBuf,
    file: File,
    is_new: bool,
}

impl Destinations {
    /// Opens all of them. `inputs` are files that are read, and must not be written over.
    ///
    /// # Errors
    ///
    /// When one cannot be opened for writing, two are the same, or one is an input.
    pub(crate) fn open(self, inputs: &[PathBuf]) -> Result<Reports, Refusal> {
        let all = [
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--html", &self.html),
        ];
        let given: Vec<_> = all
            .iter()
            .filter_map(|(flag, path)| Some((flag, path.as_ref()?)))
            .collect();
        for (index, (flag, path)) in given.iter().enumerate() {
            if let Some((other, _)) = given[..index].iter().find(|(_, other)| other == path) {
                return Err(Refusal::usage(format!(
                    "{other} and {flag} both go to {}: type another path",
                    path.display()
                )));
            }
            if inputs.iter().any(|input| is_same_file(input, path)) {
                return Err(Refusal::usage(format!(
                    "{flag} would write over {}, which is read: type another path",
                    path.display()
                )));
            }
        }
        let open =
            |flag, path: Option<PathBuf>| path.map(|path| Sink::open(flag, path)).transpose();
        Ok(Reports {
            json: open("--json", self.json)?,
            csv: open("--csv", self.csv)?,
            html: open("--html", self.html)?,
        })
    }
}

/// Whether both lead to the same file, which is there.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let [one, other] =
        [one, other].map(|path| path.canonicalize().ok().filter(|path| path.is_file()));
    one.is_some() && one == other
}

impl Reports {
    /// Whether one of them takes standard output, so that nothing else may go there.
    pub(crate) fn take_stdout(&self) -> bool {
        [&self.json, &self.csv, &self.html]
            .into_iter()
            .any(|sink| matches!(sink, Some(Sink::Stdout)))
    }
}

impl Sink {
    fn open(flag: &str, path: PathBuf) -> Result<Sink, Refusal> {
        if path == Path::new("-") {
            return Ok(Sink::Stdout);
        }
        let is_new = !path.exists();
        // What is in it stays until there is something to replace it.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| {
                Refusal::could_not_run(format!("{flag}: cannot write {}: {error}", path.display()))
            })?;
        Ok(Sink::File(Opened { path, file, is_new }))
    }

    /// Writes all of it.
    pub(crate) fn write(self, text: &str) -> Result<(), Refusal> {
        match self {
            Sink::Stdout => print(&text),
            Sink::File(mut opened) => opened.write(text).map_err(|error| {
                let path = opened.path.display();
                Refusal::could_not_run(format!("cannot write {path}: {error}"))
            }),
        }
    }
}

impl Opened {
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.is_new = false;
        // A pipe or a terminal has no length and no place.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
            self.file.rewind()?;
        }
        self.file.write_all(text.as_bytes())?;
        self.file.flush()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.is_new {
            // It is empty, and ours.
            let _ = fs::remove_file(&self.path);
        }
    }
}
