//! [`TargetRateSampler`]: the public face over [`Adaptive`], which knows the probability, and [`Pick`], which
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

/// Samples **about** so many traces a second, whatever the load, each with the same probability, which it records; it
/// may sample more while the load rises: a limit it is not.
///
/// The probability is the rate divided by the traces that have been coming, so every trace has the same chance as the
/// others of its time, and what is computed from those that were sampled can be scaled up by what they say of it.
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
/// # What it promises
///
/// - With an even load of more than the rate, the mean is the rate, but for chance. The spread of a count n is that
///   of a random choice: its square root.
/// - Four seconds after the load has changed tenfold, up or down, the mean is within 5 % of the rate again (eight
///   half-lives).
/// - A load that has grown k-fold is noticed while it grows: in the first half-life, about 1 + log₂ k times what
///   the rate allows in it is sampled, and not k times as much. Where nothing has come before, k is the load over
///   the rate.
/// - With less load than the rate, everything is sampled.
/// - By a clock that stands still or runs backward, less and less is sampled, until it goes on.
///
/// It is a wish and not a limit, for chance and a changing load exceed it. Where something must not be exceeded, put a
/// [`RateLimitedProcessor`](crate::RateLimitedProcessor) behind it, or use a
/// [`RateLimitingSampler`](crate::RateLimitingSampler).
///
/// # By the trace's id
///
/// The same trace is picked by every service with the same probability, and of two probabilities the smaller one picks
/// some of what the larger one picks. There are two ways to compare, which do not agree with each other:
///
/// | | picks | agrees with | recorded |
/// |---|---|---|---|
/// | as it is | small ids: bits 1 to 63, below p · 2⁶³ | `Sampler::TraceIdRatioBased` of this SDK, and of Go's | `sampler.param` |
/// | [`consistent`](Self::consistent) | large ids: bits 0 to 55, or the trace state's `rv`, from (1 − p) · 2⁵⁶ on | OpenTelemetry's specification of consistent probability sampling, the collector's included | `sampler.param`, and `ot=th:…` in the trace state |
///
/// Either way the span that was asked about has the attributes `sampler.type` = `probabilistic` and `sampler.param` =
/// the probability by which this very trace was picked, exactly. (In `Sampler::ParentBased`, rather than
/// [`Sampler::parent_based`](opentelemetry_sdk::trace::Sampler::parent_based), none of that is recorded.)
///
/// # How
///
/// Whoever samples first after a half-life has passed brings the estimate up to date: arrivals and time, both
/// forgotten by half in a half-life (exponential smoothing at irregular times; D. J. Wright, 1986, Management Science
/// 32(4)). Before that, as soon as twice as many have come as were expected, the probability is lowered to what they
/// are worth if no more come.
///
/// No thread. A decision is a clock reading, an addition and three loads. Estimates are `f64`, as nothing is
/// admitted by them that must not be exceeded. The estimate has a lock that nobody waits for: who finds it taken
/// decides by the probability there is.
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
    /// The current one; held while it changes.
    quota: Mutex<Quota>,
    is_off: AtomicBool,
    adaptive: Adaptive,
}

impl TargetRateSampler {
    /// About so many traces. The quota's burst says nothing here.
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

    /// A clock of your own.
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

    /// After this time, a load counts half; by default 500 ms. A longer one is steadier, and slower: that should be so
    /// long that some hundreds of traces are offered in it. Less than 1 ms is 1 ms, more than an hour is an hour.
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

    /// Picks by OpenTelemetry's consistent probability sampling, and records the threshold in the trace state, as
    /// `ot=th:…`. What others have put there stays.
    ///
    /// Probabilities are rounded down to 13 to 16 significant bits there, so that the threshold is short.
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

    /// As if nothing had come yet.
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

    /// Replaces the target rate of this sampler and its clones. The probability follows immediately, by the load of late.
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

    /// Returns the quota of which the rate is the target.
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

    /// Returns a handle to change the quota, and to turn the sampler off and on, while it is in use. Make all other settings
    /// before.
    ///
    /// ```
    /// # use flowgate_otel::TargetRateSampler;
    /// let sampler = TargetRateSampler::new("100/s".parse()?);
    /// let controls = sampler.controls(); // for the task that reloads the configuration
    /// controls.set_quota("10/s".parse()?);
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

    /// `share`, or all while the limit is off.
    fn wanted(&self, share: u64) -> u64 {
        if self.is_off() { WHOLE } else { share }
    }

    /// The probability by which a trace would be picked now.
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
            let attributes = attributes::of_sampler("probabilistic", probability);
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
