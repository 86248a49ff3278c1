//! Limits that a program gives: another algorithm, a shared one, one of its own.

use flowgate::{
    ConcurrencyLimit, Denied, FixedWindow, Gate, ImmediateLimit, Limiter, ManualClock, Quota,
    TokenBucket,
};
use flowgate_otel::{RateLimitedExporter, RateLimitedProcessor, RateLimitingSampler};
use opentelemetry::trace::{Tracer, TracerProvider};
use opentelemetry_sdk::trace::{
    InMemorySpanExporter, SdkTracerProvider, SimpleSpanProcessor, SpanData,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

/// Admits every third operation; has no quota.
#[derive(Default)]
struct EveryThird(AtomicU64);

impl ImmediateLimit for EveryThird {
    fn decide(&self) -> Result<(), Denied> {
        match self.0.fetch_add(1, Ordering::Relaxed) % 3 {
            2 => Ok(()),
            _ => Err(Denied::busy()),
        }
    }
}

/// The spans that a sampler has picked of `n` traces.
fn picked(sampler: &RateLimitingSampler, n: usize) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler.clone())
        .with_simple_exporter(exporter.clone())
        .build();
    for n in 0..n {
        provider
            .tracer("shop")
            .in_span(n.to_string(), |_context| {});
    }
    exporter.get_finished_spans().expect("they are kept")
}

fn names(spans: &[SpanData]) -> Vec<&str> {
    spans.iter().map(|span| &*span.name).collect()
}

fn attributes(span: &SpanData) -> Vec<(&str, String)> {
    let shown = span.attributes.iter();
    shown
        .map(|said| (said.key.as_str(), said.value.to_string()))
        .collect()
}

#[test]
fn a_sampler_follows_a_limit_of_the_programs_own() {
    let sampler = RateLimitingSampler::with_limit(EveryThird::default());
    let spans = picked(&sampler, 9);
    assert_eq!(names(&spans), ["2", "5", "8"]);
    let kind = ("sampler.type", "ratelimiting".to_owned());
    assert_eq!(attributes(&spans[0]), [kind], "no rate is known");
    assert_eq!(sampler.quota(), None);
    let refused = sampler.controls().set_quota(quota("1/s"));
    assert!(
        refused.is_err(),
        "a limit without a quota has none to replace"
    );
}

#[test]
fn a_sampler_shows_the_rate_that_a_given_limit_has_now() {
    let time = ManualClock::new();
    let window = FixedWindow::builder(quota("2/s")).clock(&time).build();
    let window: Arc<dyn Limiter> = Arc::new(window.expect("a window"));
    let sampler = RateLimitingSampler::with_limit(Arc::clone(&window));
    let rate = |spans: &[SpanData]| attributes(&spans[0])[1].1.clone();

    let spans = picked(&sampler, 5);
    assert_eq!(names(&spans), ["0", "1"]);
    assert_eq!(rate(&spans), "2");

    window.set_quota(quota("3/s")).expect("a window takes it");
    time.advance(Duration::from_secs(1));
    let spans = picked(&sampler, 5);
    assert_eq!(spans.len(), 3);
    assert_eq!(rate(&spans), "3");

    sampler
        .set_quota(quota("4/s"))
        .expect("it is passed to the window");
    assert_eq!(window.policy().map(|policy| policy.quota), sampler.quota());
    time.advance(Duration::from_secs(1));
    assert_eq!(picked(&sampler, 5).len(), 4);
}

/// A budget of 5 for spans: two processors and an exporter report no more than that together.
#[test]
fn c1_processors_and_exporters_share_a_given_limit() {
    let time = ManualClock::new();
    let budget = TokenBucket::builder(quota("5/h")).clock(&time).build();
    let budget = Arc::new(budget.expect("a bucket"));
    let next = || SimpleSpanProcessor::new(InMemorySpanExporter::default());
    let first = RateLimitedProcessor::with_limit(next(), Arc::clone(&budget));
    let second = RateLimitedProcessor::with_limit(next(), Arc::clone(&budget))
        .exempt(|span| span.name == "payment");
    let exporter =
        RateLimitedExporter::with_limit(InMemorySpanExporter::default(), Arc::clone(&budget));
    let counts = [first.counts(), second.counts(), exporter.counts()];
    let provider = SdkTracerProvider::builder()
        .with_span_processor(first)
        .with_span_processor(second)
        .with_simple_exporter(exporter)
        .build();
    let end = |name: &'static str| provider.tracer("shop").in_span(name, |_context| {});
    let reported = || counts.each_ref().map(|counts| counts.reported());
    end("page");
    assert_eq!((reported(), budget.available()), ([1, 1, 1], 2));
    end("payment");
    assert_eq!((reported(), budget.available()), ([2, 2, 2], 0));
    end("payment");
    assert_eq!(reported(), [2, 3, 2], "an exemption takes no token");
}

/// Nothing holds the permits of a gate, so its rates limit, and its permits come back.
#[test]
fn a_gate_with_a_concurrency_limit_limits_by_its_rates() {
    let rate = FixedWindow::new(quota("4/day")).expect("a window");
    let gate = Gate::builder()
        .limit("rate", rate)
        .limit("permits", ConcurrencyLimit::new(1))
        .build();
    let gate = Arc::new(gate.expect("a gate"));
    let sampler = RateLimitingSampler::with_limit(Arc::clone(&gate));
    assert_eq!(picked(&sampler, 9).len(), 4);
}
