use crate::attributes::DROPPED_SPANS;
use crate::limit::Limit;
use flowgate::{Clock, Quota, QuotaError};
use opentelemetry::KeyValue;
use opentelemetry_sdk::trace::SpanData;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

type Exempt = dyn Fn(&SpanData) -> bool + Send + Sync;
type OnDropped = Box<dyn Fn(u64) + Send + Sync>;

/// The limit that processor and exporter share: it decides which ended spans are reported.
///
/// | field | read by | written by | ordering |
/// |---|---|---|---|
/// | `reported`, `dropped` | callers that read the counts | every span, one of them | relaxed: only its own value matters |
/// | `untold` | spans that go on, and take all of it | spans that are dropped add one | relaxed, likewise |
/// | `is_off`, `has_exemption` of `Live` | every span | [`ReportControls`] | relaxed: each span uses the value that it reads |
pub(crate) struct Reporting {
    live: Arc<Live>,
    exempt: Option<Box<Exempt>>,
    on_dropped: Option<OnDropped>,
    annotates: bool,
    /// Dropped spans that no other span has reported yet.
    untold: AtomicU64,
    counts: ReportCounts,
}

/// What can be changed while spans are reported.
struct Live {
    limit: Limit,
    is_off: AtomicBool,
    /// Whether there is an exemption besides the one that the limit was built with.
    has_exemption: AtomicBool,
    exemption: RwLock<Option<Arc<Exempt>>>,
}

impl Live {
    fn new(limit: Limit) -> Arc<Self> {
        Arc::new(Self {
            limit,
            is_off: AtomicBool::new(false),
            has_exemption: AtomicBool::new(false),
            exemption: RwLock::new(None),
        })
    }

    /// The current exemption. It is the user's code, so the lock is not held while it runs.
    fn exemption(&self) -> Option<Arc<Exempt>> {
        if !self.has_exemption.load(Ordering::Relaxed) {
            return None;
        }
        let exemption = self.exemption.read();
        exemption.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Reporting {
    pub(crate) fn new(limit: Limit) -> Self {
        Self {
            live: Live::new(limit),
            exempt: None,
            on_dropped: None,
            annotates: false,
            untold: AtomicU64::new(0),
            counts: ReportCounts::default(),
        }
    }

    pub(crate) fn clock(&mut self, clock: Clock) -> Result<(), QuotaError> {
        if let Limit::Own(bucket) = &self.live.limit {
            self.live = Live::new(Limit::with_clock(bucket.quota(), clock)?);
        }
        Ok(())
    }

    pub(crate) fn controls(&self) -> ReportControls {
        ReportControls(Arc::clone(&self.live))
    }

    pub(crate) fn exempt(&mut self, is_exempt: Box<Exempt>) {
        self.exempt = Some(is_exempt);
    }

    pub(crate) fn on_dropped(&mut self, tell: OnDropped) {
        self.on_dropped = Some(tell);
    }

    pub(crate) fn annotate(&mut self) {
        self.annotates = true;
    }

    pub(crate) fn counts(&self) -> ReportCounts {
        self.counts.clone()
    }

    /// The span, if it may go on.
    pub(crate) fn admit(&self, span: SpanData) -> Option<SpanData> {
        let admitted = if self.goes_on(&span) {
            Some(self.annotated(span))
        } else {
            self.untold.fetch_add(1, Ordering::Relaxed);
            None
        };
        self.count(u64::from(admitted.is_some()), u64::from(admitted.is_none()));
        admitted
    }

    /// The spans of a batch that may go on: from its beginning, in their order.
    pub(crate) fn admit_batch(&self, mut batch: Vec<SpanData>) -> Vec<SpanData> {
        let offered = batch.len() as u64;
        batch.retain(|span| self.goes_on(span));
        let reported = batch.len() as u64;
        self.untold.fetch_add(offered - reported, Ordering::Relaxed);
        if let Some(first) = batch.first_mut() {
            self.tell(first);
        }
        self.count(reported, offered - reported);
        batch
    }

    fn goes_on(&self, span: &SpanData) -> bool {
        self.live.is_off.load(Ordering::Relaxed)
            || self.is_exempt(span)
            || self.live.limit.try_acquire().is_ok()
    }

    fn is_exempt(&self, span: &SpanData) -> bool {
        let built = self.exempt.as_ref();
        built.is_some_and(|is_exempt| is_exempt(span))
            || (self.live.exemption()).is_some_and(|is_exempt| is_exempt(span))
    }

    fn annotated(&self, mut span: SpanData) -> SpanData {
        self.tell(&mut span);
        span
    }

    /// Sets the span's attribute for the number of dropped spans, if there is one to report.
    fn tell(&self, span: &mut SpanData) {
        // Usually there are none, and the cache line stays with the thread that has it.
        if !self.annotates || self.untold.load(Ordering::Relaxed) == 0 {
            return;
        }
        let dropped = self.untold.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let dropped = i64::try_from(dropped).unwrap_or(i64::MAX);
            span.attributes.push(KeyValue::new(DROPPED_SPANS, dropped));
        }
    }

    fn count(&self, reported: u64, dropped: u64) {
        let counters = &*self.counts.0;
        if reported > 0 {
            counters.reported.fetch_add(reported, Ordering::Relaxed);
        }
        if dropped > 0 {
            counters.dropped.fetch_add(dropped, Ordering::Relaxed);
            if let Some(tell) = &self.on_dropped {
                tell(dropped);
            }
        }
    }
}

impl fmt::Debug for Reporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporting")
            .field("limit", &self.live.limit)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// A handle to change a limit on reporting while it is in use.
///
/// [`RateLimitedProcessor::controls`](crate::RateLimitedProcessor::controls) and
/// [`RateLimitedExporter::controls`](crate::RateLimitedExporter::controls) make it.
///
/// A change applies to the spans that end, or the batches that are exported, after it.
///
/// ```
/// use flowgate_otel::{RateLimitedExporter, ReportControls};
/// use opentelemetry::trace::{Tracer, TracerProvider};
/// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
///
/// let exporter = RateLimitedExporter::new(InMemorySpanExporter::default(), "1/h".parse()?);
/// let (controls, counts): (ReportControls, _) = (exporter.controls(), exporter.counts());
/// let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
/// let tracer = provider.tracer("shop");
/// let page = || tracer.in_span("page", |_context| {});
///
/// (0..3).for_each(|_| page()); // one is reported
/// controls.set_enabled(false);
/// (0..3).for_each(|_| page()); // all are
/// controls.set_enabled(true);
/// controls.set_exempt(|span| span.name == "page");
/// (0..3).for_each(|_| page()); // all are
/// controls.set_exempt(|_| false);
/// controls.set_quota("2/h".parse()?)?; // the token of the one is spent, and the second has not flowed in yet
/// page();
/// assert_eq!((counts.reported(), counts.dropped()), (7, 3));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone)]
pub struct ReportControls(Arc<Live>);

impl ReportControls {
    /// Replaces the quota. Tokens are kept, up to the new burst, unless a limit that was given treats them differently.
    ///
    /// ```
    /// # use flowgate_otel::RateLimitedExporter;
    /// # use opentelemetry_sdk::trace::InMemorySpanExporter;
    /// let exporter = RateLimitedExporter::new(InMemorySpanExporter::default(), "500/s".parse()?);
    /// let controls = exporter.controls();
    /// controls.set_quota("50/s burst 100".parse()?)?;
    /// assert_eq!(controls.quota(), Some("50/s burst 100".parse()?));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of [`ImmediateLimit::replace_quota`](flowgate::ImmediateLimit::replace_quota), and changes nothing, if the
    /// limit was given and does not accept the quota. A limit that was made of a quota accepts every other quota.
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        self.0.limit.set_quota(quota)
    }

    /// Returns the quota; `None` if a limit that was given has no quota.
    pub fn quota(&self) -> Option<Quota> {
        self.0.limit.quota()
    }

    /// Turns the limit on or off. While it is off, every span goes on without taking a token.
    pub fn set_enabled(&self, is_enabled: bool) {
        self.0.is_off.store(!is_enabled, Ordering::Relaxed);
    }

    /// Returns whether the limit is on.
    pub fn is_enabled(&self) -> bool {
        !self.0.is_off.load(Ordering::Relaxed)
    }

    /// Replaces the exemption that this method set before.
    ///
    /// Exempt spans always go on, and take no token. `|_| false` removes the exemption. The exemption that the limit was
    /// built with stays.
    pub fn set_exempt(&self, is_exempt: impl Fn(&SpanData) -> bool + Send + Sync + 'static) {
        let mut exemption = (self.0.exemption.write()).unwrap_or_else(PoisonError::into_inner);
        *exemption = Some(Arc::new(is_exempt));
        self.0.has_exemption.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for ReportControls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportControls")
            .field("quota", &self.quota())
            .field("is_enabled", &self.is_enabled())
            .finish_non_exhaustive()
    }
}

/// The numbers of spans that a limit on reporting has let through and dropped.
///
/// They can be read wherever the limit itself has moved.
///
/// ```
/// use flowgate::ManualClock;
/// use flowgate_otel::RateLimitedExporter;
/// use opentelemetry::trace::{Tracer, TracerProvider};
/// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
///
/// let exporter = RateLimitedExporter::new(InMemorySpanExporter::default(), "10/s burst 5".parse()?)
///     .clock(ManualClock::new())?; // leave it out in a service
/// let counts = exporter.counts();
/// let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
/// for _ in 0..8 {
///     provider.tracer("shop").in_span("checkout", |_context| {});
/// }
/// assert_eq!((counts.reported(), counts.dropped()), (5, 3));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReportCounts(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    reported: AtomicU64,
    dropped: AtomicU64,
}

impl ReportCounts {
    /// Returns the number of spans that went on, including exempt spans.
    pub fn reported(&self) -> u64 {
        self.0.reported.load(Ordering::Relaxed)
    }

    /// Returns the number of dropped spans.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}
