//! Parts of a text, and the one that an error quotes.

use core::fmt;

/// The bytes of a text that an error keeps: more than any sensible quota has.
const KEPT: usize = 48;

/// A part of the text, in bytes; both ends fall between characters.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The text that was refused and the word in it, or the word alone where the text is long. A fixed
/// size, because an error must be `Copy` and because the text may come from anyone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Excerpt {
    bytes: [u8; KEPT],
    len: u8,
    /// The word is `bytes[start..end]`.
    start: u8,
    end: u8,
    /// Whether `bytes` is the whole text, and not the word alone.
    whole: bool,
    /// Where the word begins in the text, in characters from 1.
    character: u32,
}

impl Excerpt {
    pub(super) fn new(text: &str, word: Span) -> Self {
        let whole = text.len() <= KEPT;
        let (kept, start, end) = if whole {
            (text, word.start, word.end)
        } else {
            let kept = cut(&text[word.start..word.end]);
            (kept, 0, kept.len())
        };
        let mut bytes = [0; KEPT];
        bytes[..kept.len()].copy_from_slice(kept.as_bytes());
        let character = text[..word.start].chars().count() + 1;
        Self {
            bytes,
            len: kept.len() as u8,
            start: start as u8,
            end: end as u8,
            whole,
            character: u32::try_from(character).unwrap_or(u32::MAX),
        }
    }

    fn text(&self) -> &str {
        // Copied from a `str` and cut at a character: always valid.
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or("")
    }

    pub(super) fn word(&self) -> &str {
        &self.text()[usize::from(self.start)..usize::from(self.end)]
    }

    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, word) = (self.text(), self.word());
        if self.whole {
            write!(f, " {text:?}")?;
            if word == text {
                return Ok(());
            }
            f.write_str(":")?;
        }
        if word.is_empty() {
            f.write_str(" at the end")
        } else {
            write!(f, " at {word:?} (character {})", self.character)
        }
    }
}

/// As much of `text` as is kept, cut between characters.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(KEPT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
