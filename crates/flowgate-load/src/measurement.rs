//! What a run counts and times, in bounded memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hyper::StatusCode;

use crate::failure::Failure;
use crate::timeline::Timeline;

/// How many requests went how far.
///
/// `sent` + `unsent` is never more than `scheduled`; what is missing was given up when the run
/// ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests in the schedule.
    pub scheduled: u64,
    /// Requests whose first byte was written.
    pub sent: u64,
    /// Requests that were tried but of which no byte could be written.
    pub unsent: u64,
    /// Requests that were sent and neither answered nor failed when the run ended.
    pub unanswered: u64,
    /// Requests that had to wait because every connection was busy.
    pub queued: u64,
    /// Answers by status.
    pub statuses: Statuses,
    /// Requests that got no usable answer, sent or not, by kind.
    pub failures: BTreeMap<Failure, u64>,
}

/// Answers by status class. A server that limits the load says so with 429 or 503: these are
/// counted apart, as `limited`, and not in their class, because being refused is not an error here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statuses {
    /// 101, the only one of its class that ends an exchange.
    pub informational: u64,
    /// 200 to 299.
    pub success: u64,
    /// 300 to 399; redirects are not followed.
    pub redirection: u64,
    /// 400 to 499 but 429.
    pub client_error: u64,
    /// 500 to 599 but 503.
    pub server_error: u64,
    /// 429 Too Many Requests, and 503 Service Unavailable.
    pub limited: u64,
    /// 600 and above, which no standard describes.
    pub other: u64,
}

impl Statuses {
    fn count(&mut self, status: StatusCode) {
        let class = match status.as_u16() {
            429 | 503 => &mut self.limited,
            100..=199 => &mut self.informational,
            200..=299 => &mut self.success,
            300..=399 => &mut self.redirection,
            400..=499 => &mut self.client_error,
            500..=599 => &mut self.server_error,
            _ => &mut self.other,
        };
        *class += 1;
    }

    /// All answers.
    pub fn total(&self) -> u64 {
        self.informational
            + self.success
            + self.redirection
            + self.client_error
            + self.server_error
            + self.limited
            + self.other
    }
}

/// The spread of a set of durations: quantiles to three significant digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many durations there are; when it is zero, so is everything else.
    pub samples: u64,
    /// Half of them are at most this long.
    pub p50: Duration,
    /// 90 % of them are at most this long.
    pub p90: Duration,
    /// 99 % of them are at most this long.
    pub p99: Duration,
    /// 99.9 % of them are at most this long.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
    /// The arithmetic mean.
    pub mean: Duration,
}

/// Everything that is taken down while a run lasts.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) counts: Counts,
    pub(crate) timeline: Timeline,
    start: Option<Instant>,
    lag: Histogram<u64>,
    response: Histogram<u64>,
    service: Histogram<u64>,
    /// The earliest and the latest send.
    ends: Option<(Instant, Instant)>,
    /// The longest that a request waited because every connection was busy.
    pub(crate) longest_queued: Duration,
}

impl Measurement {
    pub(crate) fn new(scheduled: u64) -> Measurement {
        Measurement {
            counts: Counts {
                scheduled,
                ..Counts::default()
            },
            timeline: Timeline::default(),
            start: None,
            lag: histogram(),
            response: histogram(),
            service: histogram(),
            ends: None,
            longest_queued: Duration::ZERO,
        }
    }

    /// The run starts at this instant, and its last request is due so long after.
    pub(crate) fn begin(&mut self, start: Instant, span: Duration) {
        self.start = Some(start);
        self.timeline = Timeline::new(span);
    }

    /// A request was answered in full.
    pub(crate) fn answered(
        &mut self,
        due: Instant,
        sent: Instant,
        done: Instant,
        status: StatusCode,
    ) {
        self.sent(due, sent);
        self.counts.statuses.count(status);
        self.timed(due, sent, done);
    }

    /// A request failed, after being sent or before.
    pub(crate) fn failed(
        &mut self,
        due: Instant,
        sent: Option<Instant>,
        now: Instant,
        failure: Failure,
    ) {
        *self.counts.failures.entry(failure).or_default() += 1;
        match sent {
            None => self.counts.unsent += 1,
            Some(sent) => {
                self.sent(due, sent);
                // A request that timed out took at least this long; leaving it out would cut the
                // tail off.
                if failure == Failure::Timeout {
                    self.timed(due, sent, now);
                }
            }
        }
    }

    /// The run ended while a request was on its way.
    pub(crate) fn abandoned(&mut self, due: Instant, sent: Option<Instant>) {
        match sent {
            None => self.counts.unsent += 1,
            Some(sent) => {
                self.sent(due, sent);
                self.counts.unanswered += 1;
            }
        }
    }

    /// A request had to wait this long because every connection was busy.
    pub(crate) fn queued(&mut self, wait: Duration) {
        self.counts.queued += 1;
        self.longest_queued = self.longest_queued.max(wait);
    }

    fn sent(&mut self, due: Instant, sent: Instant) {
        self.counts.sent += 1;
        let (first, last) = self.ends.unwrap_or((sent, sent));
        self.ends = Some((first.min(sent), last.max(sent)));
        if let Some(start) = self.start {
            self.timeline.is_sent(start, sent);
        }
        record(&mut self.lag, sent.saturating_duration_since(due));
    }

    fn timed(&mut self, due: Instant, sent: Instant, done: Instant) {
        record(&mut self.response, done.saturating_duration_since(due));
        record(&mut self.service, done.saturating_duration_since(sent));
    }

    /// From the first send to the last.
    pub(crate) fn span(&self) -> Duration {
        self.ends
            .map_or(Duration::ZERO, |(first, last)| last.duration_since(first))
    }

    pub(crate) fn lag(&self) -> Spread {
        spread(&self.lag)
    }

    pub(crate) fn response(&self) -> Spread {
        spread(&self.response)
    }

    pub(crate) fn service(&self) -> Spread {
        spread(&self.service)
    }
}

/// Nanoseconds up to one hour, to three significant digits; what is longer counts as one hour.
/// About 270 KB, however many requests there are.
fn histogram() -> Histogram<u64> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, HOUR_NS, 3)
        .expect("1 ns to one hour at 3 digits is a valid range")
}

fn record(histogram: &mut Histogram<u64>, duration: Duration) {
    histogram.saturating_record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
}

fn spread(histogram: &Histogram<u64>) -> Spread {
    if histogram.is_empty() {
        return Spread::default();
    }
    // A quantile is the upper end of its bucket, which may lie above the largest value in it.
    let max = histogram.max();
    let at = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile).min(max));
    Spread {
        samples: histogram.len(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: Duration::from_nanos(max),
        mean: Duration::from_nanos(histogram.mean() as u64),
    }
}
