//! Errors in texts, which say what to write instead.

use std::error::Error;
use std::fmt;

/// An error in a text of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    text: String,
    reason: String,
}

impl TextError {
    pub(crate) fn new(text: &str, reason: impl Into<String>) -> Self {
        Self {
            text: text.to_owned(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': {}", self.text, self.reason)
    }
}

impl Error for TextError {}
