//! How far a run is, for those who watch.

use std::time::Duration;

/// How far a run is: about ten times a second, and at its end.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, Origin, Pace, Plan, Progress, Stop, Target};
///
/// /// A line that is drawn again and again.
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
    /// Since the start of the run.
    pub elapsed: Duration,
    /// How long it takes, if that is known.
    pub planned: Option<Duration>,
    /// How many requests there are, if that is known.
    pub scheduled: Option<u64>,
    /// The rate that is asked for now, in requests per second: of those scheduled in the last second.
    pub scheduled_per_second: f64,
    /// Requests sent in the last second.
    pub sent_per_second: f64,
    /// Requests sent.
    pub sent: u64,
    /// Answers to requests that were let through: 1xx, 2xx and 3xx.
    pub admitted: u64,
    /// Answers 429 and 503.
    pub limited: u64,
    /// Answers that are errors, and requests without one.
    pub failed: u64,
    /// Requests skipped.
    pub skipped: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Requests whose scheduled time has passed and that have not been sent; not known of a run without a schedule, and then 0.
    pub waiting: u64,
    /// For how long nothing has been answered, while requests were in flight.
    pub stalled: Duration,
    /// Requests sent in each of the last tenths of a second, the newest last, however little was sent; at most 600.
    pub recent: Vec<u64>,
    /// The median of response times in the last second; zero if there were none.
    pub response_p50: Duration,
    /// Their 99th percentile.
    pub response_p99: Duration,
    /// The 99th percentile of lag in the last second.
    pub lag_p99: Duration,
}
