//! The progress of a run, sent to an OpenTelemetry collector while it lasts.
//!
//! ```text
//!  who watches the run ── a point per second, if there is room ──▶ sending thread ── the newest point ──▶ collector
//! ```
//!
//! The protocol is OTLP over HTTP, as JSON (opentelemetry.io/docs/specs/otlp). The sending threads of the run take no part in it.

mod collector;

pub use collector::{OtlpCollector, OtlpSender, OtlpSignal, PushError};

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::progress::Progress;
use crate::report::nanos;
use crate::target::Target;

/// Time between two points.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of points that wait. The newest is sent, and has all that the others have except their gauges.
const MOST_WAITING: usize = 16;

/// Sends the progress of a run to an OpenTelemetry collector.
///
/// It sends a point per second and one at the end, by OTLP over HTTP, as JSON. A separate thread sends. If the collector is slow or lost, points are skipped and counted;
/// the run is not disturbed.
///
/// | metric | kind | attributes |
/// |---|---|---|
/// | `flowgate.load.sent` | sum | |
/// | `flowgate.load.ended` | sum | `outcome`: `admitted`, `limited`, `failed`, `skipped` |
/// | `flowgate.load.in_flight` | gauge | |
/// | `flowgate.load.waiting` | gauge | |
/// | `flowgate.load.rate` | gauge | `kind`: `scheduled`, `sent` |
/// | `flowgate.load.response` | gauge, seconds | `quantile`: `0.5`, `0.99` |
/// | `flowgate.load.lag` | gauge, seconds | `quantile`: `0.99` |
///
/// Gauges are those of the last second.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate_load::{Extent, Origin, OtlpPush, Pace, Plan, Stop, Target};
///
/// // A server that answers all requests; usually a collector.
/// let collector = Origin::start()?;
/// let mut push = OtlpPush::new(Target::parse(&collector.url())?, Vec::new(), Duration::from_secs(5))?;
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// flowgate_load::run_watched(plan, &Stop::new(), |progress| push.offer(progress))?;
/// let pushed = push.finish();
/// assert_eq!((pushed.sent, pushed.failed), (1, 0)); // the last point
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OtlpPush {
    points: SyncSender<Point>,
    thread: JoinHandle<Pushed>,
    /// Time of the run at which the next point is due.
    next: Duration,
    /// Start of the run.
    start: Option<SystemTime>,
    /// The newest point, until it is passed on.
    last: Option<Point>,
    skipped: u64,
}

/// What became of the points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Points that the collector took.
    pub sent: u64,
    /// Points that it did not take.
    pub failed: u64,
    /// Points that were not sent, because the one before took too long.
    pub skipped: u64,
    /// Why the last of the failed points failed.
    pub failure: Option<String>,
}

/// The state of a run at one time.
#[derive(Clone, Debug)]
struct Point {
    start: SystemTime,
    at: SystemTime,
    progress: Progress,
}

impl OtlpPush {
    /// Starts the sending thread. A URL without a path gets `/v1/metrics`. Each export has to be complete within `limit`.
    ///
    /// # Errors
    ///
    /// Returns an error if TLS cannot be set up, or if the operating system refuses a thread. A collector that cannot be
    /// reached is no error.
    pub fn new(
        target: Target,
        headers: Vec<(HeaderName, HeaderValue)>,
        limit: Duration,
    ) -> Result<OtlpPush, PushError> {
        let collector = OtlpCollector::new(target, OtlpSignal::Metrics, headers, limit)?;
        let (points, received) = sync_channel(MOST_WAITING);
        let thread = thread::Builder::new().name("flowgate-load-otlp".to_owned());
        let thread = thread.spawn(move || push(collector.sender(), &received));
        Ok(OtlpPush {
            points,
            thread: thread.map_err(|error| PushError(error.to_string()))?,
            next: EVERY,
            start: None,
            last: None,
            skipped: 0,
        })
    }

    /// Takes the progress of a run. Never blocks.
    pub fn offer(&mut self, progress: &Progress) {
        if !progress.warm_up_left.is_zero() {
            return;
        }
        let at = SystemTime::now();
        let start =
            *(self.start).get_or_insert_with(|| at.checked_sub(progress.elapsed).unwrap_or(at));
        let point = Point {
            start,
            at,
            progress: progress.clone(),
        };
        if progress.elapsed < self.next {
            self.last = Some(point);
            return;
        }
        self.last = None;
        self.next = progress.elapsed + EVERY;
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.points.try_send(point)
        {
            self.skipped += 1;
        }
    }

    /// Sends the last point. Blocks.
    ///
    /// It waits for about the limit of one export, or of two if one is in flight.
    pub fn finish(self) -> Pushed {
        let mut skipped = self.skipped;
        if let Some(last) = self.last
            && self.points.try_send(last).is_err()
        {
            skipped += 1;
        }
        drop(self.points);
        let pushed = (self.thread.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Pushed {
            skipped: pushed.skipped + skipped,
            ..pushed
        }
    }
}

/// Sends points until there are no more.
fn push(mut sender: OtlpSender, received: &Receiver<Point>) -> Pushed {
    let mut pushed = Pushed::default();
    while let Ok(mut point) = received.recv() {
        // Sums contain all that came before.
        while let Ok(newer) = received.try_recv() {
            pushed.skipped += 1;
            point = newer;
        }
        match sender.send(metrics(&point).to_string().into()) {
            Ok(()) => pushed.sent += 1,
            Err(failure) => {
                pushed.failed += 1;
                pushed.failure = Some(failure);
            }
        }
    }
    pushed
}

/// Returns the metrics of a point, as a collector reads them.
fn metrics(point: &Point) -> Value {
    let progress = &point.progress;
    let sums = |name: &str, values: &[(Option<&str>, u64)]| {
        let points = values.iter().map(|(outcome, value)| {
            let attributes =
                outcome.map_or_else(|| json!([]), |outcome| attribute("outcome", outcome));
            json!({
                "startTimeUnixNano": unix_ns(point.start),
                "timeUnixNano": unix_ns(point.at),
                "asInt": value.to_string(),
                "attributes": attributes,
            })
        });
        let points: Vec<Value> = points.collect();
        // 2: cumulative.
        let sum = json!({"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": points});
        json!({"name": format!("flowgate.load.{name}"), "unit": "{request}", "sum": sum})
    };
    let gauges = |name: &str, unit: &str, key: &str, values: &[(&str, f64)]| {
        let points = values.iter().map(|(which, value)| {
            let attributes = match key {
                "" => json!([]),
                key => attribute(key, which),
            };
            json!({"timeUnixNano": unix_ns(point.at), "asDouble": value, "attributes": attributes})
        });
        let points: Vec<Value> = points.collect();
        let gauge = json!({"dataPoints": points});
        json!({"name": format!("flowgate.load.{name}"), "unit": unit, "gauge": gauge})
    };
    let ended = [
        (Some("admitted"), progress.admitted),
        (Some("limited"), progress.limited),
        (Some("failed"), progress.failed),
        (Some("skipped"), progress.skipped),
    ];
    let rates = [
        ("scheduled", progress.scheduled_per_second),
        ("sent", progress.sent_per_second),
    ];
    let response = [
        ("0.5", progress.response_p50.as_secs_f64()),
        ("0.99", progress.response_p99.as_secs_f64()),
    ];
    let lag = [("0.99", progress.lag_p99.as_secs_f64())];
    let metrics = json!([
        sums("sent", &[(None, progress.sent)]),
        sums("ended", &ended),
        gauges(
            "in_flight",
            "{request}",
            "",
            &[("", progress.in_flight as f64)]
        ),
        gauges("waiting", "{request}", "", &[("", progress.waiting as f64)]),
        gauges("rate", "{request}/s", "kind", &rates),
        gauges("response", "s", "quantile", &response),
        gauges("lag", "s", "quantile", &lag),
    ]);
    // Two runs are two instances, on whatever machines.
    let instance = format!("{}-{}", std::process::id(), unix_ns(point.start));
    let resource = [
        attribute("service.name", "flowgate-load"),
        attribute("service.instance.id", &instance),
    ];
    let resource: Vec<&Value> = resource.iter().filter_map(|list| list.get(0)).collect();
    json!({"resourceMetrics": [{
        "resource": {"attributes": resource},
        "scopeMetrics": [{
            "scope": {"name": "flowgate", "version": env!("CARGO_PKG_VERSION")},
            "metrics": metrics,
        }],
    }]})
}

/// Returns a list of one attribute.
fn attribute(key: &str, value: &str) -> Value {
    json!([{"key": key, "value": {"stringValue": value}}])
}

/// Returns the time as text, as JSON has 64-bit numbers in this protocol.
fn unix_ns(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    nanos::of(since.unwrap_or_default()).to_string()
}
