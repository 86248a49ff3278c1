use super::{LIMITER, REASON, counter};
use flowgate_tower::{Counts, CountsHandle, RefusalReason};
use opentelemetry::metrics::Meter;
use opentelemetry::{KeyValue, StringValue};

/// The request's class, or `other`.
const CLASS: &str = "flowgate.class";

/// **Reports the counts of a [`LimitLayer`](flowgate_tower::LimitLayer)** as OpenTelemetry metrics of `meter`.
///
/// The instruments read the counts whenever a reader of the meter's provider collects. `limiter` is the layer's name in the
/// attributes.
///
/// | metric | counts |
/// |---|---|
/// | `flowgate.requests.admitted` | requests that the limit admitted |
/// | `flowgate.requests.waited` | those of them that waited |
/// | `flowgate.requests.refused` | rejected requests |
/// | `flowgate.requests.would_refuse` | requests that only a dry run did not reject |
/// | `flowgate.requests.exempt` | requests that no limit was asked for |
/// | `flowgate.requests.abandoned` | requests whose client went away while they waited |
///
/// All are observable counters of requests, with these attributes:
///
/// - `flowgate.limiter`: the name `limiter`.
/// - `flowgate.class`: the request's [class](flowgate_tower::LimitLayer::classes), or `other`.
/// - `flowgate.reason`, of rejected requests: [`RefusalReason::name`].
///
/// Take the counts of a layer after its classes are set. The layer's requests cost no more than without metrics. For a layer
/// of keys, [`register_key_metrics`](crate::register_key_metrics) reports how often the table was full.
///
/// ```
/// use flowgate::TokenBucket;
/// use flowgate_otel::register_layer_metrics;
/// use flowgate_tower::LimitLayer;
/// use opentelemetry::metrics::MeterProvider;
/// use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
///
/// let exporter = InMemoryMetricExporter::default(); // or that of opentelemetry-otlp
/// let reader = PeriodicReader::builder(exporter.clone()).build();
/// let provider = SdkMeterProvider::builder().with_reader(reader).build();
///
/// let layer = LimitLayer::new(TokenBucket::new("100/s".parse()?));
/// register_layer_metrics(&provider.meter("shop"), "api", layer.counts());
/// // … let app = Router::new().route(…).layer(layer);
///
/// provider.force_flush()?;
/// let collected = exporter.get_finished_metrics()?;
/// let mut metrics = collected.iter().flat_map(|all| all.scope_metrics()).flat_map(|scope| scope.metrics());
/// assert!(metrics.any(|metric| metric.name() == "flowgate.requests.refused"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn register_layer_metrics(
    meter: &Meter,
    limiter: impl Into<StringValue>,
    counts: CountsHandle,
) {
    let limiter = KeyValue::new(LIMITER, limiter.into());
    let by_class = counts.by_class();
    let names = by_class.iter().map(|(name, _)| name.to_string());
    let classes: Vec<_> = names
        .chain(std::iter::once("other".to_owned()))
        .map(|class| [limiter.clone(), KeyValue::new(CLASS, class)])
        .collect();
    let count = |name, description, count: fn(&Counts) -> u64| {
        let (counts, of) = (counts.clone(), classes.clone());
        counter(meter, name, "{request}", description, move |counter| {
            for (attributes, counts) in of.iter().zip(each_class(&counts)) {
                counter.observe(count(&counts), attributes);
            }
        });
    };
    count(
        "flowgate.requests.admitted",
        "Requests that a limit admitted.",
        |counts| counts.admitted,
    );
    count(
        "flowgate.requests.waited",
        "Admitted requests that waited.",
        |counts| counts.waited,
    );
    count(
        "flowgate.requests.would_refuse",
        "Requests that only a dry run did not reject.",
        |counts| counts.would_refuse,
    );
    count(
        "flowgate.requests.exempt",
        "Requests that no limit was asked for.",
        |counts| counts.exempt,
    );
    count(
        "flowgate.requests.abandoned",
        "Requests whose client went away while they waited.",
        |counts| counts.abandoned,
    );
    let of = classes.into_iter().map(|[limiter, class]| {
        RefusalReason::ALL.map(|reason| {
            let name = KeyValue::new(REASON, reason.name());
            (reason, [limiter.clone(), class.clone(), name])
        })
    });
    let of: Vec<_> = of.collect();
    counter(
        meter,
        "flowgate.requests.refused",
        "{request}",
        "Requests that were rejected.",
        move |counter| {
            for (reasons, counts) in of.iter().zip(each_class(&counts)) {
                for (reason, attributes) in reasons {
                    counter.observe(counts.refused_for(*reason), attributes);
                }
            }
        },
    );
}

/// Of each class, and then of requests without one.
fn each_class(counts: &CountsHandle) -> impl Iterator<Item = Counts> {
    let classes = counts.by_class().into_iter().map(|(_, counts)| counts);
    classes.chain(std::iter::once(counts.of_others()))
}
