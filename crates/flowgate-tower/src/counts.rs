use crate::RequestHead;
use crate::decision::{LayerVerdict, RefusalReason};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of requests that a layer, with all its clones and services, has handled.
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
    /// Requests that the limit admitted, immediately or after a wait.
    pub admitted: u64,
    /// The admitted requests that waited.
    pub waited: u64,
    /// Requests that were rejected, for any reason.
    pub refused: u64,
    /// The rejected requests that had no key.
    pub without_key: u64,
    /// Requests whose key or quota the server could not provide.
    ///
    /// No client could have avoided this. These requests are rejected with 500, unless [`Missing`](crate::Missing) or a dry
    /// run says otherwise. Every value above 0 is a mistake in the server's configuration:
    ///
    /// - The server does not provide its peer's address
    ///   ([`NoKey::NoPeerAddress`](crate::by::NoKey::NoPeerAddress)), or a key
    ///   ([`NoKey::NotProvided`](crate::by::NoKey::NotProvided)).
    /// - [`quota_of`](crate::LimitLayer::quota_of) returned a quota that the table cannot keep.
    ///
    /// The text of the rejection describes the fix.
    pub misconfigured: u64,
    /// Requests that only the [dry run](crate::LimitLayer::dry_run) did not reject.
    pub would_refuse: u64,
    /// Requests that were exempt from the limit.
    pub exempt: u64,
    /// Requests whose client disconnected while they waited.
    pub abandoned: u64,
    /// Requests that a limiter of your own [could not decide on](flowgate::Denied::outage), rejected or
    /// [admitted](crate::Custom::admit_during_outages).
    pub outages: u64,
    /// In the order of [`RefusalReason::ALL`].
    refused_for: [u64; RefusalReason::ALL.len()],
}

impl Counts {
    /// Returns how many requests were rejected for `reason`. Over all reasons, that is [`refused`](Self::refused).
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::{LimitLayer, RefusalReason};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0));
    /// layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
    /// let counts = layer.counts().get();
    /// assert_eq!(counts.refused_for(RefusalReason::Busy), 1);
    /// assert_eq!(counts.refused_for(RefusalReason::OverLimit), 0);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn refused_for(&self, reason: RefusalReason) -> u64 {
        self.refused_for[reason as usize]
    }

    /// Returns what has been counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut refused_for = self.refused_for;
        for (now, then) in refused_for.iter_mut().zip(earlier.refused_for) {
            *now = now.wrapping_sub(then);
        }
        Self {
            admitted: self.admitted.wrapping_sub(earlier.admitted),
            waited: self.waited.wrapping_sub(earlier.waited),
            refused: self.refused.wrapping_sub(earlier.refused),
            without_key: self.without_key.wrapping_sub(earlier.without_key),
            misconfigured: self.misconfigured.wrapping_sub(earlier.misconfigured),
            would_refuse: self.would_refuse.wrapping_sub(earlier.would_refuse),
            exempt: self.exempt.wrapping_sub(earlier.exempt),
            abandoned: self.abandoned.wrapping_sub(earlier.abandoned),
            outages: self.outages.wrapping_sub(earlier.outages),
            refused_for,
        }
    }
}

/// A handle to read a layer's [`Counts`]; made by [`LimitLayer::counts`](crate::LimitLayer::counts).
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
pub struct CountsHandle {
    pub(crate) counters: Arc<Counters>,
    /// None: there are no classes.
    pub(crate) classes: Option<Arc<Classes>>,
}

impl CountsHandle {
    /// Returns the current counts. The counters are read one after the other.
    pub fn get(&self) -> Counts {
        self.counters.get()
    }

    /// Returns the counts of each [class](crate::LimitLayer::classes), in the order in which the classes were given. A handle
    /// from before they were given has none.
    pub fn by_class(&self) -> Vec<(Arc<str>, Counts)> {
        let classes = self.classes.as_deref();
        classes.map_or_else(Vec::new, |classes| {
            let names = classes.names.iter().cloned();
            names
                .zip(classes.counters.iter().map(Counters::get))
                .collect()
        })
    }

    /// Returns the counts of requests of no [class](crate::LimitLayer::classes); without classes, of all requests.
    pub fn of_others(&self) -> Counts {
        let others = self
            .classes
            .as_ref()
            .and_then(|classes| classes.counters.last());
        others.map_or_else(|| self.get(), Counters::get)
    }
}

/// What requests are told apart by, and what has been done with each.
pub(crate) struct Classes {
    names: Box<[Arc<str>]>,
    /// One more: of requests of no class.
    counters: Box<[Counters]>,
    class_of: Box<ClassOf>,
}

type ClassOf = dyn for<'r> Fn(&RequestHead<'r>) -> Option<&'r str> + Send + Sync;

impl Classes {
    pub(crate) fn new(names: impl Iterator<Item = Arc<str>>, class_of: Box<ClassOf>) -> Self {
        let names: Box<[_]> = names.collect();
        let counters = (0..=names.len()).map(|_| Counters::default());
        Self {
            counters: counters.collect(),
            names,
            class_of,
        }
    }

    /// The class of `request`, and where it is counted.
    pub(crate) fn of(&self, request: &RequestHead<'_>) -> (Option<&str>, &Counters) {
        let class = (self.class_of)(request);
        let known = |name: &str| self.names.iter().position(|known| **known == *name);
        let index = class.and_then(known).unwrap_or(self.names.len());
        let name = self.names.get(index).map(|name| &**name);
        (name, &self.counters[index])
    }
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classes")
            .field("names", &self.names)
            .finish_non_exhaustive()
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
    refused_for: [AtomicU64; RefusalReason::ALL.len()],
}

impl Counters {
    fn get(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            admitted: read(&self.admitted),
            waited: read(&self.waited),
            refused: read(&self.refused),
            without_key: read(&self.without_key),
            misconfigured: read(&self.misconfigured),
            would_refuse: read(&self.would_refuse),
            exempt: read(&self.exempt),
            abandoned: read(&self.abandoned),
            outages: read(&self.outages),
            refused_for: RefusalReason::ALL.map(|reason| read(&self.refused_for[reason as usize])),
        }
    }

    /// Counts what becomes of a request.
    #[inline]
    pub(crate) fn note(&self, verdict: LayerVerdict) {
        match verdict {
            LayerVerdict::Admitted => count(&self.admitted),
            LayerVerdict::Exempt => count(&self.exempt),
            LayerVerdict::Refused(reason) => {
                count(&self.refused);
                count(&self.refused_for[reason as usize]);
            }
            LayerVerdict::WouldRefuse(_) => count(&self.would_refuse),
            LayerVerdict::WouldWait => {}
            LayerVerdict::Abandoned => count(&self.abandoned),
        }
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
