//! Files of requests as editors have them: `.http` and `.rest`.
//!
//! ```text
//! @base = http://127.0.0.1:8080      a variable
//! ### List                           begins a request
//! # @weight 3                        a comment, here with a weight
//! GET {{base}}/orders                the method is GET if there is only a URL
//!     ?page=1                        the URL continues
//! Accept: text/plain                 headers, until a blank line
//!
//! < ./body.json                      the body: text, or a file; <@ replaces variables in it
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use hyper::Method;

use super::draft::{Draft, Part, method, weight};
use super::vegeta::header;
use super::{Files, RequestFileError};

/// Parses the requests, and the variables with their lines.
pub(super) fn parse(
    text: &str,
    variables: &mut BTreeMap<String, (usize, String)>,
    files: &mut Files<impl FnMut(&Path) -> io::Result<Vec<u8>>>,
) -> Result<Vec<Draft>, RequestFileError> {
    let mut drafts = Vec::new();
    let lines: Vec<(usize, &str)> = (1..).zip(text.lines()).collect();
    for block in lines.split(|(_, line)| line.starts_with("###")) {
        drafts.extend(request(block, variables, files)?);
    }
    Ok(drafts)
}

/// Parses the lines between two separators, which have at most one request.
fn request(
    lines: &[(usize, &str)],
    variables: &mut BTreeMap<String, (usize, String)>,
    files: &mut Files<impl FnMut(&Path) -> io::Result<Vec<u8>>>,
) -> Result<Option<Draft>, RequestFileError> {
    let mut lines = lines.iter().copied().peekable();
    let mut its_weight = 1;
    let mut draft = loop {
        let Some((number, line)) = lines.next() else {
            return Ok(None);
        };
        let line = line.trim();
        refuse_script(number, line)?;
        if let Some(definition) = line.strip_prefix('@') {
            let (name, value) = variable(number, definition)?;
            variables.insert(name, (number, value));
        } else if is_comment(line) {
            its_weight = weight(number, line)?.unwrap_or(its_weight);
        } else if !line.is_empty() {
            break first_line(number, line)?;
        }
    };
    draft.weight = its_weight;
    while let Some((_, line)) = lines.next_if(|(_, line)| continues(line)) {
        draft.url += line.trim();
    }
    for (number, line) in lines.by_ref() {
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        refuse_script(number, line)?;
        if !is_comment(line) {
            draft.headers.push(header(number, line)?);
        }
    }
    draft.body = body(lines, &draft, files)?;
    Ok(Some(draft))
}

fn is_comment(line: &str) -> bool {
    line.starts_with('#') || line.starts_with("//")
}

/// Returns whether a line continues the URL.
fn continues(line: &str) -> bool {
    line.trim_start().starts_with(['?', '&'])
}

/// Scripts of editors run before and after a request.
fn refuse_script(number: usize, line: &str) -> Result<(), RequestFileError> {
    let is_script = ["< {%", "<{%", "> {%", ">{%", "> ./", "> ../", ">> ", ">>! "]
        .iter()
        .any(|begin| line.starts_with(begin));
    match is_script {
        true => Err(RequestFileError::at(
            number,
            "scripts and response files are not supported: remove the lines",
        )),
        false => Ok(()),
    }
}

/// Parses `name = value`, without its `@`.
fn variable(number: usize, text: &str) -> Result<(String, String), RequestFileError> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(RequestFileError::at(
            number,
            format!("\"@{text}\" is not a variable: write @name = value"),
        )),
    }
}

/// Parses `METHOD URL HTTP/1.1`, of which only the URL is required.
fn first_line(number: usize, line: &str) -> Result<Draft, RequestFileError> {
    let line = match line.rsplit_once(char::is_whitespace) {
        Some((before, version)) if version.starts_with("HTTP/") => before.trim_end(),
        _ => line,
    };
    let is_word = |word: &str| {
        word.bytes()
            .all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
    };
    match line.split_once(char::is_whitespace) {
        Some((word, url)) if is_word(word) => {
            let method = method(number, &word.to_ascii_uppercase())?;
            Ok(Draft::new(number, method, url.trim()))
        }
        None if line.contains("://") || line.starts_with(['/', '{']) => {
            Ok(Draft::new(number, Method::GET, line))
        }
        _ => Err(RequestFileError::at(
            number,
            format!("{line:?} is not a request: write GET http://127.0.0.1:8080/"),
        )),
    }
}

/// Reads the body, without the blank lines at its end.
fn body<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    draft: &Draft,
    files: &mut Files<impl FnMut(&Path) -> io::Result<Vec<u8>>>,
) -> Result<Vec<Part>, RequestFileError> {
    let mut lines: Vec<_> = lines.collect();
    while lines.last().is_some_and(|(_, line)| line.trim().is_empty()) {
        lines.pop();
    }
    let kind = draft
        .headers
        .iter()
        .find(|(_, name, _)| name.eq_ignore_ascii_case("content-type"));
    let kind = kind.map_or(String::new(), |(.., value)| value.to_ascii_lowercase());
    let is_form = kind.starts_with("application/x-www-form-urlencoded");
    let end = match kind.starts_with("multipart/") {
        true => "\r\n",
        // A form is one line, which editors wrap.
        false if is_form => "",
        false => "\n",
    };
    let last = lines.len().saturating_sub(1);
    let mut parts = Vec::new();
    for (index, (number, line)) in lines.into_iter().enumerate() {
        refuse_script(number, line)?;
        let end = if index == last && end != "\r\n" {
            ""
        } else {
            end
        };
        if let Some(path) = line.strip_prefix("<@ ") {
            let text = files.get(number, path.trim())?;
            let text = String::from_utf8(text.to_vec()).map_err(|_| {
                let message = format!("{:?} is not UTF-8: write < in place of <@", path.trim());
                RequestFileError::at(number, message)
            })?;
            parts.push(Part::Text(number, text + end));
        } else if let Some(path) = line.strip_prefix("< ") {
            parts.push(Part::Bytes(files.get(number, path.trim())?));
            if !end.is_empty() {
                parts.push(Part::Text(number, end.to_owned()));
            }
        } else {
            let line = if is_form { line.trim() } else { line };
            parts.push(Part::Text(number, format!("{line}{end}")));
        }
    }
    Ok(parts)
}
