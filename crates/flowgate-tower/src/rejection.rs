use crate::RequestHead;
use crate::by::NoKey;
use crate::grpc::{self, GrpcCode};
use crate::limits::Cause;
use crate::reason::Reason;
use bytes::Bytes;
use flowgate::Denied;
use http::header::HeaderMap;
use http::{Response, StatusCode};
use std::fmt;
use std::time::Duration;

/// A request that the layer rejects, and the reason.
///
/// | because | status | gRPC |
/// |---|---|---|
/// | over a rate, or the client's own limit of concurrency | `429 Too Many Requests` | `RESOURCE_EXHAUSTED` |
/// | a limit of concurrency that all share is busy, or its queue is full | `503 Service Unavailable` | `UNAVAILABLE` |
/// | [shed](Denied::is_low_priority), because more important requests go first | `503 Service Unavailable` | `UNAVAILABLE` |
/// | no room for another key, or the limiter is closed | `503 Service Unavailable` | `UNAVAILABLE` |
/// | a limiter of your own had an [outage](Denied::outage) | `503 Service Unavailable` | `UNAVAILABLE` |
/// | no key, or one that cannot be read | `400 Bad Request` | `INVALID_ARGUMENT` |
/// | the server cannot find the key, or keep the key's quota | `500 Internal Server Error` | `INTERNAL` |
///
/// The status 429 means that *this client* sent too many requests. The status 503 means that the server is at its capacity,
/// whoever the client is. [`LimitLayer::grpc_status`](crate::LimitLayer::grpc_status) chooses other gRPC codes.
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
    pub(crate) reason: Reason<'a>,
    pub(crate) request: RequestHead<'a>,
    /// The gRPC code that the layer's own rule has chosen.
    pub(crate) grpc_code: Option<GrpcCode>,
}

impl Rejection<'_> {
    /// Returns the request's head.
    pub fn request(&self) -> &RequestHead<'_> {
        &self.request
    }

    /// Returns the limit's refusal; `None` if the request has no key.
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
        self.reason.denied()
    }

    /// Returns why the request has no key; `None` if it was rejected for another reason.
    pub fn no_key(&self) -> Option<NoKey> {
        match self.reason.cause {
            Cause::NoKey(no_key) => Some(*no_key),
            Cause::Denied(_) | Cause::Quota(_) => None,
        }
    }

    /// Returns the name of the limit that refused.
    ///
    /// That is the layer's name, or the name of the limit in a gate.
    pub fn limit_name(&self) -> &str {
        self.reason.name
    }

    /// Returns the least time to wait before a retry.
    ///
    /// `None` if the time is not known, or if a retry cannot succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        self.reason.retry_after()
    }

    /// Returns the value of `Retry-After`: whole seconds, rounded up, at least 1.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.reason.retry_after_seconds()
    }

    /// Returns the status of the response.
    ///
    /// For a gRPC request, returns the status that a request without gRPC would get.
    pub fn status(&self) -> StatusCode {
        self.reason.status()
    }

    /// Returns the gRPC code of the response.
    ///
    /// [`grpc_status`](crate::LimitLayer::grpc_status) chooses it. Its default is in the table above.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::{GrpcCode, LimitLayer};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0)).on_rejected(|rejection| {
    ///     assert_eq!(rejection.grpc_code(), GrpcCode::Unavailable);
    ///     rejection.response()
    /// });
    /// let response = layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.status(), 503);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn grpc_code(&self) -> GrpcCode {
        self.grpc_code.unwrap_or_else(|| self.reason.grpc_code())
    }

    /// Returns whether the request is a gRPC request.
    ///
    /// Its content type is then `application/grpc`, also with a suffix such as `+proto` or `-web`.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0)).on_rejected(|rejection| {
    ///     if rejection.is_grpc() { rejection.response() } else { rejection.problem_details() }
    /// });
    /// let service = layer.layer(service_fn(answer));
    /// let call = Request::post("/").header("content-type", "application/grpc").body(String::new())?;
    /// assert_eq!(service.oneshot(call).await?.headers()["grpc-status"], "14");
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_grpc(&self) -> bool {
        grpc::content_type(self.request.headers).is_some()
    }

    /// Builds the default response: a line of text, or a gRPC status without a body.
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
        match grpc::content_type(self.request.headers) {
            Some(content_type) => self
                .reason
                .grpc_response(self.grpc_code(), content_type.clone()),
            None => self.reason.text_response(),
        }
    }

    /// Builds a response with problem details (RFC 9457).
    ///
    /// The problem types are those of draft-ietf-httpapi-ratelimit-headers-11 §5. Use it in
    /// [`on_rejected`](crate::LimitLayer::on_rejected).
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
        self.reason.problem_details()
    }

    /// What `on_rejected` has made, as a response to this request: one of gRPC if the request is.
    pub(crate) fn completed(&self, response: Response<Bytes>) -> Response<Bytes> {
        match grpc::content_type(self.request.headers) {
            Some(content_type) => {
                self.reason
                    .completed(self.grpc_code(), content_type.clone(), response)
            }
            None => response,
        }
    }

    pub(crate) fn put_retry_after(&self, headers: &mut HeaderMap) {
        self.reason.put_retry_after(headers);
    }
}

/// The one line that the client is told.
impl fmt::Display for Rejection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl fmt::Debug for Rejection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rejection({self})")
    }
}
