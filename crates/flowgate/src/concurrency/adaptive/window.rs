//! The calls of a window, as an algorithm sees them.

use super::fine_limit::FineLimit;

/// The calls that ended within a window, as an algorithm sees them.
///
/// All numbers are of calls that were measured; each stands for [`stride`](Self::stride) calls. Overloads are counted in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdaptWindow {
    /// The limit during the window.
    pub limit: FineLimit,
    /// The length of the window in nanoseconds, at least 1.
    pub length_ns: u64,
    /// The number of calls that ended with success.
    pub successes: u64,
    /// The mean latency of these calls in nanoseconds; 0 if there were none.
    pub mean_latency_ns: u64,
    /// The number of calls that ended with an overload, and began after the last cut.
    pub overloads: u64,
    /// The most calls in flight when a call of the window began, itself included.
    pub max_in_flight: u64,
    /// How many calls each success stands for.
    pub stride: u64,
}

impl AdaptWindow {
    /// Creates a window of `successes` calls with this mean latency.
    ///
    /// The whole limit was in use, and there were no overloads. It is for tests of an algorithm of your own.
    #[must_use]
    pub fn new(limit: FineLimit, length_ns: u64, successes: u64, mean_latency_ns: u64) -> Self {
        Self {
            limit,
            length_ns: length_ns.max(1),
            successes,
            mean_latency_ns,
            overloads: 0,
            max_in_flight: limit.permits().into(),
            stride: 1,
        }
    }

    /// Returns whether at least half of the limit was in use at some time.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.max_in_flight.saturating_mul(2) >= self.limit.permits().into()
    }

    /// Returns whether the whole limit was in use at some time.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.max_in_flight >= self.limit.permits().into()
    }

    /// Returns the limit after the overloads of the window.
    ///
    /// It is cut by a tenth, or by half the share of overloads if that is more. `None` if there were no overloads.
    #[must_use]
    pub fn cut_for_overloads(&self) -> Option<FineLimit> {
        if self.overloads == 0 {
            return None;
        }
        let calls = self
            .successes
            .saturating_mul(self.stride)
            .saturating_add(self.overloads);
        // 1 − max(1/10, overloads / calls / 2), over 2 · calls.
        let twice = calls.saturating_mul(2);
        let kept = (twice - self.overloads).min(twice - twice.div_ceil(10));
        Some(self.limit.times(kept, twice))
    }
}
