//! [`RateLimitingSampler`], by itself and in a tracer provider.

use flowgate::{ManualClock, Timestamp};
use flowgate_otel::{RateLimitingSampler, SAMPLER_PARAM, SAMPLER_TYPE};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
    TracerProvider,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{
    InMemorySpanExporter, Sampler, SamplingDecision, SamplingResult, SdkTracerProvider,
    ShouldSample, SimpleSpanProcessor,
};
use std::time::Duration;

fn sampler(quota: &str, time: &ManualClock) -> RateLimitingSampler {
    RateLimitingSampler::with_clock(quota.parse().unwrap(), time).unwrap()
}

fn ask(sampler: &impl ShouldSample) -> SamplingResult {
    sampler.should_sample(None, TraceId::from(1), "", &SpanKind::Internal, &[], &[])
}

fn samples(sampler: &impl ShouldSample) -> bool {
    ask(sampler).decision == SamplingDecision::RecordAndSample
}

fn provider(sampler: impl ShouldSample + 'static) -> (SdkTracerProvider, InMemorySpanExporter) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler)
        .with_span_processor(SimpleSpanProcessor::new(exporter.clone()))
        .build();
    (provider, exporter)
}

#[test]
fn the_burst_is_what_flows_in_within_a_second_and_at_least_one() {
    for (quota, burst) in [
        ("10/s", 10),
        ("600/min", 10),
        ("1/10s", 1),
        ("2.5/s", 2),
        ("1/day", 1),
        ("1/ms", 1000),
        ("100/10s", 10),
        ("10/s burst 50", 50),
        ("2.5/s burst 1", 1),
        ("2147483648/ns", 2_147_483_648_000_000_000),
        ("1/y units 4294967296", 1),
    ] {
        let sampler = RateLimitingSampler::new(quota.parse().unwrap());
        let in_force = sampler.quota().expect("it was made of one");
        assert_eq!(in_force.max_burst(), burst, "{quota}");
    }
}

/// Milliseconds, and what is then sampled.
type Instant<'a> = (u64, &'a [bool]);

/// The tables of Jaeger's own tests.
#[test]
fn c1_c2_it_samples_what_jaegers_does() {
    let tables: [(&str, &[Instant]); 3] = [
        (
            "2/s",
            &[
                (0, &[true, true, false]),
                (250, &[false]),
                (750, &[true, false]),
                (5_750, &[true, true, false, false, false]),
            ],
        ),
        ("1/10s", &[(0, &[true, false]), (20_000, &[true, false])]),
        // Where Jaeger's client in Go samples 4.
        ("2/s", &[(100_000, &[true, true, false, false])]),
    ];
    for (quota, table) in tables {
        let time = ManualClock::new();
        let sampler = sampler(quota, &time);
        for &(at_ms, expected) in table {
            time.set(Timestamp::from_nanos(at_ms * 1_000_000));
            let sampled: Vec<_> = expected.iter().map(|_| samples(&sampler)).collect();
            assert_eq!(sampled, expected, "{quota} at {at_ms} ms");
        }
    }
}

#[test]
fn c1_c2_of_any_load_the_provider_samples_the_least_of_load_and_rate_and_a_burst() {
    for (rate, offered) in [
        (100, 10),
        (100, 100),
        (100, 1_000),
        (100, 10_000),
        (100, 100_000),
        (5_000, 100_000),
    ] {
        let time = ManualClock::new();
        let own = sampler(&format!("{rate}/s"), &time);
        let (provider, exporter) = provider(Sampler::parent_based(own));
        let tracer = provider.tracer("test");
        // Two seconds, the first instant and not the last.
        for k in 0..2 * offered {
            time.set(Timestamp::from_nanos(k * 1_000_000_000 / offered));
            tracer.in_span("root", |_| tracer.in_span("child", |_| ()));
        }
        let traces = exporter.get_finished_spans().unwrap().len() as u64 / 2;
        let last_ns = (2 * offered - 1) * 1_000_000_000 / offered;
        let most = rate + rate * last_ns / 1_000_000_000;
        assert_eq!(traces, most.min(2 * offered), "{rate} of {offered}");
    }
}

#[test]
fn a_trace_is_whole_and_says_why_it_was_sampled() {
    let time = ManualClock::new();
    let (provider, exporter) = provider(Sampler::parent_based(sampler("2/s", &time)));
    let tracer = provider.tracer("test");
    for _ in 0..5 {
        tracer.in_span("root", |_| {
            tracer.in_span("child", |_| tracer.in_span("grandchild", |_| ()));
        });
    }
    let spans = exporter.get_finished_spans().unwrap();
    let named = |name: &str| spans.iter().filter(|span| span.name == name).count();
    assert_eq!(
        ["root", "child", "grandchild"].map(named),
        [2, 2, 2],
        "{spans:?}"
    );
    for span in &spans {
        let expected: &[KeyValue] = &[
            KeyValue::new(SAMPLER_TYPE, "ratelimiting"),
            KeyValue::new(SAMPLER_PARAM, 2.0),
        ];
        let has = if span.name == "root" { expected } else { &[] };
        assert_eq!(span.attributes, has);
    }
}

#[test]
fn it_works_in_the_sdks_own_parent_based_which_throws_the_attributes_away() {
    let time = ManualClock::new();
    let own = sampler("2/s", &time);
    let (provider, exporter) = provider(Sampler::ParentBased(Box::new(own)));
    let tracer = provider.tracer("test");
    for _ in 0..5 {
        tracer.in_span("root", |_| tracer.in_span("child", |_| ()));
    }
    let spans = exporter.get_finished_spans().unwrap();
    assert_eq!(spans.len(), 4);
    assert!(spans.iter().all(|span| span.attributes.is_empty()));
}

#[test]
fn what_was_decided_elsewhere_takes_no_token() {
    let time = ManualClock::new();
    let own = sampler("1/h", &time);
    let parent_based = Sampler::parent_based(own.clone());
    for flags in [TraceFlags::SAMPLED, TraceFlags::default()] {
        let state = TraceState::from_key_value([("a", "b")]).unwrap();
        let parent = SpanContext::new(TraceId::from(1), SpanId::from(1), flags, true, state);
        let context = Context::new().with_remote_span_context(parent);
        let ask = |sampler: &dyn ShouldSample| {
            let kind = SpanKind::Server;
            sampler.should_sample(Some(&context), TraceId::from(1), "", &kind, &[], &[])
        };
        for _ in 0..3 {
            let sampled = ask(&parent_based).decision == SamplingDecision::RecordAndSample;
            assert_eq!(sampled, flags.is_sampled());
        }
        // The trace state goes on, whatever is decided.
        assert_eq!(ask(&own).trace_state.header(), "a=b");
        own.set_quota("1/h".parse().unwrap()).unwrap();
        time.advance(Duration::from_secs(3600));
    }
    assert!(samples(&own));
    assert!(!samples(&own));
}

#[test]
fn clones_share_the_limit_and_its_changes() {
    let time = ManualClock::new();
    let one = sampler("1/s", &time);
    let other = one.clone();
    assert!(samples(&one));
    assert!(!samples(&other));
    other.set_quota("5/s".parse().unwrap()).unwrap();
    time.advance(Duration::from_secs(1));
    let sampled = (0..9)
        .map(|_| ask(&one))
        .filter(|result| result.decision == SamplingDecision::RecordAndSample);
    let sampled: Vec<_> = sampled.collect();
    assert_eq!(sampled.len(), 5);
    assert_eq!(sampled[0].attributes[1].value, Value::F64(5.0));
}

#[test]
fn c4_a_clock_that_runs_backward_adds_nothing() {
    let time = ManualClock::new();
    time.advance(Duration::from_secs(3600));
    let sampler = sampler("10/s", &time);
    let mut sampled = (0..20).filter(|_| samples(&sampler)).count();
    for seconds in (0..3600).rev().step_by(60) {
        time.set(Timestamp::from_nanos(seconds * 1_000_000_000));
        sampled += (0..20).filter(|_| samples(&sampler)).count();
    }
    assert_eq!(sampled, 10);
}

#[test]
fn c1_threads_share_the_burst() {
    let time = ManualClock::new();
    let sampler = sampler("1/s burst 1000", &time);
    let sampled: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..1_000).filter(|_| samples(&sampler)).count()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(sampled, 1_000);
}
