//! What can be changed while requests are served.

use crate::RequestHead;
use crate::by::{AddressRange, AddressSource};
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

const IS_OFF: u8 = 1;
const IS_DRY_RUN: u8 = 2;
/// There are exemptions beside those that the layer was built with.
const HAS_EXEMPTIONS: u8 = 4;

/// Stands for not waiting at all.
const NO_WAIT: u64 = u64::MAX;

/// The settings of a layer that can be changed while it serves.
pub(crate) struct Live {
    flags: AtomicU8,
    /// How long a request may wait, in nanoseconds.
    wait_ns: AtomicU64,
    exempt: RwLock<Arc<Exemptions>>,
}

/// The settings at one instant.
#[derive(Clone, Copy)]
pub(crate) struct Flags(u8);

impl Flags {
    pub(crate) fn is_off(self) -> bool {
        self.0 & IS_OFF != 0
    }

    pub(crate) fn is_dry_run(self) -> bool {
        self.0 & IS_DRY_RUN != 0
    }

    /// Whether any request may be exempt by them.
    #[inline]
    pub(crate) fn may_exempt(self) -> bool {
        self.0 & (IS_OFF | HAS_EXEMPTIONS) != 0
    }
}

impl Live {
    pub(crate) fn flags(&self) -> Flags {
        Flags(self.flags.load(Ordering::Relaxed))
    }

    fn set(&self, flag: u8, is_set: bool) {
        if is_set {
            self.flags.fetch_or(flag, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!flag, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_off(&self, is_off: bool) {
        self.set(IS_OFF, is_off);
    }

    pub(crate) fn set_dry_run(&self, is_dry_run: bool) {
        self.set(IS_DRY_RUN, is_dry_run);
    }

    pub(crate) fn wait(&self) -> Option<Duration> {
        match self.wait_ns.load(Ordering::Relaxed) {
            NO_WAIT => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }

    pub(crate) fn set_wait(&self, wait: Option<Duration>) {
        let most = NO_WAIT - 1;
        let ns = wait.map_or(NO_WAIT, |wait| {
            u64::try_from(wait.as_nanos()).map_or(most, |ns| ns.min(most))
        });
        self.wait_ns.store(ns, Ordering::Relaxed);
    }

    fn set_exempt(&self, exempt: Exemptions) {
        let is_any = !exempt.0.is_empty();
        let mut current = self.exempt.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(exempt);
        self.set(HAS_EXEMPTIONS, is_any);
    }

    /// The list, which the lock is not held for: what is in it is the user's code.
    fn exemptions(&self) -> Arc<Exemptions> {
        Arc::clone(&self.exempt.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether `request` is exempt by what `flags` were set for.
    #[cold]
    pub(crate) fn exempts(&self, flags: Flags, request: &RequestHead<'_>) -> bool {
        flags.is_off() || self.exemptions().apply_to(request)
    }
}

impl Default for Live {
    fn default() -> Self {
        Self {
            flags: AtomicU8::new(0),
            wait_ns: AtomicU64::new(NO_WAIT),
            exempt: RwLock::default(),
        }
    }
}

/// The same settings, to be changed separately.
impl Clone for Live {
    fn clone(&self) -> Self {
        Self {
            flags: AtomicU8::new(self.flags().0),
            wait_ns: AtomicU64::new(self.wait_ns.load(Ordering::Relaxed)),
            exempt: RwLock::new(self.exemptions()),
        }
    }
}

/// A list of requests that are exempt from the limit, for [`Controls::set_exempt`].
///
/// ```
/// use flowgate_tower::{Exemptions, by};
///
/// let exempt = Exemptions::new()
///     .paths(["/health", "/static/*"])
///     .addresses(by::peer_address(), ["10.0.0.0/8".parse()?])
///     .when(|request| request.headers.contains_key("x-internal"));
/// # let _ = exempt;
/// # Ok::<(), flowgate_tower::by::AddressRangeError>(())
/// ```
#[derive(Clone, Default)]
pub struct Exemptions(Vec<Exempt>);

#[derive(Clone)]
enum Exempt {
    When(Arc<dyn Fn(&RequestHead<'_>) -> bool + Send + Sync>),
    /// This path; if it ends in `/*`, all paths below it.
    Path(Box<str>),
    Addresses(Arc<dyn AddressSource>, Arc<[AddressRange]>),
}

impl Exemptions {
    /// Creates an empty list: no request is exempt.
    ///
    /// ```
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::{Exemptions, LimitLayer};
    ///
    /// let controls = LimitLayer::new(TokenBucket::new("10/s".parse()?)).controls();
    /// controls.set_exempt(Exemptions::new());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the requests for which `exempt` returns `true`.
    ///
    /// ```
    /// use flowgate_tower::Exemptions;
    /// use http::Method;
    ///
    /// let exempt = Exemptions::new().when(|request| request.method == Method::OPTIONS);
    /// # let _ = exempt;
    /// ```
    #[must_use]
    pub fn when(
        mut self,
        exempt: impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.0.push(Exempt::When(Arc::new(exempt)));
        self
    }

    /// Adds the requests for these paths.
    ///
    /// A path that ends in `/*` matches all paths below it. Paths are compared as the client wrote them, without decoding
    /// `%` or resolving `..`.
    ///
    /// ```
    /// use flowgate_tower::Exemptions;
    ///
    /// let exempt = Exemptions::new().paths(["/health", "/static/*"]);
    /// # let _ = exempt;
    /// ```
    #[must_use]
    pub fn paths<'a>(mut self, paths: impl IntoIterator<Item = &'a str>) -> Self {
        let paths = paths.into_iter().map(|path| Exempt::Path(path.into()));
        self.0.extend(paths);
        self
    }

    /// Adds the requests from these addresses, as `from` finds them.
    ///
    /// ```
    /// use flowgate_tower::{Exemptions, by};
    ///
    /// let exempt = Exemptions::new().addresses(by::peer_address(), ["127.0.0.0/8".parse()?, "::1".parse()?]);
    /// # let _ = exempt;
    /// # Ok::<(), by::AddressRangeError>(())
    /// ```
    #[must_use]
    pub fn addresses(
        mut self,
        from: impl AddressSource,
        ranges: impl IntoIterator<Item = AddressRange>,
    ) -> Self {
        let ranges = ranges.into_iter().collect();
        self.0.push(Exempt::Addresses(Arc::new(from), ranges));
        self
    }

    #[inline]
    pub(crate) fn apply_to(&self, request: &RequestHead<'_>) -> bool {
        self.0.iter().any(|some| some.applies_to(request))
    }
}

impl Exempt {
    fn applies_to(&self, request: &RequestHead<'_>) -> bool {
        match self {
            Self::When(when) => when(request),
            Self::Path(path) => {
                let asked = request.uri.path();
                match path.strip_suffix("/*") {
                    Some(above) => asked
                        .strip_prefix(above)
                        .is_some_and(|below| below.starts_with('/')),
                    None => asked == &**path,
                }
            }
            Self::Addresses(source, ranges) => source
                .address(request)
                .is_ok_and(|address| ranges.iter().any(|range| range.contains(address))),
        }
    }
}

impl fmt::Debug for Exemptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exemptions")
            .field("rules", &self.0.len())
            .finish()
    }
}

/// Changes a layer's settings while it serves; made by [`LimitLayer::controls`](crate::LimitLayer::controls).
///
/// A change applies to the requests that arrive after it, at all services of the layer. Requests that wait already keep
/// their deadline, and requests that were admitted keep their permits.
///
/// The quota is not among the settings: change it at the limiter. Keep an [`Arc`] of it, and call its `set_quota`. Several quotas
/// are changed in one step by [`Gate::configure_all`](flowgate::Gate::configure_all), or, if a limiter has two of them, by
/// its `set_quotas`.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use flowgate_tower::{Controls, LimitLayer};
/// use http::{Request, Response};
/// use std::sync::Arc;
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limit = TokenBucket::builder("1/h".parse()?).clock(ManualClock::new()).build()?;
/// let limit = Arc::new(limit);
/// let layer = LimitLayer::new(Arc::clone(&limit));
/// let controls: Controls = layer.controls(); // for the task that reloads the configuration
/// let service = layer.layer(service_fn(answer));
/// let status = async || service.clone().oneshot(Request::new(String::new())).await.map(|response| response.status());
///
/// assert_eq!((status().await?.as_u16(), status().await?.as_u16()), (200, 429));
/// controls.set_dry_run(true);
/// assert_eq!(status().await?, 200); // counted as `would_refuse`
/// controls.set_dry_run(false);
/// controls.set_enabled(false);
/// assert_eq!(status().await?, 200); // counted as `exempt`
/// controls.set_enabled(true);
/// assert_eq!(status().await?, 429);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Controls(pub(crate) Arc<Live>);

impl Controls {
    /// Turns the layer on or off.
    ///
    /// While it is off, every request is admitted without a limit, its response has no fields that describe the limit, and
    /// it counts as [exempt](crate::Counts::exempt).
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    ///
    /// let controls = LimitLayer::new(ConcurrencyLimit::new(50)).controls();
    /// controls.set_enabled(false);
    /// assert!(!controls.is_enabled());
    /// ```
    pub fn set_enabled(&self, is_enabled: bool) {
        self.0.set_off(!is_enabled);
    }

    /// Returns whether the layer is on.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    ///
    /// assert!(LimitLayer::new(ConcurrencyLimit::new(50)).controls().is_enabled());
    /// ```
    pub fn is_enabled(&self) -> bool {
        !self.0.flags().is_off()
    }

    /// Starts or ends a [dry run](crate::LimitLayer::dry_run).
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    ///
    /// let controls = LimitLayer::new(ConcurrencyLimit::new(50)).dry_run().controls();
    /// controls.set_dry_run(false); // from now on, it refuses
    /// assert!(!controls.is_dry_run());
    /// ```
    pub fn set_dry_run(&self, is_dry_run: bool) {
        self.0.set_dry_run(is_dry_run);
    }

    /// Returns whether this is a dry run.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    ///
    /// assert!(LimitLayer::new(ConcurrencyLimit::new(50)).dry_run().controls().is_dry_run());
    /// ```
    pub fn is_dry_run(&self) -> bool {
        self.0.flags().is_dry_run()
    }

    /// Sets how long a request may [wait](crate::LimitLayer::wait). `None`: it is rejected immediately.
    ///
    /// Times over 2⁶⁴ − 2 ns (584 years) count as that.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    /// use std::time::Duration;
    ///
    /// let controls = LimitLayer::new(ConcurrencyLimit::new(50)).controls();
    /// controls.set_wait(Some(Duration::from_millis(200)));
    /// assert_eq!(controls.wait(), Some(Duration::from_millis(200)));
    /// ```
    pub fn set_wait(&self, at_most: Option<Duration>) {
        self.0.set_wait(at_most);
    }

    /// Returns how long a request may wait; `None` if it is rejected immediately.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::LimitLayer;
    ///
    /// assert_eq!(LimitLayer::new(ConcurrencyLimit::new(50)).controls().wait(), None);
    /// ```
    pub fn wait(&self) -> Option<Duration> {
        self.0.wait()
    }

    /// Replaces the exemptions that this method set before.
    ///
    /// Those that the layer was built with ([`LimitLayer::exempt`](crate::LimitLayer::exempt) and the like) stay. An
    /// exemption that is to be taken away later belongs here.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::{Exemptions, LimitLayer};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0));
    /// let controls = layer.controls();
    /// let service = layer.layer(service_fn(answer));
    /// let ask = || Request::get("/status").body(String::new());
    /// assert_eq!(service.clone().oneshot(ask()?).await?.status(), 503);
    /// controls.set_exempt(Exemptions::new().paths(["/status"]));
    /// assert_eq!(service.oneshot(ask()?).await?.status(), 200);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_exempt(&self, exempt: Exemptions) {
        self.0.set_exempt(exempt);
    }
}

impl fmt::Debug for Controls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controls")
            .field("is_enabled", &self.is_enabled())
            .field("is_dry_run", &self.is_dry_run())
            .field("wait", &self.wait())
            .finish_non_exhaustive()
    }
}
