//! The formats of logs, and which one a log has.

use std::fmt;
use std::io::Read;
use std::str::FromStr;

use crate::error::TextError;
use crate::log::access;
use crate::log::csv::Table;
use crate::log::error::{LogError, shown};
use crate::log::fields::TIME_NAMES;
use crate::log::lines::{Lines, content};
use crate::log::moment::MomentReader;
use crate::text::serde_by_text;

/// How many lines are looked at before one of them must have the shape of a format.
const LOOKED_AT: usize = 100;

/// The format of a log.
///
/// | text | format |
/// |---|---|
/// | `access` | common or combined log format of Apache and nginx, with or without the virtual host in front |
/// | `json` | one JSON object on each line |
/// | `csv` | cells between commas, semicolons or tabs, with or without a header |
///
/// ```
/// use flowgate_sim::LogFormat;
///
/// let format: LogFormat = "json".parse()?;
/// assert_eq!(format, LogFormat::JsonLines);
/// # Ok::<(), flowgate_sim::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFormat {
    /// The common or the combined log format of Apache and nginx.
    Access,
    /// One JSON object on each line.
    JsonLines,
    /// Cells between commas, semicolons or tabs.
    Csv,
}

impl LogFormat {
    /// The format of the first line that has the shape of one. `time` is the name of the field with the time.
    pub(crate) fn detect(head: &[u8], time: Option<&str>) -> Result<Self, LogError> {
        let lines = head.split(|byte| *byte == b'\n').filter_map(content);
        let lines: Vec<&[u8]> = lines.take(LOOKED_AT).collect();
        let mut moments = MomentReader::default();
        let by_shape = lines.iter().find_map(|line| {
            if line.trim_ascii_start().starts_with(b"{") {
                return Some(Self::JsonLines);
            }
            let entry = access::parse(line).ok()?;
            moments.read(entry.time).map(|_| Self::Access)
        });
        let mut is_time = |cell: String| {
            let is_name = |name: &str| cell.eq_ignore_ascii_case(name);
            let has_name = match time {
                Some(name) => is_name(name),
                None => TIME_NAMES.into_iter().any(is_name),
            };
            has_name || moments.read(cell.as_bytes()).is_some()
        };
        // If the first line has names that are not usual, the second one has times.
        let mut first_cells = lines.iter().take(2).flat_map(|line| Table::new(line).cells);
        by_shape
            .or_else(|| first_cells.any(&mut is_time).then_some(Self::Csv))
            .ok_or_else(|| LogError::UnknownFormat {
                line: lines.first().map_or_else(String::new, |line| shown(line)),
            })
    }
}

/// The first lines of a file that is a text, and is not empty.
pub(crate) fn head_of_text<R: Read>(lines: &mut Lines<R>) -> Result<Vec<u8>, LogError> {
    const COMPRESSED: [(&[u8], &str, &str); 4] = [
        (b"\x1f\x8b", "gzip", "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat"),
        (b"\xfd7zXZ\0", "xz", "xzcat"),
        (b"BZh", "bzip2", "bzcat"),
    ];
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    if lines.head()?.starts_with(BYTE_ORDER_MARK) {
        lines.skip(BYTE_ORDER_MARK.len());
    }
    let head = lines.head()?.to_vec();
    let by_magic = COMPRESSED
        .iter()
        .find(|(magic, ..)| head.starts_with(magic));
    if let Some((_, with, unpack)) = by_magic {
        return Err(LogError::Compressed { with, unpack });
    }
    if memchr::memchr(0, &head).is_some() {
        return Err(LogError::NotText);
    }
    match head
        .split(|byte| *byte == b'\n')
        .any(|line| content(line).is_some())
    {
        true => Ok(head),
        false => Err(LogError::Empty),
    }
}

impl FromStr for LogFormat {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        match text {
            "access" | "common" | "combined" => Ok(Self::Access),
            "json" => Ok(Self::JsonLines),
            "csv" => Ok(Self::Csv),
            _ => Err(TextError::new(
                text,
                "a log is 'access' (common or combined), 'json' or 'csv'",
            )),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Access => "access",
            Self::JsonLines => "json",
            Self::Csv => "csv",
        })
    }
}

serde_by_text!(LogFormat);
