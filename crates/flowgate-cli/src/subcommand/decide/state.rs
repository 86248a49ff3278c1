//! The file that a planned restart hands on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::exit::Refusal;

/// What a server that ended has handed on.
pub(super) struct State {
    /// The name of its file.
    pub(super) file: String,
    pub(super) bytes: Vec<u8>,
}

/// Checks that the file can be written at the end, when it would be too late to say that it cannot.
pub(super) fn check(path: &Path) -> Result<(), Refusal> {
    // The server that ends now may be writing the file, or what becomes it.
    let beside = beside(path, ".try");
    let tried = create(&beside).and_then(|_| fs::remove_file(&beside));
    tried.map_err(|error| {
        let path = path.display();
        Refusal::usage(format!(
            "cannot write the state {path}: {error}; name a file in a folder that is there and can be written to"
        ))
    })
}

/// Reads the file. `None`: there is none, because the last end was not planned, or there was no process before.
pub(super) fn read(path: &Path) -> Result<Option<State>, Refusal> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(State {
            file: path.display().to_string(),
            bytes,
        })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let path = path.display();
            Err(Refusal::usage(format!(
                "cannot read the state {path}: {error}; let this user read it, or remove it to begin with full limits"
            )))
        }
    }
}

/// Removes the file when it is used, so that it is used once. Later, it would be too old.
pub(super) fn remove(path: &Path) -> Result<(), Refusal> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(could_not("remove", path, &error)),
        _ => Ok(()),
    }
}

/// Writes the file, whole or not at all, and for this user alone.
pub(super) fn write(path: &Path, state: &[u8]) -> Result<(), Refusal> {
    let beside = beside(path, ".new");
    let written = || -> io::Result<()> {
        let mut file = create(&beside)?;
        file.write_all(state)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    written().map_err(|error| could_not("write", path, &error))
}

/// Returns the name of another file in the same folder.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn create(path: &Path) -> io::Result<File> {
    // An older file could be open to others.
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

fn could_not(what: &str, path: &Path, error: &io::Error) -> Refusal {
    let path = path.display();
    Refusal::could_not_run(format!("cannot {what} the state {path}: {error}"))
}
