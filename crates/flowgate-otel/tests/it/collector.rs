//! A provider of meters, and what it collects.

use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, InMemoryMetricExporterBuilder, PeriodicReader, SdkMeterProvider,
    Temporality,
};
use std::collections::BTreeMap;

/// A provider, and what it collects.
pub struct Collector {
    provider: SdkMeterProvider,
    exporter: InMemoryMetricExporter,
}

impl Collector {
    pub fn new(temporality: Temporality) -> Self {
        let exporter = InMemoryMetricExporterBuilder::new()
            .with_temporality(temporality)
            .build();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        Self { provider, exporter }
    }

    pub fn meter(&self) -> Meter {
        self.provider.meter("test")
    }

    /// By name and attributes: the value, for a gauge in thousandths, and whether it only grows.
    pub fn collect(&self) -> BTreeMap<String, (i64, bool)> {
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
                AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                    for point in gauge.data_points() {
                        let thousandths = (point.value() * 1000.0).round();
                        keep(shown(point.attributes()), thousandths as i64, false);
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
