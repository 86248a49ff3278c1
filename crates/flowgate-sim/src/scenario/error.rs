use std::error::Error;
use std::fmt;

use crate::error::TextError;

/// An error in a scenario: one line that says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    message: String,
}

impl ScenarioError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    /// The error, with the part of the scenario in which it is.
    pub(crate) fn of(self, part: &str) -> Self {
        Self::new(format!("{part}: {}", self.message))
    }
}

impl From<TextError> for ScenarioError {
    fn from(error: TextError) -> Self {
        Self::new(error.to_string())
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ScenarioError {}
