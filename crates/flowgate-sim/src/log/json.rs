//! Fields of JSON lines, as they are written there.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::log::error::{Flaw, LogError};
use crate::log::fields::{Extract, Wanted};
use crate::log::lines::content;

/// How many lines are looked at for the names of fields.
const LOOKED_AT: usize = 100;

/// Takes fields out of JSON objects. A point in a name leads into an object, unless a field has the whole name.
#[derive(Debug)]
pub(crate) struct JsonFields<const N: usize> {
    names: [Option<String>; N],
    /// Strings that had to be unescaped.
    unescaped: [String; N],
}

impl<const N: usize> JsonFields<N> {
    pub(crate) fn new(wanted: &[Wanted<'_>; N], head: &[u8]) -> Result<Self, LogError> {
        let lines = head.split(|byte| *byte == b'\n').filter_map(content);
        let lines: Vec<&[u8]> = lines.take(LOOKED_AT).collect();
        let is_there = |name: &str| {
            let mut found = lines.iter().filter_map(|line| look_up(line, [Some(name)]));
            found.any(|[field]| field.is_some())
        };
        let mut names = [const { None }; N];
        for (name, wanted) in names.iter_mut().zip(wanted) {
            *name = wanted
                .names()
                .into_iter()
                .find(|name| is_there(name))
                .map(str::to_owned);
            if name.is_none() && (wanted.name.is_some() || wanted.what.is_required()) {
                return Err(LogError::UnknownField {
                    field: wanted.name.unwrap_or(wanted.what.name()).to_owned(),
                    known: lines
                        .iter()
                        .find_map(|line| names_in(line))
                        .unwrap_or_default(),
                });
            }
        }
        Ok(Self {
            names,
            unescaped: [const { String::new() }; N],
        })
    }
}

/// The names of an object's fields.
fn names_in(line: &[u8]) -> Option<Vec<String>> {
    let object: BTreeMap<String, IgnoredAny> = serde_json::from_slice(line).ok()?;
    Some(object.into_keys().collect())
}

impl<const N: usize> Extract<N> for JsonFields<N> {
    fn extract<'a>(&'a mut self, line: &'a [u8]) -> Result<[Option<&'a [u8]>; N], Flaw> {
        let names = self.names.each_ref().map(Option::as_deref);
        let raws = look_up(line, names).ok_or(Flaw::Json)?;
        let mut texts = [None; N];
        for ((text, raw), unescaped) in texts.iter_mut().zip(raws).zip(&mut self.unescaped) {
            let Some(raw) = raw.map(RawValue::get) else {
                continue;
            };
            *text = match raw.strip_prefix('"') {
                None if raw == "null" => None,
                None => Some(raw.as_bytes()),
                Some(rest) if rest.contains('\\') => {
                    *unescaped = serde_json::from_str(raw).map_err(|_| Flaw::Json)?;
                    Some(unescaped.as_bytes())
                }
                Some(rest) => Some(rest.strip_suffix('"').unwrap_or(rest).as_bytes()),
            };
        }
        Ok(texts)
    }

    fn name(&self, index: usize) -> Option<String> {
        self.names[index].clone()
    }
}

/// The fields of these names, or `None` if the text is no JSON object.
fn look_up<'a, const N: usize>(
    text: &'a [u8],
    names: [Option<&str>; N],
) -> Option<[Option<&'a RawValue>; N]> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let found = json.deserialize_map(ObjectVisitor { names }).ok()?;
    json.end().ok()?;
    let mut fields = [None; N];
    for ((field, found), name) in fields.iter_mut().zip(found).zip(names) {
        *field = match found {
            Found::Nothing => None,
            Found::Whole(raw) => Some(raw),
            Found::Begin(raw) => {
                let rest = name.and_then(|name| Some(name.split_once('.')?.1));
                look_up(raw.get().as_bytes(), [rest]).and_then(|[field]| field)
            }
        };
    }
    Some(fields)
}

/// The value of a field.
#[derive(Clone, Copy)]
enum Found<'a> {
    Nothing,
    /// Of the field with the whole name.
    Whole(&'a RawValue),
    /// Of the field whose name is what the name has before its first point.
    Begin(&'a RawValue),
}

/// Which wanted names a field's name matches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Nothing,
    Whole,
    Begin,
}

struct ObjectVisitor<'n, const N: usize> {
    names: [Option<&'n str>; N],
}

impl<'de, const N: usize> Visitor<'de> for ObjectVisitor<'_, N> {
    type Value = [Found<'de>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut found = [Found::Nothing; N];
        while let Some(matches) = map.next_key_seed(NameVisitor { names: self.names })? {
            if matches.iter().all(|matched| *matched == Match::Nothing) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let raw: &RawValue = map.next_value()?;
            for (found, matched) in found.iter_mut().zip(matches) {
                match (matched, &found) {
                    (Match::Whole, _) => *found = Found::Whole(raw),
                    (Match::Begin, Found::Nothing | Found::Begin(_)) => *found = Found::Begin(raw),
                    _ => {}
                }
            }
        }
        Ok(found)
    }
}

/// Compares a field's name, without a copy.
struct NameVisitor<'n, const N: usize> {
    names: [Option<&'n str>; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for NameVisitor<'_, N> {
    type Value = [Match; N];

    fn deserialize<D: serde::Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl<const N: usize> Visitor<'_> for NameVisitor<'_, N> {
    type Value = [Match; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        // Most names match nothing, and are seen to do so by their first letters.
        let begins = |name: &str| {
            let rest = name.strip_prefix(text);
            rest.is_some_and(|rest| rest.starts_with('.')) && !text.contains('.')
        };
        Ok(self.names.map(|name| match name {
            Some(name) if name == text => Match::Whole,
            Some(name) if begins(name) => Match::Begin,
            _ => Match::Nothing,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(line: &str, name: &str) -> Result<Option<String>, Flaw> {
        let mut fields = JsonFields {
            names: [Some(name.to_owned())],
            unescaped: [String::new()],
        };
        let [text] = fields.extract(line.as_bytes())?;
        Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()))
    }

    #[test]
    fn fields_are_taken_as_they_are_written() {
        let line = r#" {"ts": 1700000000.123456789, "request": {"remote_ip": "192.0.2.1", "tls": {"v": 3}},
            "a.b": 1, "a": {"b": 2}, "x\u0061": "tab\t\"", "none": null, "list": [1], "twice": 1, "twice": 2} "#;
        for (name, expected) in [
            ("ts", Some("1700000000.123456789")),
            ("request.remote_ip", Some("192.0.2.1")),
            ("request.tls.v", Some("3")),
            ("request.tls.w", None),
            ("ts.x", None),
            ("a.b", Some("1")),
            ("a.b.c", None),
            ("xa", Some("tab\t\"")),
            ("none", None),
            ("list", Some("[1]")),
            ("twice", Some("2")),
            ("missing", None),
            ("", None),
        ] {
            assert_eq!(
                field(line, name).expect(name).as_deref(),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_no_object_is_malformed() {
        for line in [
            "",
            "{",
            "[]",
            "1",
            "{\"a\" 1}",
            "{} {}",
            "{\"a\":1}}",
            "{\"a\":\"\\x\"}",
            "\u{0}",
        ] {
            assert_eq!(field(line, "a"), Err(Flaw::Json), "{line}");
        }
    }
}
