//! A quota, or several, in text form.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use ::serde::de::{self, Deserialize, Deserializer, Visitor};
use ::serde::ser::{Serialize, Serializer};

use super::{Quota, QuotaError, Quotas};

impl Serialize for Quota {
    /// As its text form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quota {
    /// From its text form.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextForm::new("a quota such as \"100/s burst 20\""))
    }
}

impl Serialize for Quotas {
    /// As their text form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quotas {
    /// From their text form.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextForm::new("quotas such as \"10/s burst 5; 1000/day\""))
    }
}

/// Reads a `T` from text.
struct TextForm<T> {
    expected: &'static str,
    form: PhantomData<T>,
}

impl<T> TextForm<T> {
    fn new(expected: &'static str) -> Self {
        Self {
            expected,
            form: PhantomData,
        }
    }
}

impl<T: FromStr<Err = QuotaError>> Visitor<'_> for TextForm<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}
