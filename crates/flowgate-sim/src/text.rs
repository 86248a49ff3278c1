//! Numbers and durations in texts of scenarios.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use crate::error::TextError;

/// A duration such as `10ms`, `1.5s`, `1m30s` or `0s`.
pub(crate) fn duration(text: &str) -> Result<Duration, TextError> {
    let wrong = || TextError::new(text, "not a duration; write '10ms', '2s' or '1m30s'");
    let text = text.trim();
    // One number with a unit may have a fraction.
    let units = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - units.len()];
    if !number.contains('.') {
        return humantime::parse_duration(text).map_err(|_| wrong());
    }
    let unit = humantime::parse_duration(&format!("1{units}")).map_err(|_| wrong())?;
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit.as_secs_f64()).map_err(|_| wrong())
}

/// A duration as [`duration`] reads it.
pub(crate) fn in_words(duration: Duration) -> String {
    humantime::format_duration(duration)
        .to_string()
        .replace(' ', "")
}

/// A number within a range.
pub(crate) fn number(text: &str, range: RangeInclusive<f64>) -> Result<f64, TextError> {
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(TextError::new(
            text,
            format!(
                "not a number from {} to {}, such as '1'",
                range.start(),
                range.end()
            ),
        )),
    }
}

/// Serializes a type as the text of its `Display`, and deserializes it by its `FromStr`.
macro_rules! serde_by_text {
    ($type:ty) => {
        impl ::serde::Serialize for $type {
            /// Serializes as the text form.
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            /// Deserializes from the text form.
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <String as ::serde::Deserialize>::deserialize(from)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_by_text;

/// Durations as texts in files.
pub(crate) mod as_text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::{duration, in_words};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&in_words(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        duration(&String::deserialize(from)?).map_err(de::Error::custom)
    }

    pub(crate) mod option {
        use std::time::Duration;

        use serde::{Deserializer, Serializer};

        pub(crate) fn serialize<S: Serializer>(
            duration: &Option<Duration>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match duration {
                Some(duration) => super::serialize(duration, to),
                None => to.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Duration>, D::Error> {
            super::deserialize(from).map(Some)
        }
    }
}

/// Reads a number that is 1 or more.
pub(crate) fn at_least_one<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    match u32::deserialize(from)? {
        0 => Err(de::Error::custom("0 is too few; write 1 or more")),
        number => Ok(number),
    }
}

/// Reads a factor that is 1 or more.
pub(crate) fn at_least_one_times<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    within(from, 1.0..=100.0)
}

/// Reads a number from 0 to 1.
pub(crate) fn from_0_to_1<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    within(from, 0.0..=1.0)
}

fn within<'de, D: Deserializer<'de>>(from: D, range: RangeInclusive<f64>) -> Result<f64, D::Error> {
    let number = f64::deserialize(from)?;
    match range.contains(&number) {
        true => Ok(number),
        false => {
            let (start, end) = range.into_inner();
            Err(de::Error::custom(format!(
                "{number}: write a number from {start} to {end}"
            )))
        }
    }
}
