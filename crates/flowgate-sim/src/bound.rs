//! What limiters guarantee for windows of any length.

use std::time::Duration;

use flowgate::{LimiterConfig, LimiterKind, Quota};

/// The most tokens that a policy admits in any window of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionBound {
    /// The tokens.
    pub tokens: u64,
    /// Whether this holds for each key, and not for all requests together.
    pub is_per_key: bool,
}

impl AdmissionBound {
    /// What a limiter guarantees for each half-open window: [never over-admits](flowgate::guide::guarantees).
    pub(crate) fn of_config(config: &LimiterConfig, window: Duration) -> Option<u64> {
        let quotas = config.quotas()?;
        let bounds = quotas.as_slice().iter().map(|quota| {
            let quota = Numbers::new(quota);
            let window_ns = window.as_nanos().min(u64::MAX.into());
            let touched = window_ns.div_ceil(quota.period_ns).max(1);
            let limit = quota.count;
            let bound = match config.kind() {
                LimiterKind::Token => quota.burst + quota.refill(window_ns),
                LimiterKind::Leaky => 1 + quota.refill(window_ns),
                LimiterKind::Sliding | LimiterKind::Segmented => touched.saturating_mul(limit),
                // The first of the windows that are touched began with a grant, which is outside.
                LimiterKind::Fixed => (touched + 1).saturating_mul(limit) - 1,
                LimiterKind::Aligned => (touched + 1).saturating_mul(limit),
                LimiterKind::Approximate => (touched + 1)
                    .saturating_mul(limit)
                    .min(touched.saturating_mul(2 * limit - 1)),
                _ => return None,
            };
            u64::try_from(bound).ok()
        });
        // All of them hold.
        bounds.flatten().min()
    }
}

/// A quota, in units.
struct Numbers {
    count: u128,
    period_ns: u128,
    burst: u128,
}

impl Numbers {
    fn new(quota: &Quota) -> Self {
        let scale = u128::from(quota.scale());
        Self {
            count: u128::from(quota.count()) * scale,
            period_ns: quota.period().as_nanos(),
            burst: u128::from(quota.max_burst()) * scale,
        }
    }

    /// The most whole units that flow in.
    fn refill(&self, window_ns: u128) -> u128 {
        (self.count * window_ns) / self.period_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_guide() {
        let bound = |text: &str, window_ms: u64| {
            let config: LimiterConfig = text.parse().expect(text);
            AdmissionBound::of_config(&config, Duration::from_millis(window_ms))
        };
        assert_eq!(bound("token 100/s burst 20", 1_000), Some(120));
        assert_eq!(bound("token 100/s burst 20", 15), Some(21));
        assert_eq!(bound("token 100/s burst 20; 150/min", 1_000), Some(120));
        assert_eq!(bound("token 100/s burst 20; 100/min", 1_000), Some(101));
        assert_eq!(bound("leaky 100/s", 1_000), Some(101));
        assert_eq!(bound("sliding 100/s", 1_000), Some(100));
        assert_eq!(bound("sliding 100/s", 500), Some(100));
        assert_eq!(bound("segmented 100/s", 1_001), Some(200));
        assert_eq!(bound("fixed 100/s", 1_000), Some(199));
        assert_eq!(bound("aligned 100/s", 1_000), Some(200));
        assert_eq!(bound("approximate 100/s", 1_000), Some(199));
        assert_eq!(bound("approximate 100/s", 2_000), Some(300));
        assert_eq!(bound("unlimited", 1_000), None);
    }
}
