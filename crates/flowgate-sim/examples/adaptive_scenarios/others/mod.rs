//! The adaptive limits of other libraries, written from their published formulas, at their published defaults.
//!
//! Only the bounds are ours: 1 to 2,000 permits for every limit, as a default of 200 would decide a scenario of 400 workers.

mod aimd;
mod brpc;
mod envoy;
mod failsafe;
mod gradient2;
mod vegas;
mod windowed;

pub use aimd::Aimd;
pub use brpc::Brpc;
pub use envoy::Envoy;
pub use failsafe::Failsafe;
pub use gradient2::Gradient2;
pub use vegas::Vegas;
pub use windowed::Windowed;

/// The bounds of every limit.
const MIN: f64 = 1.0;
pub const MAX: f64 = 2_000.0;

const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;

/// A call that has ended, or what a window makes of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    pub began_ns: u64,
    pub ended_ns: u64,
    /// In nanoseconds. Of several calls, it is the mean.
    pub latency: f64,
    /// How many calls were in flight when it began, itself included.
    pub in_flight: u32,
    pub is_overload: bool,
    /// Whether all permits were in use when it ended.
    pub is_full: bool,
}

/// A limit of another library.
pub trait Other {
    /// The number of permits.
    fn limit(&self) -> f64;

    /// Learns from a call that has ended.
    fn ended(&mut self, call: &Call);

    /// Does what is due by a timer.
    fn elapsed(&mut self, now_ns: u64) {
        let _ = now_ns;
    }
}

/// The whole part of the decimal logarithm, and at least 1.
fn log10(limit: f64) -> f64 {
    limit.log10().floor().max(1.0)
}

/// The value below which this share of the values lies, which are not empty.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    let rank = (values.len() as f64 * share).ceil() as usize;
    let at = rank.clamp(1, values.len()) - 1;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A success of `latency_ms` that ends at `ended_ms`, with `in_flight` calls in flight.
    pub fn call(ended_ms: u64, latency_ms: u64, in_flight: u32) -> Call {
        let ended_ns = ended_ms * MILLISECOND_NS;
        let latency_ns = latency_ms * MILLISECOND_NS;
        Call {
            began_ns: ended_ns.saturating_sub(latency_ns),
            ended_ns,
            latency: latency_ns as f64,
            in_flight,
            is_overload: false,
            is_full: true,
        }
    }

    #[test]
    fn logarithms_are_whole_and_at_least_one() {
        assert_eq!([4.0, 99.0, 100.0, 2_000.0].map(log10), [1.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_quantile_is_a_value_by_its_rank() {
        let mut values: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut values, 0.5), 5.0);
        assert_eq!(quantile(&mut values, 0.9), 9.0);
        assert_eq!(quantile(&mut [7.0], 0.9), 7.0);
    }
}
