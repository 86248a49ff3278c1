use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a layer, with all its clones and services, has done so far.
///
/// ```
/// use flowgate::ConcurrencyLimit;
/// use flowgate_tower::{Counts, LimitLayer};
/// use http::{Request, Response};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let layer = LimitLayer::new(ConcurrencyLimit::new(0)).exempt_paths(["/health"]);
/// let counts = layer.counts();
/// assert_eq!(counts.get(), Counts::default());
///
/// let service = layer.layer(service_fn(answer));
/// for path in ["/health", "/", "/"] {
///     service.clone().oneshot(Request::get(path).body(String::new())?).await?;
/// }
/// let Counts { admitted, refused, exempt, .. } = counts.get();
/// assert_eq!((admitted, refused, exempt), (0, 2, 1));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Counts {
    /// Requests that the limit let through, at once or after a wait.
    pub admitted: u64,
    /// Those of them that waited.
    pub waited: u64,
    /// Requests that were rejected, for whatever reason.
    pub refused: u64,
    /// Those of them that had no key.
    pub without_key: u64,
    /// Requests whose key or quota the server could not provide, so that no client could have avoided it; rejected with
    /// 500, unless [`Missing`](crate::Missing) or a dry run says otherwise. Anything but 0 is a mistake in how the
    /// server is set up:
    ///
    /// - The server does not provide its peer's address
    ///   ([`NoKey::NoPeerAddress`](crate::by::NoKey::NoPeerAddress)), or a key
    ///   ([`NoKey::NotProvided`](crate::by::NoKey::NotProvided)).
    /// - [`quota_of`](crate::LimitLayer::quota_of) returned a quota that the table cannot keep.
    ///
    /// The text of the rejection names what to do.
    pub misconfigured: u64,
    /// Requests that would have been rejected, were it not for the [dry run](crate::LimitLayer::dry_run).
    pub would_refuse: u64,
    /// Requests that no limit was asked for.
    pub exempt: u64,
    /// Requests whose client went away while they waited.
    pub abandoned: u64,
    /// Requests that a limiter of your own [could not decide on](flowgate::Denied::outage), rejected or
    /// [admitted](crate::Custom::admit_during_outages).
    pub outages: u64,
}

/// Reads a layer's [`Counts`] wherever it has gone to; made by [`LimitLayer::counts`](crate::LimitLayer::counts).
///
/// ```
/// use flowgate::TokenBucket;
/// use flowgate_tower::{CountsHandle, LimitLayer};
/// use http::{Request, Response};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let layer = LimitLayer::new(TokenBucket::new("100/s".parse()?));
/// let counts: CountsHandle = layer.counts();
/// let publisher = counts.clone(); // to be kept by whoever publishes them
/// layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
/// assert_eq!(publisher.get().admitted, 1);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CountsHandle(pub(crate) Arc<Counters>);

impl CountsHandle {
    /// What has been done so far. The counters are read one after the other.
    pub fn get(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &*self.0;
        Counts {
            admitted: read(&counters.admitted),
            waited: read(&counters.waited),
            refused: read(&counters.refused),
            without_key: read(&counters.without_key),
            misconfigured: read(&counters.misconfigured),
            would_refuse: read(&counters.would_refuse),
            exempt: read(&counters.exempt),
            abandoned: read(&counters.abandoned),
            outages: read(&counters.outages),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) admitted: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) without_key: AtomicU64,
    pub(crate) misconfigured: AtomicU64,
    pub(crate) would_refuse: AtomicU64,
    pub(crate) exempt: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    pub(crate) outages: AtomicU64,
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
