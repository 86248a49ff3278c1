use crate::attributes::{self, trace_state};
use crate::limit::Limit;
use crate::sampler_controls::SamplerControls;
use flowgate::{Clock, ImmediateLimit, Quota, QuotaError};
use opentelemetry::trace::{Link, SpanKind, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SamplingDecision, SamplingResult, ShouldSample};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A sampler that samples at most **burst + rate × t** traces.
///
/// The bound holds in every interval of length *t*, so the cost of sampling is bounded, whatever the load. The sampler
/// takes the first traces that come. If traces come at constant intervals, it samples all of them up to the rate. It never
/// skips a trace while a token is available.
///
/// ```
/// use flowgate_otel::RateLimitingSampler;
/// use opentelemetry::trace::{Span, Tracer, TracerProvider};
/// use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
///
/// let sampler = RateLimitingSampler::new("1/h".parse()?);
/// let provider = SdkTracerProvider::builder()
///     .with_sampler(Sampler::parent_based(sampler.clone()))
///     .build();
/// let tracer = provider.tracer("shop");
/// assert!(tracer.start("checkout").span_context().is_sampled());
/// assert!(!tracer.start("checkout").span_context().is_sampled());
///
/// sampler.set_quota("100/s".parse()?)?; // live, in all clones
/// assert_eq!(sampler.quota(), Some("100/s burst 100".parse()?));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Rate and burst
///
/// The sampler accepts every rate that a [`Quota`] can express, also below one per second. If the quota sets no burst, the
/// burst is the same as in Jaeger's sampler: the refill of one second, and at least one trace. Fractions of a token are
/// rounded down, so 2.5 per second have a burst of 2.
///
/// | quota | burst |
/// |---|---|
/// | `10/s` | 10 |
/// | `600/min` | 10 |
/// | `1/10s` | 1 |
/// | `10/s burst 50` | 50 |
///
/// Source: `RateLimitingSampler` of Jaeger's clients. Their implementation in Go reads the clock only when its balance is
/// used up. After a pause, it can therefore sample two bursts together; this sampler never does.
///
/// # Attributes
///
/// A sampled span has the attributes `sampler.type` = `ratelimiting` and `sampler.param` = traces per second, as with
/// Jaeger's clients. The probability of a trace is not known, so numbers computed from these traces must not be scaled up.
/// A limit without a quota ([`with_limit`](Self::with_limit)) has no `sampler.param`.
///
/// # Children
///
/// The sampler decides for every span that it is called for. In
/// [`Sampler::parent_based`](opentelemetry_sdk::trace::Sampler::parent_based), it is called only at the beginning of a
/// trace.
///
/// # Cost
///
/// A decision is a clock reading and a compare-and-swap, without a lock. A trace that is not sampled allocates nothing,
/// unless its parent has a trace state, which the SDK's interface requires to be copied.
///
/// Clones share the limit.
#[derive(Clone, Debug)]
pub struct RateLimitingSampler(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: Limit,
    /// Traces per second by the sampler's own limit, as the bits of an `f64`, for the spans' attributes.
    per_second: AtomicU64,
    is_off: AtomicBool,
}

impl RateLimitingSampler {
    /// Creates a sampler with this quota, on the system's clock.
    ///
    /// ```
    /// use flowgate_otel::RateLimitingSampler;
    /// use opentelemetry::trace::{Span, Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::SdkTracerProvider;
    ///
    /// let sampler = RateLimitingSampler::new("1/h burst 2".parse()?);
    /// let provider = SdkTracerProvider::builder().with_sampler(sampler).build();
    /// let tracer = provider.tracer("shop");
    /// let sampled = [(); 4].map(|()| tracer.start("checkout").span_context().is_sampled());
    /// assert_eq!(sampled, [true, true, false, false]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self::of(Limit::of(with_burst(quota)), Some(quota))
    }

    /// Creates a sampler with this quota, on the given clock.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_otel::RateLimitingSampler;
    /// use opentelemetry::trace::{Span, Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::SdkTracerProvider;
    ///
    /// let sampler = RateLimitingSampler::with_clock("3/s".parse()?, ManualClock::new())?;
    /// let provider = SdkTracerProvider::builder().with_sampler(sampler).build();
    /// let tracer = provider.tracer("shop");
    /// let is_sampled = || tracer.start("checkout").span_context().is_sampled();
    /// assert_eq!((0..10).filter(|_| is_sampled()).count(), 3);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of [`TokenBucketBuilder::build`](flowgate::TokenBucketBuilder::build), which does not fail with
    /// these settings.
    pub fn with_clock(quota: Quota, clock: impl Into<Clock>) -> Result<Self, QuotaError> {
        let limit = Limit::with_clock(with_burst(quota), clock)?;
        Ok(Self::of(limit, Some(quota)))
    }

    /// Creates a sampler with any limit that decides without waiting.
    ///
    /// Use it for another algorithm, for a limit that several samplers share, or for [a limit of your
    /// own](ImmediateLimit). A trace takes one token of the limit.
    ///
    /// ```
    /// use flowgate::FixedWindow;
    /// use flowgate_otel::RateLimitingSampler;
    /// use opentelemetry::trace::{Span, Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::SdkTracerProvider;
    /// use std::sync::Arc;
    ///
    /// let paid = Arc::new(FixedWindow::new("3/day".parse()?)?); // one budget for two providers
    /// let providers = [(); 2].map(|()| {
    ///     let sampler = RateLimitingSampler::with_limit(Arc::clone(&paid));
    ///     SdkTracerProvider::builder().with_sampler(sampler).build()
    /// });
    /// let sampled = |provider: &SdkTracerProvider| provider.tracer("shop").start("checkout").span_context().is_sampled();
    /// let sampled = [0, 1, 0, 1].map(|n| sampled(&providers[n]));
    /// assert_eq!(sampled, [true, true, true, false]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn with_limit(limit: impl ImmediateLimit + 'static) -> Self {
        Self::of(Limit::given(limit), None)
    }

    fn of(limit: Limit, own: Option<Quota>) -> Self {
        let per_second = own.as_ref().map_or(0.0, attributes::per_second);
        Self(Arc::new(Shared {
            limit,
            per_second: AtomicU64::new(per_second.to_bits()),
            is_off: AtomicBool::new(false),
        }))
    }

    /// Replaces the quota of this sampler and its clones, and keeps the tokens.
    ///
    /// The default burst is that of [`new`](Self::new). A [limit that was given](Self::with_limit) gets the quota as it is,
    /// and may treat its tokens differently.
    ///
    /// ```
    /// # use flowgate_otel::RateLimitingSampler;
    /// let sampler = RateLimitingSampler::new("10/s".parse()?);
    /// let in_provider = sampler.clone();
    /// sampler.set_quota("30/min".parse()?)?; // while an incident lasts
    /// assert_eq!(in_provider.quota(), Some("30/min burst 1".parse()?));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of [`ImmediateLimit::replace_quota`], and changes nothing, if the limit was given and does not accept
    /// the quota. A sampler with a limit of its own accepts every quota.
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        let Shared { limit, .. } = &*self.0;
        let Limit::Own(_) = limit else {
            return limit.set_quota(quota);
        };
        limit.set_quota(with_burst(quota))?;
        let per_second = attributes::per_second(&quota).to_bits();
        self.0.per_second.store(per_second, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the current quota, with its burst; `None` if a given limit has no quota.
    ///
    /// ```
    /// # use flowgate_otel::RateLimitingSampler;
    /// let sampler = RateLimitingSampler::new("600/min".parse()?);
    /// assert_eq!(sampler.quota(), Some("600/min burst 10".parse()?)); // those of one second
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn quota(&self) -> Option<Quota> {
        self.0.limit.quota()
    }

    /// Returns a handle to change the sampler while it is in use.
    ///
    /// It changes the quota, and turns the sampler off and on.
    ///
    /// ```
    /// # use flowgate_otel::RateLimitingSampler;
    /// let sampler = RateLimitingSampler::new("10/s".parse()?);
    /// let controls = sampler.controls(); // for the task that reloads the configuration
    /// controls.set_quota("1/s".parse()?)?;
    /// assert_eq!(sampler.quota(), Some("1/s burst 1".parse()?));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn controls(&self) -> SamplerControls {
        SamplerControls::of_rate_limiting(self)
    }

    /// Traces per second, if that is known. The quota of a given limit may have been changed elsewhere.
    fn per_second(&self) -> Option<f64> {
        match &self.0.limit {
            Limit::Own(_) => Some(f64::from_bits(self.0.per_second.load(Ordering::Relaxed))),
            Limit::Given(limit) => limit.current_quota().as_ref().map(attributes::per_second),
        }
    }

    pub(crate) fn set_off(&self, is_off: bool) {
        self.0.is_off.store(is_off, Ordering::Relaxed);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.0.is_off.load(Ordering::Relaxed)
    }
}

/// The quota with its own burst, or else with the refill of one second as its burst.
fn with_burst(quota: Quota) -> Quota {
    if quota.explicit_burst().is_some() {
        return quota;
    }
    // Rounded down, and at least one token. A quota with the refill of one second as its burst is always valid; if it were
    // not, the sampler would use the count as its burst.
    quota.burst_for(Duration::from_secs(1)).unwrap_or(quota)
}

impl ShouldSample for RateLimitingSampler {
    fn should_sample(
        &self,
        parent_context: Option<&Context>,
        _trace_id: TraceId,
        _name: &str,
        _span_kind: &SpanKind,
        _attributes: &[KeyValue],
        _links: &[Link],
    ) -> SamplingResult {
        let (decision, attributes) = if self.is_off() {
            (SamplingDecision::RecordAndSample, attributes::of_none())
        } else if self.0.limit.try_acquire().is_ok() {
            let attributes = attributes::of_sampler("ratelimiting", self.per_second());
            (SamplingDecision::RecordAndSample, attributes)
        } else {
            (SamplingDecision::Drop, Vec::new())
        };
        SamplingResult {
            decision,
            attributes,
            trace_state: trace_state(parent_context),
        }
    }
}
