//! What an answer says of when to send again.

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use std::time::{Duration, SystemTime};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// How much of a field is read, in bytes.
const MAX_BYTES: usize = 4096;

/// What to make of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Nothing to complain about.
    Fine,
    /// Nothing to complain about, but nothing left either.
    Rest(Duration),
    /// Too much; for so long, if it says how long.
    Stop(Option<Duration>),
}

/// What `response` says; `now` is for dates.
pub(super) fn advice<B>(response: &Response<B>, now: SystemTime) -> Advice {
    let rest = rate_limit(response.headers());
    match response.status() {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            // It takes precedence (draft-ietf-httpapi-ratelimit-headers-11 §6).
            let told = response.headers().get(RETRY_AFTER);
            Advice::Stop(told.and_then(|told| retry_after(told, now)).or(rest))
        }
        _ => rest.map_or(Advice::Fine, Advice::Rest),
    }
}

/// Seconds, or a date (RFC 9110 §10.2.3). A date that is past is one of now.
fn retry_after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // One that is too long for a number is for ever.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// The longest `t` of those limits of which nothing is left. A field that cannot be read says nothing.
fn rate_limit(headers: &HeaderMap) -> Option<Duration> {
    let lines = headers.get_all(RATELIMIT).iter();
    let used_up = lines.filter_map(|line| items(line.as_bytes())).flatten();
    used_up.max()
}

/// When there is more, of those items of a list that have `r=0` and a `t`; `None` if it is not a list of strings with
/// parameters (RFC 9651).
fn items(line: &[u8]) -> Option<Vec<Duration>> {
    let mut rest = Some(line.trim_ascii()).filter(|line| line.len() <= MAX_BYTES)?;
    let mut used_up = Vec::new();
    while !rest.is_empty() {
        rest = skip_string(rest)?;
        let (mut remaining, mut more_after) = (None, None);
        while let Some(after) = rest.strip_prefix(b";") {
            let (name, value, after) = parameter(after.trim_ascii_start())?;
            match name {
                b"r" => remaining = value,
                b"t" => more_after = value,
                _ => {}
            }
            rest = after;
        }
        if let (Some(0), Some(seconds)) = (remaining, more_after) {
            used_up.push(Duration::from_secs(seconds));
        }
        rest = rest.trim_ascii_start();
        if let Some(after) = rest.strip_prefix(b",") {
            rest = after.trim_ascii_start();
        } else if !rest.is_empty() {
            return None;
        }
    }
    Some(used_up)
}

/// What follows a string.
fn skip_string(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b"\"")?;
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(&text[at + 1..]),
            b'\\' => _ = bytes.next()?,
            _ => {}
        }
    }
    None
}

type Parameter<'a> = (&'a [u8], Option<u64>, &'a [u8]);

/// A parameter's name, its value if that is an integer that is not negative, and what follows it.
fn parameter(text: &[u8]) -> Option<Parameter<'_>> {
    let is_name =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte);
    let end = text.iter().position(|byte| !is_name(byte));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    if name.is_empty() {
        return None;
    }
    let Some(rest) = rest.strip_prefix(b"=") else {
        return Some((name, None, rest));
    };
    if rest.starts_with(b"\"") {
        return Some((name, None, skip_string(rest)?));
    }
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b';' | b',' | b' ' | b'\t'));
    let (value, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let digits = str::from_utf8(value).ok().filter(|value| {
        (1..=15).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
    });
    Some((name, digits.and_then(|digits| digits.parse().ok()), rest))
}

#[cfg(test)]
mod tests;
