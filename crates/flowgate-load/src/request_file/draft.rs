//! A request of a file, before its variables are replaced.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{
    CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING,
};

use super::{RequestFileError, Rows};
use crate::plan::Template;
use crate::target::Target;

/// Maximum depth of variables in variables.
const MAX_DEPTH: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// Its first line.
    pub(super) line: usize,
    pub(super) method: Method,
    pub(super) url: String,
    /// Headers, with their lines.
    pub(super) headers: Vec<(usize, String, String)>,
    pub(super) body: Vec<Part>,
    pub(super) weight: u32,
}

/// A part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Text with variables, and its line.
    Text(usize, String),
    /// Sent as it is.
    Bytes(Bytes),
}

/// The values of variables in one pass through the file.
pub(super) struct Scope<'a> {
    /// Variables of the file, with their lines.
    pub(super) variables: &'a BTreeMap<String, (usize, String)>,
    /// Whether `{{…}}` is a variable.
    pub(super) is_on: bool,
    pub(super) row: Option<(&'a Rows, usize)>,
}

impl Draft {
    /// Returns a request with this line, method and URL.
    pub(super) fn new(line: usize, method: Method, url: impl Into<String>) -> Draft {
        Draft {
            line,
            method,
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            weight: 1,
        }
    }

    /// Replaces the variables. Also returns whether a column of the rows was used.
    pub(super) fn request(
        &self,
        scope: &Scope<'_>,
        defaults: &Template,
    ) -> Result<((Target, Template), bool), RequestFileError> {
        let uses_row = Cell::new(false);
        let fill = |line, text| scope.fill(line, text, 0, &uses_row);
        let mut headers = Vec::with_capacity(self.headers.len());
        for (line, name, value) in &self.headers {
            headers.push(header(*line, &fill(*line, name)?, &fill(*line, value)?)?);
        }
        let url = fill(self.line, &self.url)?;
        let target = self.target(&url, &headers)?;
        let mut body = Vec::new();
        for part in &self.body {
            match part {
                Part::Text(line, text) => body.extend_from_slice(fill(*line, text)?.as_bytes()),
                Part::Bytes(bytes) => body.extend_from_slice(bytes),
            }
        }
        let body = match (&self.body[..], body.is_empty()) {
            // Shared between requests.
            ([Part::Bytes(bytes)], _) => bytes.clone(),
            (_, true) => defaults.body.clone(),
            (_, false) => body.into(),
        };
        let missing = defaults
            .headers
            .iter()
            .filter(|(name, _)| !self.has(name) && (*name != CONTENT_TYPE || !body.is_empty()));
        headers.extend(missing.cloned().collect::<Vec<_>>());
        let template = Template {
            method: self.method.clone(),
            headers,
            body,
        };
        Ok(((target, template), uses_row.get()))
    }

    fn has(&self, name: &HeaderName) -> bool {
        self.headers
            .iter()
            .any(|(_, other, _)| other.eq_ignore_ascii_case(name.as_str()))
    }

    /// Parses the URL. A path is one on the server that the header `Host` names.
    fn target(
        &self,
        url: &str,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Target, RequestFileError> {
        let wrong = |message: String| RequestFileError::at(self.line, message);
        let host = headers.iter().find(|(name, _)| name == HOST);
        let host = host.and_then(|(_, value)| value.to_str().ok());
        let full = match (url.strip_prefix('/'), host) {
            (Some(_), Some(host)) => Cow::Owned(format!("http://{host}{url}")),
            (Some(_), None) => {
                return Err(wrong(format!(
                    "{url:?} has no host: write http://HOST{url}, or a header Host"
                )));
            }
            (None, _) => Cow::Borrowed(url),
        };
        if has_credentials(&full) {
            // A message must not repeat a password.
            return Err(wrong(
                "the URL contains a user name: remove it, and write a header Authorization"
                    .to_owned(),
            ));
        }
        Target::parse(&full).map_err(|error| wrong(error.to_string()))
    }
}

fn has_credentials(url: &str) -> bool {
    let behind = url.split_once("://").map_or(url, |(_, behind)| behind);
    let end = behind.find(['/', '?', '#']).unwrap_or(behind.len());
    behind[..end].contains('@')
}

fn header(
    line: usize,
    name: &str,
    value: &str,
) -> Result<(HeaderName, HeaderValue), RequestFileError> {
    let wrong = |message: String| RequestFileError::at(line, message);
    let parsed: HeaderName = name
        .parse()
        .map_err(|_| wrong(format!("{name:?} is not a header name: write Name: value")))?;
    // A wrong length would make the server misread the next request.
    if parsed == CONTENT_LENGTH || parsed == TRANSFER_ENCODING {
        return Err(wrong(format!(
            "the length of the body is added automatically: remove the header {name}"
        )));
    }
    let value = value.parse().map_err(|_| {
        wrong(format!(
            "the value of {name} contains a character that a header cannot hold: write printable characters"
        ))
    })?;
    Ok((parsed, value))
}

/// Parses a method.
pub(super) fn method(line: usize, text: &str) -> Result<Method, RequestFileError> {
    let wrong = || {
        let message =
            format!("{text:?} is not a supported request method: write GET, POST, PUT, …");
        RequestFileError::at(line, message)
    };
    match text.parse() {
        Ok(Method::CONNECT) | Err(_) => Err(wrong()),
        Ok(method) if ["GRAPHQL", "GRPC", "WEBSOCKET"].contains(&method.as_str()) => Err(wrong()),
        Ok(method) => Ok(method),
    }
}

/// Returns the weight in a comment `# @weight 3`, which holds for the next request.
pub(super) fn weight(line: usize, comment: &str) -> Result<Option<u32>, RequestFileError> {
    let text = comment.trim_start_matches(['#', '/']).trim();
    let Some(number) = text.strip_prefix("@weight") else {
        return Ok(None);
    };
    match number.trim().parse::<u32>() {
        Ok(weight @ 1..=1_000_000) => Ok(Some(weight)),
        _ => Err(RequestFileError::at(
            line,
            format!("{text:?} is not a weight from 1 to 1000000: write # @weight 3"),
        )),
    }
}

impl Scope<'_> {
    /// Replaces each `{{name}}`.
    fn fill<'t>(
        &self,
        line: usize,
        text: &'t str,
        depth: usize,
        uses_row: &Cell<bool>,
    ) -> Result<Cow<'t, str>, RequestFileError> {
        if !self.is_on || !text.contains("{{") {
            return Ok(Cow::Borrowed(text));
        }
        if depth > MAX_DEPTH {
            return Err(RequestFileError::at(
                line,
                format!("{text:?} refers to itself: write a value"),
            ));
        }
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            filled += before;
            let Some((name, after)) = behind.split_once("}}") else {
                return Err(RequestFileError::at(
                    line,
                    format!("\"{{{{{behind}\" is not closed: write {{{{name}}}}"),
                ));
            };
            filled += &self.value(line, name.trim(), depth, uses_row)?;
            rest = after;
        }
        filled += rest;
        Ok(Cow::Owned(filled))
    }

    fn value(
        &self,
        line: usize,
        name: &str,
        depth: usize,
        uses_row: &Cell<bool>,
    ) -> Result<Cow<'_, str>, RequestFileError> {
        if let Some((rows, row)) = self.row
            && let Some(value) = rows.value(row, name)
        {
            uses_row.set(true);
            return Ok(Cow::Borrowed(value));
        }
        if let Some((defined, value)) = self.variables.get(name) {
            return self.fill(*defined, value, depth + 1, uses_row);
        }
        let advice = match self.row {
            Some((rows, _)) => format!("write one of {}", rows.names()),
            None => {
                format!("write a line @{name} = VALUE, or a file --variables with a column {name}")
            }
        };
        Err(RequestFileError::at(
            line,
            match name.starts_with('$') {
                true => format!(
                    "{{{{{name}}}}} is a dynamic variable, which is not supported: write a column of --variables"
                ),
                false => format!("the variable {{{{{name}}}}} is not defined: {advice}"),
            },
        ))
    }
}
