use crate::limits::{Names, Standing, standing};
use crate::policy::{self, Policies};
use bytes::Bytes;
use flowgate::{Denied, Limiter, Policy, Snapshot};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer of a structured field (RFC 9651 §3.3.1).
const MOST: u64 = 999_999_999_999_999;

/// A choice of the header fields that describe the client's limit in every response.
///
/// `Retry-After` does not depend on this setting. A rejection always has it if a time is known: in whole seconds, rounded
/// up, at least 1.
///
/// ```text
/// RateLimit-Policy: "default";q=100;w=60           100 in 60 s
/// RateLimit: "default";r=99                        99 left
/// RateLimit: "default";r=0;t=8;t_us=7512034        none left; one more in 7.512034 s
/// RateLimit: "default";r=0;t_us=600000             none left; one more in 0.6 s
/// ```
///
/// | field | parameter | meaning |
/// |---|---|---|
/// | `RateLimit-Policy` | `q` | tokens that are refilled during `w` seconds |
/// | | `w` | whole seconds; `q` and `w` together are the quota's rate |
/// | | `qu` | `"concurrent-requests"` for a concurrency limit, which has no `w` |
/// | `RateLimit` | `r` | tokens left after this request, rounded down |
/// | | `t` | whole seconds, rounded up, until there are more |
/// | | `t_us` | the same in microseconds, rounded up |
///
/// - **`q` and `w`.** If a full bucket ([`Snapshot::limit`](flowgate::Snapshot::limit)) is refilled in a whole number of
///   seconds, these are the two numbers: `100/min` is `q=100;w=60`. Otherwise they are scaled up together to whole seconds:
///   `100/s burst 20` is `q=100;w=1`, and `3/s burst 10` is `q=12;w=4`. Their ratio is never more than the quota, and at
///   most 1 % less. `r` reports how many tokens are available as a burst.
/// - **`t`** is left out if the time is under 1 s. Rounded up, it would stop a client for up to a second after each
///   request: 100 per second would become one.
/// - **`t_us`** is there if `r` is 0 and a time is known. It is an extension parameter, which the draft permits. Clients
///   without support for it ignore it; [`ClientLayer`](crate::client::ClientLayer) waits for exactly that time.
///
/// The values are those at the time at which the response's head is sent. A gate has one entry for each of its limits. If
/// layers are nested, their entries form one list.
///
/// Source: draft-ietf-httpapi-ratelimit-headers-11; structured fields (RFC 9651).
///
/// ```
/// use flowgate::TokenBucket;
/// use flowgate_tower::{Headers, LimitLayer, Reset};
/// use http::{Request, Response};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let headers = Headers::draft().and_legacy(Reset::Delay);
/// let layer = LimitLayer::new(TokenBucket::new("100/min".parse()?)).headers(headers);
/// let response = layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
/// assert_eq!(response.headers()["ratelimit-policy"], "\"default\";q=100;w=60");
/// assert_eq!(response.headers()["ratelimit"], "\"default\";r=99");
/// assert_eq!(response.headers()["x-ratelimit-remaining"], "99");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    draft: bool,
    legacy: Option<Reset>,
}

/// The meaning of `X-RateLimit-Reset`. There is no standard, and both are in use.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use flowgate_tower::{Headers, LimitLayer, Reset};
/// use http::{Request, Response};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// for (reset, is_told) in [(Reset::Delay, 60..=60), (Reset::Epoch, 1_700_000_000..=u64::MAX)] {
///     // One each minute: after the first request, all three can be had again in a minute.
///     let limit = TokenBucket::builder("1/min burst 3".parse()?).clock(ManualClock::new()).build()?;
///     let service = LimitLayer::new(limit).headers(Headers::legacy(reset)).layer(service_fn(answer));
///     let response = service.oneshot(Request::new(String::new())).await?;
///     let told: u64 = response.headers()["x-ratelimit-reset"].to_str()?.parse()?;
///     assert!(is_told.contains(&told), "{reset:?}: {told}");
/// }
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds from now.
    Delay,
    /// Seconds since 1970, by this machine's clock, as GitHub sends them.
    Epoch,
}

impl Headers {
    /// Chooses `RateLimit-Policy` and `RateLimit` of the current draft (the default).
    ///
    /// ```
    /// # use flowgate_tower::Headers;
    /// assert_eq!(Headers::draft(), Headers::default());
    /// ```
    #[must_use]
    pub const fn draft() -> Self {
        Self {
            draft: true,
            legacy: None,
        }
    }

    /// Chooses `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    ///
    /// The reset is the time at which the limit is fully refilled. If there are several limits, the fields describe the one
    /// with the least remaining.
    ///
    /// ```
    /// use flowgate::{ConcurrencyLimit, Gate, TokenBucket};
    /// use flowgate_tower::{Headers, LimitLayer, Reset};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let gate = Gate::builder()
    ///     .limit("rate", TokenBucket::new("100/min".parse()?))
    ///     .limit("at once", ConcurrencyLimit::new(5))
    ///     .build()?;
    /// let layer = LimitLayer::new(gate).headers(Headers::legacy(Reset::Delay));
    /// let response = layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.headers()["x-ratelimit-limit"], "5"); // which has less left than 100
    /// assert!(!response.headers().contains_key("ratelimit"));
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn legacy(reset: Reset) -> Self {
        Self {
            draft: false,
            legacy: Some(reset),
        }
    }

    /// Chooses no such fields.
    ///
    /// ```
    /// use flowgate::{ManualClock, TokenBucket};
    /// use flowgate_tower::{Headers, LimitLayer};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limit = TokenBucket::builder("1/h".parse()?).clock(ManualClock::new()).build()?;
    /// let service = LimitLayer::new(limit).headers(Headers::none()).layer(service_fn(answer));
    /// let response = service.clone().oneshot(Request::new(String::new())).await?;
    /// assert!(response.headers().is_empty());
    /// // Who is rejected is told when to come back all the same.
    /// let rejected = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(rejected.headers()["retry-after"], "3600");
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn none() -> Self {
        Self {
            draft: false,
            legacy: None,
        }
    }

    /// The [legacy](Self::legacy) ones, too.
    ///
    /// ```
    /// # use flowgate_tower::{Headers, Reset};
    /// let both = Headers::draft().and_legacy(Reset::Epoch);
    /// assert_ne!(both, Headers::draft());
    /// assert_eq!(Headers::none().and_legacy(Reset::Epoch), Headers::legacy(Reset::Epoch));
    /// ```
    #[must_use]
    pub const fn and_legacy(self, reset: Reset) -> Self {
        Self {
            legacy: Some(reset),
            ..self
        }
    }

    /// Returns what writes the fields of one limit, which they call `name`.
    ///
    /// Use it where no [`LimitLayer`](crate::LimitLayer) writes the response, such as in a server that decides for others.
    ///
    /// ```
    /// use flowgate::{ManualClock, TokenBucket};
    /// use flowgate_tower::Headers;
    /// use http::HeaderMap;
    ///
    /// let limit = TokenBucket::builder("100/min".parse()?).clock(ManualClock::new()).build()?;
    /// let fields = Headers::draft().of_limit("users");
    /// limit.try_acquire()?;
    /// let mut headers = HeaderMap::new();
    /// fields.describe(&limit, &mut headers);
    /// assert_eq!(headers["ratelimit-policy"], "\"users\";q=100;w=60");
    /// assert_eq!(headers["ratelimit"], "\"users\";r=99");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of_limit(self, name: &str) -> LimitHeaders {
        LimitHeaders {
            headers: self,
            names: Names::new(name),
            policies: Policies::default(),
        }
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::none()
    }
}

impl Default for Headers {
    fn default() -> Self {
        Self::draft()
    }
}

/// The header fields of one limit, for responses that no layer writes.
///
/// [`Headers::of_limit`] returns it. Keep it as long as the limit: what is the same in all responses is written once.
#[derive(Clone, Debug)]
pub struct LimitHeaders {
    headers: Headers,
    names: Names,
    policies: Policies,
}

impl LimitHeaders {
    /// Adds the fields that describe `limiter` now to `headers`.
    ///
    /// `limiter` is the limit, or one key of it. If it has two quotas, `-1` and `-2` follow the name.
    pub fn describe(&self, limiter: &dyn Limiter, headers: &mut HeaderMap) {
        self.of_limiter(limiter).put(headers);
    }

    /// Returns the values of `RateLimit-Policy` and `RateLimit` that describe `limiter` now.
    #[doc(hidden)]
    pub fn draft_of(&self, limiter: &dyn Limiter) -> Option<(HeaderValue, String)> {
        self.of_limiter(limiter).draft()
    }

    fn of_limiter(&self, limiter: &dyn Limiter) -> Fields<'_> {
        let mut fields = Fields::new(self.headers, &self.policies);
        standing::of_limiter(&self.names, limiter, |standing| fields.add(standing));
        fields
    }

    /// Adds the fields of a limit with one quota, by a snapshot of it.
    ///
    /// `more` returns the result that `peek_n` of the limit would return for a number of tokens. It is called if the fields may
    /// contain a time.
    ///
    /// ```
    /// use flowgate::{Keyed, ManualClock};
    /// use flowgate_tower::Headers;
    /// use http::HeaderMap;
    ///
    /// let limits = Keyed::token_bucket("100/min".parse()?).clock(ManualClock::new()).capacity(1000)?;
    /// let fields = Headers::draft().of_limit("users");
    /// limits.try_acquire_n("alice", 100)?;
    /// let (mut headers, seen) = (HeaderMap::new(), limits.snapshot("alice"));
    /// fields.describe_snapshot(seen, limits.policy(), |n| limits.peek_n("alice", n), &mut headers);
    /// assert_eq!(headers["ratelimit"], "\"users\";r=0;t_us=600000");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn describe_snapshot(
        &self,
        snapshot: Snapshot,
        policy: Policy,
        more: impl FnOnce(u64) -> Result<(), Denied>,
        headers: &mut HeaderMap,
    ) {
        self.of_snapshot(snapshot, policy, more).put(headers);
    }

    /// Returns the values of `RateLimit-Policy` and `RateLimit`, as [`describe_snapshot`](Self::describe_snapshot) adds them.
    #[doc(hidden)]
    pub fn draft_of_snapshot(
        &self,
        snapshot: Snapshot,
        policy: Policy,
        more: impl FnOnce(u64) -> Result<(), Denied>,
    ) -> Option<(HeaderValue, String)> {
        self.of_snapshot(snapshot, policy, more).draft()
    }

    fn of_snapshot(
        &self,
        snapshot: Snapshot,
        policy: Policy,
        more: impl FnOnce(u64) -> Result<(), Denied>,
    ) -> Fields<'_> {
        let mut fields = Fields::new(self.headers, &self.policies);
        let Policy {
            quota, is_steady, ..
        } = policy;
        let (name, quota) = (&self.names.limit, Some(quota));
        fields.add(&Standing::of_rate(name, snapshot, quota, is_steady, more));
        fields
    }
}

/// The fields of one response, as they are put together.
pub(crate) struct Fields<'a> {
    headers: Headers,
    policies: &'a Policies,
    policy: Option<HeaderValue>,
    standing: Vec<u8>,
    tightest: Option<Tightest>,
}

struct Tightest {
    limit: u64,
    remaining: u64,
    reset_after: Option<Duration>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(headers: Headers, policies: &'a Policies) -> Self {
        Self {
            headers,
            policies,
            policy: None,
            standing: Vec::new(),
            tightest: None,
        }
    }

    pub(crate) fn add(&mut self, standing: &Standing<'_>) {
        if self.headers.draft {
            self.add_draft(standing);
        }
        let is_tighter = |tightest: &Tightest| standing.remaining < tightest.remaining;
        if self.headers.legacy.is_some() && self.tightest.as_ref().is_none_or(is_tighter) {
            let reset_after = standing.reset_after;
            self.tightest = Some(Tightest {
                limit: standing.limit,
                remaining: standing.remaining,
                reset_after: (reset_after != Duration::MAX).then_some(reset_after),
            });
        }
    }

    fn add_draft(&mut self, standing: &Standing<'_>) {
        let mut parameters = Parameters::default();
        parameters.integer(b";r=", standing.remaining);
        if let Some(more_after) = standing.more_after {
            if more_after >= Duration::from_secs(1) {
                parameters.integer(b";t=", whole_seconds(more_after));
            }
            if standing.remaining == 0 {
                parameters.integer(b";t_us=", whole_micros(more_after).max(1));
            }
        }
        let Some(others) = &self.policy else {
            let item = self.policies.item(standing);
            if let Some(item) = &item {
                add_item(&mut self.standing, item.name(), &parameters);
            }
            self.policy = item.map(|item| item.value);
            return;
        };
        let name = quoted(standing.name);
        add_item(&mut self.standing, name.as_bytes(), &parameters);
        let mut list = others.as_bytes().to_vec();
        add_item(&mut list, name.as_bytes(), &policy::parameters(standing));
        self.policy = HeaderValue::from_maybe_shared(Bytes::from(list)).ok();
    }

    /// Returns the policies, and the standing.
    fn draft(self) -> Option<(HeaderValue, String)> {
        let standing = String::from_utf8(self.standing).ok()?;
        Some((self.policy?, standing))
    }

    /// Puts them with those that are there: lists grow, single values of a layer further inside stand.
    pub(crate) fn put(self, headers: &mut HeaderMap) {
        if let Some(policy) = self.policy
            && let Ok(standing) = HeaderValue::from_maybe_shared(Bytes::from(self.standing))
        {
            headers.append(RATELIMIT_POLICY, policy);
            headers.append(RATELIMIT, standing);
        }
        if let (Some(tightest), Some(reset)) = (self.tightest, self.headers.legacy)
            && !headers.contains_key(&X_LIMIT)
        {
            headers.insert(X_LIMIT, tightest.limit.into());
            headers.insert(X_REMAINING, tightest.remaining.into());
            if let Some(after) = tightest.reset_after {
                let seconds = match reset {
                    Reset::Delay => whole_seconds(after),
                    Reset::Epoch => epoch(SystemTime::now(), after),
                };
                headers.insert(X_RESET, seconds.into());
            }
        }
    }
}

/// Seconds, rounded up.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    let part = u64::from(time.subsec_nanos() != 0);
    time.as_secs().saturating_add(part)
}

/// Microseconds, rounded up.
pub(crate) fn whole_micros(time: Duration) -> u64 {
    let part = time.subsec_nanos().div_ceil(1000);
    time.as_secs()
        .saturating_mul(1_000_000)
        .saturating_add(part.into())
}

/// What `Retry-After` says: whole seconds, rounded up, and never 0, which would say "now".
pub(crate) fn retry_after_seconds(time: Duration) -> u64 {
    whole_seconds(time).max(1)
}

/// The second of the Unix epoch by which `after` has passed.
fn epoch(now: SystemTime, after: Duration) -> u64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    whole_seconds(since.saturating_add(after))
}

/// The parameters of an item, on the stack: a field's value is then allocated once, as long as it is.
pub(crate) struct Parameters {
    /// At most 61 bytes: `;q=`, `;qu="concurrent-requests"` and `;w=` with two integers of 15 digits. `;r=`, `;t=` and
    /// `;t_us=` with three of them are 57.
    bytes: [u8; 64],
    len: usize,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            bytes: [0; 64],
            len: 0,
        }
    }
}

impl Parameters {
    pub(crate) fn push(&mut self, text: &[u8]) {
        let end = self.len + text.len();
        self.bytes[self.len..end].copy_from_slice(text);
        self.len = end;
    }

    /// One that is an integer of a structured field.
    pub(crate) fn integer(&mut self, parameter: &[u8], value: u64) {
        self.push(parameter);
        self.push(itoa::Buffer::new().format(value.min(MOST)).as_bytes());
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Adds an item to a list, which is then as large as it has to be: `, name;parameters`.
pub(crate) fn add_item(list: &mut Vec<u8>, name: &[u8], parameters: &Parameters) {
    let parameters = parameters.text();
    if list.is_empty() {
        *list = Vec::with_capacity(name.len() + parameters.len());
    } else {
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(name);
    list.extend_from_slice(parameters);
}

/// `name` as a string of a structured field, with its quotation marks.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", escaped(name))
}

/// `name` as it is between quotation marks, in a structured field and in JSON. Characters that are not printable ASCII
/// become `_`, because the two formats write them differently.
pub(crate) fn escaped(name: &str) -> Cow<'_, str> {
    let is_plain = |byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut text = String::with_capacity(name.len());
    for char in name.chars() {
        match char {
            '"' | '\\' => text.extend(['\\', char]),
            ' '..='~' => text.push(char),
            _ => text.push('_'),
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests;
