//! Recorded durations, such as what a service took.

use std::io::Read;
use std::time::Duration;

use crate::distribution::Distribution;
use crate::log::error::{Flaw, LogError, MalformedLines};
use crate::log::fields::{Use, Wanted, extractor};
use crate::log::format::{LogFormat, head_of_text};
use crate::log::lines::{Lines, content};
use crate::log::moment::seconds;
use crate::text::duration;

/// The most durations that are read, at 16 bytes each.
const MAX_DURATIONS: usize = 20_000_000;

/// A reader of recorded durations.
///
/// The file has one duration on each line, or in a column of a CSV, or in a field of JSON lines. A duration is a text such as
/// `12ms`, or a number of seconds. Blank lines, and lines that begin with `#`, are skipped.
///
/// ```
/// use flowgate_sim::{Distribution, DurationReader};
/// use std::time::Duration;
///
/// let recorded = DurationReader::new().read("8ms\n0.012\n10ms\n".as_bytes())?;
/// let service: Distribution = recorded.into();
/// assert_eq!(service.mean(), Duration::from_millis(10));
///
/// let table = "path,request_time\n/a,0.008\n/b,0.012\n";
/// let recorded = DurationReader::new().column("request_time").read(table.as_bytes())?;
/// assert_eq!(recorded.durations, [8, 12].map(Duration::from_millis));
/// # Ok::<(), flowgate_sim::LogError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DurationReader {
    column: Option<String>,
    is_strict: bool,
}

/// Durations that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedDurations {
    /// The durations, as they come in the file. There is at least one.
    pub durations: Vec<Duration>,
    /// The lines that were skipped because they are malformed.
    pub malformed: MalformedLines,
}

impl DurationReader {
    /// Creates a reader that finds the column.
    ///
    /// It takes the only column, the first one if the columns have no names, or one with a usual name, such as `duration` or
    /// `request_time`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the column of a CSV, or the field of JSON lines.
    ///
    /// A column has a name, or a number from 1.
    pub fn column(mut self, name: impl Into<String>) -> Self {
        self.column = Some(name.into());
        self
    }

    /// Sets whether a malformed line is an error (default: it is skipped).
    pub fn strict(mut self, is_strict: bool) -> Self {
        self.is_strict = is_strict;
        self
    }

    /// Reads a file. It needs no buffer of its own.
    ///
    /// # Errors
    ///
    /// Returns a [`LogError`] if
    ///
    /// - the file cannot be read, or no line of it is valid;
    /// - it does not have the column;
    /// - it has more than 20,000,000 durations;
    /// - a line is malformed, and the reader is strict.
    pub fn read(&self, file: impl Read) -> Result<RecordedDurations, LogError> {
        let mut lines = Lines::new(file);
        let head = head_of_text(&mut lines)?;
        let format = match head.trim_ascii_start().first() {
            Some(b'{') => LogFormat::JsonLines,
            _ => LogFormat::Csv,
        };
        let wanted = [Wanted {
            what: Use::Duration,
            name: self.column.as_deref(),
        }];
        let mut extract = extractor(format, &wanted, &head)?;
        let mut is_header = extract.has_header();
        let mut durations = Vec::new();
        let mut malformed = MalformedLines::default();
        while let Some(line) = lines.next()? {
            let Some(text) = content(line.text) else {
                continue;
            };
            if std::mem::take(&mut is_header) {
                continue;
            }
            let read = match line.is_too_long {
                true => Err(Flaw::TooLong),
                false => extract.extract(text).and_then(|[field]| recorded(field)),
            };
            match read {
                Ok(_) if durations.len() == MAX_DURATIONS => {
                    return Err(LogError::TooManyRequests {
                        limit: MAX_DURATIONS,
                    });
                }
                Ok(duration) => durations.push(duration),
                Err(flaw) => {
                    let malformed_line = || flaw.of_line(line.number, text, |_| extract.name(0));
                    if self.is_strict {
                        return Err(LogError::Malformed(malformed_line()));
                    }
                    malformed.note(malformed_line);
                }
            }
        }
        match (durations.is_empty(), malformed.count) {
            (false, _) => Ok(RecordedDurations {
                durations,
                malformed,
            }),
            (true, 0) => Err(LogError::Empty),
            (true, _) => Err(LogError::NothingValid(malformed)),
        }
    }
}

fn recorded(field: Option<&[u8]>) -> Result<Duration, Flaw> {
    let field = field.ok_or(Flaw::Missing(Use::Duration))?;
    let text = || duration(std::str::from_utf8(field).ok()?).ok();
    let read = seconds(field).map(Duration::from_nanos).or_else(text);
    read.ok_or(Flaw::Not(Use::Duration))
}

impl From<RecordedDurations> for Distribution {
    /// The distribution of the durations: each of them with the same probability.
    fn from(recorded: RecordedDurations) -> Self {
        Self::empirical(recorded.durations)
    }
}
