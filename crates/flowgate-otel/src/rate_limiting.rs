use crate::attributes::{self, trace_state};
use crate::sampler_controls::SamplerControls;
use flowgate::{Carry, Clock, Quota, QuotaError, TokenBucket};
use opentelemetry::trace::{Link, SpanKind, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SamplingDecision, SamplingResult, ShouldSample};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Samples at most **burst + rate · t** traces in every span of time t, and the first that come: what sampling costs
/// is bounded, whatever the load.
///
/// Of n traces that are offered evenly it samples min(n, rate), and never leaves one out that there was a token for.
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
/// sampler.set_quota("100/s".parse()?); // live, in all clones
/// assert_eq!(sampler.quota().to_string(), "100/s burst 100");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Rate and burst
///
/// Any rate that a [`Quota`] can express, below one a second as well. Where the quota sets no burst, it is that of
/// Jaeger's sampler: what flows in within one second, and at least one trace. Tokens are whole here, so
/// 2.5 per second have a burst of 2.
///
/// | quota | at once |
/// |---|---|
/// | `10/s` | 10 |
/// | `600/min` | 10 |
/// | `1/10s` | 1 |
/// | `10/s burst 50` | 50 |
///
/// Source: `RateLimitingSampler` of Jaeger's clients. Theirs in Go looks at the clock only when its balance is used
/// up, and so samples up to two bursts at once after a rest; this one never does.
///
/// # What a trace says of it
///
/// `sampler.type` = `ratelimiting` and `sampler.param` = traces per second, on the span that was asked about, as
/// Jaeger's clients do. Traces are not picked with a known probability: what is counted in them must not be scaled
/// up.
///
/// # Children
///
/// It decides for every span that it is asked about.
/// [`Sampler::parent_based`](opentelemetry_sdk::trace::Sampler::parent_based) asks it only where a trace begins.
///
/// # Cost
///
/// A clock reading and a compare-and-swap; no lock. A trace that is not sampled takes no memory, unless a parent
/// has a trace state, of which the SDK's interface demands a copy.
///
/// Clones share the limit.
#[derive(Clone, Debug)]
pub struct RateLimitingSampler(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limiter: TokenBucket,
    /// Traces per second, as the bits of an `f64`: what spans are told.
    per_second: AtomicU64,
    is_off: AtomicBool,
}

impl RateLimitingSampler {
    /// So many traces, on the system's clock.
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
        Self::of(&quota, TokenBucket::new(with_burst(quota)))
    }

    /// So many traces, on a clock of your own.
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
    /// As [`TokenBucketBuilder::build`](flowgate::TokenBucketBuilder::build), which has no reason for one here.
    pub fn with_clock(quota: Quota, clock: impl Into<Clock>) -> Result<Self, QuotaError> {
        let limiter = TokenBucket::builder(with_burst(quota)).clock(clock);
        Ok(Self::of(&quota, limiter.build()?))
    }

    fn of(quota: &Quota, limiter: TokenBucket) -> Self {
        let per_second = attributes::per_second(quota).to_bits();
        Self(Arc::new(Shared {
            limiter,
            per_second: AtomicU64::new(per_second),
            is_off: AtomicBool::new(false),
        }))
    }

    /// Puts another quota in force for this sampler and its clones, keeping the tokens; a burst goes without
    /// saying as it does for [`new`](Self::new).
    ///
    /// ```
    /// # use flowgate_otel::RateLimitingSampler;
    /// let sampler = RateLimitingSampler::new("10/s".parse()?);
    /// let in_provider = sampler.clone();
    /// sampler.set_quota("30/min".parse()?); // while an incident lasts
    /// assert_eq!(in_provider.quota().to_string(), "30/min burst 1");
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn set_quota(&self, quota: Quota) {
        self.0
            .limiter
            .set_quota_with(with_burst(quota), Carry::Kept);
        let per_second = attributes::per_second(&quota).to_bits();
        self.0.per_second.store(per_second, Ordering::Relaxed);
    }

    /// The quota in force, with its burst.
    ///
    /// ```
    /// # use flowgate_otel::RateLimitingSampler;
    /// let sampler = RateLimitingSampler::new("600/min".parse()?);
    /// assert_eq!(sampler.quota().to_string(), "600/min burst 10"); // those of one second
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn quota(&self) -> Quota {
        self.0.limiter.quota()
    }

    /// Returns a handle to change the quota, and to turn the sampler off and on, while it is in use.
    ///
    /// ```
    /// # use flowgate_otel::RateLimitingSampler;
    /// let sampler = RateLimitingSampler::new("10/s".parse()?);
    /// let controls = sampler.controls(); // for the task that reloads the configuration
    /// controls.set_quota("1/s".parse()?);
    /// assert_eq!(sampler.quota().to_string(), "1/s burst 1");
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn controls(&self) -> SamplerControls {
        SamplerControls::of_rate_limiting(self)
    }

    pub(crate) fn set_off(&self, is_off: bool) {
        self.0.is_off.store(is_off, Ordering::Relaxed);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.0.is_off.load(Ordering::Relaxed)
    }
}

/// What it says where it sets a burst, and otherwise what flows in within a second.
fn with_burst(quota: Quota) -> Quota {
    if quota.explicit_burst().is_some() {
        return quota;
    }
    // Rounded down, and at least one token. What flows in within a second can always be kept; if it could not, the
    // sampler would have the count as its burst.
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
        } else if self.0.limiter.try_acquire().is_ok() {
            let per_second = f64::from_bits(self.0.per_second.load(Ordering::Relaxed));
            let attributes = attributes::of_sampler("ratelimiting", per_second);
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
