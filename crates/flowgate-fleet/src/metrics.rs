//! [`FleetMetrics`]: what limits count, for the facade of the crate `metrics`.

use crate::view::{CALL_BOUNDS, FleetCounts, FleetView};
use ::metrics::{
    Counter, Gauge, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};
use std::fmt;

/// Publisher of a limit's state, through the crate [`metrics`](::metrics).
///
/// It uses the facade of `metrics` 0.24, and so every recorder that the program installs.
///
/// | metric | kind | labels |
/// |---|---|---|
/// | `flowgate_fleet_decisions_total` | counter of requests | `limiter`, `decision` |
/// | `flowgate_fleet_calls_total` | counter of calls | `limiter`, `result` |
/// | `flowgate_fleet_call_seconds` | histogram of seconds | `limiter` |
/// | `flowgate_fleet_healed_units_total` | counter of units | `limiter` |
/// | `flowgate_fleet_amnesias_total` | counter | `limiter` |
/// | `flowgate_fleet_resets_total` | counter | `limiter` |
/// | `flowgate_fleet_outages_total` | counter | `limiter` |
/// | `flowgate_fleet_excess_bound_units` | gauge of units | `limiter` |
/// | `flowgate_fleet_connected` | gauge: 1, or 0 without a connection | `limiter` |
/// | `flowgate_fleet_share` | gauge from 0 to 1 | `limiter` |
///
/// The values of `decision` are `admitted`, `denied`, `degraded` and `cut_off`. Those of `result` are `granted`, `denied`, `lost` and
/// `refused`. [`FleetCounts`] explains them. Keys are in no label. The gauge of the excess is infinite if there is no
/// [bound](crate::FleetBound::total).
///
/// The time of a call is recorded as the next of [`FleetCounts::call_bounds`], and as one second if it is longer than all of these.
///
/// The program publishes by calling [`record`](Self::record), for example every 10 s. Each call publishes what has been counted since the
/// previous one.
///
/// ```
/// use flowgate_fleet::{CutOff, Fleet, FleetMetrics};
///
/// let fleet = Fleet::local().open()?;
/// let api = fleet.limit("api", "100/s burst 20".parse()?).when_cut_off(CutOff::Deny).build()?;
/// let mut metrics = FleetMetrics::register("api");
/// assert!(api.ask().block().is_ok());
/// metrics.record(&api.inspect()); // in a task, at intervals
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct FleetMetrics {
    /// In the order of [`FleetCounts::decisions`].
    decisions: [Counter; 4],
    /// In the order of [`FleetCounts::calls`].
    calls: [Counter; 4],
    call_seconds: Histogram,
    healed_units: Counter,
    amnesias: Counter,
    resets: Counter,
    outages: Counter,
    excess_bound: Gauge,
    connected: Gauge,
    share: Gauge,
    /// Counts that have been published.
    published: FleetCounts,
}

const DECISIONS: &str = "flowgate_fleet_decisions_total";
const CALLS: &str = "flowgate_fleet_calls_total";
const CALL_SECONDS: &str = "flowgate_fleet_call_seconds";
const HEALED_UNITS: &str = "flowgate_fleet_healed_units_total";
const AMNESIAS: &str = "flowgate_fleet_amnesias_total";
const RESETS: &str = "flowgate_fleet_resets_total";
const OUTAGES: &str = "flowgate_fleet_outages_total";
const EXCESS_BOUND: &str = "flowgate_fleet_excess_bound_units";
const CONNECTED: &str = "flowgate_fleet_connected";
const SHARE: &str = "flowgate_fleet_share";

/// What a call counts as that took longer than all bounds, in seconds.
const LONG_CALL: f64 = 1.0;

impl FleetMetrics {
    /// Describes and registers the metrics of the limit with the name `limiter`.
    ///
    /// They go to the recorder that is installed now. Without a recorder, nothing is published.
    pub fn register(limiter: impl Into<SharedString>) -> Self {
        describe();
        let limiter = limiter.into();
        let none = FleetCounts::default();
        let count = |name: &'static str| counter!(name, "limiter" => limiter.clone());
        let level = |name: &'static str| gauge!(name, "limiter" => limiter.clone());
        Self {
            decisions: none.decisions().map(
                |(decision, _)| counter!(DECISIONS, "limiter" => limiter.clone(), "decision" => decision),
            ),
            calls: none.calls().map(
                |(result, _)| counter!(CALLS, "limiter" => limiter.clone(), "result" => result),
            ),
            call_seconds: histogram!(CALL_SECONDS, "limiter" => limiter.clone()),
            healed_units: count(HEALED_UNITS),
            amnesias: count(AMNESIAS),
            resets: count(RESETS),
            outages: count(OUTAGES),
            excess_bound: level(EXCESS_BOUND),
            connected: level(CONNECTED),
            share: level(SHARE),
            published: none,
        }
    }

    /// Publishes the state `seen`, and what has been counted since the last call.
    ///
    /// Pass [`FleetLimit::inspect`](crate::FleetLimit::inspect) of the same limit in every call, or that of a
    /// [`FleetLeased`](crate::FleetLeased::inspect).
    pub fn record(&mut self, seen: &FleetView) {
        let (now, then) = (&seen.counts, &self.published);
        let publish = |counter: &Counter, now: u64, then: u64| {
            counter.increment(now.wrapping_sub(then));
        };
        for (counter, (now, then)) in self
            .decisions
            .iter()
            .chain(&self.calls)
            .zip(named(now).zip(named(then)))
        {
            publish(counter, now, then);
        }
        publish(&self.healed_units, now.healed_units, then.healed_units);
        publish(&self.amnesias, now.amnesias, then.amnesias);
        publish(&self.resets, now.resets, then.resets);
        publish(&self.outages, now.outages, then.outages);
        let mut so_far = 0;
        let within = now.calls_within.iter().zip(&then.calls_within);
        for (bound, (now, then)) in CALL_BOUNDS.iter().zip(within) {
            let up_to = now.wrapping_sub(*then);
            let n = usize::try_from(up_to - so_far).unwrap_or(usize::MAX);
            so_far = up_to;
            let seconds = bound.as_secs_f64().min(LONG_CALL);
            self.call_seconds.record_many(seconds, n);
        }
        let excess = seen
            .bound
            .total()
            .map_or(f64::INFINITY, |units| units as f64);
        self.excess_bound.set(excess);
        self.connected.set(f64::from(u8::from(seen.is_connected)));
        self.share.set(seen.share);
        self.published = *now;
    }
}

/// Returns the counts that have labels.
fn named(counts: &FleetCounts) -> impl Iterator<Item = u64> {
    let named = counts.decisions().into_iter().chain(counts.calls());
    named.map(|(_, count)| count)
}

fn describe() {
    let count = |name: &'static str, what: &'static str| {
        describe_counter!(name, Unit::Count, what);
    };
    count(DECISIONS, "Requests, by what became of them.");
    count(CALLS, "Calls to the store, by their result.");
    count(HEALED_UNITS, "Units that the store had forgotten.");
    count(AMNESIAS, "Times that the store may have lost its records.");
    count(RESETS, "Times that an operator has reset the limit.");
    count(OUTAGES, "Times that this process was cut off.");
    describe_histogram!(
        CALL_SECONDS,
        Unit::Seconds,
        "How long the store took to answer."
    );
    describe_gauge!(
        EXCESS_BOUND,
        Unit::Count,
        "Units by which the limit may have been exceeded."
    );
    describe_gauge!(CONNECTED, "Whether there is a connection to the store.");
    describe_gauge!(
        SHARE,
        "The part of the limit that this process admits alone."
    );
}

impl fmt::Debug for FleetMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetMetrics")
            .field("published", &self.published)
            .finish_non_exhaustive()
    }
}
