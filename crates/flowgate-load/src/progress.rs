//! Progress of a run.

use std::time::Duration;

use crate::counts::ErrorCause;

/// Progress of a run, reported about ten times per second and at the end.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, Origin, Pace, Plan, Progress, Stop, Target};
///
/// /// A line that is redrawn.
/// fn line(progress: &Progress) -> String {
///     let Progress { sent, failed, in_flight, .. } = progress;
///     format!("{sent} sent, {failed} failed, {in_flight} in flight")
/// }
///
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// let mut last = String::new();
/// flowgate_load::run_watched(plan, &Stop::new(), |progress| last = line(progress))?;
/// assert_eq!(last, "3 sent, 0 failed, 0 in flight");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Time since the start of the run.
    pub elapsed: Duration,
    /// Time until the run starts and requests are counted; zero after the warm-up.
    pub warm_up_left: Duration,
    /// Planned duration, if it is known.
    pub planned: Option<Duration>,
    /// Planned number of requests, if it is known.
    pub scheduled: Option<u64>,
    /// Rate of the schedule over the last second, in requests per second.
    pub scheduled_per_second: f64,
    /// Rate of sending over the last second, in requests per second.
    pub sent_per_second: f64,
    /// Number of requests sent.
    pub sent: u64,
    /// Number of responses to admitted requests: 1xx, 2xx and 3xx.
    pub admitted: u64,
    /// Number of responses with 429 or 503.
    pub limited: u64,
    /// Number of error responses, and of requests without a response.
    pub failed: u64,
    /// Causes of errors with their counts, in the order of a report.
    pub errors: Vec<(ErrorCause, u64)>,
    /// Whether more requests have failed than [`Plan::max_error_share`](crate::Plan::max_error_share) allows.
    pub has_too_many_errors: bool,
    /// Number of requests skipped.
    pub skipped: u64,
    /// Number of requests in flight.
    pub in_flight: u64,
    /// Number of late requests that have not been sent yet; 0 without a schedule.
    pub waiting: u64,
    /// How long no response has arrived while requests were in flight.
    pub stalled: Duration,
    /// Number of requests sent per tenth of a second, the newest last; at most 600.
    pub recent: Vec<u64>,
    /// Longest response time per tenth of a second, the newest last; at most 600. Zero without responses.
    pub recent_longest: Vec<Duration>,
    /// Median response time of the last second; zero without responses.
    pub response_p50: Duration,
    /// 99th percentile of the response time of the last second.
    pub response_p99: Duration,
    /// 99th percentile of the lag of the last second.
    pub lag_p99: Duration,
}
