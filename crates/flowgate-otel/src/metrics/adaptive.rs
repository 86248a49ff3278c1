use super::{LIMITER, counter, waiting};
use flowgate::{AdaptiveView, FineLimit};
use opentelemetry::metrics::Meter;
use opentelemetry::{KeyValue, StringValue};
use std::sync::Arc;
use std::time::Duration;

/// **Reports the state of an [`AdaptiveLimit`](flowgate::AdaptiveLimit)** as OpenTelemetry metrics of `meter`.
///
/// The instruments read the state whenever a reader of the meter's provider collects. `limiter` is the limit's name in the attribute
/// `flowgate.limiter`.
///
/// | metric | instrument |
/// |---|---|
/// | `flowgate.adaptive.limit` | gauge of permits, with a fraction |
/// | `flowgate.adaptive.in_flight` | gauge of permits |
/// | `flowgate.waiting` | up-down counter of operations |
/// | `flowgate.adaptive.baseline` | gauge of seconds: the estimated latency without a queue |
/// | `flowgate.adaptive.gradient` | gauge: the target latency divided by the last one |
/// | `flowgate.adaptive.overloads` | counter of operations |
///
/// The baseline and the gradient are observed if the algorithm [reports](flowgate::AdaptReport) them. `Aimd` does not. A gradient below 1
/// lowers the limit. Refused requests are counted where they are refused: `register_layer_metrics` counts them by reason.
///
/// `read` returns [`AdaptiveLimit::inspect`](flowgate::AdaptiveLimit::inspect), and is kept for as long as the meter's provider lives. It
/// is called once for each metric.
///
/// ```
/// use flowgate::{AdaptiveLimit, Gradient};
/// use flowgate_otel::register_adaptive_metrics;
/// use opentelemetry::metrics::MeterProvider;
/// use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
/// use std::sync::Arc;
///
/// let exporter = InMemoryMetricExporter::default(); // or that of opentelemetry-otlp
/// let reader = PeriodicReader::builder(exporter.clone()).build();
/// let provider = SdkMeterProvider::builder().with_reader(reader).build();
///
/// let limit = Arc::new(AdaptiveLimit::new(Gradient::default()));
/// let seen = Arc::clone(&limit);
/// register_adaptive_metrics(&provider.meter("shop"), "api", move || seen.inspect());
///
/// provider.force_flush()?;
/// let collected = exporter.get_finished_metrics()?;
/// let mut metrics = collected.iter().flat_map(|all| all.scope_metrics()).flat_map(|scope| scope.metrics());
/// assert!(metrics.any(|metric| metric.name() == "flowgate.adaptive.limit"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn register_adaptive_metrics<F>(meter: &Meter, limiter: impl Into<StringValue>, read: F)
where
    F: Fn() -> AdaptiveView + Send + Sync + 'static,
{
    let limiter = KeyValue::new(LIMITER, limiter.into());
    let read = Arc::new(read);
    let gauge = |name, unit, description, value: fn(&AdaptiveView) -> Option<f64>| {
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
        "flowgate.adaptive.limit",
        "{permit}",
        "Permits that may be in use.",
        |seen| Some(seen.limit.parts() as f64 / FineLimit::ONE.parts() as f64),
    );
    gauge(
        "flowgate.adaptive.in_flight",
        "{permit}",
        "Permits that are in use.",
        |seen| Some(seen.in_flight as f64),
    );
    gauge(
        "flowgate.adaptive.baseline",
        "s",
        "The estimated latency without a queue.",
        |seen| Some(Duration::from_nanos(seen.report.baseline_ns?).as_secs_f64()),
    );
    gauge(
        "flowgate.adaptive.gradient",
        "1",
        "The target latency divided by the last one.",
        |seen| Some(seen.report.gradient_permille? as f64 / 1000.0),
    );
    let of_waiting = Arc::clone(&read);
    waiting(meter, &limiter, move || of_waiting().waiting as u64);
    let of = [limiter];
    counter(
        meter,
        "flowgate.adaptive.overloads",
        "{operation}",
        "Calls that ended with an overload.",
        move |counter| counter.observe(read().overloads, &of),
    );
}
