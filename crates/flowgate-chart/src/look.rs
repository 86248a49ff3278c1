//! How a line looks, and the key that explains it.

use std::fmt;

use crate::escape::Escaped;

/// A color and a dash pattern.
///
/// Each of the first eight has a color and a dash pattern of its own, so lines differ without colors, too. Each of the first 64
/// pairs is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    color: usize,
    dash: usize,
}

/// The number of colors, and of dash patterns, in the style.
const LOOKS: usize = 8;

impl Look {
    /// Gray, solid: for references.
    pub const GRAY: Look = Look { color: 7, dash: 0 };
    /// Blue, solid: for the main line.
    pub const BLUE: Look = Look { color: 0, dash: 0 };
    /// Red, dash and dot: for failures.
    pub const RED: Look = Look { color: 1, dash: 3 };
    /// Green, dashed.
    pub const GREEN: Look = Look { color: 2, dash: 1 };
    /// Ocher, dotted.
    pub const OCHER: Look = Look { color: 4, dash: 2 };
    /// Violet, dotted.
    pub const VIOLET: Look = Look { color: 3, dash: 2 };

    /// Returns the same color without a dash pattern.
    pub const fn solid(self) -> Look {
        Look { dash: 0, ..self }
    }

    /// Returns text with the escape sequences of the closest color of a terminal.
    pub fn in_terminal(self, text: &str) -> String {
        const COLORS: [u8; LOOKS] = [94, 91, 36, 95, 33, 35, 32, 90];
        format!("\x1b[{}m{text}\x1b[0m", COLORS[self.color])
    }

    /// Returns the look of the line number `index`, counted from 0.
    pub fn of(index: usize) -> Look {
        Look {
            color: index % LOOKS,
            dash: (index + index / LOOKS) % LOOKS,
        }
    }
}

/// The CSS classes.
impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{} d{}", self.color, self.dash)
    }
}

/// An entry of a legend, as HTML: a piece of a line, and its name.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    look: Look,
    text: &'a str,
    is_area: bool,
}

impl<'a> Key<'a> {
    /// Creates the entry of a line.
    pub fn line(look: Look, text: &'a str) -> Key<'a> {
        Key {
            look,
            text,
            is_area: false,
        }
    }

    /// Creates the entry of an area.
    pub fn area(look: Look, text: &'a str) -> Key<'a> {
        Key {
            look,
            text,
            is_area: true,
        }
    }
}

/// Returns the entries of several lines, as HTML.
pub fn keys<'a>(lines: impl Iterator<Item = (Look, &'a str)>) -> String {
    let keys = lines.map(|(look, text)| Key::line(look, text).to_string());
    keys.collect::<Vec<_>>().join(" ")
}

/// The drawing of a line or an area in a legend, 34 by 12 pixels.
pub(crate) struct Swatch {
    pub(crate) look: Look,
    pub(crate) is_area: bool,
}

impl fmt::Display for Swatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let look = self.look;
        match self.is_area {
            true => write!(
                f,
                "<path class=\"area {look}\" d=\"M1 2H33V11H1Z\"/><path class=\"edge {look}\" d=\"M1 2H33\"/>"
            ),
            false => write!(f, "<path class=\"line {look}\" d=\"M1 6H33\"/>"),
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let swatch = Swatch {
            look: self.look,
            is_area: self.is_area,
        };
        write!(
            f,
            "<span class=\"key\"><svg class=\"swatch\" viewBox=\"0 0 34 12\" aria-hidden=\"true\">{swatch}</svg>{}</span>",
            Escaped(self.text)
        )
    }
}
