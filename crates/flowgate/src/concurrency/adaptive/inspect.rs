//! What there is to see of an adaptive limit.

use super::algorithm::AdaptReport;
use super::fine_limit::FineLimit;
use super::window::AdaptWindow;

/// An adaptive limit at one instant, for metrics and debugging.
///
/// ```
/// use flowgate::{AdaptiveLimit, Gradient};
///
/// let limit = AdaptiveLimit::new(Gradient::default());
/// let permit = limit.try_acquire()?;
/// let seen = limit.inspect();
/// assert_eq!((seen.limit.permits(), seen.in_flight, seen.waiting), (20, 1, 0));
/// assert_eq!(seen.report.baseline_ns, None); // no window has been closed yet
/// # drop(permit);
/// # Ok::<(), flowgate::Denied>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdaptiveView {
    /// The limit.
    pub limit: FineLimit,
    /// The smallest limit.
    pub min: FineLimit,
    /// The largest limit.
    pub max: FineLimit,
    /// The number of permits in use. Below one permit, it counts a permit that rests after its call.
    pub in_flight: u64,
    /// The number of waiters.
    pub waiting: usize,
    /// The number of calls that ended with an overload.
    ///
    /// Calls that began before a cut are included.
    pub overloads: u64,
    /// The number of windows that have been closed.
    pub windows: u64,
    /// The window that was closed last.
    pub last_window: Option<AdaptWindow>,
    /// What the algorithm reports.
    pub report: AdaptReport,
}
