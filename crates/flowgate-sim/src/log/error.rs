//! Defects of a log, and of its lines.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::log::fields::Use;
use crate::log::lines::MAX_LINE;

/// How many malformed lines are kept.
const KEPT: usize = 3;
/// How much of a malformed line is kept, in characters.
const SHOWN: usize = 80;

/// How many fields an error lists.
const LISTED: usize = 20;

/// An error that makes a log useless.
///
/// Its text is one line, which says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be read.
    Read(io::Error),
    /// The file has no line, except blank lines and comments.
    Empty,
    /// The file is compressed.
    Compressed {
        /// The format of the compressed file, such as `gzip`.
        with: &'static str,
        /// The command that unpacks it, such as `zcat`.
        unpack: &'static str,
    },
    /// The file is not a text: it has zero bytes.
    NotText,
    /// No line at the beginning has the shape of a known format.
    UnknownFormat {
        /// The beginning of the first line.
        line: String,
    },
    /// The log does not have a field.
    UnknownField {
        /// The field.
        field: String,
        /// The fields that the log has.
        known: Vec<String>,
    },
    /// Every line is malformed.
    NothingValid(MalformedLines),
    /// A line is malformed, and the reader is strict.
    Malformed(MalformedLine),
    /// A line is much older than one before it.
    Backward {
        /// The number of the line, counted from 1.
        line: u64,
        /// How much older it is than the newest line before it.
        by: Duration,
        /// The limit.
        limit: Duration,
    },
    /// The log has more requests than the limit.
    TooManyRequests {
        /// The limit.
        limit: usize,
    },
    /// The names of the keys take more memory than the limit.
    TooManyKeys {
        /// The limit in bytes.
        limit: usize,
    },
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedLine {
    /// The number of the line, counted from 1.
    pub number: u64,
    /// The reason.
    pub reason: String,
    /// The beginning of the line.
    pub text: String,
}

/// The lines that cannot be read: how many, and the first three.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MalformedLines {
    /// The number of lines.
    pub count: u64,
    /// The first three lines.
    pub first: Vec<MalformedLine>,
}

/// A defect of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    TooLong,
    TooManyColumns,
    /// What an access log has and the line has not.
    Access(&'static str),
    Json,
    /// The field is not there.
    Missing(Use),
    /// The field is there, and is something else.
    Not(Use),
}

impl Flaw {
    /// The reason, with the name of the field of each use.
    fn reason(self, name: impl Fn(Use) -> Option<String>) -> String {
        let field = |what: Use| {
            let name = name(what);
            shown(name.as_deref().unwrap_or(what.name()).as_bytes())
        };
        match self {
            Self::TooLong => format!("longer than {MAX_LINE} bytes"),
            Self::TooManyColumns => "too many columns".to_owned(),
            Self::Access(reason) => reason.to_owned(),
            Self::Json => "not a JSON object".to_owned(),
            Self::Missing(what) => format!("no field '{}'", field(what)),
            Self::Not(what) => {
                let expected = match what {
                    Use::Time => "a time",
                    Use::Key => "a key",
                    Use::Cost => "a whole number",
                    Use::Duration => "a duration such as '12ms', or in seconds",
                };
                format!("field '{}' is not {expected}", field(what))
            }
        }
    }

    pub(crate) fn of_line(
        self,
        number: u64,
        text: &[u8],
        name: impl Fn(Use) -> Option<String>,
    ) -> MalformedLine {
        MalformedLine {
            number,
            reason: self.reason(name),
            text: shown(text),
        }
    }
}

/// The beginning of a line, as text that a terminal can show.
pub(crate) fn shown(text: &[u8]) -> String {
    let head = &text[..text.len().min(4 * SHOWN)];
    let text = String::from_utf8_lossy(head);
    let printable = text.trim_end().chars().map(|char| {
        if char.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            char
        }
    });
    printable.take(SHOWN).collect()
}

impl MalformedLines {
    /// Counts a line, and keeps it if it is one of the first.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> MalformedLine) {
        self.count += 1;
        if self.first.len() < KEPT {
            self.first.push(line());
        }
    }
}

impl fmt::Display for MalformedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: '{}'", self.number, self.reason, self.text)
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot read the log: {error}"),
            Self::Empty => f.write_str("the log is empty; check the path, or what is piped into it"),
            Self::Compressed { with, unpack } => write!(
                f,
                "the log is compressed with {with}; unpack it first: '{unpack} FILE | flowgate simulate --arrivals log:-'"
            ),
            Self::NotText => f.write_str(
                "the log is not text, as it has zero bytes; give an access log, JSON lines or a CSV, in UTF-8",
            ),
            Self::UnknownFormat { line } => write!(
                f,
                "neither an access log, nor JSON lines, nor a CSV of times; set the format if it is one of these: '{line}'"
            ),
            Self::UnknownField { field, known } => {
                let mut names: Vec<String> = known
                    .iter()
                    .take(LISTED)
                    .map(|name| shown(name.as_bytes()))
                    .collect();
                if known.len() > LISTED {
                    names.push("...".to_owned());
                }
                write!(
                    f,
                    "the log has no field '{field}'; choose one of: {}",
                    names.join(", ")
                )
            }
            Self::NothingValid(lines) => {
                write!(f, "all {} lines are malformed; check the format and the names of fields", lines.count)?;
                lines.first.first().map_or(Ok(()), |line| write!(f, "; {line}"))
            }
            Self::Malformed(line) => write!(f, "{line}; correct it, or allow malformed lines, which are then skipped and counted"),
            Self::Backward { line, by, limit } => write!(
                f,
                "line {line} is {by:.0?} older than a line before it, more than {limit:.0?}; put the parts of the log in \
                 order of time: 'cat access.log.1 access.log'"
            ),
            Self::TooManyRequests { limit } => write!(
                f,
                "the log has more than {limit} requests; take a part of it ('head -n {limit}'), or raise the limit"
            ),
            Self::TooManyKeys { limit } => write!(
                f,
                "the names of the keys take more than {limit} bytes; choose a field with fewer values, such as 'ip'"
            ),
        }
    }
}

impl Error for LogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}
