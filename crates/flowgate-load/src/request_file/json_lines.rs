//! A request per line, as JSON: the format of vegeta, with a few more fields.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::draft::{Draft, Part, method};
use super::{Files, RequestFileError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    method: Option<String>,
    url: String,
    #[serde(default, alias = "headers")]
    header: BTreeMap<String, Values>,
    /// In Base64.
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    json: Option<Value>,
    #[serde(default)]
    body_file: Option<String>,
    #[serde(default)]
    weight: Option<u32>,
}

/// The values of a header.
#[derive(Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Several(Vec<String>),
}

/// Parses the requests.
pub(super) fn parse(
    text: &str,
    files: &mut Files<impl FnMut(&Path) -> io::Result<Vec<u8>>>,
) -> Result<Vec<Draft>, RequestFileError> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let filled = lines.filter(|(_, line)| !line.is_empty());
    filled
        .map(|(number, line)| request(number, line, files))
        .collect()
}

fn request(
    number: usize,
    line: &str,
    files: &mut Files<impl FnMut(&Path) -> io::Result<Vec<u8>>>,
) -> Result<Draft, RequestFileError> {
    let wrong = |message: String| RequestFileError::at(number, message);
    let line: Line = serde_json::from_str(line).map_err(|error| {
        let error = error.to_string();
        // Its line is 1, which is not the line of the file.
        let reason = error.split(" at line ").next().unwrap_or_default();
        wrong(format!(
            "not a request: {reason}: write {{\"method\":\"GET\",\"url\":\"http://127.0.0.1:8080/\"}}"
        ))
    })?;
    let mut draft = Draft::new(
        number,
        method(number, line.method.as_deref().unwrap_or("GET"))?,
        line.url,
    );
    for (name, values) in line.header {
        let values = match values {
            Values::One(value) => vec![value],
            Values::Several(values) => values,
        };
        let lines = values
            .into_iter()
            .map(|value| (number, name.clone(), value));
        draft.headers.extend(lines);
    }
    let bodies = [
        line.body.is_some(),
        line.text.is_some(),
        line.json.is_some(),
        line.body_file.is_some(),
    ];
    if bodies.into_iter().filter(|&is_given| is_given).count() > 1 {
        return Err(wrong(
            "several bodies: write one of body, text, json and body_file".to_owned(),
        ));
    }
    if let Some(body) = line.body {
        let bytes = BASE64_STANDARD.decode(body).map_err(|_| {
            wrong("the body is not Base64: write it in Base64, or as \"text\"".to_owned())
        })?;
        draft.body = vec![Part::Bytes(bytes.into())];
    }
    if let Some(text) = line.text {
        draft.body = vec![Part::Text(number, text)];
    }
    if let Some(json) = line.json {
        draft.body = vec![Part::Text(number, json.to_string())];
        let is_told = draft
            .headers
            .iter()
            .any(|(_, name, _)| name.eq_ignore_ascii_case("content-type"));
        if !is_told {
            let header = (
                number,
                "content-type".to_owned(),
                "application/json".to_owned(),
            );
            draft.headers.push(header);
        }
    }
    if let Some(path) = line.body_file {
        draft.body = vec![Part::Bytes(files.get(number, &path)?)];
    }
    if let Some(weight) = line.weight {
        if !(1..=1_000_000).contains(&weight) {
            return Err(wrong(
                "\"weight\" is not from 1 to 1000000: write \"weight\":3".to_owned(),
            ));
        }
        draft.weight = weight;
    }
    Ok(draft)
}
