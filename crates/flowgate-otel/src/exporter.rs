use crate::limit::Limit;
use crate::reporting::{ReportControls, ReportCounts, Reporting};
use flowgate::{Clock, ImmediateLimit, Quota, QuotaError};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use std::time::Duration;

/// An exporter that passes on at most **burst + rate × t** spans to another exporter.
///
/// The bound holds in every interval of length *t*. The exporter drops the other spans, and counts them.
///
/// If there are too few tokens for a batch, the exporter sends the beginning of the batch. If there are no tokens, it sends
/// nothing.
///
/// ```
/// use flowgate_otel::RateLimitedExporter;
/// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
///
/// let exporter = RateLimitedExporter::new(InMemorySpanExporter::default(), "500/s".parse()?);
/// let counts = exporter.counts();
/// let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
/// # drop(provider);
/// assert_eq!(counts.dropped(), 0);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// [`RateLimitedProcessor`](crate::RateLimitedProcessor) does the same before spans are queued. Prefer it if there are many
/// more spans than can be sent, because spans that the exporter drops have taken room in the queue.
///
/// The exporter sends at most one burst of a batch. So the burst should be at least the size of a batch, which for the
/// SDK's own processor is 512 spans by default.
///
/// `force_flush`, `shutdown` and the resource are passed on unchanged.
#[derive(Debug)]
pub struct RateLimitedExporter<E> {
    next: E,
    reporting: Reporting,
}

impl<E: SpanExporter> RateLimitedExporter<E> {
    /// Limits the spans that go on to `next` to this quota.
    ///
    /// The burst is that of the quota, or else its count.
    ///
    /// ```
    /// use flowgate_otel::RateLimitedExporter;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
    ///
    /// let next = InMemorySpanExporter::default();
    /// let exporter = RateLimitedExporter::new(next.clone(), "2/h".parse()?);
    /// let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
    /// for _ in 0..5 {
    ///     provider.tracer("shop").in_span("checkout", |_context| {});
    /// }
    /// assert_eq!(next.get_finished_spans()?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(next: E, quota: Quota) -> Self {
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
    /// use flowgate_otel::RateLimitedExporter;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
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
    /// let next = InMemorySpanExporter::default();
    /// let reporting = RateLimitedExporter::with_limit(next, Arc::clone(&volume));
    /// let counts = reporting.counts();
    /// let provider = SdkTracerProvider::builder().with_simple_exporter(reporting).build();
    /// let page = || provider.tracer("shop").in_span("page", |_context| {});
    /// page();
    /// volume.0.store(true, Ordering::Relaxed);
    /// page();
    /// assert_eq!((counts.reported(), counts.dropped()), (1, 1));
    /// ```
    #[must_use]
    pub fn with_limit(next: E, limit: impl ImmediateLimit + 'static) -> Self {
        Self {
            next,
            reporting: Reporting::new(Limit::given(limit)),
        }
    }

    /// Sets the clock (default: the system's clock). A limit that was [given](Self::with_limit) keeps its own.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_otel::RateLimitedExporter;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let exporter = RateLimitedExporter::new(InMemorySpanExporter::default(), "1/s".parse()?).clock(&time)?;
    /// let counts = exporter.counts();
    /// let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
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
    /// use flowgate_otel::RateLimitedExporter;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
    ///
    /// let exporter = RateLimitedExporter::new(InMemorySpanExporter::default(), "1/h".parse()?)
    ///     .exempt(|span| span.name == "payment");
    /// let counts = exporter.counts();
    /// let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
    /// for name in ["payment", "page", "payment", "page"] {
    ///     provider.tracer("shop").in_span(name, |_context| {});
    /// }
    /// assert_eq!((counts.reported(), counts.dropped()), (3, 1));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn exempt(mut self, is_exempt: impl Fn(&SpanData) -> bool + Send + Sync + 'static) -> Self {
        self.reporting.exempt(Box::new(is_exempt));
        self
    }

    /// Calls a function with the number of spans of a batch that were just dropped.
    ///
    /// Use it to increment a metric. The function must not take long.
    ///
    /// ```
    /// use flowgate_otel::RateLimitedExporter;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let metric = Arc::new(AtomicU64::new(0)); // or a counter of an OpenTelemetry meter
    /// let dropped = Arc::clone(&metric);
    /// let exporter = RateLimitedExporter::new(InMemorySpanExporter::default(), "2/h".parse()?)
    ///     .on_dropped(move |spans| _ = dropped.fetch_add(spans, Ordering::Relaxed));
    /// let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
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

    /// Reports the number of dropped spans in the first span of a batch.
    ///
    /// The number is in the attribute [`DROPPED_SPANS`](crate::DROPPED_SPANS). It includes the dropped spans of this batch
    /// and of the batches before it. Each dropped span is reported once.
    ///
    /// ```
    /// use flowgate_otel::{DROPPED_SPANS, RateLimitedExporter};
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanExporter};
    ///
    /// // A batch of five spans, as a processor hands them over.
    /// let ended = InMemorySpanExporter::default();
    /// let provider = SdkTracerProvider::builder().with_simple_exporter(ended.clone()).build();
    /// for _ in 0..5 {
    ///     provider.tracer("shop").in_span("checkout", |_context| {});
    /// }
    /// let batch = ended.get_finished_spans()?;
    ///
    /// let next = InMemorySpanExporter::default();
    /// let exporter = RateLimitedExporter::new(next.clone(), "2/h".parse()?).annotate();
    /// futures_executor::block_on(exporter.export(batch))?;
    /// let first = &next.get_finished_spans()?[0];
    /// let told = first.attributes.iter().find(|told| told.key.as_str() == DROPPED_SPANS);
    /// assert_eq!(told.map(|told| told.value.clone()), Some(3.into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn annotate(mut self) -> Self {
        self.reporting.annotate();
        self
    }

    /// Returns the counts, which can be read after the exporter is passed to a provider.
    ///
    /// ```
    /// use flowgate_otel::RateLimitedExporter;
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
    ///
    /// let exporter = RateLimitedExporter::new(InMemorySpanExporter::default(), "500/s".parse()?);
    /// let counts = exporter.counts();
    /// let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    /// provider.shutdown()?;
    /// assert_eq!((counts.reported(), counts.dropped()), (0, 0)); // nothing has come
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn counts(&self) -> ReportCounts {
        self.reporting.counts()
    }

    /// Returns a handle to change the limit while it is in use.
    ///
    /// It changes the quota, the exemption, and whether the limit is on. Set the [clock](Self::clock) before.
    ///
    /// ```
    /// use flowgate_otel::RateLimitedExporter;
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
    ///
    /// let exporter = RateLimitedExporter::new(InMemorySpanExporter::default(), "500/s".parse()?);
    /// let controls = exporter.controls(); // for the task that reloads the configuration
    /// let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
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
    /// use flowgate_otel::RateLimitedExporter;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanExporter};
    ///
    /// // A batch of five spans, as a processor hands them over.
    /// let ended = InMemorySpanExporter::default();
    /// let provider = SdkTracerProvider::builder().with_simple_exporter(ended.clone()).build();
    /// for _ in 0..5 {
    ///     provider.tracer("shop").in_span("checkout", |_context| {});
    /// }
    /// let batch = ended.get_finished_spans()?;
    ///
    /// let exporter = RateLimitedExporter::new(InMemorySpanExporter::default(), "2/h".parse()?);
    /// futures_executor::block_on(exporter.export(batch))?;
    /// assert_eq!(exporter.dropped(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dropped(&self) -> u64 {
        self.counts().dropped()
    }
}

impl<E: SpanExporter> SpanExporter for RateLimitedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let batch = self.reporting.admit_batch(batch);
        if batch.is_empty() {
            return Ok(());
        }
        self.next.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.next.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.next.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.next.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.next.set_resource(resource);
    }
}
