use super::{LIMITER, counter};
use flowgate_fleet::{FleetCounts, FleetView};
use opentelemetry::metrics::Meter;
use opentelemetry::{Key, KeyValue, StringValue};
use std::sync::Arc;
use std::time::Duration;

/// **Reports the state of a limit of a fleet** as OpenTelemetry metrics of `meter`.
///
/// The instruments read the state whenever a reader of the meter's provider collects. `limiter` is the limit's name in the attribute
/// `flowgate.limiter`. Keys are in no attribute.
///
/// | metric | instrument | further attribute |
/// |---|---|---|
/// | `flowgate.fleet.decisions` | counter of requests | `flowgate.decision` |
/// | `flowgate.fleet.calls` | counter of calls | `flowgate.result` |
/// | `flowgate.fleet.call_times` | counter of calls | `le` |
/// | `flowgate.fleet.healed_units` | counter of units | |
/// | `flowgate.fleet.amnesias` | counter | |
/// | `flowgate.fleet.resets` | counter | |
/// | `flowgate.fleet.outages` | counter | |
/// | `flowgate.fleet.excess_bound` | gauge of units | |
/// | `flowgate.fleet.connected` | gauge: 1, or 0 without a connection | |
/// | `flowgate.fleet.share` | gauge from 0 to 1 | |
///
/// The decisions are `admitted`, `denied`, `degraded` and `cut_off`, the results `granted`, `denied`, `lost` and `refused`.
/// [`FleetCounts`] explains them. The excess is not observed if there is no [bound](flowgate_fleet::FleetBound::total).
///
/// `flowgate.fleet.call_times` counts the answers of the store that took at most `le` seconds, as in Prometheus. The values of `le` are
/// those of [`FleetCounts::call_bounds`].
///
/// `read` returns [`FleetLimit::inspect`](flowgate_fleet::FleetLimit::inspect), and is kept for as long as the meter's provider lives. It is
/// called once for each metric.
///
/// ```
/// use flowgate_fleet::{CutOff, Fleet};
/// use flowgate_otel::register_fleet_metrics;
/// use opentelemetry::metrics::MeterProvider;
/// use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
///
/// let exporter = InMemoryMetricExporter::default(); // or that of opentelemetry-otlp
/// let reader = PeriodicReader::builder(exporter.clone()).build();
/// let provider = SdkMeterProvider::builder().with_reader(reader).build();
///
/// let fleet = Fleet::local().open()?; // or Fleet::redis
/// let api = fleet.limit("api", "100/s".parse()?).when_cut_off(CutOff::Deny).build()?;
/// let seen = api.clone();
/// register_fleet_metrics(&provider.meter("shop"), "api", move || seen.inspect());
///
/// provider.force_flush()?;
/// let collected = exporter.get_finished_metrics()?;
/// let mut metrics = collected.iter().flat_map(|all| all.scope_metrics()).flat_map(|scope| scope.metrics());
/// assert!(metrics.any(|metric| metric.name() == "flowgate.fleet.decisions"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn register_fleet_metrics<F>(meter: &Meter, limiter: impl Into<StringValue>, read: F)
where
    F: Fn() -> FleetView + Send + Sync + 'static,
{
    let limiter = KeyValue::new(LIMITER, limiter.into());
    let read = Arc::new(read);
    let counts_of =
        |name, unit, description, by: &'static str, counts: fn(&FleetCounts) -> Named| {
            let (read, limiter) = (Arc::clone(&read), limiter.clone());
            counter(meter, name, unit, description, move |counter| {
                for (label, count) in counts(&read().counts) {
                    let label = KeyValue::new(Key::from_static_str(by), label);
                    counter.observe(count, &[limiter.clone(), label]);
                }
            });
        };
    counts_of(
        "flowgate.fleet.decisions",
        "{request}",
        "Requests, by what became of them.",
        "flowgate.decision",
        |counts| owned(&counts.decisions()),
    );
    counts_of(
        "flowgate.fleet.calls",
        "{call}",
        "Calls to the store, by their result.",
        "flowgate.result",
        |counts| owned(&counts.calls()),
    );
    counts_of(
        "flowgate.fleet.call_times",
        "{call}",
        "Answers of the store that took at most `le` seconds.",
        "le",
        |counts| {
            let bounds = FleetCounts::call_bounds().iter().zip(counts.calls_within);
            bounds.map(|(bound, calls)| (le(*bound), calls)).collect()
        },
    );
    let count = |name, unit, description, count: fn(&FleetCounts) -> u64| {
        let (read, of) = (Arc::clone(&read), [limiter.clone()]);
        counter(meter, name, unit, description, move |counter| {
            counter.observe(count(&read().counts), &of);
        });
    };
    count(
        "flowgate.fleet.healed_units",
        "{unit}",
        "Units that the store had forgotten.",
        |counts| counts.healed_units,
    );
    count(
        "flowgate.fleet.amnesias",
        "{loss}",
        "Times that the store may have lost its records.",
        |counts| counts.amnesias,
    );
    count(
        "flowgate.fleet.resets",
        "{reset}",
        "Times that an operator has reset the limit.",
        |counts| counts.resets,
    );
    count(
        "flowgate.fleet.outages",
        "{outage}",
        "Times that this process was cut off.",
        |counts| counts.outages,
    );
    let gauge = |name, unit, description, value: fn(&FleetView) -> Option<f64>| {
        let (read, of) = (Arc::clone(&read), [limiter.clone()]);
        meter
            .f64_observable_gauge(name)
            .with_unit(unit)
            .with_description(description)
            .with_callback(move |gauge| {
                if let Some(value) = value(&read()) {
                    gauge.observe(value, &of);
                }
            })
            .build();
    };
    gauge(
        "flowgate.fleet.excess_bound",
        "{unit}",
        "Units by which the limit may have been exceeded.",
        |seen| seen.bound.total().map(|units| units as f64),
    );
    gauge(
        "flowgate.fleet.connected",
        "1",
        "Whether there is a connection to the store.",
        |seen| Some(f64::from(u8::from(seen.is_connected))),
    );
    gauge(
        "flowgate.fleet.share",
        "1",
        "The part of the limit that this process admits alone.",
        |seen| Some(seen.share),
    );
}

/// Counts with the values of an attribute.
type Named = Vec<(String, u64)>;

fn owned(counts: &[(&str, u64)]) -> Named {
    let counts = counts.iter();
    counts
        .map(|&(name, count)| (name.to_owned(), count))
        .collect()
}

/// Returns a bound in seconds.
fn le(bound: Duration) -> String {
    if bound == Duration::MAX {
        "+Inf".to_owned()
    } else {
        bound.as_secs_f64().to_string()
    }
}
