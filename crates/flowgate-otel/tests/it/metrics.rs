//! [`register_metrics`]: what a reader collects of an observed limiter.

use flowgate::{ManualClock, Observed, TokenBucket};
use flowgate_otel::register_metrics;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, InMemoryMetricExporterBuilder, PeriodicReader, SdkMeterProvider,
    Temporality,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

type Limiter = Arc<Observed<TokenBucket>>;

fn observed(time: &ManualClock) -> Limiter {
    let quota = "100/s burst 5".parse().expect("a quota");
    let bucket = TokenBucket::builder(quota).clock(time);
    Arc::new(Observed::new(bucket.build().expect("in range")))
}

/// A provider, and what it collects.
struct Collector {
    provider: SdkMeterProvider,
    exporter: InMemoryMetricExporter,
}

impl Collector {
    fn new(temporality: Temporality) -> Self {
        let exporter = InMemoryMetricExporterBuilder::new()
            .with_temporality(temporality)
            .build();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        Self { provider, exporter }
    }

    fn register(&self, name: &'static str, limiter: &Limiter) {
        let limiter = Arc::clone(limiter);
        register_metrics(&self.provider.meter("test"), name, move || {
            (limiter.counts(), limiter.waits())
        });
    }

    /// By name and attributes: the value, and whether it only grows.
    fn collect(&self) -> BTreeMap<String, (i64, bool)> {
        self.exporter.reset();
        self.provider.force_flush().expect("it collects");
        let collected = self.exporter.get_finished_metrics().expect("it collected");
        let scopes = collected.iter().flat_map(|all| all.scope_metrics());
        let mut values = BTreeMap::new();
        for metric in scopes.flat_map(|scope| scope.metrics()) {
            assert!(!metric.description().is_empty() && !metric.unit().is_empty());
            let mut keep = |attributes: Vec<String>, value, grows| {
                let name = format!("{} {}", metric.name(), attributes.join(" "));
                let twice = values.insert(name, (value, grows));
                assert_eq!(twice, None, "{}", metric.name());
            };
            match metric.data() {
                AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                    for point in sum.data_points() {
                        let value = point.value().try_into().expect("a small number");
                        keep(shown(point.attributes()), value, sum.is_monotonic());
                    }
                }
                AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                    for point in sum.data_points() {
                        keep(shown(point.attributes()), point.value(), sum.is_monotonic());
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        values
    }
}

fn shown<'a>(attributes: impl Iterator<Item = &'a opentelemetry::KeyValue>) -> Vec<String> {
    let mut shown: Vec<_> = attributes
        .map(|attribute| format!("{}={}", attribute.key, attribute.value))
        .collect();
    shown.sort();
    shown
}

#[test]
fn each_count_is_observed_under_its_name() {
    let collector = Collector::new(Temporality::Cumulative);
    let time = ManualClock::new();
    let limiter = observed(&time);
    collector.register("api", &limiter);
    limiter.try_acquire_n(4).expect("there are four");
    limiter.try_acquire().expect("there is one");
    assert!(limiter.try_acquire().is_err());
    assert!(limiter.try_acquire_n(6).is_err());
    let mut context = Context::from_waker(Waker::noop());
    let mut wait = Box::pin(limiter.acquire());
    assert!(wait.as_mut().poll(&mut context).is_pending());
    let _ = Box::pin(limiter.acquire()).as_mut().poll(&mut context);

    let values = collector.collect();
    assert_eq!(values["flowgate.admitted limiter=api"], (2, true));
    assert_eq!(values["flowgate.admitted_units limiter=api"], (5, true));
    let refused = |reason| format!("flowgate.refused limiter=api reason={reason}");
    for (reason, count) in [
        ("over_limit", 1),
        ("busy", 0),
        ("never", 1),
        ("queue_full", 0),
        ("closed", 0),
        ("deadline", 0),
        ("cancelled", 0),
        ("table_full", 0),
    ] {
        assert_eq!(values[&refused(reason)], (count, true), "{reason}");
    }
    assert_eq!(values["flowgate.abandoned limiter=api"], (1, true));
    assert_eq!(values["flowgate.waiting limiter=api"], (1, false));
    let waits = "flowgate.waits le=+Inf limiter=api";
    assert_eq!(values[waits], (0, true));
    assert_eq!(values.len(), 3 + 8 + 1 + 14);

    time.advance(Duration::from_millis(10));
    assert!(wait.as_mut().poll(&mut context).is_ready());
    limiter.queue().close();
    assert!(limiter.try_acquire().is_err());
    for _ in 0..2 {
        let values = collector.collect();
        assert_eq!(values["flowgate.admitted limiter=api"], (3, true));
        assert_eq!(values[&refused("closed")], (1, true));
        assert_eq!(values["flowgate.waiting limiter=api"], (0, false));
        assert_eq!(values[waits], (1, true));
    }
}

#[test]
fn waits_are_counted_up_to_each_bound_and_never_as_shorter() {
    let collector = Collector::new(Temporality::Cumulative);
    let time = ManualClock::new();
    let limiter = observed(&time);
    collector.register("x", &limiter);
    let within = |le: &str| {
        let name = format!("flowgate.waits le={le} limiter=x");
        collector.collect()[&name].0
    };
    let mut context = Context::from_waker(Waker::noop());
    let mut waits: Vec<_> = (0..8).map(|_| Box::pin(limiter.acquire())).collect();
    for wait in &mut waits {
        let _ = wait.as_mut().poll(&mut context);
    }
    // Of no length five, then of 10, 20 and 30 ms.
    assert_eq!(["0.001", "0.01", "+Inf"].map(within), [5, 5, 5]);
    time.advance(Duration::from_millis(10));
    assert!(waits[5].as_mut().poll(&mut context).is_ready());
    assert_eq!(["0.005", "0.01", "0.025"].map(within), [5, 6, 6]);
    for wait in &mut waits[6..] {
        time.advance(Duration::from_millis(10));
        assert!(wait.as_mut().poll(&mut context).is_ready());
    }
    let bounds = ["0.001", "0.005", "0.01", "0.025", "0.05", "10", "+Inf"];
    assert_eq!(bounds.map(within), [5, 5, 6, 7, 8, 8, 8]);
}

#[test]
fn a_reader_of_differences_gets_them_and_each_limiter_has_its_own() {
    let collector = Collector::new(Temporality::Delta);
    let time = ManualClock::new();
    let limiters = [observed(&time), observed(&time)];
    collector.register("a", &limiters[0]);
    collector.register("b", &limiters[1]);
    limiters[0].try_acquire_n(3).expect("there are three");
    let values = collector.collect();
    assert_eq!(values["flowgate.admitted_units limiter=a"].0, 3);
    assert_eq!(values["flowgate.admitted_units limiter=b"].0, 0);

    limiters[0].try_acquire_n(2).expect("there are two");
    limiters[1].try_acquire().expect("there is one");
    let values = collector.collect();
    assert_eq!(values["flowgate.admitted_units limiter=a"].0, 2);
    assert_eq!(values["flowgate.admitted_units limiter=b"].0, 1);
}
