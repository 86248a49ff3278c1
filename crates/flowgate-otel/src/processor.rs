use crate::limit::Limit;
use crate::reporting::{ReportControls, ReportCounts, Reporting};
use flowgate::{Clock, ImmediateLimit, Quota, QuotaError};
use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use std::time::Duration;

/// A processor that passes on at most **burst + rate × t** ended spans to another processor.
///
/// The bound holds in every interval of length *t*. The processor drops the other spans, and counts them.
///
/// In front of a processor that sends batches, it also limits how fast the queue of that processor fills.
///
/// ```
/// use flowgate_otel::RateLimitedProcessor;
/// use opentelemetry::trace::Status;
/// use opentelemetry_sdk::trace::{BatchSpanProcessor, InMemorySpanExporter, SdkTracerProvider};
///
/// let batches = BatchSpanProcessor::builder(InMemorySpanExporter::default()).build();
/// let reporting = RateLimitedProcessor::new(batches, "1000/s burst 5000".parse()?)
///     .exempt(|span| matches!(span.status, Status::Error { .. }))
///     .annotate();
/// let counts = reporting.counts();
/// let provider = SdkTracerProvider::builder().with_span_processor(reporting).build();
/// # drop(provider);
/// assert_eq!(counts.dropped(), 0);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Effect on traces
///
/// Spans are dropped one by one as they end. While the limit is exceeded, traces are therefore reported with missing spans.
/// To leave out whole traces, use a sampler ([`RateLimitingSampler`](crate::RateLimitingSampler)), and use this processor
/// as a safety net behind it.
///
/// `on_start`, `force_flush`, `shutdown` and the resource are passed on unchanged.
///
/// # Cost
///
/// A clock reading, a compare-and-swap and an addition for each span. There is no lock and no allocation.
#[derive(Debug)]
pub struct RateLimitedProcessor<P> {
    next: P,
    reporting: Reporting,
}

impl<P: SpanProcessor> RateLimitedProcessor<P> {
    /// Limits the spans that go on to `next` to this quota.
    ///
    /// The burst is that of the quota, or else its count.
    ///
    /// ```
    /// use flowgate_otel::RateLimitedProcessor;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor};
    ///
    /// let exporter = InMemorySpanExporter::default();
    /// let next = SimpleSpanProcessor::new(exporter.clone());
    /// let reporting = RateLimitedProcessor::new(next, "1/h burst 2".parse()?);
    /// let provider = SdkTracerProvider::builder().with_span_processor(reporting).build();
    /// for _ in 0..5 {
    ///     provider.tracer("shop").in_span("checkout", |_context| {});
    /// }
    /// assert_eq!(exporter.get_finished_spans()?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(next: P, quota: Quota) -> Self {
        Self {
            next,
            reporting: Reporting::new(Limit::of(quota)),
        }
    }

    /// Limits the spans that go on to `next` to what `limit` admits.
    ///
    /// Use it for another algorithm, for a limit that is shared with other parts of the program, or for [a limit of your
    /// own](ImmediateLimit). A span takes one token of the limit.
    ///
    /// ```
    /// use flowgate::{Denied, ImmediateLimit};
    /// use flowgate_otel::RateLimitedProcessor;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// /// Spans may go on, unless another task has found that the month's volume is used up.
    /// #[derive(Default)]
    /// struct Volume(AtomicBool);
    ///
    /// impl ImmediateLimit for Volume {
    ///     fn decide(&self) -> Result<(), Denied> {
    ///         if self.0.load(Ordering::Relaxed) { Err(Denied::closed()) } else { Ok(()) }
    ///     }
    /// }
    ///
    /// let volume = Arc::new(Volume::default());
    /// let next = SimpleSpanProcessor::new(InMemorySpanExporter::default());
    /// let reporting = RateLimitedProcessor::with_limit(next, Arc::clone(&volume));
    /// let counts = reporting.counts();
    /// let provider = SdkTracerProvider::builder().with_span_processor(reporting).build();
    /// let page = || provider.tracer("shop").in_span("page", |_context| {});
    /// page();
    /// volume.0.store(true, Ordering::Relaxed);
    /// page();
    /// assert_eq!((counts.reported(), counts.dropped()), (1, 1));
    /// ```
    #[must_use]
    pub fn with_limit(next: P, limit: impl ImmediateLimit + 'static) -> Self {
        Self {
            next,
            reporting: Reporting::new(Limit::given(limit)),
        }
    }

    /// Sets the clock (default: the system's clock). A limit that was [given](Self::with_limit) keeps its own.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_otel::RateLimitedProcessor;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let next = SimpleSpanProcessor::new(InMemorySpanExporter::default());
    /// let reporting = RateLimitedProcessor::new(next, "1/s".parse()?).clock(&time)?;
    /// let counts = reporting.counts();
    /// let provider = SdkTracerProvider::builder().with_span_processor(reporting).build();
    /// for _ in 0..4 {
    ///     provider.tracer("shop").in_span("checkout", |_context| {});
    ///     time.advance(Duration::from_millis(500));
    /// }
    /// assert_eq!((counts.reported(), counts.dropped()), (2, 2));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of [`TokenBucketBuilder::build`](flowgate::TokenBucketBuilder::build), which does not fail with
    /// these settings.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Result<Self, QuotaError> {
        self.reporting.clock(clock.into())?;
        Ok(self)
    }

    /// Exempts spans, such as those with an error.
    ///
    /// Exempt spans always go on, and take no token.
    ///
    /// ```
    /// use flowgate_otel::RateLimitedProcessor;
    /// use opentelemetry::trace::{Status, TraceContextExt, Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor};
    ///
    /// let next = SimpleSpanProcessor::new(InMemorySpanExporter::default());
    /// let reporting = RateLimitedProcessor::new(next, "1/h".parse()?)
    ///     .exempt(|span| matches!(span.status, Status::Error { .. }));
    /// let counts = reporting.counts();
    /// let provider = SdkTracerProvider::builder().with_span_processor(reporting).build();
    /// for _ in 0..3 {
    ///     provider.tracer("shop").in_span("checkout", |context| context.span().set_status(Status::error("no stock")));
    ///     provider.tracer("shop").in_span("page", |_context| {});
    /// }
    /// assert_eq!((counts.reported(), counts.dropped()), (4, 2)); // the three errors, and one page
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn exempt(mut self, is_exempt: impl Fn(&SpanData) -> bool + Send + Sync + 'static) -> Self {
        self.reporting.exempt(Box::new(is_exempt));
        self
    }

    /// Calls a function with the number of spans that were just dropped.
    ///
    /// Use it to increment a metric. The thread that ended the spans calls the function, so it must not take long, and must
    /// not end spans.
    ///
    /// ```
    /// use flowgate_otel::RateLimitedProcessor;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let metric = Arc::new(AtomicU64::new(0)); // or a counter of an OpenTelemetry meter
    /// let dropped = Arc::clone(&metric);
    /// let next = SimpleSpanProcessor::new(InMemorySpanExporter::default());
    /// let reporting = RateLimitedProcessor::new(next, "2/h".parse()?)
    ///     .on_dropped(move |spans| _ = dropped.fetch_add(spans, Ordering::Relaxed));
    /// let provider = SdkTracerProvider::builder().with_span_processor(reporting).build();
    /// for _ in 0..5 {
    ///     provider.tracer("shop").in_span("checkout", |_context| {});
    /// }
    /// assert_eq!(metric.load(Ordering::Relaxed), 3);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn on_dropped(mut self, tell: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.reporting.on_dropped(Box::new(tell));
        self
    }

    /// Reports the number of dropped spans in the next span that goes on.
    ///
    /// The number is in the attribute [`DROPPED_SPANS`](crate::DROPPED_SPANS). Each dropped span is reported once.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_otel::{DROPPED_SPANS, RateLimitedProcessor};
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor};
    /// use std::time::Duration;
    ///
    /// let (time, exporter) = (ManualClock::new(), InMemorySpanExporter::default());
    /// let next = SimpleSpanProcessor::new(exporter.clone());
    /// let reporting =
    ///     RateLimitedProcessor::new(next, "1/s".parse()?).clock(&time)?.annotate();
    /// let provider = SdkTracerProvider::builder().with_span_processor(reporting).build();
    /// let tracer = provider.tracer("shop");
    /// for _ in 0..4 {
    ///     tracer.in_span("checkout", |_context| {}); // the last three are dropped
    /// }
    /// time.advance(Duration::from_secs(1));
    /// tracer.in_span("checkout", |_context| {});
    ///
    /// let spans = exporter.get_finished_spans()?;
    /// assert_eq!(spans.len(), 2);
    /// let told = spans[1].attributes.iter().find(|told| told.key.as_str() == DROPPED_SPANS);
    /// assert_eq!(told.map(|told| told.value.clone()), Some(3.into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn annotate(mut self) -> Self {
        self.reporting.annotate();
        self
    }

    /// Returns the counts, which can be read after the processor is passed to a provider.
    ///
    /// ```
    /// use flowgate_otel::RateLimitedProcessor;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor};
    ///
    /// let next = SimpleSpanProcessor::new(InMemorySpanExporter::default());
    /// let reporting = RateLimitedProcessor::new(next, "500/s".parse()?);
    /// let counts = reporting.counts();
    /// let provider = SdkTracerProvider::builder().with_span_processor(reporting).build();
    /// provider.tracer("shop").in_span("checkout", |_context| {});
    /// assert_eq!((counts.reported(), counts.dropped()), (1, 0));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn counts(&self) -> ReportCounts {
        self.reporting.counts()
    }

    /// Returns a handle to change the limit while it is in use.
    ///
    /// It changes the quota, the exemption, and whether the limit is on. Set the [clock](Self::clock) before.
    ///
    /// ```
    /// use flowgate_otel::RateLimitedProcessor;
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor};
    ///
    /// let next = SimpleSpanProcessor::new(InMemorySpanExporter::default());
    /// let reporting = RateLimitedProcessor::new(next, "500/s".parse()?);
    /// let controls = reporting.controls(); // for the task that reloads the configuration
    /// let provider = SdkTracerProvider::builder().with_span_processor(reporting).build();
    /// # drop(provider);
    /// controls.set_quota("50/s".parse()?)?;
    /// assert!(controls.is_enabled());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn controls(&self) -> ReportControls {
        self.reporting.controls()
    }

    /// Returns the number of dropped spans.
    ///
    /// ```
    /// use flowgate_otel::RateLimitedProcessor;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{
    ///     InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor, SpanProcessor,
    /// };
    ///
    /// let exporter = InMemorySpanExporter::default();
    /// let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    /// provider.tracer("shop").in_span("checkout", |_context| {});
    ///
    /// // The span that ended there ends here three times more.
    /// let next = SimpleSpanProcessor::new(InMemorySpanExporter::default());
    /// let reporting = RateLimitedProcessor::new(next, "1/h".parse()?);
    /// for span in exporter.get_finished_spans()?.into_iter().cycle().take(3) {
    ///     reporting.on_end(span);
    /// }
    /// assert_eq!(reporting.dropped(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dropped(&self) -> u64 {
        self.counts().dropped()
    }
}

impl<P: SpanProcessor> SpanProcessor for RateLimitedProcessor<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.next.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        // Those that are recorded but not sampled are nobody's to report, and take no token.
        if !span.span_context.is_sampled() {
            self.next.on_end(span);
        } else if let Some(span) = self.reporting.admit(span) {
            self.next.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.next.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.next.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.next.set_resource(resource);
    }
}
