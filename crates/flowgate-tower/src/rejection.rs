use crate::RequestHead;
use crate::by::NoKey;
use crate::headers::{escaped, retry_after_seconds};
use crate::limits::Cause;
use bytes::Bytes;
use flowgate::Denied;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use std::fmt;
use std::time::Duration;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// How long a client that retries by itself is to wait, in milliseconds (gRFC A6).
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// A request that is not let through, and why.
///
/// | because | status | gRPC |
/// |---|---|---|
/// | over a rate, or the client's own limit of concurrency | `429 Too Many Requests` | `RESOURCE_EXHAUSTED` |
/// | a limit of concurrency that all share is busy, or its queue is full | `503 Service Unavailable` | `UNAVAILABLE` |
/// | no room for another key, or the limiter is closed | `503 Service Unavailable` | `UNAVAILABLE` |
/// | no key, or one that cannot be read | `400 Bad Request` | `INVALID_ARGUMENT` |
/// | the server cannot find the key, or keep the key's quota | `500 Internal Server Error` | `INTERNAL` |
///
/// 429 says that *this client* asked too often; 503 that the server is at its capacity, whoever asks.
///
/// ```
/// use flowgate::{Keyed, ManualClock};
/// use flowgate_tower::{LimitLayer, by};
/// use http::{Request, Response};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limits = Keyed::token_bucket("1/h".parse()?).clock(ManualClock::new()).capacity(1000)?;
/// let layer = LimitLayer::keyed(limits, by::header("x-api-key")).name("reads").on_rejected(|rejection| {
///     let path = rejection.request().uri.path();
///     let text = match (rejection.no_key(), rejection.retry_after_seconds()) {
///         (Some(no_key), _) => format!("{path}: {no_key}"),
///         (None, Some(seconds)) => format!("{path}: over `{}` for {seconds} s", rejection.limit_name()),
///         (None, None) => rejection.to_string(),
///     };
///     let mut response = Response::new(text);
///     *response.status_mut() = rejection.status();
///     if let Some(wait) = rejection.retry_after() {
///         response.headers_mut().insert("x-retry-after-ms", (wait.as_millis() as u64).into());
///     }
///     response
/// });
/// let service = layer.layer(service_fn(answer));
/// let nobody = service.clone().oneshot(Request::new(String::new())).await?;
/// assert_eq!(nobody.status(), 400);
///
/// let ask = || Request::get("/").header("x-api-key", "k-17").body(String::new());
/// assert_eq!(service.clone().oneshot(ask()?).await?.status(), 200);
/// let rejected = service.oneshot(ask()?).await?;
/// assert_eq!(rejected.status(), 429);
/// assert_eq!(rejected.headers()["x-retry-after-ms"], "3600000");
/// # use http_body_util::BodyExt;
/// assert_eq!(rejected.into_body().collect().await?.to_bytes(), "/: over `reads` for 3600 s");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Rejection<'a> {
    pub(crate) cause: &'a Cause,
    pub(crate) name: &'a str,
    pub(crate) is_the_clients: bool,
    pub(crate) request: RequestHead<'a>,
}

impl Rejection<'_> {
    /// The request's head.
    pub fn request(&self) -> &RequestHead<'_> {
        &self.request
    }

    /// The limit's refusal; none if it was not asked, for want of a key.
    ///
    /// ```
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response, StatusCode};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limit = TokenBucket::new("10/s".parse()?);
    /// let layer = LimitLayer::new(limit).cost(|_| 11).on_rejected(|rejection| {
    ///     let mut response = rejection.response();
    ///     if rejection.denied().is_some_and(|denied| denied.is_never()) {
    ///         *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE; // no use in coming back
    ///     }
    ///     response
    /// });
    /// let response = layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.status(), 413);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn denied(&self) -> Option<&Denied> {
        match self.cause {
            Cause::Denied(denied) => Some(denied),
            Cause::NoKey(_) | Cause::Quota(_) => None,
        }
    }

    /// Why there is no key, if that is why.
    pub fn no_key(&self) -> Option<NoKey> {
        match self.cause {
            Cause::NoKey(no_key) => Some(*no_key),
            Cause::Denied(_) | Cause::Quota(_) => None,
        }
    }

    /// The name of the limit: the layer's, or that of the one in a gate that refused.
    pub fn limit_name(&self) -> &str {
        self.name
    }

    /// The least time to wait; none if it is not known, or waiting does not help.
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied()?.retry_after()
    }

    /// What `Retry-After` says: whole seconds, rounded up, at least 1.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after().map(retry_after_seconds)
    }

    /// The status of the answer; of one to gRPC, what it would be otherwise.
    pub fn status(&self) -> StatusCode {
        match self.cause {
            Cause::Denied(denied) => {
                let is_servers = denied.is_busy() || denied.is_queue_full();
                if denied.is_table_full()
                    || denied.is_closed()
                    || is_servers && !self.is_the_clients
                {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    StatusCode::TOO_MANY_REQUESTS
                }
            }
            Cause::NoKey(NoKey::NotProvided) | Cause::Quota(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Cause::NoKey(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Whether the request is one of gRPC, by its content type.
    pub(crate) fn is_grpc(&self) -> bool {
        grpc_content_type(self.request.headers).is_some()
    }

    /// The default answer: a line of text; to gRPC its status, without a body.
    ///
    /// ```
    /// use flowgate::{ManualClock, TokenBucket};
    /// use flowgate_tower::LimitLayer;
    /// use http::header::HeaderValue;
    /// use http::{Request, Response};
    /// use http_body_util::BodyExt;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limit = TokenBucket::builder("1/min burst 1".parse()?).clock(ManualClock::new()).build()?;
    /// let layer = LimitLayer::new(limit).on_rejected(|rejection| {
    ///     let mut response = rejection.response();
    ///     response.headers_mut().insert("cache-control", HeaderValue::from_static("no-store"));
    ///     response
    /// });
    /// let service = layer.layer(service_fn(answer));
    /// service.clone().oneshot(Request::new(String::new())).await?;
    /// let rejected = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(rejected.headers()["cache-control"], "no-store");
    /// let text = rejected.into_body().collect().await?.to_bytes();
    /// assert_eq!(text, "over the limit `default`; retry after 60 s\n");
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn response(&self) -> Response<Bytes> {
        match grpc_content_type(self.request.headers) {
            Some(content_type) => self.grpc_response(content_type.clone()),
            None => {
                let text = Bytes::from(format!("{self}\n"));
                self.with_body("text/plain; charset=utf-8", text)
            }
        }
    }

    /// An answer with problem details (RFC 9457) of the types that draft-ietf-httpapi-ratelimit-headers-11 §5
    /// defines, for [`on_rejected`](crate::LimitLayer::on_rejected).
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0))
    ///     .on_rejected(|rejection| rejection.problem_details());
    /// let response = layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.headers()["content-type"], "application/problem+json");
    /// # use http_body_util::BodyExt;
    /// let text = String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?;
    /// assert!(text.contains(r#""status":503,"violated-policies":["default"]"#));
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn problem_details(&self) -> Response<Bytes> {
        let status = self.status();
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => {
                "https://iana.org/assignments/http-problem-types#quota-exceeded"
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
            }
            _ => "about:blank",
        };
        let mut text = format!("{{\"type\":\"{kind}\",\"title\":\"");
        text.push_str(&escaped(&self.to_string()));
        text.push_str(&format!("\",\"status\":{}", status.as_u16()));
        if self.denied().is_some() {
            text.push_str(",\"violated-policies\":[\"");
            text.push_str(&escaped(self.name));
            text.push_str("\"]");
        }
        text.push('}');
        self.with_body("application/problem+json", text.into())
    }

    fn with_body(&self, content_type: &'static str, body: Bytes) -> Response<Bytes> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status();
        let content_type = HeaderValue::from_static(content_type);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }

    /// An answer of trailers only, which are then headers (gRPC over HTTP/2, "Responses").
    fn grpc_response(&self, content_type: HeaderValue) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, content_type);
        let status = match self.status() {
            StatusCode::TOO_MANY_REQUESTS => 8u16,
            StatusCode::SERVICE_UNAVAILABLE => 14,
            StatusCode::BAD_REQUEST => 3,
            _ => 13,
        };
        headers.insert(GRPC_STATUS, status.into());
        if let Ok(message) = HeaderValue::try_from(percent_encoded(&self.to_string())) {
            headers.insert(GRPC_MESSAGE, message);
        }
        match self.denied() {
            // Negative: not to be retried.
            Some(denied) if denied.is_never() || denied.is_closed() => {
                headers.insert(GRPC_PUSHBACK, HeaderValue::from_static("-1"));
            }
            Some(denied) => {
                if let Some(after) = denied.retry_after() {
                    headers.insert(GRPC_PUSHBACK, whole_millis(after).into());
                }
            }
            None => {}
        }
        response
    }

    /// `Retry-After`, unless whoever made the answer has put one there.
    pub(crate) fn put_retry_after(&self, headers: &mut HeaderMap) {
        if let Some(seconds) = self.retry_after_seconds() {
            headers.entry(RETRY_AFTER).or_insert_with(|| seconds.into());
        }
    }
}

/// The one line that the client is told.
impl fmt::Display for Rejection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.cause {
            Cause::NoKey(no_key) => no_key.fmt(f),
            Cause::Quota(_) => f.write_str("the quota of whoever this is cannot be kept"),
            Cause::Denied(denied) if denied.is_never() => {
                write!(f, "it takes more than the limit `{name}` ever has at once")
            }
            Cause::Denied(denied) => {
                if denied.is_closed() {
                    write!(f, "the limit `{name}` is closed")?;
                } else if denied.is_busy() {
                    write!(f, "as many as the limit `{name}` allows are under way")?;
                } else if denied.is_queue_full() {
                    write!(f, "too many wait for the limit `{name}`")?;
                } else if denied.is_table_full() {
                    write!(f, "the limit `{name}` has no room for anybody new")?;
                } else {
                    write!(f, "over the limit `{name}`")?;
                }
                match self.retry_after_seconds() {
                    Some(seconds) => write!(f, "; retry after {seconds} s"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl fmt::Debug for Rejection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rejection({self})")
    }
}

/// The content type of a request of gRPC: `application/grpc`, also `+proto`, `-web` and the like.
fn grpc_content_type(headers: &HeaderMap) -> Option<&HeaderValue> {
    let value = headers.get(CONTENT_TYPE)?;
    let (kind, rest) = value
        .as_bytes()
        .split_at_checked("application/grpc".len())?;
    let is_grpc = kind.eq_ignore_ascii_case(b"application/grpc")
        && matches!(rest.first(), None | Some(b'+' | b'-' | b';' | b' '));
    is_grpc.then_some(value)
}

/// As gRPC writes `grpc-message`: printable ASCII, and the rest by its bytes.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | ..b' ' | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
            byte => encoded.push(char::from(byte)),
        }
    }
    encoded
}

/// Milliseconds, rounded up.
fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
