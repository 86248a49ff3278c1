use crate::grpc::GrpcCode;
use crate::headers::{Fields, Headers};
use crate::limits::sealed::Sealed;
use crate::limits::{AnyLimit, Cause, Names};
use crate::policy::Policies;
use crate::reason::Reason;
use bytes::Bytes;
use flowgate::Denied;
use http::header::{HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use std::error::Error;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

/// The response of a handler that calls a limiter itself, and is refused.
///
/// It is made [from](From) a [`Denied`], so a handler can use `?`. The response is the same as
/// [`LimitLayer`](crate::LimitLayer) sends: 429 or 503 with `Retry-After`, or a gRPC status. [`Rejection`] has the table
/// of statuses and codes.
///
/// - With this crate's feature `axum`, it is an `IntoResponse`: [`problem_details`](Self::problem_details).
/// - With the feature `tonic`, it converts into a `tonic::Status`.
/// - Elsewhere, [`response`](Self::response), [`problem_details`](Self::problem_details) and
///   [`grpc_response`](Self::grpc_response) make a response.
///
/// A `Denied` does not refer to its limiter. Name the limit with [`name`](Self::name), and pass the limiter to
/// [`fields_of`](Self::fields_of) to have `RateLimit` fields.
///
/// # Examples
///
/// In axum:
///
/// ```
/// use axum::extract::State;
/// use axum::{Router, routing::get};
/// use flowgate::TokenBucket;
/// use flowgate_tower::Refusal;
/// use std::sync::Arc;
/// # use http::Request;
/// # use tower::ServiceExt;
///
/// async fn search(State(searches): State<Arc<TokenBucket>>) -> Result<&'static str, Refusal> {
///     searches.try_acquire()?;
///     Ok("found")
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let searches = Arc::new(TokenBucket::new("1/h".parse()?));
/// let app = Router::new().route("/", get(search)).with_state(searches);
/// let ask = || Request::new(axum::body::Body::empty());
/// assert_eq!(app.clone().oneshot(ask()).await?.status(), 200);
///
/// let refused = app.oneshot(ask()).await?;
/// assert_eq!(refused.status(), 429);
/// assert_eq!(refused.headers()["retry-after"], "3600");
/// assert_eq!(refused.headers()["content-type"], "application/problem+json");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// In tonic, `?` converts a `Refusal`, but not a `Denied`:
///
/// ```
/// use flowgate::ConcurrencyLimit;
/// use flowgate_tower::Refusal;
///
/// fn export(exports: &ConcurrencyLimit) -> Result<(), tonic::Status> {
///     let _permit = exports.try_acquire().map_err(Refusal::from)?;
///     Ok(())
/// }
///
/// let status = export(&ConcurrencyLimit::new(0)).unwrap_err();
/// assert_eq!(status.code(), tonic::Code::Unavailable);
/// ```
///
/// [`Rejection`]: crate::Rejection
// In a box, so that results with it stay small.
#[derive(Clone, Debug)]
pub struct Refusal(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    cause: Cause,
    /// None: the default.
    names: Option<Names>,
    is_the_clients: bool,
    grpc_code: Option<GrpcCode>,
    limit: Option<(AnyLimit, Headers)>,
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self(Box::new(Parts {
            cause: Cause::Denied(denied),
            names: None,
            is_the_clients: false,
            grpc_code: None,
            limit: None,
        }))
    }
}

impl Refusal {
    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        change(&mut self.0);
        self
    }

    /// Sets the name of the limit in the text and in the fields (default: `default`). Limits of a gate that was passed
    /// to [`fields_of`](Self::fields_of) keep their own names.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::Refusal;
    ///
    /// let denied = ConcurrencyLimit::new(0).try_acquire().unwrap_err();
    /// let refusal = Refusal::from(denied).name("exports");
    /// assert_eq!(refusal.to_string(), "all permits of the limit `exports` are in use");
    /// ```
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.with(|parts| parts.names = Some(Names::new(name)))
    }

    /// Declares that the limit is the client's own, such as that of a key.
    ///
    /// If the limit is a concurrency limit, a busy one then results in 429 and `RESOURCE_EXHAUSTED`, instead of 503 and
    /// `UNAVAILABLE`.
    ///
    /// ```
    /// use flowgate::KeyedConcurrencyLimit;
    /// use flowgate_tower::Refusal;
    ///
    /// let downloads = KeyedConcurrencyLimit::new(1, 1000)?;
    /// let first = downloads.try_acquire("alice")?;
    /// let denied = downloads.try_acquire("alice").unwrap_err();
    /// assert_eq!(Refusal::from(denied).of_client().status(), 429);
    /// assert_eq!(Refusal::from(denied).status(), 503);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of_client(self) -> Self {
        self.with(|parts| parts.is_the_clients = true)
    }

    /// Adds fields that describe `limit`, as it stands when the response is made: usually
    /// [`Headers::draft`]. `limit` is the limiter that refused, or an [`Arc`](std::sync::Arc) of it.
    ///
    /// Of a gate, the response has the name of the limit that refused, too.
    ///
    /// ```
    /// use flowgate::{Keyed, Limiter, TokenBucket};
    /// use flowgate_tower::{Headers, Refusal};
    /// use std::sync::Arc;
    ///
    /// let searches = Arc::new(TokenBucket::new("1/h".parse()?));
    /// searches.try_acquire()?;
    /// let denied = searches.try_acquire().unwrap_err();
    /// let refusal = Refusal::from(denied).name("searches").fields_of(searches, Headers::draft());
    /// assert_eq!(refusal.response().headers()["ratelimit-policy"], "\"searches\";q=1;w=3600");
    ///
    /// // Of one key of a table.
    /// let users = Arc::new(Keyed::token_bucket("1/h".parse()?).capacity(1000)?);
    /// users.try_acquire("alice")?;
    /// let denied = users.try_acquire("alice").unwrap_err();
    /// let alice: Arc<dyn Limiter> = Arc::new(users.key_owned("alice"));
    /// let refusal = Refusal::from(denied).of_client().fields_of(alice, Headers::draft());
    /// assert_eq!(refusal.response().headers()["ratelimit-policy"], "\"default\";q=1;w=3600");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fields_of(self, limit: impl Into<AnyLimit>, headers: Headers) -> Self {
        self.with(|parts| parts.limit = Some((limit.into(), headers)))
    }

    /// Sets the gRPC status code (default: see [`Rejection`](crate::Rejection)).
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::{GrpcCode, Refusal};
    ///
    /// let denied = ConcurrencyLimit::new(0).try_acquire().unwrap_err();
    /// let refusal = Refusal::from(denied).grpc_status(GrpcCode::ResourceExhausted);
    /// assert_eq!(tonic::Status::from(refusal).code(), tonic::Code::ResourceExhausted);
    /// ```
    #[must_use]
    pub fn grpc_status(self, code: impl Into<GrpcCode>) -> Self {
        self.with(|parts| parts.grpc_code = Some(code.into()))
    }

    /// Returns the limiter's refusal.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::Refusal;
    ///
    /// let denied = ConcurrencyLimit::new(0).try_acquire().unwrap_err();
    /// assert!(Refusal::from(denied).denied().is_busy());
    /// ```
    pub fn denied(&self) -> &Denied {
        match &self.0.cause {
            Cause::Denied(denied) => denied,
            Cause::NoKey(_) | Cause::Quota(_) => unreachable!("it is made from a `Denied`"),
        }
    }

    /// Returns the name of the limit.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::Refusal;
    ///
    /// let denied = ConcurrencyLimit::new(0).try_acquire().unwrap_err();
    /// assert_eq!(Refusal::from(denied).limit_name(), "default");
    /// ```
    pub fn limit_name(&self) -> &str {
        self.reason().name
    }

    /// Returns the least time to wait before a retry.
    ///
    /// `None` if the time is not known, or if a retry cannot succeed.
    ///
    /// ```
    /// use flowgate::{ManualClock, TokenBucket};
    /// use flowgate_tower::Refusal;
    /// use std::time::Duration;
    ///
    /// let limit = TokenBucket::builder("1/min".parse()?).clock(ManualClock::new()).build()?;
    /// limit.try_acquire()?;
    /// let refusal = Refusal::from(limit.try_acquire().unwrap_err());
    /// assert_eq!(refusal.retry_after(), Some(Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retry_after(&self) -> Option<Duration> {
        self.reason().retry_after()
    }

    /// Returns the HTTP status of the response: 429 or 503.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::Refusal;
    ///
    /// let denied = ConcurrencyLimit::new(0).try_acquire().unwrap_err();
    /// assert_eq!(Refusal::from(denied).status(), 503);
    /// ```
    pub fn status(&self) -> StatusCode {
        self.reason().status()
    }

    /// Returns the gRPC status code of the response.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::{GrpcCode, Refusal};
    ///
    /// let denied = ConcurrencyLimit::new(0).try_acquire().unwrap_err();
    /// assert_eq!(Refusal::from(denied).grpc_code(), GrpcCode::Unavailable);
    /// ```
    pub fn grpc_code(&self) -> GrpcCode {
        let code = self.0.grpc_code;
        code.unwrap_or_else(|| self.reason().grpc_code())
    }

    /// Builds a response with a line of text.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::Refusal;
    ///
    /// let denied = ConcurrencyLimit::new(0).try_acquire().unwrap_err();
    /// let response = Refusal::from(denied).response();
    /// assert_eq!(response.body(), "all permits of the limit `default` are in use\n");
    /// ```
    pub fn response(&self) -> Response<Bytes> {
        self.with_fields(self.reason().text_response())
    }

    /// Builds a response with problem details (RFC 9457).
    ///
    /// The problem types are those of draft-ietf-httpapi-ratelimit-headers-11 §5.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::Refusal;
    ///
    /// let denied = ConcurrencyLimit::new(0).try_acquire().unwrap_err();
    /// let response = Refusal::from(denied).name("exports").problem_details();
    /// let text = std::str::from_utf8(response.body())?;
    /// assert!(text.ends_with(r#""status":503,"violated-policies":["exports"]}"#));
    /// # Ok::<(), std::str::Utf8Error>(())
    /// ```
    pub fn problem_details(&self) -> Response<Bytes> {
        self.with_fields(self.reason().problem_details())
    }

    /// Builds a gRPC response of trailers only.
    ///
    /// It has `grpc-status`, `grpc-message` and `grpc-retry-pushback-ms`. Its content type is `application/grpc`.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::Refusal;
    ///
    /// let denied = ConcurrencyLimit::new(0).try_acquire().unwrap_err();
    /// let response = Refusal::from(denied).grpc_response();
    /// assert_eq!((response.status().as_u16(), &response.headers()["grpc-status"]), (200, &"14".parse()?));
    /// # Ok::<(), http::header::InvalidHeaderValue>(())
    /// ```
    pub fn grpc_response(&self) -> Response<Bytes> {
        let content_type = HeaderValue::from_static("application/grpc");
        let response = self.reason().grpc_response(self.grpc_code(), content_type);
        self.with_fields(response)
    }

    fn reason(&self) -> Reason<'_> {
        let parts = &*self.0;
        let names = self.names();
        let name = match (&parts.limit, &parts.cause) {
            (Some((limit, _)), Cause::Denied(denied)) => limit.name_of(&(), denied, names),
            _ => &names.limit,
        };
        Reason {
            cause: &parts.cause,
            name,
            is_the_clients: parts.is_the_clients,
        }
    }

    fn names(&self) -> &Names {
        static DEFAULT: LazyLock<Names> = LazyLock::new(|| Names::new("default"));
        self.0.names.as_ref().unwrap_or(&DEFAULT)
    }

    fn with_fields(&self, mut response: Response<Bytes>) -> Response<Bytes> {
        self.put_fields(response.headers_mut());
        response
    }

    fn put_fields(&self, headers: &mut HeaderMap) {
        self.reason().put_retry_after(headers);
        if let Some((limit, which)) = &self.0.limit {
            let policies = Policies::default();
            let mut fields = Fields::new(*which, &policies);
            let answer = Err(self.denied());
            limit.standings(&(), self.names(), answer, |standing| fields.add(standing));
            fields.put(headers);
        }
    }
}

/// The line of text that the client gets.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}

impl Error for Refusal {}

/// [`problem_details`](Refusal::problem_details).
#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> axum::response::Response {
        self.problem_details().map(axum::body::Body::from)
    }
}

/// With the metadata `grpc-retry-pushback-ms`, `retry-after`, and the fields of [`Refusal::fields_of`].
#[cfg(feature = "tonic")]
impl From<Refusal> for tonic::Status {
    fn from(refusal: Refusal) -> Self {
        let mut headers = HeaderMap::new();
        if let Some(pushback) = refusal.reason().pushback() {
            headers.insert(crate::grpc::GRPC_PUSHBACK, pushback);
        }
        refusal.put_fields(&mut headers);
        let metadata = tonic::metadata::MetadataMap::from_headers(headers);
        Self::with_metadata(refusal.grpc_code().into(), refusal.to_string(), metadata)
    }
}
