use super::{LIMITER, REASON, counter, waiting};
use flowgate::{ObservedCounts, Refusals, Waits};
use opentelemetry::metrics::Meter;
use opentelemetry::{KeyValue, StringValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// In seconds, and as an attribute.
const BOUNDS: [(Duration, &str); 14] = [
    (Duration::from_micros(1_000), "0.001"),
    (Duration::from_micros(2_500), "0.0025"),
    (Duration::from_millis(5), "0.005"),
    (Duration::from_millis(10), "0.01"),
    (Duration::from_millis(25), "0.025"),
    (Duration::from_millis(50), "0.05"),
    (Duration::from_millis(100), "0.1"),
    (Duration::from_millis(250), "0.25"),
    (Duration::from_millis(500), "0.5"),
    (Duration::from_millis(1_000), "1"),
    (Duration::from_millis(2_500), "2.5"),
    (Duration::from_secs(5), "5"),
    (Duration::from_secs(10), "10"),
    (Duration::MAX, "+Inf"),
];

/// **Reports the counts of an [`Observed`](flowgate::Observed)** as OpenTelemetry metrics of `meter`.
///
/// It may be a limiter, a concurrency limit, a [`Gate`](flowgate::Gate), a table of keys or a keyed gate.
///
/// The instruments read the counts whenever a reader of the meter's provider collects. `limiter` is the limiter's name in
/// the attributes.
///
/// | metric | instrument | attributes |
/// |---|---|---|
/// | `flowgate.admitted` | counter of operations | `flowgate.limiter` |
/// | `flowgate.admitted_units` | counter of units | `flowgate.limiter` |
/// | `flowgate.refused` | counter of operations | `flowgate.limiter`, `flowgate.reason` |
/// | `flowgate.abandoned` | counter of operations | `flowgate.limiter` |
/// | `flowgate.waiting` | up-down counter of operations | `flowgate.limiter` |
/// | `flowgate.waits` | counter of operations | `flowgate.limiter`, `le` |
///
/// The reasons have the names of the fields of [`Refusals`]: `over_limit`, `busy`, `never`, `queue_full`, `shed`,
/// `closed`, `deadline`, `cancelled`, `table_full`. All instruments are observable: the limiter's operations cost no more than
/// without them, and several readers do not affect each other.
///
/// `read` returns the limiter's counts and waits. It is called once for each metric, so it should hold an `Arc` of the
/// limiter, or use a static. It is kept for as long as the meter's provider lives, because an instrument cannot be removed.
///
/// ```
/// use flowgate::{Observed, TokenBucket};
/// use flowgate_otel::register_metrics;
/// use opentelemetry::metrics::MeterProvider;
/// use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
/// use std::sync::Arc;
///
/// let limiter = Arc::new(Observed::new(TokenBucket::new("100/s".parse()?)));
/// let exporter = InMemoryMetricExporter::default(); // or that of opentelemetry-otlp
/// let reader = PeriodicReader::builder(exporter.clone()).build();
/// let provider = SdkMeterProvider::builder().with_reader(reader).build();
/// let observed = Arc::clone(&limiter);
/// register_metrics(&provider.meter("shop"), "uploads", move || {
///     (observed.counts(), observed.waits())
/// });
///
/// limiter.try_acquire()?;
/// provider.force_flush()?;
/// let collected = exporter.get_finished_metrics()?;
/// let mut metrics = collected.iter().flat_map(|all| all.scope_metrics()).flat_map(|scope| scope.metrics());
/// assert!(metrics.any(|metric| metric.name() == "flowgate.admitted"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # One name, one limiter
///
/// Give each limiter its own name. If two limiters of a meter have the same name, only one of them is reported.
///
/// # Waits
///
/// OpenTelemetry has no observable histogram. So there are counters from which a monitoring system computes one. Each
/// counts the waits of at most `le` seconds, as in Prometheus, whose `histogram_quantile` accepts them. So this attribute alone
/// has no namespace.
///
/// The counters are cumulative: do not add those of several `le`. The counter of `+Inf` counts all waits. The other values
/// of `le` are 1, 2.5, 5, 10, 25, 50, 100, 250 and 500 milliseconds, 1, 2.5, 5 and 10 seconds. A wait may count as up to
/// 1/16 longer than it was, and never as shorter, as in [`Waits`].
pub fn register_metrics<F>(meter: &Meter, limiter: impl Into<StringValue>, read: F)
where
    F: Fn() -> (ObservedCounts, Waits) + Send + Sync + 'static,
{
    let limiter = KeyValue::new(LIMITER, limiter.into());
    let read = Arc::new(read);
    let count = |name, unit, description, count: fn(&ObservedCounts) -> u64| {
        let (read, of) = (Arc::clone(&read), [limiter.clone()]);
        counter(meter, name, unit, description, move |counter| {
            counter.observe(count(&read().0), &of);
        });
    };
    count(
        "flowgate.admitted",
        "{operation}",
        "Operations that were admitted.",
        |counts| counts.admitted,
    );
    count(
        "flowgate.admitted_units",
        "{unit}",
        "Units that admitted operations took.",
        |counts| counts.units,
    );
    count(
        "flowgate.abandoned",
        "{operation}",
        "Waits that were dropped before they were over.",
        |counts| counts.abandoned,
    );
    refused(meter, &limiter, Arc::clone(&read));
    let of_waiting = Arc::clone(&read);
    waiting(meter, &limiter, move || of_waiting().0.waiting);
    waits(meter, &limiter, read);
}

fn refused<F>(meter: &Meter, limiter: &KeyValue, read: Arc<F>)
where
    F: Fn() -> (ObservedCounts, Waits) + Send + Sync + 'static,
{
    let of = Refusals::default()
        .by_name()
        .map(|(reason, _)| [limiter.clone(), KeyValue::new(REASON, reason)]);
    counter(
        meter,
        "flowgate.refused",
        "{operation}",
        "Operations that were refused.",
        move |counter| {
            let (counts, _) = read();
            for (attributes, (_, count)) in of.iter().zip(counts.refused.by_name()) {
                counter.observe(count, attributes);
            }
        },
    );
}

fn waits<F>(meter: &Meter, limiter: &KeyValue, read: Arc<F>)
where
    F: Fn() -> (ObservedCounts, Waits) + Send + Sync + 'static,
{
    let of = BOUNDS.map(|(bound, le)| {
        let attributes = [limiter.clone(), KeyValue::new("le", le)];
        (bound, attributes, Growing::default())
    });
    counter(
        meter,
        "flowgate.waits",
        "{operation}",
        "Waits for a turn that was granted, and that took at most `le` seconds.",
        move |counter| {
            let (_, waits) = read();
            for (bound, attributes, reported) in &of {
                let within = within(&waits, *bound);
                counter.observe(reported.at_least(within), attributes);
            }
        },
    );
}

/// How many were surely no longer than `bound`.
fn within(waits: &Waits, bound: Duration) -> u64 {
    let known = waits.buckets().take_while(|&(at_most, _)| at_most <= bound);
    known.last().map_or(0, |(_, so_far)| so_far)
}

/// A counter that does not go back. The last bucket of [`Waits`] ends with the longest wait, so when a longer one comes
/// into it, it may reach beyond a bound that it was within; those that were within still are.
#[derive(Default)]
struct Growing(AtomicU64);

impl Growing {
    fn at_least(&self, now: u64) -> u64 {
        // A number of its own: nothing else is read by it.
        self.0.fetch_max(now, Ordering::Relaxed).max(now)
    }
}
