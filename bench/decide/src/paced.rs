//! The time to an answer, under requests at an even rate.
//!
//! h2load sends a hundredth of a second's requests in one burst, however long it has to send them: its times are those of a queue.

use std::num::NonZeroUsize;
use std::time::Duration;

use flowgate::Quota;
use flowgate_load::{HttpVersion, Plan, Schedule, Stop, Target};

use crate::messages::{self, RateLimitRequest};
use crate::process::Server;

/// Requests later than this are not those of an even rate.
const LATE: Duration = Duration::from_micros(500);

/// Sends requests of Envoy from one core, whether the server answers or not. Returns the 99th percentile of the times from when each
/// was to be sent until its answer.
///
/// # Errors
///
/// A message if the client fails, is late, or has another status than 200.
pub fn p99(
    server: &Server,
    core: usize,
    per_second: u64,
    window: Duration,
) -> Result<Duration, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let url = format!("http://{}{}", server.address(), messages::PATH);
    let target = Target::parse(&url).map_err(|error| text(&error))?;
    let schedule = Schedule::lasting(Quota::per_second(per_second), window);
    let mut plan = Plan::new(target, schedule.map_err(|error| text(&error))?);
    plan.connections = const { NonZeroUsize::new(4).unwrap() };
    plan.streams = const { NonZeroUsize::new(32).unwrap() };
    plan.threads = NonZeroUsize::new(1);
    plan.connect.version = HttpVersion::Http2;
    plan.template.method = http::Method::POST;
    plan.template.headers = [("content-type", "application/grpc"), ("te", "trailers")]
        .map(|(name, value)| {
            let value = http::HeaderValue::from_static(value);
            (http::HeaderName::from_static(name), value)
        })
        .into();
    plan.template.body = RateLimitRequest::of_a_user().framed().into();
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
