//! Lines that are drawn over those before them.
//!
//! Each is overwritten and then cleared to its end, in one write, so that nothing flickers. The cursor rests below the
//! last, at the beginning of a line: what the terminal echoes there (`^C`) is cleared with the next.

use std::fmt::Write;

use console::{Term, measure_text_width};

/// The part of a terminal that is drawn on.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Term,
    /// The widths of the lines that are there.
    drawn: Vec<usize>,
}

impl Screen {
    pub(super) fn new(terminal: Term) -> Screen {
        Screen {
            terminal,
            drawn: Vec::new(),
        }
    }

    /// How wide a line may be. The last column stays free: some terminals go to the next line there.
    pub(super) fn width(&self) -> usize {
        usize::from(self.terminal.size().1).saturating_sub(1)
    }

    /// Shows these lines, or as many of them as there is room for, in place of those before.
    pub(super) fn show(&mut self, lines: &[String]) {
        let (height, columns) = self.terminal.size();
        let room = usize::from(height).saturating_sub(1).max(1);
        let lines = &lines[..lines.len().min(room)];
        let up = rows(&self.drawn, usize::from(columns)).min(room);
        self.drawn = lines.iter().map(|line| measure_text_width(line)).collect();
        // Nobody is helped by an error here.
        let _ = self.terminal.write_str(&frame(up, lines));
    }
}

/// How many rows lines of these widths take, also on a terminal that has become narrower since.
fn rows(widths: &[usize], columns: usize) -> usize {
    let rows = |&width: &usize| width.div_ceil(columns.max(1)).max(1);
    widths.iter().map(rows).sum()
}

/// What to write to draw these lines so many rows up.
fn frame(up: usize, lines: &[String]) -> String {
    let mut frame = String::from("\r");
    if up > 0 {
        // Writing to a string cannot fail.
        let _ = write!(frame, "\x1b[{up}A");
    }
    for line in lines {
        let _ = write!(frame, "{line}\x1b[K\r\n");
    }
    frame + "\x1b[J"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_over_those_before() {
        let lines = ["one".to_owned(), "two".to_owned()];
        assert_eq!(frame(0, &lines), "\rone\x1b[K\r\ntwo\x1b[K\r\n\x1b[J");
        assert_eq!(frame(2, &lines[..1]), "\r\x1b[2Aone\x1b[K\r\n\x1b[J");
        assert_eq!(frame(1, &[]), "\r\x1b[1A\x1b[J");
    }

    #[test]
    fn a_terminal_that_became_narrower_has_broken_the_lines() {
        assert_eq!(rows(&[79, 10, 0], 80), 3);
        assert_eq!(rows(&[79, 10, 0], 40), 4);
        assert_eq!(rows(&[79], 0), 79);
        assert_eq!(rows(&[], 80), 0);
    }
}
