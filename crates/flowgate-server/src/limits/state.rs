//! What was taken, as a file for a planned restart.
//!
//! A file is the magic line, then for each table its name and its export, both after their lengths in eight bytes, and the last line.

use std::collections::HashMap;

const MAGIC: &[u8] = b"flowgate decide state 1\n";
const END: &[u8] = b"end\n";

/// Writes a file.
#[derive(Debug)]
pub(super) struct StateWriter(Vec<u8>);

impl StateWriter {
    pub(super) fn new() -> Self {
        Self(MAGIC.to_vec())
    }

    pub(super) fn add(&mut self, name: &str, export: &[u8]) {
        for part in [name.as_bytes(), export] {
            self.0.extend_from_slice(&(part.len() as u64).to_be_bytes());
            self.0.extend_from_slice(part);
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(END);
        self.0
    }
}

/// The exports of a file, by name. Each is checked when it is imported.
pub(super) type Exports<'a> = HashMap<&'a str, &'a [u8]>;

/// Reads a file. `None` if it is not whole.
pub(super) fn exports(file: &[u8]) -> Option<Exports<'_>> {
    let mut rest = file.strip_prefix(MAGIC)?;
    let mut exports = HashMap::new();
    while rest != END {
        let name = std::str::from_utf8(part(&mut rest)?).ok()?;
        exports.insert(name, part(&mut rest)?);
    }
    Some(exports)
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
    let (part, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(part)
}
