//! Bars over an axis, in characters.

use std::fmt::{self, Write};

use crate::axis::Axis;
use crate::look::Look;

/// Bars over an axis in characters, for a terminal. Each value has a column.
///
/// ```
/// use flowgate_chart::{Axis, Bars, Look, Unit};
///
/// let y = Axis::from_zero(Unit::Rate, [100.0]);
/// let bars = Bars::new(Axis::time(10.0), y, [50.0, 100.0, 25.0, 0.0], Look::BLUE).rows(2);
/// assert_eq!(bars.to_string().lines().count(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Bars {
    x: Axis,
    y: Axis,
    values: Vec<f64>,
    behind: Vec<f64>,
    look: Look,
    rows: usize,
    is_ascii: bool,
    has_color: bool,
}

/// The width of a label on the vertical axis.
const LABEL: usize = 6;
/// Parts of a row that a character can show.
pub(crate) const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What a cell has.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    /// A bar, in eighths of the cell's height.
    Bar(usize),
    Behind,
    Empty,
}

impl Bars {
    /// How many columns the axis takes before the first value.
    pub const MARGIN: usize = LABEL + 2;

    /// Creates bars with a height of 5 rows, without colors.
    pub fn new(x: Axis, y: Axis, values: impl IntoIterator<Item = f64>, look: Look) -> Bars {
        Bars {
            x,
            y,
            values: values.into_iter().collect(),
            behind: Vec::new(),
            look,
            rows: 5,
            is_ascii: false,
            has_color: false,
        }
    }

    /// Sets values that are shaded behind the bars.
    pub fn behind(mut self, values: impl IntoIterator<Item = f64>) -> Bars {
        self.behind = values.into_iter().collect();
        self
    }

    /// Sets the height in rows (default: 5).
    pub fn rows(mut self, rows: usize) -> Bars {
        self.rows = rows.max(1);
        self
    }

    /// Draws with ASCII characters only.
    pub fn ascii(mut self, is_ascii: bool) -> Bars {
        self.is_ascii = is_ascii;
        self
    }

    /// Writes escape sequences for colors.
    pub fn color(mut self, has_color: bool) -> Bars {
        self.has_color = has_color;
        self
    }

    /// Returns the characters of a bar and of the shade behind it.
    pub fn characters(is_ascii: bool) -> (char, char) {
        match is_ascii {
            true => ('#', '.'),
            false => ('█', '░'),
        }
    }

    fn columns(&self) -> usize {
        self.values.len().max(self.behind.len())
    }

    fn cell(&self, column: usize, row: usize) -> Cell {
        // Rounded up, so that every value is visible.
        let eighths = |values: &[f64]| {
            let value = values.get(column).copied().unwrap_or(0.0);
            let height = self.y.place(value) * (self.rows * 8) as f64;
            (height.ceil() as usize).saturating_sub(row * 8).min(8)
        };
        // Where a character cannot show a part, it is there from a half on.
        let is_seen = |eighths: usize| eighths >= 4 || eighths > 0 && row == 0;
        let (bar, behind) = (eighths(&self.values), eighths(&self.behind));
        match bar > 0 && (!self.is_ascii || is_seen(bar)) {
            true => Cell::Bar(bar),
            false if is_seen(behind) => Cell::Behind,
            false => Cell::Empty,
        }
    }

    fn character(&self, cell: Cell) -> char {
        let (bar, behind) = Bars::characters(self.is_ascii);
        match cell {
            Cell::Empty => ' ',
            Cell::Behind => behind,
            Cell::Bar(_) if self.is_ascii => bar,
            Cell::Bar(eighths) => EIGHTHS[eighths - 1],
        }
    }

    fn row(&self, row: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells: Vec<Cell> = (0..self.columns())
            .map(|column| self.cell(column, row))
            .collect();
        let last = cells.iter().rposition(|cell| *cell != Cell::Empty);
        let cells = &cells[..last.map_or(0, |last| last + 1)];
        let kind = |cell: &Cell| std::mem::discriminant(cell);
        for group in cells.chunk_by(|one, other| kind(one) == kind(other)) {
            let text = group.iter().map(|cell| self.character(*cell));
            let text: String = text.collect();
            match group[0] {
                Cell::Bar(_) if self.has_color => f.write_str(&self.look.in_terminal(&text))?,
                Cell::Behind if self.has_color => f.write_str(&Look::GRAY.in_terminal(&text))?,
                _ => f.write_str(&text)?,
            }
        }
        f.write_char('\n')
    }

    /// The labels of rows, from the bottom, with an empty row between two.
    fn labels(&self) -> Vec<&str> {
        let mut labels = vec![""; self.rows];
        let mut free = self.rows;
        for tick in self.y.ticks.iter().rev() {
            let top = (self.y.place(tick.at) * self.rows as f64).ceil() as usize;
            if (1..=free).contains(&top) {
                labels[top - 1] = &tick.label;
                free = top.saturating_sub(2);
            }
        }
        labels
    }

    /// The horizontal axis, and its labels.
    fn base(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        let (corner, line, mark) = match self.is_ascii {
            true => ('+', '-', '+'),
            false => ('└', '─', '┬'),
        };
        let mut axis = vec![line; columns];
        let mut labels: Vec<char> = Vec::new();
        for tick in &self.x.ticks {
            let column = (self.x.place(tick.at) * columns as f64).round() as usize;
            let half = tick.label.chars().count() / 2;
            let start = (Bars::MARGIN + column).saturating_sub(half);
            let is_free = labels.is_empty() || start >= labels.len() + 2;
            let end = start + tick.label.chars().count();
            if column < columns && is_free && end <= Bars::MARGIN + columns {
                axis[column] = mark;
                labels.resize(start, ' ');
                labels.extend(tick.label.chars());
            }
        }
        let axis: String = axis.into_iter().collect();
        let labels: String = labels.into_iter().collect();
        writeln!(f, "{:>LABEL$} {corner}{axis}\n{labels}", "0")
    }
}

/// The rows, the axis and its labels, with a line end after each.
impl fmt::Display for Bars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.labels();
        for row in (0..self.rows).rev() {
            let label = labels[row];
            let line = match (self.is_ascii, label) {
                (true, _) => '|',
                (false, "") => '│',
                (false, _) => '┤',
            };
            write!(f, "{label:>LABEL$} {line}")?;
            self.row(row, f)?;
        }
        self.base(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Unit;

    fn bars() -> Bars {
        let y = Axis::from_zero(Unit::Rate, [92.0]);
        let values = (0..40).map(|column| f64::from(column % 10) * 10.0);
        Bars::new(Axis::time(20.0), y, values, Look::BLUE)
            .behind((0..40).map(|_| 60.0))
            .rows(4)
    }

    #[test]
    fn bars_stand_before_what_is_behind_them() {
        let expected = "
    80 ┤        ▂▅        ▂▅        ▂▅        ▂▅
       │░░░░░▁▄▇██░░░░░▁▄▇██░░░░░▁▄▇██░░░░░▁▄▇██
    40 ┤░░░▂▅█████░░░▂▅█████░░░▂▅█████░░░▂▅█████
       │░▄▇███████░▄▇███████░▄▇███████░▄▇███████
     0 └┬─────────┬─────────┬─────────┬─────────
        0        5 s      10 s      15 s
";
        assert_eq!(format!("\n{}", bars()), expected);
    }

    #[test]
    fn ascii_is_ascii() {
        let expected = "
    80 |         #         #         #         #
       |......####......####......####......####
    40 |....######....######....######....######
       |.#########.#########.#########.#########
     0 ++---------+---------+---------+---------
        0        5 s      10 s      15 s
";
        let text = bars().ascii(true).to_string();
        assert!(text.is_ascii());
        assert_eq!(format!("\n{text}"), expected);
    }

    #[test]
    fn colors_change_no_character() {
        let mut plain = bars().color(true).to_string();
        assert!(plain.contains("\u{1b}[94m"));
        for escape in ["\u{1b}[94m", "\u{1b}[90m", "\u{1b}[0m"] {
            plain = plain.replace(escape, "");
        }
        assert_eq!(plain, bars().to_string());
    }

    #[test]
    fn nothing_is_an_axis() {
        let y = || Axis::from_zero(Unit::Rate, []);
        let empty = Bars::new(Axis::time(0.0), y(), [], Look::BLUE).to_string();
        assert_eq!(empty.lines().count(), 7, "{empty}");
        let zero = Bars::new(Axis::time(1.0), y(), [0.0; 30], Look::BLUE).to_string();
        assert!(!zero.contains(EIGHTHS), "{zero}");
    }
}
