//! Forms: `--form name=value`, `--form name=@file`.

use std::path::{Path, PathBuf};

use hyper::header::HeaderValue;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::input;
use crate::exit::Refusal;

/// A field of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    name: String,
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    File(PathBuf),
}

/// Parses a field.
pub(crate) fn field(text: &str) -> Result<Field, String> {
    const SHAPE: &str = "not a field: write NAME=VALUE, or NAME=@FILE";
    let (name, value) = text.split_once('=').ok_or(SHAPE)?;
    if name.is_empty() || value == "@" || name.contains(['"', '\r', '\n']) {
        return Err(SHAPE.to_owned());
    }
    let value = match value.strip_prefix('@') {
        Some(path) => Value::File(path.into()),
        None => Value::Text(value.to_owned()),
    };
    Ok(Field {
        name: name.to_owned(),
        value,
    })
}

impl Field {
    /// Returns the input file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.value {
            Value::Text(_) => None,
            Value::File(path) => Some(path),
        }
    }
}

/// Returns the content type and the body: URL-encoded, or multipart if there is a file.
pub(crate) fn encode(fields: &[Field]) -> Result<(HeaderValue, Vec<u8>), Refusal> {
    if fields.iter().all(|field| field.file().is_none()) {
        let pair = |field: &Field| match &field.value {
            Value::Text(text) => format!(
                "{}={}",
                utf8_percent_encode(&field.name, NON_ALPHANUMERIC),
                utf8_percent_encode(text, NON_ALPHANUMERIC)
            ),
            Value::File(_) => String::new(),
        };
        let pairs: Vec<_> = fields.iter().map(pair).collect();
        let content_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        return Ok((content_type, pairs.join("&").into_bytes()));
    }
    let mut parts = Vec::new();
    for field in fields {
        let name = &field.name;
        parts.push(match &field.value {
            Value::Text(text) => (
                format!("content-disposition: form-data; name=\"{name}\"\r\n"),
                text.clone().into_bytes(),
            ),
            Value::File(path) => {
                let file = path
                    .file_name()
                    .map_or("file".into(), |name| name.to_string_lossy());
                let file = file.replace(['"', '\r', '\n'], "_");
                (
                    format!(
                        "content-disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\
                         content-type: application/octet-stream\r\n"
                    ),
                    input::read("--form", path, input::REQUESTS_MIB)?,
                )
            }
        });
    }
    Ok(multipart(&parts))
}

/// Returns parts with a boundary that does not occur in them (RFC 2046, section 5.1).
fn multipart(parts: &[(String, Vec<u8>)]) -> (HeaderValue, Vec<u8>) {
    let occurs = |boundary: &String| {
        parts.iter().any(|(_, content)| {
            content
                .windows(boundary.len())
                .any(|bytes| bytes == boundary.as_bytes())
        })
    };
    let mut boundaries = (0_u64..).map(|number| format!("flowgate-form-{number}"));
    // A finite text does not have all numbers.
    let boundary = boundaries
        .find(|boundary| !occurs(boundary))
        .unwrap_or_default();
    let mut body = Vec::new();
    for (head, content) in parts {
        body.extend_from_slice(format!("--{boundary}\r\n{head}\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let content_type = format!("multipart/form-data; boundary={boundary}");
    let content_type = content_type
        .parse()
        .expect("it has letters, digits and dashes");
    (content_type, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_encoded_for_a_url() {
        let fields = ["a b=c&d", "e=", "f==@"].map(|text| field(text).unwrap());
        let (content_type, body) = encode(&fields).unwrap();
        assert_eq!(content_type, "application/x-www-form-urlencoded");
        assert_eq!(body, b"a%20b=c%26d&e=&f=%3D%40");
    }

    #[test]
    fn a_boundary_does_not_occur_in_a_part() {
        let parts = [("h: 1\r\n".to_owned(), b"x flowgate-form-0 y".to_vec())];
        let (content_type, body) = multipart(&parts);
        assert_eq!(
            content_type,
            "multipart/form-data; boundary=flowgate-form-1"
        );
        let expected =
            "--flowgate-form-1\r\nh: 1\r\n\r\nx flowgate-form-0 y\r\n--flowgate-form-1--\r\n";
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }

    #[test]
    fn what_is_no_field_says_what_to_type() {
        for text in ["", "a", "=b", "a=@", "a\"b=c"] {
            assert!(
                field(text).unwrap_err().contains("write NAME=VALUE"),
                "{text}"
            );
        }
    }
}
