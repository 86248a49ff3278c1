//! A quota in its text form.

use core::fmt;

use ::serde::de::{self, Deserialize, Deserializer, Visitor};
use ::serde::ser::{Serialize, Serializer};

use super::Quota;

impl Serialize for Quota {
    /// As its text form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quota {
    /// From its text form.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextForm)
    }
}

struct TextForm;

impl Visitor<'_> for TextForm {
    type Value = Quota;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quota such as \"100/s burst 20\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quota, E> {
        text.parse().map_err(E::custom)
    }
}
