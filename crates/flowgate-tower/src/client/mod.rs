//! The client's side: who calls others and does not want to be turned away.

mod advice;
mod error;
mod future;
mod pauses;
mod service;
mod told;

pub use error::ClientError;
pub use future::ClientFuture;
pub use service::PoliteClient;
pub use told::Told;

use flowgate::{AsKey, KeyNames, Keyed, KeyedAlgorithm};
use pauses::Pauses;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tower_layer::Layer;

/// **A request waits until its host's limit lets it go**, and until the pause is over that the host has asked for.
///
/// ```
/// use flowgate::Keyed;
/// use flowgate_tower::client::ClientLayer;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use tower::{Layer, ServiceBuilder};
///
/// // Two per second for each host, evenly; a thousand hosts at a time.
/// let hosts = Keyed::leaky_bucket("2/s".parse()?).capacity(1000)?;
/// let client = Client::builder(TokioExecutor::new()).build_http::<String>();
/// let client = ServiceBuilder::new().layer(ClientLayer::new(hosts)).service(client);
/// # let _ = client;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What a host can ask for
///
/// | an answer says | then |
/// |---|---|
/// | 429 or 503, with `Retry-After` (seconds or a date) | nothing is sent to that host until then |
/// | 429 or 503, without | nothing for a while that doubles each time, from [`backoff`](Self::backoff), less up to half of it at random |
/// | `RateLimit` with `r=0` and `t` | nothing for `t` seconds |
/// | anything else | the next pause begins small again |
///
/// A pause is at most [`max_pause`](Self::max_pause). After it, requests go at the limit's rate again and not all at
/// once. A request that was refused is not repeated: put a layer that does outside of this one, so that what it
/// repeats waits, too.
///
/// A host is what the request's URI names, with its port, or the `Host` field.
///
/// # Which clients
///
/// Any service of [`http`]'s requests and responses that can be cloned: hyper's as it is, and reqwest's between two
/// functions:
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
/// That of the keyed limit, and a pause for each host that has asked for one and was not heard of since: 10,000 at
/// the most; after that the one that ends first is forgotten.
pub struct ClientLayer<A: KeyedAlgorithm, N: KeyNames> {
    pub(crate) rules: Arc<Rules<A, N>>,
}

pub(crate) struct Rules<A: KeyedAlgorithm, N: KeyNames> {
    pub(crate) hosts: Arc<Keyed<A, N>>,
    pub(crate) pauses: Arc<Pauses>,
    pub(crate) patience: Option<Duration>,
}

impl<A, N> ClientLayer<A, N>
where
    A: KeyedAlgorithm + 'static,
    N: KeyNames + 'static,
    String: AsKey<N>,
{
    /// Sends to each host as its limit in `hosts` says, which also sets the clock.
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
    pub fn new(hosts: impl Into<Arc<Keyed<A, N>>>) -> Self {
        let hosts = hosts.into();
        let pauses = Arc::new(Pauses::new(hosts.clock().clone()));
        Self {
            rules: Arc::new(Rules {
                hosts,
                pauses,
                patience: None,
            }),
        }
    }

    /// Fails a request at once that would have to wait for longer, as far as that is known, and one that has; without
    /// it, they wait however long it takes.
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

    /// The first pause after a 429 or 503 that does not say how long, and the longest that it grows to; 500 ms and a
    /// minute without it.
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
    ///     Err(ClientError::Paused(rest)) => assert!(first / 2 <= rest && rest <= first),
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

    /// How long a host can stop requests to it by one answer; an hour without it.
    ///
    /// ```
    /// use flowgate::{Keyed, ManualClock};
    /// use flowgate_tower::client::{ClientError, ClientLayer};
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
    ///     Err(ClientError::Paused(rest)) => assert_eq!(rest, Duration::from_secs(600)),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn max_pause(self, most: Duration) -> Self {
        self.with(|rules| rules.pauses = Arc::new(rules.pauses.with_max_pause(most)))
    }

    fn with(mut self, change: impl FnOnce(&mut Rules<A, N>)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Clone for Rules<A, N> {
    fn clone(&self) -> Self {
        Self {
            hosts: Arc::clone(&self.hosts),
            pauses: Arc::clone(&self.pauses),
            patience: self.patience,
        }
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Clone for ClientLayer<A, N> {
    fn clone(&self) -> Self {
        Self {
            rules: Arc::clone(&self.rules),
        }
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> fmt::Debug for ClientLayer<A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientLayer")
            .field("hosts", &self.rules.hosts)
            .field("patience", &self.rules.patience)
            .finish_non_exhaustive()
    }
}

impl<S, A: KeyedAlgorithm, N: KeyNames> Layer<S> for ClientLayer<A, N> {
    type Service = PoliteClient<S, A, N>;

    fn layer(&self, inner: S) -> PoliteClient<S, A, N> {
        PoliteClient::new(inner, Arc::clone(&self.rules))
    }
}
