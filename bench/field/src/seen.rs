//! What an experiment showed.

/// What was seen, and how it is to be taken.
pub struct Seen {
    /// In a few words, with the numbers.
    pub what: String,
    /// Whether it is as it should be.
    pub right: bool,
}

impl Seen {
    /// So much was seen.
    pub fn new(right: bool, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            right,
        }
    }
}
