//! The common and the combined log format.
//!
//! ```text
//! 192.0.2.1 - ann [10/Oct/2000:13:55:36 -0700] "GET /cart?id=1 HTTP/1.1" 200 2326 "http://example.com/" "curl/8"
//! └ address   └ user  └ time                   └ request                 │   └ bytes
//!                                                                        └ status
//! ```
//!
//! The format with virtual hosts has `example.com:443` in front. What follows the status is not needed, and may have any shape.

use memchr::{memchr, memchr_iter};

use crate::log::error::{Flaw, LogError};
use crate::log::fields::{Extract, Use, Wanted};

/// A field of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Time,
    Ip,
    User,
    Host,
    Method,
    Path,
    Status,
    Bytes,
}

const NAMES: [(&str, Field); 8] = [
    ("ip", Field::Ip),
    ("user", Field::User),
    ("host", Field::Host),
    ("method", Field::Method),
    ("path", Field::Path),
    ("status", Field::Status),
    ("bytes", Field::Bytes),
    ("time", Field::Time),
];

/// The parts of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) time: &'a [u8],
    /// Host, address, identity and user.
    client: &'a [u8],
    request: &'a [u8],
    /// The status, the bytes, and whatever else there is.
    rest: &'a [u8],
}

/// Takes the line apart.
pub(crate) fn parse(line: &[u8]) -> Result<Entry<'_>, Flaw> {
    let open = memchr_iter(b'[', line)
        .find(|at| *at > 0 && line[at - 1] == b' ')
        .ok_or(Flaw::Access("no time in brackets"))?;
    let (client, time) = (&line[..open - 1], &line[open + 1..]);
    let close = memchr(b']', time).ok_or(Flaw::Access("no time in brackets"))?;
    let (time, rest) = (&time[..close], &time[close + 1..]);
    let Some(request) = rest.strip_prefix(b" \"") else {
        return Err(Flaw::Access("no request in quotes after the time"));
    };
    let end = memchr_iter(b'"', request)
        .find(|at| !is_escaped(&request[..*at]))
        .ok_or(Flaw::Access("the request's quote does not end"))?;
    let (request, rest) = (&request[..end], request[end + 1..].trim_ascii_start());
    let status = word(rest);
    let is_status = status == b"-" || status.len() == 3 && status.iter().all(u8::is_ascii_digit);
    if !is_status {
        return Err(Flaw::Access("no status after the request"));
    }
    Ok(Entry {
        time,
        client,
        request,
        rest,
    })
}

/// Whether an odd number of backslashes comes before.
fn is_escaped(before: &[u8]) -> bool {
    let slashes = before.iter().rev().take_while(|byte| **byte == b'\\');
    slashes.count() % 2 == 1
}

/// The first word, which may be empty.
fn word(text: &[u8]) -> &[u8] {
    &text[..memchr(b' ', text).unwrap_or(text.len())]
}

/// What follows the first word.
fn after_word(text: &[u8]) -> &[u8] {
    text[word(text).len()..].trim_ascii_start()
}

impl<'a> Entry<'a> {
    fn field(&self, field: Field) -> Option<&'a [u8]> {
        let or_dash = |text: &'a [u8]| if text.is_empty() { b"-" } else { text };
        let path = after_word(self.request);
        match field {
            Field::Time => Some(self.time),
            Field::Host => self.host_and_client().0,
            Field::Ip => Some(or_dash(word(self.host_and_client().1))),
            Field::User => {
                let client = self.host_and_client().1;
                Some(or_dash(after_word(after_word(client))))
            }
            // A request such as "-", or one of TLS on a port without it, has no path.
            Field::Method if path.is_empty() => Some(b"-"),
            Field::Method => Some(word(self.request)),
            Field::Path => Some(or_dash(word(path))),
            Field::Status => Some(word(self.rest)),
            Field::Bytes => match word(after_word(self.rest)) {
                b"-" => Some(b"0"),
                bytes => Some(bytes),
            },
        }
    }

    /// The identity is `-` in practice. If the second word is another one, and the third is `-`, the first is the host.
    fn host_and_client(&self) -> (Option<&'a [u8]>, &'a [u8]) {
        let (first, client) = (word(self.client), after_word(self.client));
        let has_host = word(client) != b"-" && word(after_word(client)) == b"-";
        match has_host && !after_word(after_word(client)).is_empty() {
            true => (Some(without_port(first)), client),
            false => (None, self.client),
        }
    }
}

fn without_port(host: &[u8]) -> &[u8] {
    match memchr::memrchr(b':', host) {
        Some(at) if at + 1 < host.len() && host[at + 1..].iter().all(u8::is_ascii_digit) => {
            &host[..at]
        }
        _ => host,
    }
}

/// Takes fields out of lines.
#[derive(Debug)]
pub(crate) struct AccessFields<const N: usize>([Option<Field>; N]);

impl<const N: usize> AccessFields<N> {
    pub(crate) fn new(wanted: &[Wanted<'_>; N]) -> Result<Self, LogError> {
        let mut fields = [None; N];
        for (field, wanted) in fields.iter_mut().zip(wanted) {
            let default = match wanted.what {
                Use::Time => Some(Field::Time),
                Use::Key => Some(Field::Ip),
                Use::Cost | Use::Duration => None,
            };
            *field = match wanted.name {
                None => default,
                Some(name) => {
                    let known = NAMES.iter().find(|(known, _)| *known == name);
                    let names = || NAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
                    let (_, field) = known.ok_or_else(|| LogError::UnknownField {
                        field: name.to_owned(),
                        known: names(),
                    })?;
                    Some(*field)
                }
            };
        }
        Ok(Self(fields))
    }
}

impl<const N: usize> Extract<N> for AccessFields<N> {
    fn extract<'a>(&'a mut self, line: &'a [u8]) -> Result<[Option<&'a [u8]>; N], Flaw> {
        let entry = parse(line)?;
        Ok(self.0.map(|field| entry.field(field?)))
    }

    fn name(&self, index: usize) -> Option<String> {
        let field = self.0[index]?;
        let (name, _) = NAMES.iter().find(|(_, known)| *known == field)?;
        Some((*name).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMBINED: &str = r#"192.0.2.1 - ann [10/Oct/2000:13:55:36 -0700] "GET /cart?id=1 HTTP/1.1" 200 2326 "-" "curl/8""#;

    fn field(line: &str, field: Field) -> Option<String> {
        let entry = parse(line.as_bytes()).expect("a line");
        let text = entry.field(field)?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    #[track_caller]
    fn assert_fields(line: &str, expected: [(Field, &str); 4]) {
        for (name, value) in expected {
            assert_eq!(
                field(line, name).as_deref(),
                Some(value),
                "{name:?}: {line}"
            );
        }
    }

    #[test]
    fn fields_are_where_the_format_has_them() {
        use Field::{Bytes, Host, Ip, Method, Path, Status, Time, User};
        let time = (Time, "10/Oct/2000:13:55:36 -0700");
        let begin = [time, (Ip, "192.0.2.1"), (User, "ann"), (Method, "GET")];
        assert_fields(COMBINED, begin);
        let end = [(Path, "/cart?id=1"), (Status, "200"), (Bytes, "2326"), time];
        assert_fields(COMBINED, end);
        assert_eq!(field(COMBINED, Host), None);

        let with_host = format!("example.com:443 {COMBINED}");
        assert_fields(&with_host, begin);
        assert_eq!(field(&with_host, Host).as_deref(), Some("example.com"));

        let user_of_two_words = COMBINED.replace("ann", "ann lee");
        assert_eq!(field(&user_of_two_words, User).as_deref(), Some("ann lee"));

        let old = r#"::1 - - [x] "GET /\"a\" x" 304 -"#;
        assert_fields(
            old,
            [(Ip, "::1"), (User, "-"), (Path, r#"/\"a\""#), (Bytes, "0")],
        );
        for no_request in [
            r#"::1 - - [x] "-" 408 0"#,
            r#"::1 - - [x] "\x16\x03" 400 0"#,
            r#"::1 - - [x] "" - 0"#,
        ] {
            assert_fields(
                no_request,
                [(Ip, "::1"), (Method, "-"), (Path, "-"), (Time, "x")],
            );
        }
    }

    #[test]
    fn a_line_that_is_cut_is_malformed() {
        let status = COMBINED.find(" 2326").expect("bytes");
        for end in 0..COMBINED.len() {
            let line = &COMBINED.as_bytes()[..end];
            assert_eq!(parse(line).is_ok(), end >= status, "{end}");
        }
    }
}
