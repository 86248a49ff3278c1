//! Fields of JSON lines, as they are written there.

use std::array;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;
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
    // In a text that is UTF-8, its parts need no check. In another, only the fields that are wanted have to be.
    match std::str::from_utf8(text) {
        Ok(text) => fields_of(serde_json::Deserializer::from_str(text), names),
        Err(_) => fields_of(serde_json::Deserializer::from_slice(text), names),
    }
}

fn fields_of<'a, R: Read<'a>, const N: usize>(
    mut json: serde_json::Deserializer<R>,
    names: [Option<&str>; N],
) -> Option<[Option<&'a RawValue>; N]> {
    let fields = json.deserialize_map(ObjectVisitor { names: &names }).ok()?;
    json.end().ok()?;
    Some(fields)
}

/// What the name of a field is to a wanted name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match<'n> {
    Nothing,
    Whole,
    /// It is what the wanted name has before its first point. The rest is a name in the object.
    Begin(&'n str),
}

impl<'n> Match<'n> {
    #[inline]
    fn of(name: &'n str, field: &str) -> Self {
        // The length, or what follows in the name, tells almost all apart.
        match name.as_bytes().get(field.len()) {
            None if name == field => Self::Whole,
            Some(b'.') if name.starts_with(field) && !field.contains('.') => {
                Self::Begin(&name[field.len() + 1..])
            }
            _ => Self::Nothing,
        }
    }
}

/// Takes the fields out of an object, in one pass.
struct ObjectVisitor<'n, const N: usize> {
    names: &'n [Option<&'n str>; N],
}

impl<'de, const N: usize> Visitor<'de> for ObjectVisitor<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut whole = [None; N];
        let mut inside = [None; N];
        while let Some(matches) = map.next_key_seed(NameVisitor { names: self.names })? {
            let Some(matches) = matches else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let names = matches.map(|matched| match matched {
                Match::Begin(rest) => Some(rest),
                _ => None,
            });
            let values = match matches.contains(&Match::Whole) {
                false => map.next_value_seed(Inside { names: &names })?,
                true => {
                    let raw: &RawValue = map.next_value()?;
                    for (whole, matched) in whole.iter_mut().zip(matches) {
                        if matched == Match::Whole {
                            *whole = Some(raw);
                        }
                    }
                    if names.iter().all(Option::is_none) {
                        continue;
                    }
                    look_up(raw.get().as_bytes(), names).unwrap_or([None; N])
                }
            };
            for ((inside, name), value) in inside.iter_mut().zip(names).zip(values) {
                if name.is_some() {
                    *inside = value;
                }
            }
        }
        Ok(array::from_fn(|index| whole[index].or(inside[index])))
    }
}

/// Takes the fields out of a value, which has none unless it is an object.
struct Inside<'n, const N: usize> {
    names: &'n [Option<&'n str>; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Inside<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Inside<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        ObjectVisitor { names: self.names }.visit_map(map)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, seq: S) -> Result<Self::Value, S::Error> {
        IgnoredAny.visit_seq(seq)?;
        Ok([None; N])
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok([None; N])
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok([None; N])
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok([None; N])
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok([None; N])
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok([None; N])
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok([None; N])
    }
}

/// Compares a field's name, without a copy. Most match nothing.
struct NameVisitor<'n, const N: usize> {
    names: &'n [Option<&'n str>; N],
}

impl<'de, 'n, const N: usize> DeserializeSeed<'de> for NameVisitor<'n, N> {
    type Value = Option<[Match<'n>; N]>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl<'n, const N: usize> Visitor<'_> for NameVisitor<'n, N> {
    type Value = Option<[Match<'n>; N]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, field: &str) -> Result<Self::Value, E> {
        let of = |name: &'n str| Match::of(name, field);
        let mut names = self.names.iter().flatten();
        let is_wanted = names.any(|name| of(name) != Match::Nothing);
        Ok(is_wanted.then(|| self.names.map(|name| name.map_or(Match::Nothing, of))))
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
    fn a_name_in_an_object_does_not_hide_the_object() {
        let line = br#"{"a": 0, "a": {"b": 1, "c": {"d": "x"}}, "b": 2}"#;
        let names = [Some("a.c.d"), Some("a"), Some("a.b"), None];
        let fields = look_up(line, names).expect("an object");
        let texts = fields.map(|field| field.map(RawValue::get));
        let object = r#"{"b": 1, "c": {"d": "x"}}"#;
        assert_eq!(texts, [Some(r#""x""#), Some(object), Some("1"), None]);
        // The last of several counts, whatever it is.
        for value in ["true", "null", "-1", "1.5", "\"b\"", "[{\"b\": 1}]", "{}"] {
            let line = format!(r#"{{"a": {{"b": 1}}, "a": {value}, "c": 3}}"#);
            assert_eq!(field(&line, "a.b"), Ok(None), "{line}");
            assert_eq!(field(&line, "c").expect("c").as_deref(), Some("3"));
        }
    }

    #[test]
    fn only_the_fields_that_are_wanted_have_to_be_utf_8() {
        let line = b"{\"agent\": \"\xff\", \"ip\": \"::1\"}";
        let of = |name| look_up(line, [Some(name)]).map(|[field]| field.map(RawValue::get));
        assert_eq!(of("ip"), Some(Some("\"::1\"")));
        assert_eq!(of("agent"), None);
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
