//! A traced service under low, high and very high load. One sampler takes at most 10 + 100 × *t* traces in *t* seconds, and
//! the other one about 100 per second. With both, at most 150 spans per second are reported, after a burst of 150.
//!
//! ```text
//! cargo run -p flowgate-otel --example sampled_service
//! ```

use flowgate::ManualClock;
use flowgate_otel::{RateLimitedProcessor, RateLimitingSampler, TargetRateSampler};
use opentelemetry::trace::{TraceContextExt, Tracer, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SimpleSpanProcessor};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use std::error::Error;
use std::time::Duration;

#[allow(dead_code, reason = "the test calls `run`")]
fn main() -> Result<(), Box<dyn Error>> {
    for (number, (load, [traces, spans, dropped])) in run()?.into_iter().enumerate() {
        let limit = ["at most", "  about"][number / 4];
        println!("{limit} 100/s of {load:>5}/s: {traces} traces, {spans} spans, {dropped} dropped");
    }
    Ok(())
}

/// The load, the sampled traces, the reported spans and the dropped spans, all per second.
pub type Line = (u32, [f64; 3]);

/// Puts both samplers under four loads, for 10 s each.
pub fn run() -> Result<Vec<Line>, Box<dyn Error>> {
    // A service uses the machine's clock: `RateLimitingSampler::new(quota)`.
    let time = ManualClock::new();
    let at_most = RateLimitingSampler::with_clock("100/s burst 10".parse()?, &time)?;
    let about = TargetRateSampler::new("100/s".parse()?).clock(&time);
    let mut lines = Vec::new();
    for sampler in [Sampler::parent_based(at_most), Sampler::parent_based(about)] {
        let exporter = InMemorySpanExporter::default(); // elsewhere: `opentelemetry-otlp`
        let spans = SimpleSpanProcessor::new(exporter.clone());
        let spans = RateLimitedProcessor::new(spans, "150/s".parse()?).clock(&time)?;
        let counts = spans.counts();
        let provider = SdkTracerProvider::builder().with_sampler(sampler);
        let provider = provider.with_span_processor(spans.annotate()).build();
        let tracer = provider.tracer("shop");
        for load in [50, 1_000, 20_000, 1_000] {
            let (mut sampled, before) = (0, [counts.reported(), counts.dropped()]);
            for _ in 0..10 * load {
                tracer.in_span("GET /basket", |context| {
                    tracer.in_span("SELECT", |_| ()); // sampled if its parent is
                    sampled += u64::from(context.span().span_context().is_sampled());
                });
                time.advance(Duration::from_secs(1) / load);
            }
            let reported = counts.reported() - before[0];
            assert_eq!(exporter.get_finished_spans()?.len() as u64, reported);
            exporter.reset();
            let numbers = [sampled, reported, counts.dropped() - before[1]];
            lines.push((load, numbers.map(|n| n as f64 / 10.0)));
        }
    }
    Ok(lines)
}
