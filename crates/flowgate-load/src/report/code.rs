//! Names of failures for programs: `connection-refused`, `timed-out`.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use crate::failure::Failure;

impl Failure {
    /// Returns its name for programs: the words of its text, joined.
    pub(crate) fn code(self) -> String {
        let text = self.to_string();
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        words.join("-").to_lowercase()
    }
}

impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.code())
    }
}

impl<'de> Deserialize<'de> for Failure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Failure, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = Failure::ALL
            .into_iter()
            .find(|failure| failure.code() == name);
        known.ok_or_else(|| D::Error::custom(format!("{name:?} is not a kind of failure")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_code_of_its_own() {
        let mut codes: Vec<_> = Failure::ALL.into_iter().map(Failure::code).collect();
        codes.sort();
        codes.dedup();
        assert_eq!(codes.len(), Failure::ALL.len());
        assert_eq!(Failure::Refused.code(), "connection-refused");
        assert_eq!(Failure::NotHttp.code(), "answer-is-not-http-1.1");
    }
}
