//! Values of variables: the rows of a CSV.

use std::collections::BTreeMap;

use csv_core::{ReadRecordResult, Reader};

use super::RequestFileError;

/// Maximum number of rows.
const MAX_ROWS: usize = 1_000_000;
/// Maximum number of columns.
const MAX_COLUMNS: usize = 1_024;

/// Values of variables: a CSV (RFC 4180) whose first line has the names.
///
/// # Examples
///
/// ```
/// use flowgate_load::Rows;
///
/// assert_eq!(Rows::parse("id,name\n7,\"Doe, Ann\"\n8,Bob\n")?.len(), 2);
/// let error = Rows::parse("id,name\n7\n").unwrap_err();
/// assert_eq!(error.to_string(), "line 2: 1 of 2 columns: write a value for name");
/// # Ok::<(), flowgate_load::RequestFileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rows {
    columns: BTreeMap<String, usize>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// Parses a CSV.
    ///
    /// # Errors
    ///
    /// Returns an error if a name is missing or occurs twice, if a row has more or fewer values than the first line, if
    /// there is no row, or if there are more than 1,000,000.
    pub fn parse(text: &str) -> Result<Rows, RequestFileError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = Reader::new();
        let mut input = text.as_bytes();
        let mut cells = vec![0; text.len() + 1];
        let mut ends = vec![0; MAX_COLUMNS];
        let mut names: Vec<String> = Vec::new();
        let mut rows = Vec::new();
        let mut line = 1;
        loop {
            let before = input;

            let (mut written, mut ended) = (0, 0);
            let is_over = loop {
                let (result, read, wrote, found) =
                    reader.read_record(input, &mut cells[written..], &mut ends[ended..]);
                input = &input[read..];
                written += wrote;
                ended += found;
                match result {
                    ReadRecordResult::InputEmpty | ReadRecordResult::OutputFull => {}
                    ReadRecordResult::OutputEndsFull => {
                        return Err(RequestFileError::at(
                            line,
                            format!("more than {MAX_COLUMNS} columns: write fewer"),
                        ));
                    }
                    ReadRecordResult::Record => break false,
                    ReadRecordResult::End => break true,
                }
            };
            if is_over {
                break;
            }
            let consumed = &before[..before.len() - input.len()];
            let newlines = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count();
            let blank = consumed.iter().position(|byte| !b"\r\n".contains(byte));
            let number = line + newlines(&consumed[..blank.unwrap_or(0)]);
            line += newlines(consumed);
            let mut begin = 0;
            let mut row = Vec::with_capacity(ended);
            for &end in &ends[..ended] {
                // Cells of a text that is UTF-8 are UTF-8: quotes and commas are single bytes.
                row.push(String::from_utf8_lossy(&cells[begin..end]).into_owned());
                begin = end;
            }
            if names.is_empty() {
                names = row.into_iter().map(|name| name.trim().to_owned()).collect();
                continue;
            }
            if row.len() != names.len() {
                return Err(RequestFileError::at(number, width(&names, row.len())));
            }
            if rows.len() == MAX_ROWS {
                return Err(RequestFileError::whole(format!(
                    "more than {MAX_ROWS} rows: write fewer"
                )));
            }
            rows.push(row);
        }
        let mut columns = BTreeMap::new();
        for (index, name) in names.iter().enumerate() {
            if name.is_empty() {
                let message = format!("column {} has no name: write one", index + 1);
                return Err(RequestFileError::at(1, message));
            }
            if columns.insert(name.clone(), index).is_some() {
                let message = format!("two columns have the name {name:?}: write another");
                return Err(RequestFileError::at(1, message));
            }
        }
        match rows.is_empty() {
            true => Err(RequestFileError::whole(
                "contains no row: write a line of names, then a line of values",
            )),
            false => Ok(Rows { columns, rows }),
        }
    }

    /// Returns the number of rows, which is at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the value of a variable.
    pub(super) fn value(&self, row: usize, name: &str) -> Option<&str> {
        let column = *self.columns.get(name)?;
        Some(self.rows.get(row)?.get(column)?)
    }

    /// Returns the names, for a message.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self
            .columns
            .keys()
            .map(|name| format!("{{{{{name}}}}}"))
            .collect();
        names.join(", ")
    }
}

/// Explains that a row has another number of values than there are names.
fn width(names: &[String], values: usize) -> String {
    match names.get(values) {
        Some(missing) => format!(
            "{values} of {} columns: write a value for {missing}",
            names.len()
        ),
        None => format!(
            "{values} values, but {} columns: write quotes around a value that has a comma",
            names.len()
        ),
    }
}
