use super::reset::Reset;
use http::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const RATELIMIT: &str = "ratelimit";
const RATELIMIT_POLICY: &str = "ratelimit-policy";
/// How much of a field is read, in bytes.
const MAX_BYTES: usize = 4096;
/// A reset above this is a second of the Unix epoch, not a delay; as a delay it would be 30 years.
const EPOCH: u64 = 1_000_000_000;

/// What a server's header fields report about its limit.
///
/// ```
/// use flowgate_tower::client::Told;
/// use http::HeaderMap;
/// use std::time::{Duration, SystemTime};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit-policy", "\"default\";q=100;w=60".parse()?);
/// headers.insert("ratelimit", "\"default\";r=99;t=1".parse()?);
/// let told = Told::of(&headers, SystemTime::now());
/// assert_eq!(told.limit, Some(100));
/// assert_eq!(told.remaining, Some(99));
/// assert_eq!(told.more_after, Some(Duration::from_secs(1)));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
///
/// | field | read |
/// |---|---|
/// | `Retry-After` | seconds, or a date (RFC 9110 §10.2.3) |
/// | `RateLimit-Policy`, `RateLimit` | draft-ietf-httpapi-ratelimit-headers-11; of several limits the one with the least remaining; our extension `t_us`, unless `t` contradicts it |
/// | `RateLimit: limit=…, remaining=…, reset=…` | the same draft up to its 7th |
/// | `RateLimit-Limit`, `-Remaining`, `-Reset`, also with `X-` | as many have them; a reset is a delay or a second of the Unix epoch |
///
/// A field that cannot be read is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Told {
    /// `Retry-After`: the time after which to ask again.
    pub retry_after: Option<Duration>,
    /// The number of requests that are left.
    pub remaining: Option<u64>,
    /// The time until there are more, or until all are back; fields differ in that. With `t_us`, this is exact to a
    /// microsecond.
    pub more_after: Option<Duration>,
    /// The number of requests in `window`, or the burst; fields differ in that.
    pub limit: Option<u64>,
    /// The time in which `limit` requests are allowed.
    pub window: Option<Duration>,
}

impl Told {
    /// Reads these header fields; `now` is the reference for dates.
    pub fn of(headers: &HeaderMap, now: SystemTime) -> Self {
        let mut told = Self::in_single_fields(headers, now);
        told.retry_after = headers
            .get(RETRY_AFTER)
            .and_then(|value| retry_after(value, now));
        if let Some(standing) = headers.get(RATELIMIT).and_then(dictionary) {
            told = Self {
                retry_after: told.retry_after,
                ..standing
            };
        }
        let tightest = all_items(headers, RATELIMIT).min_by_key(|item| {
            let remaining = item.remaining.unwrap_or(u64::MAX);
            (remaining, std::cmp::Reverse(item.more_after))
        });
        if let Some(item) = &tightest {
            told.remaining = item.remaining;
            let seconds = item.more_after.map(Duration::from_secs);
            told.more_after = item.exactly().or(seconds);
        }
        let name = tightest.as_ref().map(|item| item.name);
        let is_its = |item: &Item<'_>| name.is_none_or(|name| name == item.name);
        if let Some(policy) = all_items(headers, RATELIMIT_POLICY).find(is_its) {
            told.limit = policy.quota;
            told.window = policy.window.map(Duration::from_secs);
        }
        told
    }

    /// The fields that contain one number each.
    fn in_single_fields(headers: &HeaderMap, now: SystemTime) -> Self {
        let number = |name: &str| {
            let value = headers
                .get(format!("x-ratelimit-{name}"))
                .or_else(|| headers.get(format!("ratelimit-{name}")))?;
            leading_number(value.to_str().ok()?)
        };
        Self {
            limit: number("limit"),
            remaining: number("remaining"),
            more_after: number("reset").map(|reset| delay(reset, now)),
            ..Self::default()
        }
    }
}

/// Seconds, or a date (RFC 9110 §10.2.3). A date that is past is one of now.
pub(super) fn retry_after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // One that is too long for a number is for ever.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// `X-RateLimit-…` with a second of the epoch, if there is no `RateLimit`.
pub(super) fn reset(headers: &HeaderMap) -> Option<Reset> {
    let number = |name| leading_number(headers.get(name)?.to_str().ok()?);
    let at = number("x-ratelimit-reset").filter(|at| *at >= EPOCH)?;
    if headers.contains_key(RATELIMIT) {
        return None;
    }
    let date = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    Some(Reset {
        limit: number("x-ratelimit-limit")?,
        remaining: number("x-ratelimit-remaining")?,
        at,
        date: date.duration_since(UNIX_EPOCH).ok()?.as_secs(),
    })
}

/// The items of `RateLimit`.
pub(super) fn standings(headers: &HeaderMap) -> impl Iterator<Item = Item<'_>> {
    all_items(headers, RATELIMIT)
}

/// What a server's policy allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) quota: u64,
    pub(super) window: Duration,
    /// The time for each request at the policy's rate.
    pub(super) each: Duration,
}

/// The policy of the limit that `standing` is of, if it has a rate.
pub(super) fn policy_of(headers: &HeaderMap, standing: Item<'_>) -> Option<Policy> {
    let mut policies = all_items(headers, RATELIMIT_POLICY);
    let policy = policies.find(|policy| policy.name == standing.name)?;
    let window = policy.window.filter(|seconds| *seconds > 0)?;
    let quota = policy.quota.filter(|quota| *quota > 0)?;
    let each_ns = u128::from(window) * 1_000_000_000 / u128::from(quota);
    Some(Policy {
        quota,
        window: Duration::from_secs(window),
        each: Duration::from_nanos(u64::try_from(each_ns).unwrap_or(u64::MAX)),
    })
}

/// The number that a text begins with: `100, 100;w=60` is 100.
fn leading_number(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// How long it is until a reset.
fn delay(reset: u64, now: SystemTime) -> Duration {
    let reset = Duration::from_secs(reset);
    match reset.as_secs() {
        ..EPOCH => reset,
        EPOCH.. => {
            let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
            reset.saturating_sub(now)
        }
    }
}

/// `limit=100, remaining=99, reset=60`: what `RateLimit` was once.
fn dictionary(value: &HeaderValue) -> Option<Told> {
    let text = value.to_str().ok().filter(|text| text.len() <= MAX_BYTES)?;
    let mut told = Told::default();
    for member in text.split(',') {
        let (name, value) = member.split_once('=')?;
        let number = leading_number(value);
        match name.trim() {
            "limit" => told.limit = number,
            "remaining" => told.remaining = number,
            "reset" => told.more_after = number.map(Duration::from_secs),
            _ => {}
        }
    }
    (told != Told::default()).then_some(told)
}

/// One limit of a list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Item<'a> {
    name: &'a [u8],
    pub(super) remaining: Option<u64>,
    /// In seconds, rounded up.
    pub(super) more_after: Option<u64>,
    /// The same in microseconds.
    micros: Option<u64>,
    quota: Option<u64>,
    window: Option<u64>,
}

impl Item<'_> {
    /// The exact time until there is more: `t_us`, unless `t` contradicts it.
    pub(super) fn exactly(&self) -> Option<Duration> {
        let micros = self.micros?;
        let is_rounded = |seconds| seconds == micros.div_ceil(1_000_000);
        self.more_after
            .is_none_or(is_rounded)
            .then(|| Duration::from_micros(micros))
    }
}

/// The items of a field in all its lines. A line that cannot be read has none.
fn all_items<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = Item<'a>> {
    let lines = headers.get_all(name).iter();
    lines.filter_map(|line| items(line.as_bytes())).flatten()
}

/// The items of a list; `None` if it is not a list of strings with parameters (RFC 9651).
fn items(line: &[u8]) -> Option<Vec<Item<'_>>> {
    let mut rest = Some(line.trim_ascii()).filter(|line| line.len() <= MAX_BYTES)?;
    let mut items = Vec::new();
    while !rest.is_empty() {
        let after = skip_string(rest)?;
        let mut item = Item {
            name: &rest[..rest.len() - after.len()],
            ..Item::default()
        };
        rest = after;
        while let Some(after) = rest.strip_prefix(b";") {
            let (name, value, after) = parameter(after.trim_ascii_start())?;
            match name {
                b"r" => item.remaining = value,
                b"t" => item.more_after = value,
                b"t_us" => item.micros = value,
                b"q" => item.quota = value,
                b"w" => item.window = value,
                _ => {}
            }
            rest = after;
        }
        items.push(item);
        rest = rest.trim_ascii_start();
        if let Some(after) = rest.strip_prefix(b",") {
            rest = after.trim_ascii_start();
        } else if !rest.is_empty() {
            return None;
        }
    }
    Some(items)
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
