use super::{LIMITER, REASON, counter};
use flowgate::KeyedCounts;
use opentelemetry::metrics::Meter;
use opentelemetry::{KeyValue, StringValue};
use std::sync::Arc;

/// **Reports how often a table of keys was full**, as OpenTelemetry metrics of `meter`.
///
/// The instruments read the counts whenever a reader of the meter's provider collects. `limiter` is the table's name in the
/// attributes.
///
/// | metric | instrument | attributes |
/// |---|---|---|
/// | `flowgate.keys.evicted` | counter of keys | `flowgate.limiter` |
/// | `flowgate.keys.shared` | counter of operations | `flowgate.limiter` |
/// | `flowgate.keys.refused` | counter of operations | `flowgate.limiter`, `flowgate.reason` |
///
/// The reasons are `table_full` ([`KeyedCounts::refused_for_room`]) and `estimate`
/// ([`KeyedCounts::refused_by_estimate`]). `flowgate.keys.shared` counts decisions by the quota that keys without an entry
/// share.
///
/// `read` returns [`Keyed::counts`](flowgate::Keyed::counts), and is kept for as long as the meter's provider lives. To
/// report what the keys' operations got, put the table into an [`Observed`](flowgate::Observed), and call
/// [`register_metrics`](crate::register_metrics), too.
///
/// ```
/// use flowgate::Keyed;
/// use flowgate_otel::register_key_metrics;
/// use opentelemetry::metrics::MeterProvider;
/// use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
/// use std::sync::Arc;
///
/// let exporter = InMemoryMetricExporter::default(); // or that of opentelemetry-otlp
/// let reader = PeriodicReader::builder(exporter.clone()).build();
/// let provider = SdkMeterProvider::builder().with_reader(reader).build();
///
/// let users = Arc::new(Keyed::token_bucket("100/s".parse()?).capacity(10_000)?);
/// let table = Arc::clone(&users);
/// register_key_metrics(&provider.meter("shop"), "users", move || table.counts());
///
/// users.try_acquire("ada")?;
/// provider.force_flush()?;
/// let collected = exporter.get_finished_metrics()?;
/// let mut metrics = collected.iter().flat_map(|all| all.scope_metrics()).flat_map(|scope| scope.metrics());
/// assert!(metrics.any(|metric| metric.name() == "flowgate.keys.evicted"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn register_key_metrics<F>(meter: &Meter, limiter: impl Into<StringValue>, read: F)
where
    F: Fn() -> KeyedCounts + Send + Sync + 'static,
{
    let limiter = KeyValue::new(LIMITER, limiter.into());
    let read = Arc::new(read);
    let count = |name, unit, description, count: fn(&KeyedCounts) -> u64| {
        let (read, of) = (Arc::clone(&read), [limiter.clone()]);
        counter(meter, name, unit, description, move |counter| {
            counter.observe(count(&read()), &of);
        });
    };
    count(
        "flowgate.keys.evicted",
        "{key}",
        "Keys that a full table evicted.",
        |counts| counts.evicted,
    );
    count(
        "flowgate.keys.shared",
        "{operation}",
        "Decisions by the quota that keys without an entry share.",
        |counts| counts.shared,
    );
    let of =
        ["table_full", "estimate"].map(|reason| [limiter.clone(), KeyValue::new(REASON, reason)]);
    counter(
        meter,
        "flowgate.keys.refused",
        "{operation}",
        "Refusals of keys without an entry.",
        move |counter| {
            let counts = read();
            counter.observe(counts.refused_for_room, &of[0]);
            counter.observe(counts.refused_by_estimate, &of[1]);
        },
    );
}
