//! Quotas and limiters in text form.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use ::serde::de::{self, Deserialize, Deserializer, Visitor};
use ::serde::ser::{Serialize, Serializer};

use super::config::{KeyedLimiterConfig, LimiterConfig};
use crate::limiter::LimiterState;
use crate::quota::{Quota, Quotas};

macro_rules! as_text {
    ($($type:ty: $expected:literal,)*) => {$(
        impl Serialize for $type {
            /// Serializes as the text form.
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            /// Deserializes from the text form.
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(TextForm::new($expected))
            }
        }
    )*};
}

as_text! {
    Quota: "a quota such as \"100/s burst 20\"",
    Quotas: "quotas such as \"10/s burst 5; 1000/day\"",
    LimiterConfig: "a limiter such as \"token 100/s burst 20\"",
    LimiterState: "the state of a limiter, as it was exported",
    KeyedLimiterConfig: "a keyed limiter such as \"keyed token 10/s burst 20\"",
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

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for TextForm<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}
