//! Settings that change while traces come.

use flowgate::ManualClock;
use flowgate_otel::{
    RateLimitedExporter, RateLimitedProcessor, RateLimitingSampler, TargetRateSampler,
};
use opentelemetry::trace::{Span, TraceContextExt, Tracer, TracerProvider};
use opentelemetry_sdk::trace::{
    InMemorySpanExporter, SdkTracer, SdkTracerProvider, ShouldSample, SimpleSpanProcessor,
};
use std::time::Duration;

fn tracer(sampler: impl ShouldSample + 'static) -> (SdkTracerProvider, SdkTracer) {
    let provider = SdkTracerProvider::builder().with_sampler(sampler).build();
    let tracer = provider.tracer("shop");
    (provider, tracer)
}

fn sampled(tracer: &SdkTracer, of: usize) -> usize {
    let is_sampled = || tracer.start("checkout").span_context().is_sampled();
    (0..of).filter(|_| is_sampled()).count()
}

#[test]
fn c1_c2_a_rate_limiting_sampler_goes_by_the_quota_and_the_switch() {
    let time = ManualClock::new();
    let sampler = RateLimitingSampler::with_clock("3/s".parse().unwrap(), &time).unwrap();
    let controls = sampler.controls();
    let (_provider, tracer) = tracer(sampler);
    assert_eq!(sampled(&tracer, 10), 3);
    controls.set_enabled(false);
    assert!(!controls.is_enabled());
    assert_eq!(sampled(&tracer, 10), 10);
    controls.set_enabled(true);
    assert_eq!(
        sampled(&tracer, 10),
        0,
        "what went by took no token, and gave none"
    );
    controls.set_quota("5/s".parse().unwrap()).unwrap();
    assert_eq!(controls.quota(), Some("5/s burst 5".parse().unwrap()));
    time.advance(Duration::from_secs(1));
    assert_eq!(sampled(&tracer, 10), 5);
}

#[test]
fn a_trace_says_that_no_limit_has_picked_it() {
    let sampler = RateLimitingSampler::new("1/h".parse().unwrap());
    sampler.controls().set_enabled(false);
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler)
        .with_simple_exporter(exporter.clone())
        .build();
    provider.tracer("shop").in_span("checkout", |context| {
        assert!(context.span().is_recording());
    });
    let span = &exporter.get_finished_spans().unwrap()[0];
    let said: Vec<_> = span
        .attributes
        .iter()
        .map(|said| (said.key.as_str(), said.value.to_string()))
        .collect();
    assert_eq!(
        said,
        [
            ("sampler.type", "const".to_owned()),
            ("sampler.param", "true".to_owned())
        ]
    );
}

#[test]
fn a_target_is_aimed_at_as_soon_as_it_is_set() {
    let time = ManualClock::new();
    let sampler = TargetRateSampler::new("10/s".parse().unwrap()).clock(&time);
    let controls = sampler.controls();
    let (_provider, tracer) = tracer(sampler.clone());
    let load = || {
        for _ in 0..1_000 {
            sampled(&tracer, 1);
            time.advance(Duration::from_millis(10));
        }
    };
    load();
    assert!((0.09..0.11).contains(&sampler.probability()));
    for (quota, share) in [("50/s", 0.5), ("1/s", 0.01), ("200/s", 1.0), ("20/s", 0.2)] {
        controls.set_quota(quota.parse().unwrap()).unwrap();
        let near = share * 0.9..=share * 1.1;
        assert!(
            near.contains(&sampler.probability()),
            "{quota}: {sampler:?}"
        );
        load();
        assert!(
            near.contains(&sampler.probability()),
            "{quota}: {sampler:?}"
        );
    }
    // Nothing has come yet: everything is sampled.
    let fresh = TargetRateSampler::new("10/s".parse().unwrap()).clock(&time);
    fresh.set_quota("1/h".parse().unwrap());
    assert_eq!(fresh.probability(), 1.0);
    // Of a first window that already has too many, it is known.
    let (_provider, tracer) = self::tracer(fresh.clone());
    sampled(&tracer, 1_000);
    fresh.set_quota("100/s".parse().unwrap());
    let seen = fresh.probability();
    assert!(
        (0.049..0.051).contains(&seen),
        "50 of a half-life's 1,000: {seen}"
    );
}

#[test]
fn a_target_that_is_off_samples_all_and_goes_on_learning() {
    let time = ManualClock::new();
    let sampler = TargetRateSampler::new("10/s".parse().unwrap()).clock(&time);
    let controls = sampler.controls();
    controls.set_enabled(false);
    let (_provider, tracer) = tracer(sampler.clone());
    for _ in 0..1_000 {
        assert_eq!(sampled(&tracer, 1), 1);
        time.advance(Duration::from_millis(10));
    }
    assert_eq!(sampler.probability(), 1.0);
    controls.set_enabled(true);
    assert!((0.09..0.11).contains(&sampler.probability()));
}

#[test]
fn settings_of_a_builder_keep_the_quota_that_was_set() {
    let sampler = TargetRateSampler::new("10/s".parse().unwrap());
    sampler.set_quota("20/s".parse().unwrap());
    let sampler = sampler.half_life(Duration::from_secs(1)).consistent();
    assert_eq!(sampler.quota().to_string(), "20/s");
}

#[test]
fn c1_c2_a_processor_and_an_exporter_go_by_quota_switch_and_exemption() {
    for is_processor in [true, false] {
        let (time, next) = (ManualClock::new(), InMemorySpanExporter::default());
        let quota = "2/s".parse().unwrap();
        let builder = SdkTracerProvider::builder();
        let (provider, controls, counts) = if is_processor {
            let limit = RateLimitedProcessor::new(SimpleSpanProcessor::new(next), quota);
            let limit = limit
                .clock(&time)
                .unwrap()
                .exempt(|span| span.name == "paid");
            let (controls, counts) = (limit.controls(), limit.counts());
            (builder.with_span_processor(limit).build(), controls, counts)
        } else {
            let limit = RateLimitedExporter::new(next, quota);
            let limit = limit
                .clock(&time)
                .unwrap()
                .exempt(|span| span.name == "paid");
            let (controls, counts) = (limit.controls(), limit.counts());
            (
                builder.with_simple_exporter(limit).build(),
                controls,
                counts,
            )
        };
        let tracer = provider.tracer("shop");
        let reported = |name: &'static str| {
            let before = counts.reported();
            (0..5).for_each(|_| tracer.in_span(name, |_context| {}));
            counts.reported() - before
        };
        assert_eq!((reported("page"), reported("paid")), (2, 5));
        controls.set_exempt(|span| span.name == "page");
        assert_eq!((reported("page"), reported("paid")), (5, 5));
        controls.set_exempt(|_| false);
        assert_eq!(
            (reported("page"), reported("paid")),
            (0, 5),
            "as it was built"
        );
        controls.set_enabled(false);
        assert_eq!((reported("page"), controls.is_enabled()), (5, false));
        controls.set_enabled(true);
        assert_eq!(reported("page"), 0);
        controls.set_quota("4/s".parse().unwrap()).unwrap();
        assert_eq!(controls.quota(), Some("4/s".parse().unwrap()));
        time.advance(Duration::from_secs(1));
        assert_eq!(reported("page"), 4);
        assert_eq!(counts.dropped(), 3 + 5 + 5 + 1);
    }
}
