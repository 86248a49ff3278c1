//! Walks through a text, and points into it.

use super::Reason;
use super::excerpt::Span;

/// The reason why a text is refused, and the word that is wrong.
pub(super) struct Fault {
    pub(super) reason: Reason,
    pub(super) word: Span,
}

impl Span {
    pub(super) fn to(self, last: Self) -> Self {
        Self {
            start: self.start,
            end: last.end,
        }
    }

    pub(super) fn fault(self, reason: Reason) -> Fault {
        Fault { reason, word: self }
    }
}

/// A place in a text.
pub(super) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn str(&self, span: Span) -> &'a str {
        &self.text[span.start..span.end]
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn all(&self) -> Span {
        Span {
            start: 0,
            end: self.text.len(),
        }
    }

    pub(super) fn here(&self) -> Span {
        Span {
            start: self.at,
            end: self.at,
        }
    }

    pub(super) fn skip_space(&mut self) {
        self.take_while(char::is_whitespace);
    }

    pub(super) fn take_while(&mut self, accept: impl Fn(char) -> bool) -> Span {
        let rest = self.rest();
        let start = self.at;
        self.at += rest.find(|c| !accept(c)).unwrap_or(rest.len());
        Span {
            start,
            end: self.at,
        }
    }

    /// Takes one character, if there is one.
    pub(super) fn character(&mut self) -> Span {
        let start = self.at;
        self.at += self.peek().map_or(0, char::len_utf8);
        Span {
            start,
            end: self.at,
        }
    }

    /// The word that begins here, up to a space or a "/"; it is not taken.
    pub(super) fn look(&self) -> Span {
        let rest = self.rest();
        let len = rest
            .find(|c: char| c.is_whitespace() || c == '/')
            .unwrap_or(rest.len());
        Span {
            start: self.at,
            end: self.at + len,
        }
    }

    /// Whether an exponent follows, as in `1e9`.
    pub(super) fn is_exponent(&self) -> bool {
        self.rest().strip_prefix(['e', 'E']).is_some_and(|after| {
            after.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
        })
    }
}
