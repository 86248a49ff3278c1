//! Draws lines over the previous ones.
//!
//! Each line is overwritten and then cleared to its end, in one write, so that nothing flickers. The cursor rests below the
//! last line. An echo there (`^C`) is cleared with the next drawing.

use std::fmt::Write;

use console::{Term, measure_text_width};

/// The part of a terminal that is drawn on.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Term,
    /// Widths of the visible lines.
    drawn: Vec<usize>,
}

impl Screen {
    pub(super) fn new(terminal: Term) -> Screen {
        Screen {
            terminal,
            drawn: Vec::new(),
        }
    }

    /// Returns the maximum width of a line. The last column stays free, because some terminals wrap there.
    pub(super) fn width(&self) -> usize {
        usize::from(self.terminal.size().1).saturating_sub(1)
    }

    /// Shows these lines, as many as fit, in place of the previous ones.
    pub(super) fn show(&mut self, lines: &[String]) {
        let (height, columns) = self.terminal.size();
        let room = usize::from(height).saturating_sub(1).max(1);
        let lines = &lines[..lines.len().min(room)];
        let up = rows(&self.drawn, usize::from(columns)).min(room);
        self.drawn = lines.iter().map(|line| measure_text_width(line)).collect();
        // An error here has no remedy.
        let _ = self.terminal.write_str(&frame(up, lines));
    }
}

/// Returns the number of rows of these lines, even if the terminal has become narrower.
fn rows(widths: &[usize], columns: usize) -> usize {
    let rows = |&width: &usize| width.div_ceil(columns.max(1)).max(1);
    widths.iter().map(rows).sum()
}

/// Returns the text that draws these lines, starting `up` rows above.
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
