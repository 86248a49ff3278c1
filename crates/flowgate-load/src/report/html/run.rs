//! A run on the page: its name, and the look of its lines.

use std::fmt;

use crate::report::Report;
use crate::report::html::escape::Escaped;

/// Maximum length of a name. A whole URL would displace everything else.
const NAME: usize = 60;

/// A report with its name.
pub(super) struct Run<'a> {
    pub(super) name: String,
    pub(super) report: &'a Report,
    pub(super) look: Look,
}

impl<'a> Run<'a> {
    pub(super) fn new(index: usize, label: &str, report: &'a Report) -> Run<'a> {
        let number = format!("run {}", index + 1);
        let label = if label.trim().is_empty() {
            &number
        } else {
            label.trim()
        };
        let mut name: String = label.chars().take(NAME).collect();
        if label.chars().count() > NAME {
            name.push('…');
        }
        Run {
            name,
            report,
            look: Look::of(index),
        }
    }
}

/// A color and a dash. The first eight looks differ in both, so lines differ without colors too. The first 64 pairs are
/// unique.
#[derive(Clone, Copy)]
pub(super) struct Look {
    colour: usize,
    dash: usize,
}

/// Number of colors, and of dashes, in the style sheet.
const LOOKS: usize = 8;

impl Look {
    pub(super) const GREY: Look = Look { colour: 7, dash: 0 };
    pub(super) const BLUE: Look = Look { colour: 0, dash: 0 };
    pub(super) const RED: Look = Look { colour: 1, dash: 3 };
    pub(super) const GREEN: Look = Look { colour: 2, dash: 1 };
    pub(super) const OCHRE: Look = Look { colour: 4, dash: 2 };
    pub(super) const VIOLET: Look = Look { colour: 3, dash: 2 };

    /// Returns the same color without gaps.
    pub(super) const fn solid(self) -> Look {
        Look { dash: 0, ..self }
    }

    pub(super) fn of(index: usize) -> Look {
        Look {
            colour: index % LOOKS,
            dash: (index + index / LOOKS) % LOOKS,
        }
    }
}

/// Writes its classes.
impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{} d{}", self.colour, self.dash)
    }
}

/// A legend entry: a short piece of a line, and its meaning.
pub(super) struct Key<'a> {
    pub(super) look: Look,
    pub(super) text: &'a str,
    /// Whether the entry is for an area.
    pub(super) is_area: bool,
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let look = self.look;
        f.write_str(
            "<span class=\"key\"><svg class=\"swatch\" viewBox=\"0 0 34 12\" aria-hidden=\"true\">",
        )?;
        match self.is_area {
            true => write!(
                f,
                "<path class=\"area {look}\" d=\"M1 2H33V11H1Z\"/><path class=\"edge {look}\" d=\"M1 2H33\"/>"
            )?,
            false => write!(f, "<path class=\"line {look}\" d=\"M1 6H33\"/>")?,
        }
        write!(f, "</svg>{}</span>", Escaped(self.text))
    }
}
