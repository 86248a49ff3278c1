//! Algorithms that set a limit: pure state machines, one file each. They know no clock, no lock and no permit.

pub(super) mod aimd;
pub(super) mod bdp;
pub(super) mod gradient;
mod jitter;
pub(super) mod vegas;

use super::fine_limit::FineLimit;
use super::window::AdaptWindow;
use crate::clock::Timestamp;
use alloc::boxed::Box;

/// An algorithm that sets the limit of an [`AdaptiveLimit`](crate::AdaptiveLimit).
///
/// It is asked once for each window, and never concurrently. It has no clock, and must not call its limiter. The limiter applies the bounds and the guard
/// against unused growth to what it returns, and reports the limit that was used in the next window.
///
/// ```
/// use flowgate::{Adapt, AdaptReport, AdaptWindow, AdaptiveLimit, FineLimit, Timestamp};
///
/// /// One permit more for each window without an overload, half as many after one with overloads.
/// #[derive(Debug)]
/// struct Halving;
///
/// impl Adapt for Halving {
///     fn initial(&self) -> FineLimit {
///         FineLimit::whole(10)
///     }
///
///     fn on_window(&mut self, _: Timestamp, window: &AdaptWindow) -> FineLimit {
///         match window.overloads {
///             0 => window.limit.plus(FineLimit::ONE.parts()),
///             _ => window.limit.times(1, 2),
///         }
///     }
/// }
///
/// let limit = AdaptiveLimit::new(Halving);
/// assert_eq!(limit.limit(), FineLimit::whole(10));
/// ```
pub trait Adapt: Send + 'static {
    /// Returns the limit to start with.
    fn initial(&self) -> FineLimit;

    /// Returns the limit after `window`, which ended at `now`.
    fn on_window(&mut self, now: Timestamp, window: &AdaptWindow) -> FineLimit;

    /// Returns how many outcomes the current window needs under `limit`, if `usual` is the number that the limiter needs
    /// (default: that number).
    ///
    /// It is 1 for a window that only waits for older calls to end: it then ends with its time.
    fn min_outcomes(&self, limit: FineLimit, usual: u64) -> u64 {
        let _ = limit;
        usual
    }

    /// Reports what the algorithm knows (default: nothing).
    fn report(&self) -> AdaptReport {
        AdaptReport::default()
    }
}

/// An algorithm that is chosen at run time.
impl Adapt for Box<dyn Adapt> {
    fn initial(&self) -> FineLimit {
        (**self).initial()
    }

    fn on_window(&mut self, now: Timestamp, window: &AdaptWindow) -> FineLimit {
        (**self).on_window(now, window)
    }

    fn min_outcomes(&self, limit: FineLimit, usual: u64) -> u64 {
        (**self).min_outcomes(limit, usual)
    }

    fn report(&self) -> AdaptReport {
        (**self).report()
    }
}

/// A window of a slow start needs at most this number of outcomes for each permit. A small limit has few outcomes, and whether it
/// can double is seen from few.
const START_OUTCOMES_OF_PERMIT: u64 = 10;

/// Returns how many outcomes a window of a slow start needs; see [`Adapt::min_outcomes`].
fn start_outcomes(limit: FineLimit, usual: u64) -> u64 {
    usual.min(u64::from(limit.permits()) * START_OUTCOMES_OF_PERMIT)
}

/// What an algorithm knows of a service, for metrics and debugging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdaptReport {
    /// The latency without a queue, in nanoseconds, if the algorithm estimates it.
    pub baseline_ns: Option<u64>,
    /// The target latency divided by the last one, in thousandths. Below 1000, the limit is cut.
    pub gradient_permille: Option<u64>,
    /// Whether the limit is cut for a measurement.
    pub is_measuring: bool,
}
