//! What a run found out, as data. [`text`] says it in words.

mod code;
mod csv;
pub mod html;
mod json;
pub(crate) mod nanos;
pub(crate) mod text;

use std::time::Duration;

pub use self::json::ReportError;

use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::failure::Failure;
use crate::pacing::Pacing;
use crate::spread::{Quantile, Spread};
use crate::timeline::Timeline;
use crate::verdict::{Thresholds, Verdict, judge};

/// What a run found out. `Display` writes it as about a dozen lines of text.
///
/// # Examples
///
/// ```
/// use flowgate::Quota;
/// use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
///
/// let origin = Origin::start()?;
/// let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?;
/// assert_eq!(report.target, origin.url());
/// assert_eq!((report.counts.scheduled, report.counts.sent), (Some(5), 5));
/// assert!(report.response.p50 >= report.service.p50); // what a user felt has the lag in it
/// println!("{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Where the requests went.
    pub target: String,
    /// Whether that was this process's own [`Origin`](crate::Origin).
    pub own_origin: bool,
    /// What was asked for.
    pub asked: Asked,
    /// How many requests went how far.
    pub counts: Counts,
    /// From the first send to the last.
    #[serde(rename = "span_ns", with = "nanos")]
    pub span: Duration,
    /// How exactly requests were paced.
    pub pacing: Pacing,
    /// How late requests were sent: first byte written − scheduled time.
    pub lag: Spread,
    /// What a user would have felt: answer complete − scheduled time. Requests that timed out are in it;
    /// others that failed are not.
    pub response: Spread,
    /// How long the server took: answer complete − first byte written. Of the same requests as
    /// `response`.
    pub service: Spread,
    /// The distributions of the three.
    pub curves: Curves,
    /// What happened when.
    pub timeline: Timeline,
    /// How the connections were used.
    pub connections: Connections,
    /// Whether the run was [stopped](crate::Stop) before its end.
    pub is_interrupted: bool,
}

/// What a run was asked to do, as far as its report needs it.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use flowgate::Quota;
/// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
/// # let origin = Origin::start()?;
/// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
/// let asked = report.asked;
/// assert_eq!((asked.text.as_str(), asked.per_second), ("1000/s", Some(1000.0)));
/// assert_eq!(asked.interval, Duration::from_millis(1));
/// assert!(asked.is_constant);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Whether the run was to hold a rate or to stay under one.
    pub mode: Mode,
    /// In words: `1000/s`, `100/s to 5000/s in 60 s`, `at most 2/s`, `token 100/s burst 20`.
    pub text: String,
    /// The mean rate, in requests per second, where there is one.
    pub per_second: Option<f64>,
    /// Whether the rate is the same at all times.
    pub is_constant: bool,
    /// The shortest time between two requests that the rate asks for.
    #[serde(rename = "interval_ns", with = "nanos")]
    pub interval: Duration,
    /// The highest rate, in requests per second.
    pub highest_per_second: Option<f64>,
    /// The most requests with the same scheduled time.
    pub burst: u64,
    /// The bound for the sends in every interval, if it has the form burst + rate · time.
    pub guarantee: Option<Guarantee>,
    /// The bound for the sends in every window of one length, if there is one.
    #[serde(default)]
    pub window: Option<Window>,
}

/// What a rate is to a run.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, Mode, Origin, Pace, Plan, Stop, Target};
///
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// let report = flowgate_load::run(plan, &Stop::new())?;
/// assert_eq!(report.asked.mode, Mode::Unpaced); // so there is no rate to judge by
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Hold: a schedule decides, and late requests are caught up with.
    Hold,
    /// Stay under: a pacing limiter decides, from the times at which requests were really sent.
    Under,
    /// No rate: each connection sends its next request when it has its answer.
    Unpaced,
}

/// At most `burst` + `per_second` · w sends in any span of w seconds.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, Guarantee, Origin, Pace, PacingLimiter, Plan, Stop, Target};
///
/// let origin = Origin::start()?;
/// let limiter = PacingLimiter::parse("token 1000/s burst 3")?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Under(limiter, Extent::Requests(5)));
/// let report = flowgate_load::run(plan, &Stop::new())?;
/// assert_eq!(report.asked.guarantee, Some(Guarantee { burst: 3, per_second: 1000.0 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guarantee {
    /// Sends in one burst.
    pub burst: u64,
    /// Sends per second.
    pub per_second: f64,
}

/// At most `sends` sends in any span shorter than `span`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate_load::{Extent, Origin, Pace, PacingLimiter, Plan, Stop, Target, Window};
///
/// let origin = Origin::start()?;
/// let limiter = PacingLimiter::parse("sliding 1000/min")?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Under(limiter, Extent::Requests(5)));
/// let report = flowgate_load::run(plan, &Stop::new())?;
/// let minute = Duration::from_secs(60);
/// assert_eq!(report.asked.window, Some(Window { sends: 1000, span: minute }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// How many.
    pub sends: u64,
    /// The length.
    #[serde(rename = "span_ns", with = "nanos")]
    pub span: Duration,
}

/// Distributions as curves.
///
/// # Examples
///
/// ```
/// # use flowgate::Quota;
/// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
/// # let origin = Origin::start()?;
/// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
/// let last = report.curves.response.last().expect("there were answers");
/// assert_eq!((last.share, last.value), (1.0, report.response.max));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// Of [`Report::lag`].
    pub lag: Vec<Quantile>,
    /// Of [`Report::response`].
    pub response: Vec<Quantile>,
    /// Of [`Report::service`].
    pub service: Vec<Quantile>,
}

/// How a run used its connections.
///
/// # Examples
///
/// ```
/// # use flowgate::Quota;
/// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
/// # let origin = Origin::start()?;
/// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
/// let used = report.connections;
/// assert_eq!((used.connections, used.missing), (5, 0)); // no more than there are requests
/// assert!(used.most_busy <= used.allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// How many connections are held open at most.
    pub connections: u64,
    /// The most requests that may be in flight concurrently: connections, each times its streams.
    pub allowed: u64,
    /// The most that were busy concurrently.
    pub most_busy: u64,
    /// The longest that a request waited because all were busy.
    #[serde(rename = "longest_wait_ns", with = "nanos")]
    pub longest_wait: Duration,
    /// How many could not be opened ahead of the first request.
    pub missing: u64,
    /// Why one of these could not.
    pub why_missing: Option<Failure>,
}

impl Asked {
    /// Whether requests may come faster than the rate for a while.
    pub(crate) fn burst_may_come(&self) -> bool {
        self.guarantee.is_none_or(|guarantee| guarantee.burst > 1)
    }

    /// How many requests are in flight concurrently, where each takes `service`: by Little's law at
    /// the highest rate, for bursts at least a whole one.
    pub(crate) fn in_flight(&self, service: Duration) -> u64 {
        let by_rate = self.highest_per_second.unwrap_or(0.0) * service.as_secs_f64();
        (by_rate.ceil() as u64).max(self.burst)
    }
}

impl Report {
    /// The mean rate of sending, in requests per second: the intervals between the first send and
    /// the last, one fewer than there were sends, by the time between these. `None` for fewer than
    /// two sends.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use flowgate::Quota;
    /// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
    /// # let origin = Origin::start()?;
    /// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
    /// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
    /// let mut report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
    /// report.counts.sent = 1001;
    /// report.span = Duration::from_secs(2);
    /// assert_eq!(report.achieved(), Some(500.0)); // 1000 intervals in two seconds
    /// report.counts.sent = 1;
    /// assert_eq!(report.achieved(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn achieved(&self) -> Option<f64> {
        let intervals = self.counts.sent.checked_sub(1)?;
        if intervals == 0 || self.span.is_zero() {
            return None;
        }
        Some(intervals as f64 / self.span.as_secs_f64())
    }

    /// How far the achieved rate is from the target, as a fraction of the target; of a schedule whose
    /// rate is not constant, from its mean.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use flowgate::Quota;
    /// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
    /// # let origin = Origin::start()?;
    /// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
    /// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
    /// let mut report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
    /// report.asked.per_second = Some(1000.0);
    /// report.counts.sent = 1001;
    /// report.span = Duration::from_secs(2);
    /// assert_eq!(report.rate_error(), Some(-0.5)); // half of what was asked for
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rate_error(&self) -> Option<f64> {
        Some(self.achieved()? / self.asked.per_second? - 1.0)
    }

    /// The limits by which [`verdict`](Report::verdict) judges.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use flowgate::Quota;
    /// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
    /// # let origin = Origin::start()?;
    /// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
    /// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
    /// let mut report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
    /// report.asked.interval = Duration::from_millis(20); // of 50/s
    /// assert_eq!(report.thresholds().lag_p99, Duration::from_millis(20));
    /// report.asked.interval = Duration::from_micros(50); // of 20000/s
    /// assert_eq!(report.thresholds().lag_p99, Duration::from_millis(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thresholds(&self) -> Thresholds {
        Thresholds {
            rate_error: 0.001,
            lag_p99: self.asked.interval.max(Duration::from_millis(1)),
        }
    }

    /// Whether the rate was held or the rate limit kept, and if not, why not.
    ///
    /// # Examples
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
    /// # let origin = Origin::start()?;
    /// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
    /// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
    /// let mut report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
    /// report.counts.skipped = 1;
    /// let verdict = report.verdict();
    /// assert_eq!(verdict.to_string(), "RATE NOT HELD");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verdict(&self) -> Verdict {
        judge(self)
    }

    /// The commonest failure, when any request failed before it was sent.
    pub(crate) fn commonest_unsent(&self) -> Option<Failure> {
        if self.counts.unsent == 0 {
            return None;
        }
        let commonest = self
            .counts
            .failures
            .iter()
            .max_by_key(|(_, count)| **count)?;
        Some(*commonest.0)
    }
}
