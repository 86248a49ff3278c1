//! The time to an answer, under requests at an even rate.
//!
//! h2load sends a hundredth of a second's requests in one burst, however long it has to send them: its times are those of a queue.

use std::num::NonZeroUsize;
use std::time::Duration;

use flowgate::Quota;
use flowgate_load::{HttpVersion, Plan, Schedule, Stop, Target};

use crate::shared::outcome::Verdict;

/// Requests later than this are not those of an even rate.
pub const LATE: Duration = Duration::from_micros(500);

/// Returns the goal that all doors have.
pub fn verdict(section: &str, p99: Option<Duration>) -> Verdict {
    Verdict::at_most(
        format!("{section}: 99 % of the answers in at most 1 ms, at half of the most answers"),
        p99.map(|time| time.as_secs_f64() * 1e3),
        1.0,
        " ms",
    )
}

/// Returns how long requests are sent at an even rate.
pub const fn window(quick: bool) -> Duration {
    Duration::from_secs(if quick { 1 } else { 5 })
}

/// Returns the percentile, or prints why there is none.
pub fn measured(section: &str, p99: Result<Duration, String>) -> Option<Duration> {
    let not_measured = |why| println!("\n{section}: the 99th percentile was not measured: {why}");
    p99.map_err(not_measured).ok()
}

/// A POST request, and how it is sent.
pub struct Paced {
    pub url: String,
    pub version: HttpVersion,
    pub connections: NonZeroUsize,
    pub streams: NonZeroUsize,
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: Vec<u8>,
}

/// Sends requests from one core, whether the server answers or not. Returns the 99th percentile of the times from when each was to be
/// sent until its answer.
///
/// # Errors
///
/// A message if the client fails, is late, or has another status than 200.
pub fn p99(
    request: Paced,
    core: usize,
    per_second: u64,
    window: Duration,
) -> Result<Duration, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let target = Target::parse(&request.url).map_err(|error| text(&error))?;
    let schedule = Schedule::lasting(Quota::per_second(per_second), window);
    let mut plan = Plan::new(target, schedule.map_err(|error| text(&error))?);
    plan.connections = request.connections;
    plan.streams = request.streams;
    plan.threads = NonZeroUsize::new(1);
    plan.connect.version = request.version;
    plan.template.method = http::Method::POST;
    let headers = request.headers.into_iter().map(|(name, value)| {
        let value = http::HeaderValue::from_static(value);
        (http::HeaderName::from_static(name), value)
    });
    plan.template.headers = headers.collect();
    plan.template.body = request.body.into();
    // The threads of the client have the core of the thread that starts them.
    let report = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            core_affinity::set_for_current(core_affinity::CoreId { id: core });
            flowgate_load::run(plan, &Stop::new()).map_err(|error| text(&error))
        });
        run.join().expect("the client does not panic")
    })?;
    if report.counts.statuses.success != report.counts.sent {
        return Err(format!(
            "not all were answered with 200: {:?}",
            report.counts
        ));
    }
    if report.lag.p99 > LATE {
        return Err(format!("the client was {:?} late", report.lag.p99));
    }
    Ok(report.response.p99)
}
