//! The results of a run as data. [`text`] formats them.

mod code;
mod csv;
pub mod html;
mod json;
pub(crate) mod merge;
pub(crate) mod nanos;
mod provenance;
pub(crate) mod text;

use std::time::Duration;

pub use self::json::ReportError;
pub use self::merge::{MergeError, Merged, MergedPart};
pub use self::provenance::Provenance;
pub(crate) use self::provenance::rfc3339;

use serde::{Deserialize, Serialize};

use crate::counts::RequestCounts;
use crate::decoder::Decoded;
use crate::detail::Detail;
use crate::failure::Failure;
use crate::pacing::Pacing;
use crate::slice::Slice;
use crate::spread::{Quantile, Spread, percentile_name};
use crate::timeline::{Slot, Timeline};
use crate::verdict::{Thresholds, Verdict, judge};

/// Default maximum share of errors.
pub(crate) const MAX_ERROR_SHARE: f64 = 0.01;
/// Maximum error of the rate in a run that is not short.
const MAX_RATE_ERROR: f64 = 0.001;

/// Results of a run. `Display` writes about a dozen lines of text.
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
/// assert!(report.response.p50 >= report.service.p50); // response time includes the lag
/// println!("{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// URL of the requests.
    pub target: String,
    /// Whether the URL is this process's own [`Origin`](crate::Origin).
    pub own_origin: bool,
    /// What the run was asked to do.
    pub asked: Asked,
    /// Counts of requests by outcome.
    pub counts: RequestCounts,
    /// Time from the first send to the last.
    #[serde(rename = "span_ns", with = "nanos")]
    pub span: Duration,
    /// Accuracy of the pacing.
    pub pacing: Pacing,
    /// Lag: first byte written − scheduled time.
    pub lag: Spread,
    /// Response time: response complete − scheduled time.
    ///
    /// That is what a user would have felt, corrected for coordinated omission. It includes requests that timed out,
    /// but no other failures.
    pub response: Spread,
    /// Service time: response complete − first byte written. Of the same requests as `response`.
    pub service: Spread,
    /// Distributions of these three durations.
    pub curves: Curves,
    /// Values of the shares in [`Plan::percentiles`](crate::Plan::percentiles); empty if there are none.
    #[serde(default)]
    pub percentiles: Curves,
    /// Counts and times by slot.
    ///
    /// A slot is 10 ms to 1 s, or longer in runs of more than an hour.
    pub timeline: Timeline,
    /// Distributions in full, for joining and comparing reports.
    ///
    /// They are empty in a report of an older version.
    #[serde(default, skip_serializing_if = "Detail::is_empty")]
    pub detail: Detail,
    /// Use of the connections.
    pub connections: Connections,
    /// Whether the run was [stopped](crate::Stop) before its end.
    pub is_interrupted: bool,
    /// When, how and where the run was made.
    #[serde(default)]
    pub provenance: Provenance,
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
    /// Whether to hold a rate or to stay under one.
    pub mode: PacingMode,
    /// As text: `1000/s`, `100/s to 5000/s in 60 s`, `at most 2/s`, `token 100/s burst 20`.
    pub text: String,
    /// Mean rate in requests per second; `None` without a rate.
    pub per_second: Option<f64>,
    /// Whether the rate is constant.
    pub is_constant: bool,
    /// Shortest gap between two requests that the rate requires.
    #[serde(rename = "interval_ns", with = "nanos")]
    pub interval: Duration,
    /// Highest rate in requests per second; `None` without a rate.
    pub highest_per_second: Option<f64>,
    /// Maximum number of requests with the same scheduled time. In a slice, it is that of the whole schedule.
    pub burst: u64,
    /// Bound for every interval, if it has the form burst + rate × time.
    pub guarantee: Option<Guarantee>,
    /// Bound for every window of one length, if there is one.
    #[serde(default)]
    pub window: Option<Window>,
    /// Maximum share of errors, from 0 to 1; see [`Plan::max_error_share`](crate::Plan::max_error_share).
    #[serde(default = "usual_error_share")]
    pub max_error_share: f64,
    /// The part of the schedule, if the run was one of several; see [`Plan::slice`](crate::Plan::slice).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
}

/// Share of errors that is allowed in a report which does not say.
fn usual_error_share() -> f64 {
    MAX_ERROR_SHARE
}

/// How a run treats a rate.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, PacingMode, Origin, Pace, Plan, Stop, Target};
///
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// let report = flowgate_load::run(plan, &Stop::new())?;
/// assert_eq!(report.asked.mode, PacingMode::Unpaced); // so there is no rate to judge by
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacingMode {
    /// Hold: a schedule decides, and late requests are caught up with.
    Hold,
    /// Stay under: a pacing limiter decides, from the times at which requests were really sent.
    Under,
    /// No rate: each connection sends its next request when it has its answer.
    Unpaced,
}

/// Bound: at most `burst + per_second × w` sends in any interval of *w* seconds.
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

/// Bound: at most `sends` sends in any interval shorter than `span`.
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
    /// Maximum number of sends.
    pub sends: u64,
    /// Length of the interval.
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
    /// Distribution of [`Report::lag`].
    pub lag: Vec<Quantile>,
    /// Distribution of [`Report::response`].
    pub response: Vec<Quantile>,
    /// Distribution of [`Report::service`].
    pub service: Vec<Quantile>,
}

/// Use of the connections.
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
/// assert_eq!((used.connections, used.missing), (5, 0)); // at most one per request
/// assert!(used.most_busy <= used.allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Maximum number of open connections.
    pub connections: u64,
    /// Maximum number of requests in flight: connections × streams.
    pub allowed: u64,
    /// Maximum number of requests that were in flight.
    pub most_busy: u64,
    /// Longest time that a request waited because all connections were busy.
    #[serde(rename = "longest_wait_ns", with = "nanos")]
    pub longest_wait: Duration,
    /// Number of connections that could not be opened before the first request.
    pub missing: u64,
    /// Why one of these connections could not be opened.
    pub why_missing: Option<Failure>,
}

impl Asked {
    /// Returns whether requests may exceed the rate for a while.
    pub(crate) fn burst_may_come(&self) -> bool {
        self.guarantee.is_none_or(|guarantee| guarantee.burst > 1)
    }

    /// Returns the number of requests in flight if each takes `service`: by Little's law at the highest rate, but at
    /// least one whole burst.
    pub(crate) fn in_flight(&self, service: Duration) -> u64 {
        let by_rate = self.highest_per_second.unwrap_or(0.0) * service.as_secs_f64();
        let slices = self.slice.map_or(1, |slice| slice.count.max(1));
        (by_rate.ceil() as u64).max(self.burst.div_ceil(slices))
    }
}

impl Report {
    /// Returns the mean rate of sending, in requests per second.
    ///
    /// That is the number of gaps between sends, divided by the time from the first send to the last. `None` for fewer
    /// than two sends.
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

    /// Returns the relative difference between the achieved rate and the target.
    ///
    /// If the rate is not constant, the target is the mean rate.
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

    /// Returns the thresholds of the [`verdict`](Report::verdict).
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
        let lag_p99 = self.asked.interval.max(Duration::from_millis(1));
        let gaps = self.counts.sent.saturating_sub(1);
        // The sends should have taken gaps / rate. Each end may be late by `lag_p99`.
        let by_lag = match self.asked.per_second {
            Some(rate) if gaps > 0 => lag_p99.as_secs_f64() * rate / gaps as f64,
            _ => 0.0,
        };
        Thresholds {
            rate_error: by_lag.max(MAX_RATE_ERROR),
            lag_p99,
            error_share: self.asked.max_error_share,
        }
    }

    /// Returns whether the run was successful, and if not, why.
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

    /// Returns the columns of a table of durations: the percentiles that were asked for or the usual ones, and the maximum.
    pub(crate) fn columns(
        &self,
        spread: &Spread,
        own: &[Quantile],
    ) -> Vec<(String, Option<Duration>)> {
        let shares = &self.percentiles.response;
        if shares.is_empty() {
            let usual = spread.columns().into_iter();
            return usual
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
        }
        let named = shares.iter().map(|asked| {
            let found = own.iter().find(|own| own.share == asked.share);
            let is_known = |own: &&Quantile| spread.distinguishes(own.share);
            let value = found.filter(is_known).map(|own| own.value);
            (percentile_name(asked.share), value)
        });
        let max = (spread.samples > 0).then_some(spread.max);
        named.chain([("max".to_owned(), max)]).collect()
    }

    /// Returns the sum of all counts, unless it overflows. If it fits, so does each sum of some of them.
    pub(crate) fn sum_of_counts(&self) -> Option<u64> {
        let (counts, statuses) = (&self.counts, self.counts.statuses);
        let used = &self.connections;
        let single = [
            counts.scheduled.unwrap_or(0),
            counts.sent,
            counts.unsent,
            counts.skipped,
            counts.unanswered,
            counts.resent,
            counts.queued,
            counts.body_bytes,
            statuses.informational,
            statuses.success,
            statuses.redirection,
            statuses.client_error,
            statuses.server_error,
            statuses.limited,
            statuses.other,
            used.connections,
            used.allowed,
            used.most_busy,
            used.missing,
        ];
        let slots = self.timeline.slots.iter();
        let slots = slots.flat_map(|slot| {
            let Slot {
                scheduled,
                sent,
                admitted,
                limited,
                failed,
                ..
            } = *slot;
            [scheduled, sent, admitted, limited, failed]
        });
        let blocks = &self.detail.blocks;
        let in_blocks = blocks
            .iter()
            .flat_map(|block| [block.sent, block.done, block.limited, block.failed]);
        let Detail {
            lag,
            response,
            service,
            ..
        } = &self.detail;
        let histograms = [lag, response, service].into_iter();
        let histograms = histograms.chain(blocks.iter().map(|block| &block.response));
        let times = histograms.flat_map(|times| times.counts().iter().map(|(_, count)| *count));
        (single.into_iter())
            .chain(counts.codes.values().copied())
            .chain(counts.encoded_bytes.values().copied())
            .chain(counts.decoded.map_or([0; 5], Decoded::numbers))
            .chain(counts.failures.values().copied())
            .chain(slots)
            .chain(in_blocks)
            .chain(times)
            .try_fold(0, u64::checked_add)
    }

    /// Returns the most frequent failure, if a request failed before it was sent.
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
