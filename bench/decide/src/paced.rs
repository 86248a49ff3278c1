//! The time to an answer, under requests at an even rate.
//!
//! h2load sends a hundredth of a second's requests in one burst, however long it has to send them: its times are those of a queue.

use std::num::NonZeroUsize;
use std::time::Duration;

use flowgate::Quota;
use flowgate_load::{HttpVersion, Plan, Schedule, Stop, Target};

use crate::shared::outcome::Verdict;

/// Requests later than this are not those of an even rate.
const LATE: Duration = Duration::from_micros(500);
/// Runs that count, and the most runs for them. A machine that others share stops the client for some milliseconds now and then.
const KEPT: usize = 3;
const MOST: usize = 10;

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

/// What a client saw that sent at an even rate: the 99th percentiles.
pub struct Sight {
    /// How much later than it should the client sent.
    pub lag: Duration,
    /// From when a request was to be sent until its answer.
    pub response: Duration,
}

/// Returns the median of three runs in time, or prints why there is none.
pub fn measure(section: &str, mut run: impl FnMut() -> Result<Sight, String>) -> Option<Duration> {
    let (mut kept, mut late) = (Vec::new(), Vec::new());
    while kept.len() < KEPT && kept.len() + late.len() < MOST {
        match run() {
            Ok(sight) if sight.lag <= LATE => kept.push(sight.response),
            Ok(sight) => late.push(sight.lag),
            Err(why) => {
                println!("\n{section}: the 99th percentile was not measured: {why}");
                return None;
            }
        }
    }
    if !late.is_empty() {
        let count = late.len();
        println!(
            "\n{section}, 99th percentile: {count} runs left out, in which the client was late by {late:?}"
        );
    }
    kept.sort_unstable();
    (kept.len() == KEPT).then(|| kept[KEPT / 2])
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

/// Sends requests from one core, whether the server answers or not.
///
/// # Errors
///
/// A message if the client fails, or has another status than 200.
pub fn run(
    request: &Paced,
    core: usize,
    per_second: u64,
    window: Duration,
) -> Result<Sight, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let target = Target::parse(&request.url).map_err(|error| text(&error))?;
    let schedule = Schedule::lasting(Quota::per_second(per_second), window);
    let mut plan = Plan::new(target, schedule.map_err(|error| text(&error))?);
    plan.connections = request.connections;
    plan.streams = request.streams;
    plan.threads = NonZeroUsize::new(1);
    plan.connect.version = request.version;
    plan.template.method = http::Method::POST;
    let headers = request.headers.iter().map(|&(name, value)| {
        let value = http::HeaderValue::from_static(value);
        (http::HeaderName::from_static(name), value)
    });
    plan.template.headers = headers.collect();
    plan.template.body = request.body.clone().into();
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
    Ok(Sight {
        lag: report.lag.p99,
        response: report.response.p99,
    })
}
