//! Input files of bounded size; `-` is standard input.

use std::fs::File;
use std::io::{self, Read, stdin};
use std::path::{Path, PathBuf};

use crate::exit::Refusal;

/// Maximum size of requests and their times.
pub(crate) const REQUESTS_MIB: u64 = 256;
/// Maximum size of a report.
pub(crate) const REPORT_MIB: u64 = 64;

pub(super) const MIB: u64 = 1 << 20;

/// Returns whether this path stands for standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Refuses several inputs from standard input, of which the first would leave nothing to the others.
pub(crate) fn one_stdin(inputs: &[PathBuf]) -> Result<(), Refusal> {
    match inputs.iter().filter(|path| is_stdin(path)).count() {
        0 | 1 => Ok(()),
        _ => Err(Refusal::usage(
            "only one input can be standard input: write a file instead of the other -",
        )),
    }
}

/// Reads a whole file of at most `most_mib` MiB. `flag` begins the messages; it can be empty.
pub(crate) fn read(flag: &str, path: &Path, most_mib: u64) -> Result<Vec<u8>, Refusal> {
    let begin = match flag {
        "" => String::new(),
        flag => format!("{flag}: "),
    };
    let name = match is_stdin(path) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    let content = match is_stdin(path) {
        true => bounded(stdin().lock(), most_mib * MIB),
        false => File::open(path).and_then(|file| bounded(file, most_mib * MIB)),
    };
    content
        .map_err(|error| Refusal::could_not_run(format!("{begin}cannot read {name}: {error}")))?
        .ok_or_else(|| {
            Refusal::usage(format!(
                "{begin}{name} has more than {most_mib} MiB: write a smaller file"
            ))
        })
}

/// Reads a whole text, as [`read`] does.
pub(crate) fn read_text(flag: &str, path: &Path, most_mib: u64) -> Result<String, Refusal> {
    String::from_utf8(read(flag, path, most_mib)?).map_err(|_| {
        let begin = if flag.is_empty() { "" } else { ": " };
        Refusal::could_not_run(format!(
            "{flag}{begin}cannot read {}: it is not UTF-8",
            path.display()
        ))
    })
}

/// Returns `None` if there is more.
pub(super) fn bounded(input: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    let read = input.take(most + 1).read_to_end(&mut content)?;
    Ok((read as u64 <= most).then_some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_not_read_to_its_end() {
        assert_eq!(
            bounded(&b"1234"[..], 4).unwrap().as_deref(),
            Some(&b"1234"[..])
        );
        assert_eq!(bounded(&b"12345"[..], 4).unwrap(), None);
        assert_eq!(bounded(io::repeat(0), 4).unwrap(), None);
    }

    #[test]
    fn standard_input_is_read_once() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert!(one_stdin(&paths(&["-", "a", "./-"])).is_ok());
        assert!(one_stdin(&paths(&["-", "a", "-"])).is_err());
    }
}
