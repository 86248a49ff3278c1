//! [`TargetRateSampler`]: the public interface of [`Adaptive`], which computes the probability, and of [`Pick`], which
//! decides by it.

mod adaptive;
mod pick;
mod trace_state;

use crate::attributes;
use crate::sampler_controls::SamplerControls;
use adaptive::{Adaptive, WHOLE};
use flowgate::{Clock, Quota};
use opentelemetry::trace::{Link, SpanKind, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SamplingDecision, SamplingResult, ShouldSample};
use pick::Pick;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A sampler that samples **about** N traces per second, each with the same recorded probability.
///
/// The probability is the rate divided by the recent load. At any time, all traces have the same chance, so numbers
/// computed from the sampled traces can be scaled up.
///
/// > **Limit:** this sampler has a target, not a limit. While the load rises, it may sample more.
///
/// ```text
///  offered   1000/s ───────╮                       sampled, target 100/s
///                          ╰─ 10000/s ───────
///  sampled    100/s ───────┤▔╲____────────────    twice as many for a moment, not ten times
/// ```
///
/// ```
/// use flowgate_otel::TargetRateSampler;
/// use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
///
/// let sampler = TargetRateSampler::new("100/s".parse()?);
/// let provider = SdkTracerProvider::builder()
///     .with_sampler(Sampler::parent_based(sampler.clone()))
///     .build();
/// assert_eq!(sampler.probability(), 1.0); // nothing has come yet
/// # drop(provider);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Guarantees
///
/// - At a constant load above the rate, the mean is the rate, except for chance. The spread of a count n is that of a
///   random choice: its square root.
/// - Four seconds (eight half-lives) after the load has changed tenfold, up or down, the mean is within 5 % of the rate
///   again.
/// - The sampler notices a k-fold load while it grows. In the first half-life, it samples about 1 + log₂ k times what the
///   rate allows, and not k times as much. If no traces came before, k is the load divided by the rate.
/// - If the load is below the rate, everything is sampled.
/// - If the clock stands still or runs backward, the sampler samples less and less until the clock goes on.
///
/// Chance and a changing load can exceed the target. For a bound, put a
/// [`RateLimitedProcessor`](crate::RateLimitedProcessor) behind the sampler, or use a
/// [`RateLimitingSampler`](crate::RateLimitingSampler).
///
/// # Choice by the trace's id
///
/// Every service with the same probability picks the same traces. A service with a smaller probability picks some of the
/// traces that a service with a larger one picks. There are two ways to compare ids, which do not agree with each other:
///
/// | | picks | agrees with | recorded |
/// |---|---|---|---|
/// | default | small ids: bits 1 to 63, below p · 2⁶³ | `Sampler::TraceIdRatioBased` of this SDK, and of Go's | `sampler.param` |
/// | [`consistent`](Self::consistent) | large ids: bits 0 to 55, or the trace state's `rv`, from (1 − p) · 2⁵⁶ on | OpenTelemetry's specification of consistent probability sampling, the collector's included | `sampler.param`, and `ot=th:…` in the trace state |
///
/// In both cases, the span has the attributes `sampler.type` = `probabilistic` and `sampler.param` = the exact probability
/// by which this trace was picked. `Sampler::ParentBased` records none of this; use
/// [`Sampler::parent_based`](opentelemetry_sdk::trace::Sampler::parent_based) instead.
///
/// # How it works
///
/// The first trace after a half-life updates the estimate of the load: the number of arrivals and the time that they took.
/// Both count half after a half-life (exponential smoothing at irregular times; D. J. Wright, 1986, Management Science
/// 32(4)). If twice the expected number of traces comes earlier, the sampler immediately lowers the probability to what
/// this number requires.
///
/// There is no background thread. A decision is a clock reading, an addition and three loads. Estimates are `f64`, because
/// the sampler guarantees no bound. The estimate has a lock, but no thread waits for it: a thread that finds it locked uses
/// the current probability.
///
/// Clones share the estimate.
#[derive(Clone)]
pub struct TargetRateSampler(Arc<Shared>);

#[derive(Clone)]
struct Settings {
    quota: Quota,
    clock: Clock,
    half_life: Duration,
    pick: Pick,
}

struct Shared {
    settings: Settings,
    /// The current quota; the lock is held while it changes.
    quota: Mutex<Quota>,
    is_off: AtomicBool,
    adaptive: Adaptive,
}

impl TargetRateSampler {
    /// Creates a sampler with the rate of this quota as its target.
    ///
    /// The quota's burst is ignored.
    ///
    /// ```
    /// use flowgate_otel::TargetRateSampler;
    /// use opentelemetry::trace::{Span, Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::SdkTracerProvider;
    ///
    /// // With less load than the rate, everything is sampled.
    /// let sampler = TargetRateSampler::new("1000/s".parse()?);
    /// let provider = SdkTracerProvider::builder().with_sampler(sampler).build();
    /// let tracer = provider.tracer("shop");
    /// assert!((0..10).all(|_| tracer.start("checkout").span_context().is_sampled()));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self::with(Settings {
            quota,
            clock: Clock::system(),
            half_life: Duration::from_millis(500),
            pick: Pick::TraceIdRatio,
        })
    }

    /// Sets the clock (default: the system's clock).
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_otel::TargetRateSampler;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::SdkTracerProvider;
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let sampler = TargetRateSampler::new("10/s".parse()?).clock(&time);
    /// let provider = SdkTracerProvider::builder().with_sampler(sampler.clone()).build();
    /// for _ in 0..1000 {
    ///     provider.tracer("shop").start("checkout"); // 100 a second, for ten seconds
    ///     time.advance(Duration::from_millis(10));
    /// }
    /// assert!((0.09..0.11).contains(&sampler.probability()));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        let clock = clock.into();
        Self::with(Settings {
            clock,
            ..self.settings()
        })
    }

    /// Sets the time after which a load counts half (default: 500 ms).
    ///
    /// A longer half-life is steadier, and slower. Choose it so long that several hundred traces are offered in it. Values
    /// are limited to the range from 1 ms to 1 h.
    ///
    /// ```
    /// # use flowgate_otel::TargetRateSampler;
    /// # use std::time::Duration;
    /// // About one in ten seconds, of some hundred a minute: remembered for five minutes.
    /// let rare = TargetRateSampler::new("6/min".parse()?).half_life(Duration::from_secs(300));
    /// assert_eq!(rare.probability(), 1.0); // nothing has come yet
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn half_life(self, half_life: Duration) -> Self {
        let half_life = half_life.clamp(Duration::from_millis(1), Duration::from_secs(3600));
        Self::with(Settings {
            half_life,
            ..self.settings()
        })
    }

    /// Picks by OpenTelemetry's consistent probability sampling.
    ///
    /// The sampler records the threshold in the trace state, as `ot=th:…`. Entries of other systems stay.
    ///
    /// Probabilities are rounded down to 13 to 16 significant bits, so that the threshold is short.
    ///
    /// Source: *TraceState: Probability Sampling* of the OpenTelemetry specification.
    ///
    /// ```
    /// use flowgate_otel::TargetRateSampler;
    /// use opentelemetry::trace::{Span, Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
    ///
    /// let sampler = TargetRateSampler::new("100/s".parse()?).consistent();
    /// let provider = SdkTracerProvider::builder().with_sampler(Sampler::parent_based(sampler)).build();
    /// let span = provider.tracer("shop").start("checkout");
    /// assert_eq!(span.span_context().trace_state().get("ot"), Some("th:0")); // with a probability of 1
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn consistent(self) -> Self {
        Self::with(Settings {
            pick: Pick::Threshold,
            ..self.settings()
        })
    }

    /// Creates a sampler that has seen no traces yet.
    fn with(settings: Settings) -> Self {
        let target = attributes::per_second(&settings.quota);
        let adaptive = Adaptive::new(target, settings.half_life);
        Self(Arc::new(Shared {
            quota: Mutex::new(settings.quota),
            settings,
            is_off: AtomicBool::new(false),
            adaptive,
        }))
    }

    fn settings(&self) -> Settings {
        Settings {
            quota: self.quota(),
            ..self.0.settings.clone()
        }
    }

    /// Replaces the target rate of this sampler and its clones.
    ///
    /// The probability changes immediately, by the recent load.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_otel::TargetRateSampler;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::SdkTracerProvider;
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let sampler = TargetRateSampler::new("10/s".parse()?).clock(&time);
    /// let provider = SdkTracerProvider::builder().with_sampler(sampler.clone()).build();
    /// for _ in 0..1000 {
    ///     provider.tracer("shop").start("checkout"); // 100 a second, for ten seconds
    ///     time.advance(Duration::from_millis(10));
    /// }
    /// sampler.set_quota("50/s".parse()?);
    /// assert!((0.45..0.55).contains(&sampler.probability()));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn set_quota(&self, quota: Quota) {
        let mut current = self.0.quota.lock().unwrap_or_else(PoisonError::into_inner);
        *current = quota;
        self.0.adaptive.set_target(attributes::per_second(&quota));
    }

    /// Returns the quota whose rate is the target.
    ///
    /// ```
    /// # use flowgate_otel::TargetRateSampler;
    /// let sampler = TargetRateSampler::new("100/s".parse()?);
    /// assert_eq!(sampler.quota().to_string(), "100/s");
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn quota(&self) -> Quota {
        *self.0.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a handle to change the sampler while it is in use.
    ///
    /// It changes the quota, and turns the sampler off and on. Make all other settings before.
    ///
    /// ```
    /// # use flowgate_otel::TargetRateSampler;
    /// let sampler = TargetRateSampler::new("100/s".parse()?);
    /// let controls = sampler.controls(); // for the task that reloads the configuration
    /// controls.set_quota("10/s".parse()?)?;
    /// assert_eq!(sampler.quota().to_string(), "10/s");
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn controls(&self) -> SamplerControls {
        SamplerControls::of_target_rate(self)
    }

    pub(crate) fn set_off(&self, is_off: bool) {
        self.0.is_off.store(is_off, Ordering::Relaxed);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.0.is_off.load(Ordering::Relaxed)
    }

    /// `share`, or everything while the limit is off.
    fn wanted(&self, share: u64) -> u64 {
        if self.is_off() { WHOLE } else { share }
    }

    /// Returns the probability by which a trace would be picked now.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_otel::TargetRateSampler;
    /// use opentelemetry::trace::{Tracer, TracerProvider};
    /// use opentelemetry_sdk::trace::SdkTracerProvider;
    ///
    /// let sampler = TargetRateSampler::new("10/s".parse()?).clock(ManualClock::new());
    /// assert_eq!(sampler.probability(), 1.0);
    /// let provider = SdkTracerProvider::builder().with_sampler(sampler.clone()).build();
    /// for _ in 0..1000 {
    ///     provider.tracer("shop").start("checkout"); // all at once
    /// }
    /// assert!(sampler.probability() < 0.02);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn probability(&self) -> f64 {
        let settings = &self.0.settings;
        settings
            .pick
            .probability(self.wanted(self.0.adaptive.share()))
    }
}

impl ShouldSample for TargetRateSampler {
    fn should_sample(
        &self,
        parent_context: Option<&Context>,
        trace_id: TraceId,
        _name: &str,
        _span_kind: &SpanKind,
        _attributes: &[KeyValue],
        _links: &[Link],
    ) -> SamplingResult {
        let Shared {
            settings, adaptive, ..
        } = &*self.0;
        // Read once: what is recorded is what has decided.
        let share = self.wanted(adaptive.arrival(settings.clock.now()));
        let trace_state = attributes::trace_state(parent_context);
        let (picked, trace_state) = settings.pick.decide(share, trace_id, trace_state);
        let (decision, attributes) = if picked {
            let probability = settings.pick.probability(share);
            let attributes = attributes::of_sampler("probabilistic", Some(probability));
            (SamplingDecision::RecordAndSample, attributes)
        } else {
            (SamplingDecision::Drop, Vec::new())
        };
        SamplingResult {
            decision,
            attributes,
            trace_state,
        }
    }
}

impl fmt::Debug for TargetRateSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetRateSampler")
            .field("quota", &self.quota())
            .field("half_life", &self.0.settings.half_life)
            .field("probability", &self.probability())
            .finish_non_exhaustive()
    }
}
