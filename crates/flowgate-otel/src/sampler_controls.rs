use crate::rate_limiting::RateLimitingSampler;
use crate::target_rate::TargetRateSampler;
use flowgate::{Quota, QuotaError};
use std::fmt;

/// Changes a sampler while it is in use; made by [`RateLimitingSampler::controls`] and [`TargetRateSampler::controls`].
///
/// A change applies to the traces that begin after it, in all clones of the sampler.
///
/// ```
/// use flowgate_otel::{RateLimitingSampler, SamplerControls};
/// use opentelemetry::trace::{Span, Tracer, TracerProvider};
/// use opentelemetry_sdk::trace::SdkTracerProvider;
///
/// let sampler = RateLimitingSampler::new("1/h".parse()?);
/// let controls: SamplerControls = sampler.controls();
/// let provider = SdkTracerProvider::builder().with_sampler(sampler).build();
/// let tracer = provider.tracer("shop");
/// let sampled = || (0..5).filter(|_| tracer.start("checkout").span_context().is_sampled()).count();
///
/// assert_eq!(sampled(), 1);
/// controls.set_enabled(false);
/// assert_eq!(sampled(), 5); // without a limit, everything is sampled
/// controls.set_enabled(true);
/// assert_eq!(sampled(), 0);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone)]
pub struct SamplerControls(Sampler);

#[derive(Clone)]
enum Sampler {
    RateLimiting(RateLimitingSampler),
    TargetRate(TargetRateSampler),
}

impl SamplerControls {
    pub(crate) fn of_rate_limiting(sampler: &RateLimitingSampler) -> Self {
        Self(Sampler::RateLimiting(sampler.clone()))
    }

    pub(crate) fn of_target_rate(sampler: &TargetRateSampler) -> Self {
        Self(Sampler::TargetRate(sampler.clone()))
    }

    /// Replaces the quota: the limit of a [`RateLimitingSampler`], the target of a [`TargetRateSampler`].
    ///
    /// ```
    /// # use flowgate_otel::TargetRateSampler;
    /// let controls = TargetRateSampler::new("100/s".parse()?).controls();
    /// controls.set_quota("10/s".parse()?)?;
    /// assert_eq!(controls.quota(), Some("10/s".parse()?));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of [`RateLimitingSampler::set_quota`]. Only [limits that were
    /// given](RateLimitingSampler::with_limit) return one.
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        match &self.0 {
            Sampler::RateLimiting(sampler) => sampler.set_quota(quota),
            Sampler::TargetRate(sampler) => {
                sampler.set_quota(quota);
                Ok(())
            }
        }
    }

    /// Returns the quota; `None` if a limit that was given has no quota.
    pub fn quota(&self) -> Option<Quota> {
        match &self.0 {
            Sampler::RateLimiting(sampler) => sampler.quota(),
            Sampler::TargetRate(sampler) => Some(sampler.quota()),
        }
    }

    /// Turns the sampler's limit on or off.
    ///
    /// > **Warning:** while it is off, **every** trace is sampled. To sample none, drop the traces, or set a low quota.
    ///
    /// Spans then have the attributes `sampler.type` = `const` and `sampler.param` = `true` of a `RateLimitingSampler`, and the
    /// probability 1 of a `TargetRateSampler`, which goes on to learn how many traces come.
    pub fn set_enabled(&self, is_enabled: bool) {
        match &self.0 {
            Sampler::RateLimiting(sampler) => sampler.set_off(!is_enabled),
            Sampler::TargetRate(sampler) => sampler.set_off(!is_enabled),
        }
    }

    /// Returns whether the sampler's limit is on.
    pub fn is_enabled(&self) -> bool {
        !match &self.0 {
            Sampler::RateLimiting(sampler) => sampler.is_off(),
            Sampler::TargetRate(sampler) => sampler.is_off(),
        }
    }
}

impl fmt::Debug for SamplerControls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SamplerControls")
            .field("quota", &self.quota())
            .field("is_enabled", &self.is_enabled())
            .finish()
    }
}
