//! The text format of vegeta, read as vegeta reads it.
//!
//! Source: `lib/targets.go` of vegeta, `NewHTTPTargeter`.

use std::io;
use std::path::Path;

use super::draft::{Draft, Part, method, weight};
use super::{Files, RequestFileError};

/// Parses the requests.
///
/// A request ends at a blank line, after `@FILE`, or directly after its first line if the next one begins with a method.
/// Comments (`#`) are only allowed before a request.
pub(super) fn parse(
    text: &str,
    files: &mut Files<impl FnMut(&Path) -> io::Result<Vec<u8>>>,
) -> Result<Vec<Draft>, RequestFileError> {
    let mut drafts = Vec::new();
    let mut lines = (1..).zip(text.lines().map(str::trim)).peekable();
    let mut next_weight = 1;
    while let Some((number, line)) = lines.next() {
        if line.is_empty() {
            continue;
        }
        if line.starts_with('#') {
            next_weight = weight(number, line)?.unwrap_or(next_weight);
            continue;
        }
        let (word, url) = line.split_once(' ').ok_or_else(|| {
            RequestFileError::at(
                number,
                format!("{line:?} is not a request: write GET http://127.0.0.1:8080/"),
            )
        })?;
        if !begins_with_method(line) {
            return Err(RequestFileError::at(
                number,
                format!("{word:?} is not a request method: write GET, POST, PUT, …"),
            ));
        }
        let mut draft = Draft::new(number, method(number, word)?, url.trim());
        draft.weight = std::mem::replace(&mut next_weight, 1);
        let is_alone = |line: &str| line.is_empty() || begins_with_method(line);
        if lines.peek().is_some_and(|(_, line)| !is_alone(line)) {
            for (number, line) in lines.by_ref() {
                if line.is_empty() {
                    break;
                }
                if let Some(path) = line.strip_prefix('@') {
                    draft.body = vec![Part::Bytes(files.get(number, path)?)];
                    break;
                }
                draft.headers.push(header(number, line)?);
            }
        }
        drafts.push(draft);
    }
    Ok(drafts)
}

/// Returns whether a line begins with capital letters and white space, as the first line of a request does.
fn begins_with_method(line: &str) -> bool {
    let letters = line.bytes().take_while(u8::is_ascii_uppercase).count();
    letters > 0 && line[letters..].starts_with(char::is_whitespace)
}

/// Parses a header line. Both sides of the colon must have text.
pub(super) fn header(
    number: usize,
    line: &str,
) -> Result<(usize, String, String), RequestFileError> {
    match line.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
            Ok((number, name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(RequestFileError::at(
            number,
            format!(
                "{line:?} is not a header: write Name: value, or a blank line before a request"
            ),
        )),
    }
}
