//! Cells of a CSV.

use std::array;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::log::error::{Flaw, LogError};
use crate::log::fields::{Extract, Use, Wanted};
use crate::log::lines::{MAX_LINE, content};
use crate::log::moment::MomentReader;
use crate::text::duration;

/// The most columns that a line may have.
const MAX_COLUMNS: usize = 1_024;

/// Takes lines apart into cells.
#[derive(Debug)]
struct Cells {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl Cells {
    fn new(delimiter: u8) -> Self {
        Self {
            reader: ReaderBuilder::new().delimiter(delimiter).build(),
            text: vec![0; MAX_LINE],
            ends: vec![0; MAX_COLUMNS],
            count: 0,
        }
    }

    fn read(&mut self, line: &[u8]) -> Result<(), Flaw> {
        self.reader.reset();
        let (_, _, written, ended) = self
            .reader
            .read_record(line, &mut self.text, &mut self.ends);
        // Nothing more to come: the line ends here.
        let (text, ends) = (&mut self.text[written..], &mut self.ends[ended..]);
        let (result, _, _, last) = self.reader.read_record(b"", text, ends);
        self.count = ended + last;
        match result {
            ReadRecordResult::Record | ReadRecordResult::End => Ok(()),
            _ => Err(Flaw::TooManyColumns),
        }
    }

    fn cell(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.count].get(index)?;
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(self.text[begin..end].trim_ascii())
    }
}

/// The first line of a CSV.
pub(crate) struct Table {
    delimiter: u8,
    pub(crate) cells: Vec<String>,
}

impl Table {
    /// Separated by what it has most of: commas, semicolons or tabs.
    pub(crate) fn new(first: &[u8]) -> Self {
        let count = |delimiter: &u8| memchr::memchr_iter(*delimiter, first).count();
        let delimiter = b"\t;,".iter().copied().max_by_key(count).unwrap_or(b',');
        let mut cells = Cells::new(delimiter);
        let count = cells.read(first).map_or(0, |()| cells.count);
        let text = |index| String::from_utf8_lossy(cells.cell(index).unwrap_or_default()).into();
        Self {
            delimiter,
            cells: (0..count).map(text).collect(),
        }
    }

    /// Whether it has the names of columns: no cell of it is a time or a duration.
    fn has_names(&self) -> bool {
        let mut moments = MomentReader::default();
        let is_value =
            |cell: &String| moments.read(cell.as_bytes()).is_some() || duration(cell).is_ok();
        !self.cells.iter().any(is_value)
    }

    /// The column with this name, or of this number, counted from 1.
    fn column(&self, name: &str) -> Option<usize> {
        let number = || {
            name.parse::<usize>()
                .ok()?
                .checked_sub(1)
                .filter(|index| *index < self.cells.len())
        };
        let mut cells = self.cells.iter();
        match self.has_names() {
            true => cells
                .position(|cell| cell.eq_ignore_ascii_case(name))
                .or_else(number),
            false => number(),
        }
    }
}

/// Takes cells out of lines.
#[derive(Debug)]
pub(crate) struct CsvFields<const N: usize> {
    cells: Cells,
    columns: [Option<usize>; N],
    names: [Option<String>; N],
    has_header: bool,
}

impl<const N: usize> CsvFields<N> {
    pub(crate) fn new(wanted: &[Wanted<'_>; N], head: &[u8]) -> Result<Self, LogError> {
        let mut lines = head.split(|byte| *byte == b'\n').filter_map(content);
        let table = Table::new(lines.next().unwrap_or_default());
        let has_header = table.has_names();
        // Columns without names are time, key and cost, unless any of them is given.
        let is_default = wanted.iter().all(|wanted| wanted.name.is_none());
        let mut columns = [None; N];
        for (column, wanted) in columns.iter_mut().zip(wanted) {
            *column = wanted
                .names()
                .into_iter()
                .find_map(|name| table.column(name));
            // A single column needs no name.
            if wanted.name.is_none() && (!has_header || table.cells.len() == 1) {
                let place = match wanted.what {
                    Use::Time | Use::Duration => Some(0),
                    Use::Key => is_default.then_some(1),
                    Use::Cost => is_default.then_some(2),
                };
                *column = place.filter(|place| *place < table.cells.len());
            }
            if column.is_none() && (wanted.name.is_some() || wanted.what.is_required()) {
                let numbers = (1..=table.cells.len()).map(|number| number.to_string());
                return Err(LogError::UnknownField {
                    field: wanted.name.unwrap_or(wanted.what.name()).to_owned(),
                    known: match has_header {
                        true => table.cells.clone(),
                        false => numbers.collect(),
                    },
                });
            }
        }
        let name = |column: usize| match has_header {
            true => table.cells[column].clone(),
            false => (column + 1).to_string(),
        };
        Ok(Self {
            cells: Cells::new(table.delimiter),
            columns,
            names: columns.map(|column| column.map(name)),
            has_header,
        })
    }
}

impl<const N: usize> Extract<N> for CsvFields<N> {
    fn extract<'a>(&'a mut self, line: &'a [u8]) -> Result<[Option<&'a [u8]>; N], Flaw> {
        self.cells.read(line)?;
        Ok(array::from_fn(|index| {
            self.cells.cell(self.columns[index]?)
        }))
    }

    fn name(&self, index: usize) -> Option<String> {
        self.names[index].clone()
    }

    fn has_header(&self) -> bool {
        self.has_header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(line: &str) -> Vec<String> {
        Table::new(line.as_bytes()).cells
    }

    #[test]
    fn lines_are_taken_apart_into_cells() {
        assert_eq!(cells("a, b ,c"), ["a", "b", "c"]);
        assert_eq!(cells("a;b;1,5"), ["a", "b", "1,5"]);
        assert_eq!(cells("a\t\tc"), ["a", "", "c"]);
        assert_eq!(cells(r#""a ""x"", y",b"#), [r#"a "x", y"#, "b"]);
        assert_eq!(cells(r#""a,b"#), ["a,b"]);
        assert_eq!(cells("5"), ["5"]);
        assert_eq!(cells(&",".repeat(MAX_COLUMNS)), [""; 0]);
        assert_eq!(cells(&",".repeat(MAX_COLUMNS - 1)).len(), MAX_COLUMNS);
    }

    #[test]
    fn a_first_line_without_times_and_durations_is_a_header() {
        for (line, is_header) in [
            ("time,key", true),
            ("when", true),
            ("5,a", false),
            ("a,12ms", false),
            ("a,2026-11-23", false),
        ] {
            assert_eq!(Table::new(line.as_bytes()).has_names(), is_header, "{line}");
        }
    }
}
