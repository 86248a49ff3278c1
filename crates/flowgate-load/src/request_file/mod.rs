//! Files of requests, in the formats of vegeta, of editors, and as JSON lines.
//!
//! ```text
//!   text ── vegeta / http_file / json_lines ──▶ Draft, with {{variables}}
//!                                                │  Rows: columns of a CSV
//!                                                ▼
//!                              Target, Template ──▶ RequestMix
//! ```

mod draft;
mod http_file;
mod json_lines;
mod rows;
mod vegeta;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use hyper::body::Bytes;

use crate::plan::Template;
use crate::request_mix::{MAX_MIXED, RequestMix, spread};
use draft::{Draft, Scope};

pub use rows::Rows;

/// Maximum size of all messages of a run, which are built in advance.
const MAX_BYTES: usize = 1 << 30;
/// About what a message needs without its body.
const MESSAGE_BYTES: usize = 1_000;

/// Format of a file of requests.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use flowgate_load::RequestFormat;
///
/// let format = RequestFormat::detect(Path::new("shop.http"), "GET http://localhost/");
/// assert_eq!(format, RequestFormat::HttpFile);
/// let format = RequestFormat::detect(Path::new("-"), r#"{"url":"http://localhost/"}"#);
/// assert_eq!(format, RequestFormat::JsonLines);
/// let format = RequestFormat::detect(Path::new("targets.txt"), "GET http://localhost/");
/// assert_eq!(format, RequestFormat::Vegeta);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFormat {
    /// The text format of vegeta: a method and a URL, then headers, then `@FILE` for the body.
    Vegeta,
    /// The format of editors (`.http`, `.rest`): requests separated by `###`, with `{{variables}}`.
    HttpFile,
    /// An object per line. The fields of vegeta's JSON format (`method`, `url`, `header`, `body` in Base64), and `text`,
    /// `json`, `body_file` and `weight`.
    JsonLines,
}

impl RequestFormat {
    /// Returns the format of a file by its extension and its first character.
    pub fn detect(path: &Path, text: &str) -> RequestFormat {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("http" | "rest") => RequestFormat::HttpFile,
            _ if text.trim_start().starts_with('{') => RequestFormat::JsonLines,
            _ => RequestFormat::Vegeta,
        }
    }
}

/// Requests of a file. Variables are not replaced yet.
///
/// # Examples
///
/// ```
/// use flowgate_load::{RequestFile, RequestFormat, Rows, Template};
///
/// let text = "@base = http://127.0.0.1:8080
/// GET {{base}}/users/{{id}}
///
/// #### A request with a body
/// POST {{base}}/orders
/// Content-Type: application/json
///
/// {\"user\": {{id}}}
/// ";
/// let no_files = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
/// let file = RequestFile::parse(text, RequestFormat::HttpFile, no_files)?;
/// let users = Rows::parse("id,name\n7,ann\n8,bob\n")?;
/// let mix = file.mix(Some(&users), &Template::default())?;
/// let sent: Vec<_> = mix.iter().map(|(target, _)| target.to_string()).collect();
/// assert_eq!(sent[0], "http://127.0.0.1:8080/users/7");
/// assert_eq!(mix.order().len(), 4); // both requests for each user
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RequestFile {
    drafts: Vec<Draft>,
    /// Variables that the file defines, with their lines.
    variables: BTreeMap<String, (usize, String)>,
    /// Whether `{{…}}` is a variable even without rows.
    has_variables: bool,
}

/// Error in a file of requests or of rows. `Display` writes one line, with the number of the line in the file.
///
/// # Examples
///
/// ```
/// use flowgate_load::{RequestFile, RequestFormat};
///
/// let no_files = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
/// let error = RequestFile::parse("\nGET\n", RequestFormat::Vegeta, no_files).unwrap_err();
/// assert_eq!(error.line(), Some(2));
/// assert_eq!(
///     error.to_string(),
///     "line 2: \"GET\" is not a request: write GET http://127.0.0.1:8080/"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFileError {
    line: Option<usize>,
    message: String,
}

impl RequestFileError {
    fn at(line: usize, message: impl Into<String>) -> RequestFileError {
        RequestFileError {
            line: Some(line),
            message: message.into(),
        }
    }

    fn whole(message: impl Into<String>) -> RequestFileError {
        RequestFileError {
            line: None,
            message: message.into(),
        }
    }

    /// Returns the number of the line, from 1. `None` if the error is about the whole file.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for RequestFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Error for RequestFileError {}

/// Reads the files that bodies name, each once.
struct Files<R> {
    read: R,
    known: BTreeMap<String, Bytes>,
    /// Size of all of them.
    bytes: usize,
}

impl<R: FnMut(&Path) -> io::Result<Vec<u8>>> Files<R> {
    fn get(&mut self, line: usize, path: &str) -> Result<Bytes, RequestFileError> {
        if let Some(body) = self.known.get(path) {
            return Ok(body.clone());
        }
        let body = (self.read)(Path::new(path)).map_err(|error| {
            RequestFileError::at(line, format!("cannot read the body {path:?}: {error}"))
        })?;
        self.bytes = self.bytes.saturating_add(body.len());
        if self.bytes > MAX_BYTES {
            let message = "all bodies together exceed 1 GiB: write fewer, or smaller ones";
            return Err(RequestFileError::at(line, message));
        }
        let body = Bytes::from(body);
        self.known.insert(path.to_owned(), body.clone());
        Ok(body)
    }
}

impl RequestFile {
    /// Parses a file. `read` reads the files that bodies name; their paths are as in the file.
    ///
    /// # Errors
    ///
    /// Returns an error for the first line that is not as in the format, or if a body cannot be read.
    pub fn parse(
        text: &str,
        format: RequestFormat,
        read: impl FnMut(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<RequestFile, RequestFileError> {
        let mut files = Files {
            read,
            known: BTreeMap::new(),
            bytes: 0,
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut variables = BTreeMap::new();
        let drafts = match format {
            RequestFormat::Vegeta => vegeta::parse(text, &mut files)?,
            RequestFormat::HttpFile => http_file::parse(text, &mut variables, &mut files)?,
            RequestFormat::JsonLines => json_lines::parse(text, &mut files)?,
        };
        if drafts.is_empty() {
            return Err(RequestFileError::whole(
                "contains no request: write GET http://127.0.0.1:8080/",
            ));
        }
        if drafts.len() > MAX_MIXED {
            return Err(RequestFileError::whole(format!(
                "more than {MAX_MIXED} requests: write fewer"
            )));
        }
        Ok(RequestFile {
            drafts,
            variables,
            has_variables: format == RequestFormat::HttpFile,
        })
    }

    /// Replaces the variables, and returns the requests.
    ///
    /// The requests are sent in the order of the file, or by their weights. Each pass through the file uses the next of
    /// `rows`. Headers of `defaults` are added to requests without a header of the same name, and its body to requests
    /// without a body. Its method is ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if a variable is not defined, if a request is invalid after variables are replaced, or if there
    /// are too many requests: more than 1,000,000, or 1 GiB in all.
    pub fn mix(
        &self,
        rows: Option<&Rows>,
        defaults: &Template,
    ) -> Result<RequestMix, RequestFileError> {
        let weights: Vec<u32> = self.drafts.iter().map(|draft| draft.weight).collect();
        let pass = spread(&weights).map_err(|error| RequestFileError::whole(error.to_string()))?;
        let passes = rows.map_or(1, Rows::len);
        let positions = pass.len().saturating_mul(passes);
        if positions > MAX_MIXED {
            return Err(RequestFileError::whole(format!(
                "{} requests for each of {passes} rows exceed the maximum of {MAX_MIXED}: write fewer",
                pass.len()
            )));
        }
        let mut requests = Vec::new();
        let mut bytes = 0_usize;
        // Index of the request of each draft: in every pass, or in the current one.
        let mut fixed: Vec<Option<u32>> = vec![None; self.drafts.len()];
        let mut order = Vec::with_capacity(positions);
        for row in 0..passes {
            let scope = Scope {
                variables: &self.variables,
                is_on: self.has_variables || rows.is_some(),
                row: rows.map(|rows| (rows, row)),
            };
            let mut now = fixed.clone();
            for (index, draft) in self.drafts.iter().enumerate() {
                if now[index].is_some() {
                    continue;
                }
                let (request, uses_row) = draft.request(&scope, defaults)?;
                bytes = bytes.saturating_add(request.1.body.len() + MESSAGE_BYTES);
                if bytes > MAX_BYTES {
                    return Err(RequestFileError::whole(
                        "all requests together exceed 1 GiB: write fewer requests or rows",
                    ));
                }
                // Bounded by `MAX_MIXED`, because each draft occurs in each pass.
                let number = requests.len() as u32;
                requests.push(request);
                now[index] = Some(number);
                if !uses_row {
                    fixed[index] = Some(number);
                }
            }
            order.extend(pass.iter().filter_map(|&index| now[index as usize]));
        }
        Ok(RequestMix::in_order(requests, order))
    }
}
