use crate::by::{AddressRange, AddressSource, KeySource};
use crate::counts::{Classes, CountsHandle};
use crate::decision::Decision;
use crate::grpc::GrpcCode;
use crate::headers::Headers;
use crate::limits::{AnyLimit, IntoTable, Limits, Missing, Names, PerKey, Table};
use crate::live::{Controls, Exemptions};
use crate::priority::Priorities;
use crate::rejection::Rejection;
use crate::rules::{Outcome, Rules};
use crate::service::Limited;
use crate::{RequestHead, ResponseHead};
use bytes::Bytes;
use flowgate::{CallOutcome, Keyed, KeyedError, PriorityShedder, Quota};
use http::Response;
use http::header::HeaderName;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tower_layer::Layer;

/// **A tower layer that puts a limit in front of a service.**
///
/// The layer passes the requests that its limit admits to the service. It rejects the others, or lets them wait in the
/// limit's queue.
///
/// ```
/// use flowgate::{ConcurrencyLimit, Gate, Keyed, TokenBucket};
/// use flowgate_tower::{LimitLayer, by};
/// use std::time::Duration;
///
/// // 1000 requests per second for all together.
/// let layer = LimitLayer::new(TokenBucket::new("1000/s".parse()?));
///
/// // That, and 50 at once; who cannot have both waits for up to 200 ms.
/// let gate = Gate::builder()
///     .limit("rate", TokenBucket::new("1000/s".parse()?))
///     .limit("at once", ConcurrencyLimit::new(50))
///     .build()?;
/// let layer = LimitLayer::new(gate).wait(Duration::from_millis(200));
///
/// // 100 per minute for each client address, of which there may be a million: 24 MB.
/// let limits = Keyed::token_bucket("100/min".parse()?).capacity(1_000_000)?;
/// let layer = LimitLayer::keyed(limits, by::peer_address()).exempt_paths(["/health"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// All clones of a layer, and all services that it makes, share one limit. The [crate documentation](crate) has a table of
/// the defaults.
///
/// # Amounts
///
/// A request takes one token, or the number of units that [`cost`](Self::cost) returns. With a concurrency limit, it takes
/// one permit, or that number of permits, and holds them until the end of the response's body.
#[derive(Clone, Debug)]
pub struct LimitLayer<L = AnyLimit> {
    rules: Arc<Rules<L>>,
}

impl LimitLayer {
    /// Creates a layer whose limit is shared by all requests.
    ///
    /// `limit` is any [`Limiter`](flowgate::Limiter), also as `Arc<dyn Limiter>`, a
    /// [`ConcurrencyLimit`](flowgate::ConcurrencyLimit), an [`AdaptiveLimit`](flowgate::AdaptiveLimit) or a
    /// [`Gate`](flowgate::Gate). It can be passed by value or in an [`Arc`].
    ///
    /// ```
    /// use flowgate::{Limiter, TokenBucket};
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// use std::sync::Arc;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limit = Arc::new(TokenBucket::new("1/h".parse()?));
    /// let layer = LimitLayer::new(Arc::clone(&limit));
    /// layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// // The same limit, elsewhere in the program.
    /// assert_eq!(limit.available(), 0);
    /// limit.set_quota("1000/s".parse()?);
    ///
    /// // One that is chosen when the program runs.
    /// let limit: Arc<dyn Limiter> = Arc::new(TokenBucket::new("10/s".parse()?));
    /// let layer = LimitLayer::new(limit);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(limit: impl Into<AnyLimit>) -> Self {
        Self {
            rules: Arc::new(Rules::new(limit.into())),
        }
    }

    /// Creates a layer with a separate limit for each key.
    ///
    /// `table` is a [`Keyed`] or another [`Table`], by value or in an [`Arc`]. `by` finds the key of a request; the module
    /// [`by`](crate::by) has the usual ones.
    ///
    /// ```
    /// use flowgate::Keyed;
    /// use flowgate_tower::{LimitLayer, by};
    /// use http::{Request, Response};
    /// use std::sync::Arc;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Arc::new(Keyed::token_bucket("1/h".parse()?).capacity(10_000)?);
    /// let layer = LimitLayer::keyed(Arc::clone(&limits), by::header("x-api-key"));
    /// let service = layer.layer(service_fn(answer));
    /// let ask = |key: &str| Request::get("/").header("x-api-key", key).body(String::new());
    /// assert_eq!(service.clone().oneshot(ask("k-17")?).await?.status(), 200);
    /// assert_eq!(service.clone().oneshot(ask("k-17")?).await?.status(), 429);
    /// assert_eq!(service.clone().oneshot(ask("k-18")?).await?.status(), 200);
    /// // The same table, elsewhere in the program.
    /// limits.reset("k-17");
    /// assert_eq!(service.oneshot(ask("k-17")?).await?.status(), 200);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Two quotas for each key, and permits that all keys share:
    ///
    /// ```
    /// use flowgate::{ConcurrencyLimit, Gate, Keyed};
    /// use flowgate_tower::{LimitLayer, by};
    /// use std::time::Duration;
    ///
    /// let users = Keyed::dual_token_bucket("10/s burst 20; 1000/day".parse()?).capacity(100_000)?;
    /// let gate = Gate::builder()
    ///     .limit("slots", ConcurrencyLimit::new(50))
    ///     .keyed("user", users)
    ///     .build()?;
    /// // A request takes a token of both quotas and a slot at one instant, or waits and takes nothing.
    /// let layer = LimitLayer::keyed(gate, by::header("x-user")).wait(Duration::from_secs(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A table that stores its keys ([`exact`](flowgate::KeyedBuilder::exact)) must be able to store the keys that `by`
    /// finds. If these are of the type `String`, such as a header or a path, the table's key type is `str` or `String`:
    ///
    /// ```
    /// use flowgate::Keyed;
    /// use flowgate_tower::{LimitLayer, by};
    /// use http::{Request, Response};
    /// use std::sync::Arc;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Arc::new(Keyed::token_bucket("10/h".parse()?).exact::<str>().capacity(1000)?);
    /// let layer = LimitLayer::keyed(Arc::clone(&limits), by::header("x-tenant"));
    /// let request = Request::get("/").header("x-tenant", "shop").body(String::new())?;
    /// layer.layer(service_fn(answer)).oneshot(request).await?;
    /// assert_eq!(limits.available("shop"), 9);
    /// assert_eq!(limits.most_used(1)[0].key, "shop");
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyed<T, S>(table: T, by: S) -> LimitLayer<PerKey<T::Table, S>>
    where
        T: IntoTable<Table: Table<S::Key>>,
        S: KeySource,
    {
        let counts = CountsHandle::default();
        let limit = PerKey::new(table.into_table(), by, counts.clone());
        LimitLayer {
            rules: Arc::new(Rules::counting(limit, counts)),
        }
    }
}

impl<L: Limits> LimitLayer<L> {
    fn with(mut self, change: impl FnOnce(&mut Rules<L>)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }

    fn with_exempt(self, add: impl FnOnce(Exemptions) -> Exemptions) -> Self {
        self.with(|rules| rules.exempt = add(std::mem::take(&mut rules.exempt)))
    }

    /// Sets the limit's name in `RateLimit` fields and rejections (default: `default`).
    ///
    /// The limits of a gate have their own names.
    ///
    /// ```
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(TokenBucket::new("10/s".parse()?)).name("writes");
    /// let response = layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.headers()["ratelimit"], "\"writes\";r=9");
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.with(|rules| rules.names = Names::new(name))
    }

    /// Sets the names of the two quotas of a dual limiter.
    ///
    /// The limiter is a [`DualTokenBucket`](flowgate::DualTokenBucket), either one for all requests or one [for each
    /// key](flowgate::Keyed::dual_token_bucket). The default is the name of the limit, with `-1` and `-2`.
    ///
    /// Call this method after [`name`](Self::name), which sets the default again. Each quota has its own item in
    /// `RateLimit` and `RateLimit-Policy`. A rejection has the name of the quota with the longer wait.
    ///
    /// ```
    /// use flowgate::{Keyed, ManualClock};
    /// use flowgate_tower::{LimitLayer, by};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let quotas = "10/s; 1000/day".parse()?;
    /// let users = Keyed::dual_token_bucket(quotas).clock(ManualClock::new()).capacity(10_000)?;
    /// let layer = LimitLayer::keyed(users, by::header("x-user")).quota_names(["second", "day"]);
    /// let request = Request::get("/").header("x-user", "ann").body(String::new())?;
    /// let response = layer.layer(service_fn(answer)).oneshot(request).await?;
    /// let headers = response.headers();
    /// assert_eq!(headers["ratelimit-policy"], "\"second\";q=10;w=1, \"day\";q=1000;w=86400");
    /// assert_eq!(headers["ratelimit"], "\"second\";r=9, \"day\";r=999;t=87");
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn quota_names(self, names: [&str; 2]) -> Self {
        self.with(|rules| rules.names.quotas = names.map(Arc::from))
    }

    /// Rejects a request immediately if the limit does not admit it immediately (the default).
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// use std::time::Duration;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// // What a program waits for in general, one of its routes does not.
    /// let patient = LimitLayer::new(ConcurrencyLimit::new(0)).wait(Duration::from_secs(60));
    /// let service = patient.clone().reject().layer(service_fn(answer));
    /// let response = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.status(), 503); // at once
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reject(self) -> Self {
        self.with(|rules| rules.live.set_wait(None))
    }

    /// Lets a request wait in the limit's queue, for at most `patience`.
    ///
    /// The request is rejected immediately in two cases:
    ///
    /// - It is certain to wait for longer than `patience`. [`Acquire`](flowgate::Acquire) describes when a limiter can
    ///   compute this.
    /// - The queue already has its [maximum number of waiters](flowgate::WaitQueue::set_max_waiters).
    ///
    /// A gRPC request waits no longer than its `grpc-timeout`, if that is shorter. A `grpc-timeout` consists of 1 to 8
    /// digits and a unit: `H`, `M`, `S` (hours, minutes, seconds), `m`, `u` or `n` (milli-, micro-, nanoseconds). If the
    /// field is malformed or comes more than once, the layer ignores it, and only `patience` applies.
    ///
    /// [`Controls::set_wait`] changes the maximum wait while the layer serves.
    ///
    /// ```
    /// use flowgate::LeakyBucket;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// use std::time::Duration;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// // One each 10 ms. Of 100 that come at once, 50 wait in turn, and the others are told to come back later.
    /// let layer = LimitLayer::new(LeakyBucket::new("100/s".parse()?)).wait(Duration::from_millis(500));
    ///
    /// // One an hour: that would be too long, as is known at once.
    /// let layer = LimitLayer::new(LeakyBucket::new("1/h".parse()?)).wait(Duration::from_millis(500));
    /// let service = layer.layer(service_fn(answer));
    /// assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), 200);
    /// assert_eq!(service.oneshot(Request::new(String::new())).await?.status(), 429);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn wait(self, patience: Duration) -> Self {
        self.with(|rules| rules.live.set_wait(Some(patience)))
    }

    /// Refuses the least important requests first while the limit is full.
    ///
    /// `level_of` returns the level of a request: 0 is the least important. A request that the limit does not admit immediately counts
    /// as excess. While there is too much of it, the [`PriorityShedder`] refuses low levels before they come to the limit
    /// ([`RefusalReason::Priority`](crate::RefusalReason::Priority), 503). Let requests [wait](Self::wait), too: otherwise a full limit
    /// refuses each request that comes, whatever its level. A [`Custom`](crate::Custom) limit has no excess.
    ///
    /// > **Warning:** a client must not choose its level. Take it from the route, from the customer's plan, or from a field that your own
    /// > proxy sets.
    ///
    /// ```
    /// use flowgate::{AdaptiveLimit, Gradient, PriorityShedder};
    /// use flowgate_tower::{LimitLayer, RequestHead};
    /// use std::time::Duration;
    ///
    /// /// The proxy has written it: batch, user or payment.
    /// fn level(request: &RequestHead<'_>) -> u32 {
    ///     match request.headers.get("x-priority").map(|level| level.as_bytes()) {
    ///         Some(b"payment") => 2,
    ///         Some(b"batch") => 0,
    ///         _ => 1,
    ///     }
    /// }
    ///
    /// let layer = LimitLayer::new(AdaptiveLimit::new(Gradient::default()))
    ///     .wait(Duration::from_millis(100))
    ///     .priority(PriorityShedder::new(3)?, level);
    /// # let _ = layer;
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn priority(
        self,
        shedder: impl Into<Arc<PriorityShedder>>,
        level_of: impl Fn(&RequestHead<'_>) -> u32 + Send + Sync + 'static,
    ) -> Self {
        let priorities = Priorities::new(shedder.into(), Box::new(level_of));
        self.with(|rules| rules.priorities = Some(Arc::new(priorities)))
    }

    /// Only [counts](Self::counts) the requests that it would have rejected, and rejects none.
    ///
    /// No request waits. A response to a request that would have been rejected has a [`WouldReject`](crate::WouldReject) in
    /// its extensions. Responses have no header fields that describe the limit.
    ///
    /// A request that the limit admits takes its tokens as usual. A request that would have been rejected, or would have
    /// waited, takes nothing. With [`wait`](Self::wait), a dry run therefore counts fewer rejections than there would be.
    ///
    /// [`Controls::set_dry_run`] turns the dry run on and off while the layer serves.
    ///
    /// ```
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::{LimitLayer, WouldReject};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(TokenBucket::new("1/h".parse()?)).dry_run();
    /// let counts = layer.counts();
    /// let service = layer.layer(service_fn(answer));
    /// service.clone().oneshot(Request::new(String::new())).await?;
    /// let response = service.oneshot(Request::new(String::new())).await?;
    ///
    /// assert!(response.status().is_success());
    /// let would = response.extensions().get::<WouldReject>().expect("the second one in an hour");
    /// assert_eq!(would.status, 429);
    /// assert_eq!((counts.get().admitted, counts.get().would_refuse), (1, 1));
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dry_run(self) -> Self {
        self.with(|rules| rules.live.set_dry_run(true))
    }

    /// Starts a [`dry_run`](Self::dry_run) that also writes a header field.
    ///
    /// The field `name` of a response contains the reason why the request would have been rejected.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    /// use http::header::HeaderName;
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0))
    ///     .dry_run_header(HeaderName::from_static("x-would-be-limited"));
    /// let response = layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.status(), 200);
    /// let why = response.headers()["x-would-be-limited"].to_str()?;
    /// assert_eq!(why, "all permits of the limit `default` are in use");
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dry_run_header(self, name: HeaderName) -> Self {
        self.with(|rules| {
            rules.live.set_dry_run(true);
            rules.dry_run_header = Some(name);
        })
    }

    /// Lets the requests through for which `exempt` returns true.
    ///
    /// They do not take anything from the limit.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Method, Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0))
    ///     .exempt(|request| request.method == Method::OPTIONS);
    /// let service = layer.layer(service_fn(answer));
    /// let ask = |method| Request::builder().method(method).body(String::new());
    /// assert_eq!(service.clone().oneshot(ask(Method::OPTIONS)?).await?.status(), 200);
    /// assert_eq!(service.oneshot(ask(Method::GET)?).await?.status(), 503);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn exempt(self, exempt: impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with_exempt(|list| list.when(exempt))
    }

    /// Lets the requests for these paths through.
    ///
    /// A path that ends in `/*` matches all paths below it. Paths are compared as the client writes them, without decoding
    /// `%` or resolving `..`.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// // Closed, but for these.
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0)).exempt_paths(["/health", "/static/*"]);
    /// let service = layer.layer(service_fn(answer));
    /// for (path, is_free) in [("/health", true), ("/static/a/b.css", true), ("/healthy", false), ("/static", false)] {
    ///     let request = Request::get(path).body(String::new())?;
    ///     let response = service.clone().oneshot(request).await?;
    ///     assert_eq!(response.status().is_success(), is_free, "{path}");
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn exempt_paths<'a>(self, paths: impl IntoIterator<Item = &'a str>) -> Self {
        self.with_exempt(|list| list.paths(paths))
    }

    /// Lets the requests from these addresses through.
    ///
    /// `from` finds the address: [`by::peer_address`](crate::by::peer_address) that of the connection, and
    /// [`by::client_address`](crate::by::client_address) that of the client in front of trusted proxies.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::{LimitLayer, by};
    /// use http::{Request, Response};
    /// use std::net::SocketAddr;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0))
    ///     .exempt_addresses(by::peer_address(), ["127.0.0.0/8".parse()?, "::1".parse()?]);
    /// let service = layer.layer(service_fn(answer));
    /// for (peer, status) in [("127.0.0.1:4711", 200), ("[::1]:4711", 200), ("192.0.2.7:4711", 503)] {
    ///     let request = Request::builder().extension(peer.parse::<SocketAddr>()?).body(String::new())?;
    ///     assert_eq!(service.clone().oneshot(request).await?.status(), status, "{peer}");
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn exempt_addresses(
        self,
        from: impl AddressSource,
        ranges: impl IntoIterator<Item = AddressRange>,
    ) -> Self {
        self.with_exempt(|list| list.addresses(from, ranges))
    }

    /// Sets how many units a request takes (default: one token).
    ///
    /// A request with a cost of 0 is always admitted.
    ///
    /// ```
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// use std::sync::Arc;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// // 1000 rows per hour, however many requests that is.
    /// let limit = Arc::new(TokenBucket::new("1000/h".parse()?));
    /// let layer = LimitLayer::new(Arc::clone(&limit)).cost(|request| {
    ///     let rows = request.headers.get("x-rows").and_then(|rows| rows.to_str().ok());
    ///     rows.and_then(|rows| rows.parse().ok()).unwrap_or(1)
    /// });
    /// let request = Request::get("/").header("x-rows", "250").body(String::new())?;
    /// layer.layer(service_fn(answer)).oneshot(request).await?;
    /// assert_eq!(limit.available(), 750);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cost(self, cost: impl Fn(&RequestHead<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.cost = Some(Arc::new(cost)))
    }

    /// Corrects the cost of a request once its response's head is available.
    ///
    /// The layer passes the number of units that it took to `settle`, and `settle` returns the number that the request
    /// really cost. The layer refunds or charges the difference.
    ///
    /// - Charged units become a debt of a [`TokenBucket`](flowgate::TokenBucket), up to its `max_debt`; later requests wait
    ///   until it is repaid. Other limiters, and tables of keys, charge at most the available tokens.
    /// - The limit decides how many units it can refund ([`TokenBucket::refund`](flowgate::TokenBucket::refund)).
    /// - The permits of a concurrency limit do not change.
    ///
    /// ```
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::{LimitLayer, Outcome};
    /// use http::{Request, Response};
    /// use std::sync::Arc;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    ///
    /// async fn log_in(request: Request<String>) -> Result<Response<String>, Infallible> {
    ///     let status = if request.body() == "secret" { 200 } else { 403 };
    ///     Ok(Response::builder().status(status).body(String::new()).expect("a response"))
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// // Only failed logins count.
    /// let limit = Arc::new(TokenBucket::new("5/h".parse()?));
    /// let layer = LimitLayer::new(Arc::clone(&limit)).settle(|taken, outcome| match outcome {
    ///     Outcome::Answered(head) if head.status.is_success() => 0,
    ///     _ => taken,
    /// });
    /// let service = layer.layer(service_fn(log_in));
    /// service.clone().oneshot(Request::new("secret".to_owned())).await?;
    /// assert_eq!(limit.available(), 5);
    /// service.oneshot(Request::new("guess".to_owned())).await?;
    /// assert_eq!(limit.available(), 4);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn settle(self, settle: impl Fn(u64, Outcome<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.settle = Some(Arc::new(settle)))
    }

    /// Calls [`settle`](Self::settle) with the response's head only.
    ///
    /// A request without a response costs what it took.
    ///
    /// ```
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// use std::sync::Arc;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    ///
    /// /// What a handler puts into its response's extensions.
    /// #[derive(Clone)]
    /// struct Rows(u64);
    ///
    /// async fn search(_: Request<String>) -> Result<Response<String>, Infallible> {
    ///     let response = Response::builder().extension(Rows(250)).body(String::new());
    ///     Ok(response.expect("a response"))
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// // Ten are taken beforehand; what it really was is known afterwards.
    /// let limit = Arc::new(TokenBucket::new("1000/h".parse()?));
    /// let layer = LimitLayer::new(Arc::clone(&limit))
    ///     .cost(|_| 10)
    ///     .settle_by_response(|taken, response| response.extensions.get().map_or(taken, |Rows(rows)| *rows));
    /// layer.layer(service_fn(search)).oneshot(Request::new(String::new())).await?;
    /// assert_eq!(limit.available(), 750);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn settle_by_response(
        self,
        settle: impl Fn(u64, ResponseHead<'_>) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.settle(move |taken, outcome| match outcome {
            Outcome::Answered(head) => settle(taken, head),
            Outcome::Failed | Outcome::Cancelled => taken,
        })
    }

    /// Chooses the header fields that describe the limit (default: [`Headers::draft`]).
    ///
    /// ```
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::{Headers, LimitLayer, Reset};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(TokenBucket::new("10/s".parse()?)).headers(Headers::legacy(Reset::Delay));
    /// let response = layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// let field = |name| response.headers().get(name).map(|value| value.to_str().unwrap());
    /// assert_eq!(field("x-ratelimit-limit"), Some("10"));
    /// assert_eq!(field("x-ratelimit-remaining"), Some("9"));
    /// assert_eq!(field("ratelimit"), None);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn headers(self, headers: Headers) -> Self {
        self.with(|rules| rules.headers = headers)
    }

    /// Sets the function that builds the response to a rejected request.
    ///
    /// The layer adds `Retry-After` and the fields of the limit, unless the response has them already.
    ///
    /// It is called for gRPC requests, too ([`Rejection::is_grpc`]). A response with a `grpc-status`, such as
    /// [`Rejection::response`] makes, is sent as it is. Any other becomes a gRPC response: the layer keeps its header
    /// fields, adds `grpc-status`, `grpc-message` and `grpc-retry-pushback-ms`, and drops status and body, for which
    /// gRPC has no place.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// use http_body_util::BodyExt;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0)).on_rejected(|rejection| {
    ///     let mut response = Response::new(r#"{"error":"slow down"}"#);
    ///     *response.status_mut() = rejection.status();
    ///     response
    /// });
    /// let response = layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.status(), 503);
    /// assert_eq!(response.into_body().collect().await?.to_bytes(), r#"{"error":"slow down"}"#);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_rejected<T: Into<Bytes>>(
        self,
        answer: impl Fn(&Rejection<'_>) -> Response<T> + Send + Sync + 'static,
    ) -> Self {
        self.with(|rules| {
            rules.on_rejected = Some(Arc::new(move |rejection| answer(rejection).map(Into::into)));
        })
    }

    /// Chooses the gRPC status code of a rejection.
    ///
    /// The layer calls `code` only for gRPC requests.
    ///
    /// `code` returns a [`GrpcCode`], or, with this crate's feature `tonic`, a `tonic::Code`. Without this method, the
    /// code follows from why the request is rejected:
    ///
    /// | because | code |
    /// |---|---|
    /// | over a rate, or the client's own limit of concurrency | `RESOURCE_EXHAUSTED` |
    /// | a limit of concurrency that all share is busy, or its queue is full | `UNAVAILABLE` |
    /// | no room for another key, or the limiter is closed | `UNAVAILABLE` |
    /// | a limiter of your own had an [outage](flowgate::Denied::outage) | `UNAVAILABLE` |
    /// | no key, or one that cannot be read | `INVALID_ARGUMENT` |
    /// | the server cannot find the key, or keep the key's quota | `INTERNAL` |
    ///
    /// [`Rejection::grpc_code`] returns that default to `code`.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::{GrpcCode, LimitLayer};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// // Many clients retry UNAVAILABLE immediately, and by themselves. These do not retry.
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0)).grpc_status(|rejection| match rejection.grpc_code() {
    ///     GrpcCode::Unavailable => GrpcCode::ResourceExhausted,
    ///     default => default,
    /// });
    /// let call = Request::post("/").header("content-type", "application/grpc").body(String::new())?;
    /// let response = layer.layer(service_fn(answer)).oneshot(call).await?;
    /// assert_eq!(response.headers()["grpc-status"], "8");
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn grpc_status<C: Into<GrpcCode>>(
        self,
        code: impl Fn(&Rejection<'_>) -> C + Send + Sync + 'static,
    ) -> Self {
        self.with(|rules| {
            rules.grpc_status = Some(Arc::new(move |rejection| code(rejection).into()));
        })
    }

    /// Builds the layer turned on or off (default: on). The type stays the same, so configuration can decide.
    ///
    /// While it is off, every request goes ahead without asking the limit, has no fields that describe it, and counts
    /// as [exempt](crate::Counts::exempt). [`Controls::set_enabled`] turns it on and off while it serves.
    ///
    /// ```
    /// use flowgate::{Keyed, TokenBucket};
    /// use flowgate_tower::{LimitLayer, PerKey, by};
    ///
    /// /// One type, whether there are limits or not.
    /// fn layer(is_limited: bool) -> Result<LimitLayer<PerKey<Keyed<TokenBucket>, by::Header>>, Box<dyn std::error::Error>> {
    ///     let limits = Keyed::token_bucket("100/min".parse()?).capacity(10_000)?;
    ///     Ok(LimitLayer::keyed(limits, by::header("x-tenant")).enabled(is_limited))
    /// }
    ///
    /// assert!(!layer(false)?.controls().is_enabled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn enabled(self, is_enabled: bool) -> Self {
        self.with(|rules| rules.live.set_off(!is_enabled))
    }

    /// Returns a handle that changes settings while the layer serves.
    ///
    /// The settings are the maximum wait, the dry run, the exemptions, and whether the layer is on. The handle controls
    /// this layer, its clones, and the services that they made. If you configure a layer further after cloning it, or after
    /// it made a service, it gets separate controls; so call this method last.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    /// use std::time::Duration;
    ///
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(50)).wait(Duration::from_millis(100));
    /// let controls = layer.controls();
    /// controls.set_wait(None); // no request waits from now on
    /// assert_eq!(layer.clone().controls().wait(), None);
    /// ```
    pub fn controls(&self) -> Controls {
        Controls(Arc::clone(&self.rules.live))
    }

    /// Returns the permits of concurrency limits when the response's head is available.
    ///
    /// Without this method, they are returned when the response's body has ended.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// use std::sync::Arc;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new("hello".to_owned())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// // 20 that are being worked on; how long clients take to read the answers is not its affair.
    /// let limit = Arc::new(ConcurrencyLimit::new(20));
    /// let layer = LimitLayer::new(Arc::clone(&limit)).release_at_head();
    /// let response = layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// assert_eq!(limit.in_flight(), 0); // though nobody has read its body yet
    /// drop(response);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn release_at_head(self) -> Self {
        self.with(|rules| rules.releases_at_head = true)
    }

    /// Sets how an [`AdaptiveLimit`](flowgate::AdaptiveLimit) counts a response; `None` is an error of the service.
    ///
    /// Other limits do not use it. The default rule:
    ///
    /// | response | outcome |
    /// |---|---|
    /// | 408, 503, 504; gRPC's status 4, 8, 14 | overload |
    /// | 429, any other 5xx, an error of the service | ignored |
    /// | gRPC's status 1, 2, 12, 13, 15 | ignored |
    /// | any other | success: its latency counts |
    ///
    /// - A 408 is how tower-http reports that a handler took too long. If every call times out, only this lowers the limit. A slow
    ///   client causes at most one cut for each timeout.
    /// - A 429 is most often that of a limit for one client, inside of this layer. That client must not lower the limit of all.
    ///   gRPC has one code for both; tonic uses it for overload. Replace the rule if your service has quotas.
    /// - A failure has not done the work, so its latency is not that of the work.
    /// - A request whose client disconnects is ignored, also while it reads the body. So is a body that fails.
    ///
    /// The latency lasts as long as the permit: until the body has ended, or with [`release_at_head`](Self::release_at_head) until
    /// the head. Use the second if clients may read slowly.
    ///
    /// If a gRPC response has its status in trailers, the rule is asked again at the end, with the trailers in place of the header
    /// fields.
    ///
    /// ```
    /// use flowgate::{AdaptiveLimit, CallOutcome, Gradient};
    /// use flowgate_tower::LimitLayer;
    ///
    /// let layer = LimitLayer::new(AdaptiveLimit::new(Gradient::default())).outcome_of(|response| match response {
    ///     Some(head) if head.headers.contains_key("x-cache-hit") => CallOutcome::Ignore,
    ///     Some(head) if head.status.is_server_error() => CallOutcome::Overload,
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

    /// Calls `watch` with the decision on each request.
    ///
    /// There is one decision for each request: it is admitted, refused, exempt, or abandoned by its client while it waits.
    /// `watch` runs before the request goes on, so it should be quick. A layer without `watch` has no extra cost.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::{LimitLayer, RefusalReason, LayerVerdict};
    /// use http::{Request, Response};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let writes_refused = Arc::new(AtomicU64::new(0));
    /// let count = Arc::clone(&writes_refused);
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0)).on_decision(move |decision| {
    ///     if decision.request.method == "POST" && decision.verdict == LayerVerdict::Refused(RefusalReason::Busy) {
    ///         count.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// });
    /// layer.layer(service_fn(answer)).oneshot(Request::post("/").body(String::new())?).await?;
    /// assert_eq!(writes_refused.load(Ordering::Relaxed), 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_decision(self, watch: impl Fn(&Decision<'_>) + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.on_decision = Some(Arc::new(watch)))
    }

    /// Counts requests by class, such as a route or a customer's plan: [`CountsHandle::by_class`].
    ///
    /// `class_of` returns the class of a request. A request that has none (`None`), or one that is not in `classes`, counts only
    /// in the total, so a client cannot make up classes. A handle of the [`counts`](Self::counts) that was taken before knows
    /// none of them.
    ///
    /// ```
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(TokenBucket::new("1/h".parse()?))
    ///     .classes(["free", "gold"], |request| request.headers.get("x-plan")?.to_str().ok());
    /// let service = layer.layer(service_fn(answer));
    /// for plan in ["gold", "free", "stolen"] {
    ///     let request = Request::get("/").header("x-plan", plan).body(String::new())?;
    ///     service.clone().oneshot(request).await?;
    /// }
    /// let by_class = layer.counts().by_class();
    /// let refused = by_class.iter().map(|(class, counts)| (&**class, counts.refused));
    /// assert_eq!(refused.collect::<Vec<_>>(), [("free", 1), ("gold", 0)]);
    /// assert_eq!(layer.counts().get().refused, 2);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn classes<'n>(
        self,
        classes: impl IntoIterator<Item = &'n str>,
        class_of: impl for<'r> Fn(&RequestHead<'r>) -> Option<&'r str> + Send + Sync + 'static,
    ) -> Self {
        let classes = Classes::new(classes.into_iter().map(Arc::from), Box::new(class_of));
        self.with(|rules| rules.counts.classes = Some(Arc::new(classes)))
    }

    /// Returns a handle to read the counts of this layer at any time.
    ///
    /// ```
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::LimitLayer;
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(TokenBucket::new("2/h".parse()?));
    /// let counts = layer.counts(); // for whoever publishes them
    /// let service = layer.layer(service_fn(answer));
    /// for _ in 0..5 {
    ///     service.clone().oneshot(Request::new(String::new())).await?;
    /// }
    /// assert_eq!((counts.get().admitted, counts.get().refused), (2, 3));
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn counts(&self) -> CountsHandle {
        self.rules.counts.clone()
    }
}

impl<T, S> LimitLayer<PerKey<T, S>>
where
    S: KeySource,
    PerKey<T, S>: Limits,
{
    /// Sets what happens to a request without a key (default: [`Missing::Reject`]).
    ///
    /// ```
    /// use flowgate::{Keyed, TokenBucket};
    /// use flowgate_tower::{LimitLayer, Missing, by};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// // A limit for each API key, and one for all who have none.
    /// let limits = Keyed::token_bucket("100/min".parse()?).capacity(10_000)?;
    /// let nobody = TokenBucket::new("1/h".parse()?);
    /// let layer = LimitLayer::keyed(limits, by::header("x-api-key")).missing(Missing::Share(nobody.into()));
    /// let service = layer.layer(service_fn(answer));
    /// assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), 200);
    /// assert_eq!(service.oneshot(Request::new(String::new())).await?.status(), 429);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn missing(self, missing: Missing) -> Self {
        self.with(|rules| rules.limit.set_missing(missing))
    }
}

impl<A, N, S> LimitLayer<PerKey<Keyed<A, N>, S>>
where
    A: flowgate::KeyedAlgorithm<Quota = Quota>,
    N: flowgate::KeyNames,
    S: KeySource,
    PerKey<Keyed<A, N>, S>: Limits,
{
    /// Chooses a per-key quota, by the key, the route, or other parts of the request.
    ///
    /// If `own` returns `None`, the key has the quota of the table.
    ///
    /// The tokens that a key has taken stay taken when its quota changes ([`Keyed::with`]). To give routes independent
    /// limits, make the route part of the key.
    ///
    /// ```
    /// use flowgate::{Keyed, Quota};
    /// use flowgate_tower::{LimitLayer, by};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Keyed::token_bucket(Quota::per_minute(60)).capacity(10_000)?;
    /// let layer = LimitLayer::keyed(limits, by::header("x-tenant"))
    ///     .quota_of(|_request, tenant| (tenant == "gold").then_some(Quota::per_minute(6000)));
    /// let service = layer.layer(service_fn(answer));
    /// for (tenant, policy) in [("gold", "\"default\";q=6000;w=60"), ("tin", "\"default\";q=60;w=60")] {
    ///     let request = Request::get("/").header("x-tenant", tenant).body(String::new())?;
    ///     let response = service.clone().oneshot(request).await?;
    ///     assert_eq!(response.headers()["ratelimit-policy"], policy);
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If this kind of limiter cannot keep a quota, the layer rejects the request with `500 Internal Server Error` and
    /// counts it as [misconfigured](crate::Counts::misconfigured). [`quota_classes`](Self::quota_classes) checks fixed
    /// quotas when the layer is built. For other quotas, [`Keyed::with`] is the check.
    #[must_use]
    pub fn quota_of(
        self,
        own: impl Fn(&RequestHead<'_>, &S::Key) -> Option<Quota> + Send + Sync + 'static,
    ) -> Self {
        self.with(|rules| rules.limit.set_own_quota(Arc::new(own)))
    }
}

impl<A, N, S> LimitLayer<PerKey<Keyed<A, N>, S>>
where
    A: flowgate::KeyedAlgorithm<Quota = Quota>,
    N: flowgate::KeyNames,
    S: KeySource,
    Keyed<A, N>: Table<S::Key>,
{
    /// Sets quotas for classes of keys, such as a customer's plan.
    ///
    /// The table checks all of these quotas now. `class_of` returns the class of a request's key. A key without a class
    /// (`None`), or with a class that is not in `quotas`, has the table's quota. This method replaces
    /// [`quota_of`](Self::quota_of), whose rules also apply here.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate::{Keyed, Quota};
    /// use flowgate_tower::{LimitLayer, by};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = || Keyed::fixed_window(Quota::per_minute(60)).capacity(10_000);
    /// let plan_of = |tenant: &str| (tenant == "shop").then_some("gold");
    /// let layer = LimitLayer::keyed(limits()?, by::header("x-tenant"))
    ///     .quota_classes([("gold", Quota::per_minute(6000))], move |_request, tenant| plan_of(tenant))?;
    ///
    /// let request = Request::get("/").header("x-tenant", "shop").body(String::new())?;
    /// let response = layer.layer(service_fn(answer)).oneshot(request).await?;
    /// assert_eq!(response.headers()["ratelimit-policy"], "\"default\";q=6000;w=60");
    ///
    /// // A window has no burst apart from its limit, so a table of windows cannot keep this quota.
    /// let wrong = [("gold", Quota::per_minute(6000).burst(10))];
    /// assert!(LimitLayer::keyed(limits()?, by::header("x-tenant")).quota_classes(wrong, |_, _| None).is_err());
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the [`KeyedError`] of a quota that the table cannot keep.
    pub fn quota_classes<C>(
        self,
        quotas: impl IntoIterator<Item = (C, Quota)>,
        class_of: impl Fn(&RequestHead<'_>, &S::Key) -> Option<C> + Send + Sync + 'static,
    ) -> Result<Self, KeyedError>
    where
        C: Hash + Eq + Send + Sync + 'static,
    {
        let quotas: HashMap<C, Quota> = quotas.into_iter().collect();
        for quota in quotas.values() {
            self.rules.limit.check(*quota)?;
        }
        Ok(self.quota_of(move |request, key| quotas.get(&class_of(request, key)?).copied()))
    }
}

impl<S, L: Limits> Layer<S> for LimitLayer<L> {
    type Service = Limited<S, L>;

    fn layer(&self, inner: S) -> Limited<S, L> {
        Limited::new(inner, Arc::clone(&self.rules))
    }
}
