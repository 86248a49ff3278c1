//! A traced service under load: quiet, busy, and far too busy. One samples at most 10 + 100 · t traces in t
//! seconds, one about 100 a second; and neither reports more than 150 spans a second. It says what was sampled.
//!
//! ```text
//! cargo run -p flowgate-otel --example sampled_service
//! ```
//!
//! It runs on a clock of its own, so that it is done in a moment; a real service says nothing of clocks.

use flowgate::ManualClock;
use flowgate_otel::{RateLimitedProcessor, RateLimitingSampler, ReportCounts, TargetRateSampler};
use opentelemetry::KeyValue;
use opentelemetry::trace::{TraceContextExt, Tracer, TracerProvider};
use opentelemetry_sdk::trace::{
    InMemorySpanExporter, Sampler, SdkTracerProvider, ShouldSample, SimpleSpanProcessor,
};
use std::error::Error;
use std::time::Duration;

/// Requests per second.
const LOADS: [u32; 4] = [50, 1_000, 20_000, 1_000];

fn main() -> Result<(), Box<dyn Error>> {
    for line in run()? {
        println!("{line}");
    }
    Ok(())
}

/// Both services, and what each sampled of every load.
pub fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let mut lines = Vec::new();

    let time = ManualClock::new();
    let at_most = RateLimitingSampler::with_clock("100/s burst 10".parse()?, &time)?;
    let service = Service::new(Sampler::parent_based(at_most), &time)?;
    service.under_load("100/s burst 10", &time, &mut lines)?;

    let time = ManualClock::new();
    let about = TargetRateSampler::new("100/s".parse()?).clock(&time);
    let service = Service::new(Sampler::parent_based(about), &time)?;
    service.under_load("about 100/s", &time, &mut lines)?;
    Ok(lines)
}

struct Service {
    provider: SdkTracerProvider,
    /// Where a real one would have `opentelemetry-otlp`.
    exporter: InMemorySpanExporter,
    reporting: ReportCounts,
}

impl Service {
    fn new(
        sampler: impl ShouldSample + 'static,
        time: &ManualClock,
    ) -> Result<Self, Box<dyn Error>> {
        let exporter = InMemorySpanExporter::default();
        let processor = SimpleSpanProcessor::new(exporter.clone());
        let processor = RateLimitedProcessor::new(processor, "150/s".parse()?)
            .clock(time)?
            .annotate();
        let reporting = processor.counts();
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_span_processor(processor)
            .build();
        Ok(Self {
            provider,
            exporter,
            reporting,
        })
    }

    /// Ten seconds of each load.
    fn under_load(
        &self,
        name: &str,
        time: &ManualClock,
        lines: &mut Vec<String>,
    ) -> Result<(), Box<dyn Error>> {
        for per_second in LOADS {
            let mut sampled = 0;
            let (reported, dropped) = (self.reporting.reported(), self.reporting.dropped());
            for _ in 0..10 * per_second {
                sampled += u32::from(self.request());
                time.advance(Duration::from_secs(1) / per_second);
            }
            let reported = self.reporting.reported() - reported;
            let dropped = self.reporting.dropped() - dropped;
            assert_eq!(
                self.exporter.get_finished_spans()?.len() as u64,
                reported,
                "what is reported is what arrives"
            );
            self.exporter.reset();
            lines.push(format!(
                "{name:<14} {per_second:>5} requests/s: {:>5.1} traces/s sampled; {:>5.1} spans/s reported, {:>5.1} dropped",
                f64::from(sampled) / 10.0,
                reported as f64 / 10.0,
                dropped as f64 / 10.0,
            ));
        }
        Ok(())
    }

    /// A request, a query in it, and whether they were sampled.
    fn request(&self) -> bool {
        let tracer = self.provider.tracer("shop");
        tracer.in_span("GET /basket", |context| {
            tracer.in_span("SELECT", |context| {
                context.span().set_attribute(KeyValue::new("db.rows", 3));
            });
            context.span().span_context().is_sampled()
        })
    }
}
