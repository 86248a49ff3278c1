use crate::attributes::DROPPED_SPANS;
use flowgate::{Clock, Quota, QuotaError, TokenBucket};
use opentelemetry::KeyValue;
use opentelemetry_sdk::trace::SpanData;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Exempt = Box<dyn Fn(&SpanData) -> bool + Send + Sync>;
type OnDropped = Box<dyn Fn(u64) + Send + Sync>;

/// Which of the spans that have ended go on to be reported; what processor and exporter share.
///
/// | field | read by | written by | ordering |
/// |---|---|---|---|
/// | `reported`, `dropped` | who asks for counts | every span, one of them | relaxed: only its own value matters |
/// | `untold` | spans that go on, and take all of it | spans that are dropped add one | relaxed, likewise |
pub(crate) struct Reporting {
    limiter: TokenBucket,
    exempt: Option<Exempt>,
    on_dropped: Option<OnDropped>,
    annotates: bool,
    /// Spans that were dropped, and that no other has said yet.
    untold: AtomicU64,
    counts: ReportCounts,
}

impl Reporting {
    pub(crate) fn new(quota: Quota) -> Self {
        Self {
            limiter: TokenBucket::new(quota),
            exempt: None,
            on_dropped: None,
            annotates: false,
            untold: AtomicU64::new(0),
            counts: ReportCounts::default(),
        }
    }

    pub(crate) fn clock(&mut self, clock: Clock) -> Result<(), QuotaError> {
        self.limiter = TokenBucket::builder(self.limiter.quota())
            .clock(clock)
            .build()?;
        Ok(())
    }

    pub(crate) fn exempt(&mut self, is_exempt: Exempt) {
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
        let admitted = if self.is_exempt(&span) || self.limiter.try_acquire().is_ok() {
            Some(self.annotated(span))
        } else {
            self.untold.fetch_add(1, Ordering::Relaxed);
            None
        };
        self.count(u64::from(admitted.is_some()), u64::from(admitted.is_none()));
        admitted
    }

    /// Those of a batch that may go on, from its beginning, in their order.
    pub(crate) fn admit_batch(&self, mut batch: Vec<SpanData>) -> Vec<SpanData> {
        let offered = batch.len() as u64;
        batch.retain(|span| self.is_exempt(span) || self.limiter.try_acquire().is_ok());
        let reported = batch.len() as u64;
        self.untold.fetch_add(offered - reported, Ordering::Relaxed);
        if let Some(first) = batch.first_mut() {
            self.tell(first);
        }
        self.count(reported, offered - reported);
        batch
    }

    fn is_exempt(&self, span: &SpanData) -> bool {
        self.exempt
            .as_ref()
            .is_some_and(|is_exempt| is_exempt(span))
    }

    fn annotated(&self, mut span: SpanData) -> SpanData {
        self.tell(&mut span);
        span
    }

    /// Has the span say how many were dropped, if it should.
    fn tell(&self, span: &mut SpanData) {
        // Mostly there are none, and the queue stays with whoever has it.
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
            .field("limiter", &self.limiter)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// How many spans a limit on reporting has let through, and how many it has dropped; it can be read wherever the
/// limit has gone to.
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
    /// Spans that went on, those that are exempt included.
    pub fn reported(&self) -> u64 {
        self.0.reported.load(Ordering::Relaxed)
    }

    /// Spans that were dropped.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}
