//! [`AdaptiveMetrics`]: the state of an adaptive limit, for the crate `metrics`.

use super::{WAITING, describe_waiting};
use crate::concurrency::adaptive::{AdaptiveView, FineLimit};
use ::metrics::{
    Counter, Gauge, SharedString, Unit, counter, describe_counter, describe_gauge, gauge,
};
use core::fmt;
use core::time::Duration;

/// Publisher of an adaptive limit's state, through the crate [`metrics`](::metrics).
///
/// It uses the facade of `metrics` 0.24, and so every recorder that the program installs.
///
/// | metric | kind |
/// |---|---|
/// | `flowgate_adaptive_limit` | gauge of permits, with a fraction |
/// | `flowgate_adaptive_in_flight` | gauge of permits |
/// | `flowgate_waiting` | gauge of operations |
/// | `flowgate_adaptive_baseline_seconds` | gauge: the estimated latency without a queue |
/// | `flowgate_adaptive_gradient` | gauge: the target latency divided by the last one |
/// | `flowgate_adaptive_overloads_total` | counter of operations |
///
/// All have the label `limiter`. The baseline and the gradient are published if the algorithm [reports](crate::AdaptReport) them. `Aimd`
/// does not. A gradient below 1 lowers the limit.
///
/// The program publishes by calling [`record`](Self::record), for example every 10 s. Refused requests are counted where they are
/// refused: `LayerMetrics` of flowgate-tower counts them by reason.
///
/// ```
/// use flowgate::{AdaptiveLimit, AdaptiveMetrics, Gradient};
///
/// let limit = AdaptiveLimit::new(Gradient::default());
/// let mut metrics = AdaptiveMetrics::register("api");
/// metrics.record(&limit.inspect()); // in a task, at intervals
/// ```
pub struct AdaptiveMetrics {
    limit: Gauge,
    in_flight: Gauge,
    waiting: Gauge,
    baseline_seconds: Gauge,
    gradient: Gauge,
    overloads: Counter,
    /// The overloads that have been published.
    published: u64,
}

const LIMIT: &str = "flowgate_adaptive_limit";
const IN_FLIGHT: &str = "flowgate_adaptive_in_flight";
const BASELINE_SECONDS: &str = "flowgate_adaptive_baseline_seconds";
const GRADIENT: &str = "flowgate_adaptive_gradient";
const OVERLOADS: &str = "flowgate_adaptive_overloads_total";

impl AdaptiveMetrics {
    /// Describes and registers the metrics of the limit with the name `limiter`.
    ///
    /// They go to the recorder that is installed now. Without a recorder, nothing is published.
    pub fn register(limiter: impl Into<SharedString>) -> Self {
        describe();
        let limiter = limiter.into();
        let of = |name: &'static str| gauge!(name, "limiter" => limiter.clone());
        Self {
            limit: of(LIMIT),
            in_flight: of(IN_FLIGHT),
            waiting: of(WAITING),
            baseline_seconds: of(BASELINE_SECONDS),
            gradient: of(GRADIENT),
            overloads: counter!(OVERLOADS, "limiter" => limiter.clone()),
            published: 0,
        }
    }

    /// Publishes the state `seen`, and the overloads since the last call.
    ///
    /// Pass [`inspect`](crate::AdaptiveLimit::inspect) of the same limit in every call.
    pub fn record(&mut self, seen: &AdaptiveView) {
        let permits = seen.limit.parts() as f64 / FineLimit::ONE.parts() as f64;
        self.limit.set(permits);
        self.in_flight.set(seen.in_flight as f64);
        self.waiting.set(seen.waiting as f64);
        if let Some(baseline_ns) = seen.report.baseline_ns {
            let baseline = Duration::from_nanos(baseline_ns);
            self.baseline_seconds.set(baseline.as_secs_f64());
        }
        if let Some(permille) = seen.report.gradient_permille {
            self.gradient.set(permille as f64 / 1000.0);
        }
        let new = seen.overloads.wrapping_sub(self.published);
        self.overloads.increment(new);
        self.published = seen.overloads;
    }
}

fn describe() {
    describe_gauge!(LIMIT, Unit::Count, "Permits that may be in use.");
    describe_gauge!(IN_FLIGHT, Unit::Count, "Permits that are in use.");
    describe_waiting();
    describe_gauge!(
        BASELINE_SECONDS,
        Unit::Seconds,
        "The estimated latency without a queue."
    );
    describe_gauge!(GRADIENT, "The target latency divided by the last one.");
    describe_counter!(OVERLOADS, Unit::Count, "Calls that ended with an overload.");
}

impl fmt::Debug for AdaptiveMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveMetrics")
            .field("published", &self.published)
            .finish_non_exhaustive()
    }
}
