//! A layer for clients, which waits before it sends, and follows the limits that servers report.

mod advice;
mod countdown;
mod error;
mod future;
mod limits;
mod pauses;
mod reset;
#[cfg(feature = "retry")]
mod retry;
mod service;
mod throttling;
mod told;

pub use error::{ClientError, NotSent};
pub use future::ClientFuture;
pub use limits::{ClientLimit, IntoClientLimit, PerHost};
#[cfg(feature = "retry")]
pub use retry::{RetryRefused, TowerBudget};
pub use service::PoliteClient;
pub use told::Told;

use crate::call_outcome::{OutcomeOf, of_client};
use crate::{AnyLimit, ResponseHead};
use flowgate::{CallOutcome, Throttle};
use pauses::Pauses;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use throttling::Throttling;
use tower_layer::Layer;

/// **A tower layer for clients that keep within their own and their hosts' limits.**
///
/// A request waits until its limit grants it, and until the pause that its host has requested is over.
///
/// ```
/// use flowgate::Keyed;
/// use flowgate_tower::client::ClientLayer;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use tower::{Layer, ServiceBuilder};
///
/// // Two per second for each host, at constant intervals; 1,000 hosts at a time.
/// let hosts = Keyed::leaky_bucket("2/s".parse()?).capacity(1000)?;
/// let client = Client::builder(TokioExecutor::new()).build_http::<String>();
/// let client = ServiceBuilder::new().layer(ClientLayer::new(hosts)).service(client);
/// # let _ = client;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Limits
///
/// [`new`](Self::new) takes a table with a limit for each host, or any other limit, which all hosts share: rate limiters,
/// [`ConcurrencyLimit`](flowgate::ConcurrencyLimit), [`AdaptiveLimit`](flowgate::AdaptiveLimit), [`Gate`](flowgate::Gate). A
/// permit is held until the response's body has ended or is dropped.
///
/// With an [`AdaptiveLimit`](flowgate::AdaptiveLimit), the client finds its own concurrency. Use [`Aimd`](flowgate::Aimd) for a
/// service that other clients use, too: it learns from overloads alone. [`outcome_of`](Self::outcome_of) lists what they are.
///
/// A host is what the request's URI names, with its port, or the `Host` field, or else the
/// [default](Self::default_host).
///
/// # What a host can ask for
///
/// | response | effect on later requests to this host |
/// |---|---|
/// | 429 or 503, with `Retry-After` | nothing is sent until then |
/// | 429 or 503, without | nothing is sent for the [backoff](Self::backoff), which doubles each time |
/// | gRPC's status 8 or 14, with `grpc-retry-pushback-ms` | nothing is sent until then |
/// | gRPC's status 8 or 14, without, or negative | as 429 |
/// | any other, with `RateLimit: …;r=0;t=…` | nothing is sent for that time; see below |
/// | any other, with `X-RateLimit-Remaining: 0` | nothing is sent until the window ends; see below |
/// | any other | the next backoff begins small again |
///
/// - `Retry-After` is a number of seconds or a date. The longest pause is [`max_pause`](Self::max_pause).
/// - gRPC's status is read from a response that consists of trailers alone.
/// - Backoffs are shortened by up to a half, at random.
/// - A refused request is not repeated, unless there is a `retry_budget` (feature `retry`). Put any other layer that repeats
///   requests outside of this one, so that the repeated requests wait, too.
///
/// # `RateLimit` is trusted only as far as needed
///
/// A server that sends `r=0;t=1` after each request means "more in up to one second", as `t` is rounded up. A client that
/// waited for the whole second would send one request per second to a server that allows 100. So:
///
/// - With our extension `t_us`, which [`LimitLayer`](crate::LimitLayer) sends, the wait is that time. An exact time also
///   replaces a `Retry-After` that is the same time rounded up.
/// - Without it, the wait is `t` − 1 s, which is certain.
/// - The wait counts from when the request was sent. The first `r=0` after other responses ends a burst: there, the wait
///   counts from the response, and without `t_us` it is `t`, if there is a policy.
/// - If a refusal shows that a wait was too short, the layer waits for the whole time, from the response. It does so after
///   the next 16 such responses, then after 32, up to 1,024. At the end of a burst, the time that rounding up can have
///   added then counts twice, then four times, up to `t`.
/// - If `r` fell by one for each request, while a bucket of this rate would have been refilled by four or more, the server
///   has a fixed window. After `r=0`, the layer then waits until the window ends. That is `w` after the first response in
///   which nearly all of the quota remained, and at most `t`. Without such a response, the wait is `t`.
/// - The wait is never longer than the policy's `w` (with `t_us`: than twice that, as windows in segments take longer), and
///   rounding up never adds more than `w / q`, the policy's time for one request.
///
/// [`heed_rate_limit(false)`](Self::heed_rate_limit) ignores the field.
///
/// # `X-RateLimit-Reset` as a second of the Unix epoch
///
/// Many servers send `X-RateLimit-Limit`, `-Remaining` and `-Reset` without `RateLimit`. `-Reset` is the second at which the
/// window ends, rounded up, and `Date` is the second of the response, rounded down. So in the first response of a window,
/// the difference is the length of the window and one second more. The layer learns the length from a response in which
/// nearly all of the limit remains. After `-Remaining: 0`, it waits until the window ends, and never longer than the fields
/// allow.
///
/// - Both fields are by the server's clock, so the client's wall clock may be wrong.
/// - If the layer has not heard the beginning of a window, it follows only `Retry-After`.
/// - A window of 1.5 s is guessed too short once. If `-Reset` is still the same when the window should be over, the layer
///   adds one second to each later window of this host.
///
/// [`heed_rate_limit(false)`](Self::heed_rate_limit) ignores these fields, too.
///
/// # After a pause
///
/// A request that is granted during a pause returns its grant and waits for the end of the pause. Then the requests that
/// waited are sent one by one, at the rate of the limit's quota, even if the limit would allow a burst by then. If the
/// pause was shorter than the quota's time for one request, they are sent in intervals of the pause's length. A limit
/// without a quota uses the rate in the server's policy, if there is one.
///
/// # Supported clients
///
/// Any [`Service`](tower_service::Service) of [`http`]'s requests and responses that can be cloned. hyper's and tonic's
/// clients work unchanged, and reqwest's needs two functions:
///
/// ```no_run
/// use flowgate::Keyed;
/// use flowgate_tower::client::ClientLayer;
/// use tower::{Service, ServiceBuilder};
///
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let hosts = Keyed::leaky_bucket("2/s".parse()?).capacity(1000)?;
/// let mut client = ServiceBuilder::new()
///     .layer(ClientLayer::new(hosts))
///     .map_request(|request: http::Request<reqwest::Body>| {
///         reqwest::Request::try_from(request).expect("its URI names a host")
///     })
///     .map_response(http::Response::<reqwest::Body>::from)
///     .service(reqwest::Client::new());
/// let request = http::Request::get("http://example.org/").body(reqwest::Body::from(""))?;
/// let response = client.call(request).await?;
/// # Ok(()) }
/// ```
///
/// # Memory
///
/// The memory of the limit, and about 350 bytes for each host with one of these properties:
///
/// - It has requested a pause, and has sent no other response since.
/// - Its `RateLimit` was once too early.
/// - It sends `RateLimit` fields of a policy with more than one request per second.
/// - It sends `X-RateLimit-Reset` as a second of the Unix epoch.
///
/// This is kept for at most 10,000 hosts. After that, the layer forgets the host whose pause ends first.
pub struct ClientLayer<L: ClientLimit = AnyLimit> {
    pub(crate) rules: Arc<Rules<L>>,
}

#[derive(Clone)]
pub(crate) struct Rules<L> {
    pub(crate) limit: L,
    pub(crate) pauses: Arc<Pauses>,
    pub(crate) throttling: Option<Throttling>,
    /// How an adaptive limit counts a response.
    pub(crate) outcome_of: Arc<OutcomeOf>,
    pub(crate) patience: Option<Duration>,
    pub(crate) heeds_rate_limit: bool,
    pub(crate) default_host: Option<Arc<str>>,
}

impl<L: ClientLimit> ClientLayer<L> {
    /// Creates a layer that sends requests as `limit` grants them, by the limit's clock.
    ///
    /// A [`Keyed`](flowgate::Keyed) or [`KeyedConcurrencyLimit`](flowgate::KeyedConcurrencyLimit) has a limit for each
    /// host. All hosts share any other limit.
    ///
    /// ```
    /// use flowgate::{Keyed, ManualClock};
    /// use flowgate_tower::client::ClientLayer;
    /// use http::{Request, Response};
    /// use std::sync::Arc;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let hosts = Arc::new(Keyed::token_bucket("10/min".parse()?).clock(ManualClock::new()).capacity(1000)?);
    /// let client = ClientLayer::new(Arc::clone(&hosts)).layer(service_fn(answer));
    /// client.oneshot(Request::get("http://example.org:8080/").body(String::new())?).await?;
    /// // The same table, elsewhere in the program.
    /// assert_eq!(hosts.available("example.org:8080"), 9);
    /// assert_eq!(hosts.available("example.org"), 10);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(limit: impl IntoClientLimit<Limit = L>) -> Self {
        let limit = limit.into_client_limit();
        let pauses = Arc::new(Pauses::new(limit.clock().clone()));
        Self {
            rules: Arc::new(Rules {
                limit,
                pauses,
                throttling: None,
                outcome_of: Arc::new(of_client),
                patience: None,
                heeds_rate_limit: true,
                default_host: None,
            }),
        }
    }

    /// Sets the maximum wait (default: none; requests wait however long it takes).
    ///
    /// A request fails immediately if it is certain to wait for longer, and otherwise when it has. The
    /// [error](ClientError::retry_after) reports when to repeat it.
    ///
    /// ```
    /// use flowgate::{Keyed, ManualClock};
    /// use flowgate_tower::client::ClientLayer;
    /// use http::{Request, Response};
    /// use std::time::Duration;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let hosts = Keyed::leaky_bucket("1/min".parse()?).clock(ManualClock::new()).capacity(1000)?;
    /// let client = ClientLayer::new(hosts).within(Duration::from_secs(1)).layer(service_fn(answer));
    /// let ask = |url: &str| Request::get(url).body(String::new());
    /// client.clone().oneshot(ask("http://example.org/")?).await?;
    /// assert!(client.clone().oneshot(ask("http://example.org/")?).await.is_err()); // a minute is too long
    /// client.oneshot(ask("http://example.net/")?).await?; // another host
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn within(self, patience: Duration) -> Self {
        self.with(|rules| rules.patience = Some(patience))
    }

    /// Sets the first and the longest pause after a refusal without a time.
    ///
    /// The default is 500 ms and one minute.
    ///
    /// ```
    /// use flowgate::{Keyed, ManualClock};
    /// use flowgate_tower::client::{ClientError, ClientLayer};
    /// use http::{Request, Response, StatusCode};
    /// use std::time::Duration;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    ///
    /// async fn overloaded(_: Request<String>) -> Result<Response<String>, Infallible> {
    ///     let mut response = Response::new(String::new());
    ///     *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    ///     Ok(response)
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let hosts = Keyed::token_bucket("10/s".parse()?).clock(ManualClock::new()).capacity(1000)?;
    /// let (first, longest) = (Duration::from_secs(10), Duration::from_secs(300));
    /// let client = ClientLayer::new(hosts)
    ///     .backoff(first, longest)
    ///     .within(Duration::from_secs(1))
    ///     .layer(service_fn(overloaded));
    /// let ask = || Request::get("http://example.org/").body(String::new());
    /// client.clone().oneshot(ask()?).await?;
    /// match client.oneshot(ask()?).await {
    ///     Err(error @ ClientError::Paused(_)) => {
    ///         let rest = error.retry_after().expect("a time");
    ///         assert!(first / 2 <= rest && rest <= first);
    ///     }
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn backoff(self, first: Duration, longest: Duration) -> Self {
        self.with(|rules| {
            let pauses = rules.pauses.with_backoff(first, longest);
            rules.pauses = Arc::new(pauses);
        })
    }

    /// Sets how long one response can stop requests to its host (default: one hour).
    ///
    /// ```
    /// use flowgate::{Keyed, ManualClock};
    /// use flowgate_tower::client::ClientLayer;
    /// use http::{Request, Response};
    /// use std::time::Duration;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    ///
    /// async fn come_back_tomorrow(_: Request<String>) -> Result<Response<String>, Infallible> {
    ///     let response = Response::builder().status(429).header("retry-after", "86400");
    ///     Ok(response.body(String::new()).expect("a response"))
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let hosts = Keyed::token_bucket("10/s".parse()?).clock(ManualClock::new()).capacity(1000)?;
    /// let client = ClientLayer::new(hosts)
    ///     .max_pause(Duration::from_secs(600))
    ///     .within(Duration::from_secs(1))
    ///     .layer(service_fn(come_back_tomorrow));
    /// let ask = || Request::get("http://example.org/").body(String::new());
    /// client.clone().oneshot(ask()?).await?;
    /// match client.oneshot(ask()?).await {
    ///     Err(error) => assert_eq!(error.retry_after(), Some(Duration::from_secs(600))),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn max_pause(self, most: Duration) -> Self {
        self.with(|rules| rules.pauses = Arc::new(rules.pauses.with_max_pause(most)))
    }

    /// Sets whether `RateLimit` and `X-RateLimit-…` fields are heeded (default: yes). `Retry-After` and gRPC's fields always are.
    ///
    /// ```
    /// use flowgate::{Keyed, ManualClock};
    /// use flowgate_tower::client::ClientLayer;
    /// use http::{Request, Response};
    /// use std::time::Duration;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    ///
    /// async fn used_up(_: Request<String>) -> Result<Response<String>, Infallible> {
    ///     let response = Response::builder().header("ratelimit", "\"default\";r=0;t=3600");
    ///     Ok(response.body(String::new()).expect("a response"))
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// for heeds in [true, false] {
    ///     let hosts = Keyed::token_bucket("10/s".parse()?).clock(ManualClock::new()).capacity(1000)?;
    ///     let client = ClientLayer::new(hosts)
    ///         .heed_rate_limit(heeds)
    ///         .within(Duration::from_secs(1))
    ///         .layer(service_fn(used_up));
    ///     let ask = || Request::get("http://example.org/").body(String::new());
    ///     client.clone().oneshot(ask()?).await?;
    ///     assert_eq!(client.oneshot(ask()?).await.is_err(), heeds);
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn heed_rate_limit(self, heeds: bool) -> Self {
        self.with(|rules| rules.heeds_rate_limit = heeds)
    }

    /// Sets the throttle, which refuses requests while the backend refuses too many (default: none).
    ///
    /// A request that the throttle refuses fails immediately with [`ClientError::Denied`], before it waits for the limit. All
    /// requests of the layer share the throttle, so use it for one backend.
    ///
    /// Status 429 and 503, gRPC's status 8 and 14 in a response of trailers alone, and errors of the client are overload. All
    /// other responses are accepted. [`overload_if`](Self::overload_if) changes that. A request whose future is dropped does not
    /// count, so put a layer with a timeout inside of this one.
    ///
    /// ```
    /// use flowgate::{ConcurrencyLimit, Throttle};
    /// use flowgate_tower::client::ClientLayer;
    /// use std::sync::Arc;
    ///
    /// let throttle = Arc::new(Throttle::default());
    /// let layer = ClientLayer::new(ConcurrencyLimit::new(100)).throttle(Arc::clone(&throttle));
    /// // Elsewhere, for a metric: the share of the requests that is sent.
    /// assert_eq!(throttle.share_permille(), 1000);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn throttle(self, throttle: impl Into<Arc<Throttle>>) -> Self {
        let throttling = Throttling::new(throttle.into());
        self.with(|rules| rules.throttling = Some(throttling))
    }

    /// Sets which responses the throttle counts as overload; `None` is an error of the client.
    ///
    /// Without a [`throttle`](Self::throttle), it has no effect. Call it after that.
    ///
    /// ```
    /// use flowgate::{ConcurrencyLimit, Throttle};
    /// use flowgate_tower::client::ClientLayer;
    ///
    /// // A gateway whose 504 means that the backend is overloaded. Errors of the client are no overload.
    /// let layer = ClientLayer::new(ConcurrencyLimit::new(100))
    ///     .throttle(Throttle::default())
    ///     .overload_if(|response| response.is_some_and(|head| matches!(head.status.as_u16(), 429 | 503 | 504)));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn overload_if(
        self,
        is_overload: impl Fn(Option<ResponseHead<'_>>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.with(|rules| {
            if let Some(throttling) = &mut rules.throttling {
                throttling.is_overload = Arc::new(is_overload);
            }
        })
    }

    /// Sets how an [`AdaptiveLimit`](flowgate::AdaptiveLimit) counts a response; `None` is an error of the client.
    ///
    /// Other limits do not use it. The default is that of [`LimitLayer::outcome_of`](crate::LimitLayer::outcome_of), with two
    /// differences: a 429 and an error of the client are overload. A shared service reports so that it receives too much.
    ///
    /// The client's future has to be polled to its end: put a layer with a timeout inside of this one.
    ///
    /// ```
    /// use flowgate::{AdaptiveLimit, Aimd, CallOutcome};
    /// use flowgate_tower::client::ClientLayer;
    ///
    /// let layer = ClientLayer::new(AdaptiveLimit::new(Aimd::default())).outcome_of(|response| match response {
    ///     Some(head) if head.status.as_u16() == 529 => CallOutcome::Overload,
    ///     Some(_) => CallOutcome::Success,
    ///     None => CallOutcome::Ignore,
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn outcome_of(
        self,
        outcome_of: impl Fn(Option<ResponseHead<'_>>) -> CallOutcome + Send + Sync + 'static,
    ) -> Self {
        self.with(|rules| rules.outcome_of = Arc::new(outcome_of))
    }

    /// Sets the host of requests that name none (default: none; they fail with [`ClientError::NoHost`]). Upper and lower
    /// case are the same.
    ///
    /// Requests over a tonic channel name no host, as the channel knows it.
    ///
    /// ```no_run
    /// use flowgate::LeakyBucket;
    /// use flowgate_tower::client::ClientLayer;
    /// use tonic::transport::Channel;
    /// use tonic_health::pb::health_client::HealthClient;
    /// use tower::ServiceBuilder;
    ///
    /// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
    /// let channel = Channel::from_static("http://grpc.example.org:50051").connect().await?;
    /// let limit = LeakyBucket::new("100/s".parse()?);
    /// let layer = ClientLayer::new(limit).default_host("grpc.example.org:50051");
    /// let client = HealthClient::new(ServiceBuilder::new().layer(layer).service(channel));
    /// # let _ = client;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn default_host(self, host: &str) -> Self {
        let host = Arc::from(host.to_ascii_lowercase());
        self.with(|rules| rules.default_host = Some(host))
    }

    fn with(mut self, change: impl FnOnce(&mut Rules<L>)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }
}

impl<L: ClientLimit> Clone for ClientLayer<L> {
    fn clone(&self) -> Self {
        Self {
            rules: Arc::clone(&self.rules),
        }
    }
}

impl<L: ClientLimit> fmt::Debug for ClientLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientLayer")
            .field("limit", &self.rules.limit)
            .field("patience", &self.rules.patience)
            .field("heeds_rate_limit", &self.rules.heeds_rate_limit)
            .finish_non_exhaustive()
    }
}

impl<S, L: ClientLimit> Layer<S> for ClientLayer<L> {
    type Service = PoliteClient<S, L>;

    fn layer(&self, inner: S) -> PoliteClient<S, L> {
        PoliteClient::new(inner, Arc::clone(&self.rules))
    }
}
