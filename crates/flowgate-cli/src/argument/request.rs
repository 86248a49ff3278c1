//! The arguments that define each request.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use flowgate_load::{Target, Template};
use hyper::Method;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};

use super::{form, header, input, url};
use crate::exit::Refusal;

/// Maximum number of URLs in one file.
const MAX_URLS: usize = 1_000_000;

/// Contents of each request.
#[derive(Args, Debug)]
#[command(next_help_heading = "Requests")]
pub(crate) struct Request {
    /// Set the request method [default: GET, or POST with --form]
    #[arg(
        short = 'm',
        short_alias = 'X',
        long,
        value_name = "METHOD",
        value_parser = method
    )]
    method: Option<Method>,

    /// Add a header, 'Name: value'; repeatable
    #[arg(
        short = 'H',
        long = "header",
        value_name = "HEADER",
        value_parser = header::of_request,
    )]
    headers: Vec<(HeaderName, HeaderValue)>,

    /// Send TEXT as the body
    #[arg(short = 'd', long, value_name = "TEXT", allow_hyphen_values = true)]
    body: Option<String>,

    /// Send the contents of FILE as the body; - is standard input
    #[arg(short = 'D', long, value_name = "FILE", conflicts_with = "body")]
    body_file: Option<PathBuf>,

    /// Send a form, NAME=VALUE or NAME=@FILE; repeatable
    #[arg(
        long,
        value_name = "NAME=VALUE",
        value_parser = form::field,
        conflicts_with_all = ["body", "body_file", "content_type"],
    )]
    form: Vec<form::Field>,

    /// Set the header Content-Type, such as application/json
    #[arg(short = 'T', long, value_name = "TYPE", value_parser = header::value)]
    content_type: Option<HeaderValue>,

    /// Set the header Accept [default: */*]
    #[arg(short = 'A', long, value_name = "TYPE", value_parser = header::value)]
    accept: Option<HeaderValue>,

    /// Use basic authentication
    #[arg(
        short = 'a',
        long,
        value_name = "USER:PASS",
        value_parser = basic,
        allow_hyphen_values = true,
    )]
    basic_auth: Option<HeaderValue>,

    /// Set the header Host [default: as in the URL]
    #[arg(long, value_name = "HOST", value_parser = header::value)]
    host: Option<HeaderValue>,
}

/// Several URLs instead of one.
#[derive(Args, Debug)]
#[command(next_help_heading = "Requests")]
pub(crate) struct Urls {
    /// Send to the URLs in FILE in turn: one per line, all on one server; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    urls: Option<PathBuf>,
}

impl Urls {
    /// Returns the input file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.urls.as_deref()
    }

    /// Returns whether a file of URLs is given.
    pub(crate) fn is_in_use(&self) -> bool {
        self.urls.is_some()
    }

    /// Returns the URLs in the file, if one is given.
    pub(crate) fn targets(&self) -> Result<Option<Vec<Target>>, Refusal> {
        let Some(path) = &self.urls else {
            return Ok(None);
        };
        let text = input::read_text("--urls", path, input::REQUESTS_MIB)?;
        let path = path.display();
        let mut targets = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if targets.len() == MAX_URLS {
                return Err(Refusal::usage(format!(
                    "--urls: {path}: more than {MAX_URLS} URLs"
                )));
            }
            let target = url::parse(line).map_err(|error| {
                Refusal::usage(format!("--urls: {path}: line {}: {error}", index + 1))
            })?;
            targets.push(target);
        }
        if targets.is_empty() {
            return Err(Refusal::usage(format!(
                "--urls: {path} contains no URL: write one per line"
            )));
        }
        Ok(Some(targets))
    }
}

impl Request {
    /// Returns the input files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let form = self.form.iter().filter_map(form::Field::file);
        self.body_file.as_deref().into_iter().chain(form)
    }

    /// Returns the request that is sent repeatedly.
    pub(crate) fn template(self) -> Result<Template, Refusal> {
        let form = match self.form.is_empty() {
            true => None,
            false => Some(form::encode(&self.form)?),
        };
        let usual = if form.is_some() {
            Method::POST
        } else {
            Method::GET
        };
        let (content_type, body) = match (form, &self.body_file) {
            (Some((content_type, body)), _) => (Some(content_type), body),
            (None, None) => (
                self.content_type,
                self.body.unwrap_or_default().into_bytes(),
            ),
            (None, Some(path)) => {
                let body = input::read("--body-file", path, input::REQUESTS_MIB)?;
                (self.content_type, body)
            }
        };
        let mut headers = self.headers;
        let named = [
            (HOST, self.host),
            (ACCEPT, self.accept),
            (CONTENT_TYPE, content_type),
            (AUTHORIZATION, self.basic_auth),
        ];
        headers.extend(
            named
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        Ok(Template {
            method: self.method.unwrap_or(usual),
            headers,
            body: body.into(),
        })
    }
}

fn method(text: &str) -> Result<Method, String> {
    // Methods are case-sensitive, but lower case is certainly a typing error.
    let upper = text.trim().to_ascii_uppercase();
    match upper.parse() {
        Ok(Method::CONNECT) | Err(_) => {
            Err("not a supported request method: write GET, POST, PUT, …".to_owned())
        }
        Ok(method) => Ok(method),
    }
}

/// Encodes `user:password` (RFC 7617).
pub(super) fn basic(text: &str) -> Result<HeaderValue, String> {
    if !text.contains(':') {
        return Err("a colon is missing: write -a user:password".to_owned());
    }
    let mut value: HeaderValue = format!("Basic {}", BASE64_STANDARD.encode(text))
        .parse()
        .map_err(|_| "contains a character that a header cannot hold: write -a user:password")?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7617, section 2.
    #[test]
    fn a_user_and_a_password_are_encoded() {
        let value = basic("Aladdin:open sesame").unwrap();
        assert_eq!(value.as_bytes(), b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(!format!("{value:?}").contains("QWxh"), "not in messages");
        assert!(basic("Aladdin").unwrap_err().contains("user:password"));
    }

    #[test]
    fn methods_are_written_as_they_are_sent() {
        assert_eq!(method("post"), Ok(Method::POST));
        assert_eq!(method(" PURGE ").unwrap().as_str(), "PURGE");
        for text in ["", "G T", "CONNECT", "GE\nT"] {
            assert!(method(text).unwrap_err().contains("write GET"), "{text:?}");
        }
    }
}
