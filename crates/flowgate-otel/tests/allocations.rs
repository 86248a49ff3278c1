//! A trace that is not sampled takes no memory of a sampler, and a span that is not reported none of a limit.

use flowgate::ManualClock;
use flowgate_otel::{RateLimitingSampler, TargetRateSampler};
use opentelemetry::Context;
use opentelemetry::trace::{SpanKind, TraceId};
use opentelemetry_sdk::trace::{SamplingDecision, ShouldSample};
use std::time::Duration;

/// How often a sampler asks for memory while it drops so many, and how many it samples.
fn while_dropping(sampler: &dyn ShouldSample, time: &ManualClock) -> (u64, u64) {
    let root = Context::new();
    let mut random = fastrand::Rng::with_seed(3);
    let (mut allocations, mut sampled) = (0, 0);
    for _ in 0..20_000 {
        time.advance(Duration::from_micros(100));
        let id = TraceId::from(random.u128(..));
        let mut decision = None;
        let counted = allocation_counter::measure(|| {
            let result = sampler.should_sample(Some(&root), id, "", &SpanKind::Internal, &[], &[]);
            decision = Some(result.decision);
        });
        let taken = counted.count_total;
        if decision == Some(SamplingDecision::Drop) {
            allocations += taken;
        } else {
            sampled += 1;
            assert!(
                taken > 0,
                "what is sampled has attributes: memory is counted"
            );
        }
    }
    (allocations, sampled)
}

#[test]
fn c9_dropping_takes_no_memory() {
    let time = ManualClock::new();
    let limit = RateLimitingSampler::with_clock("100/s".parse().unwrap(), &time).unwrap();
    assert_eq!(while_dropping(&limit, &time), (0, 299));

    for consistent in [false, true] {
        let target = TargetRateSampler::new("100/s".parse().unwrap()).clock(&time);
        let target = if consistent {
            target.consistent()
        } else {
            target
        };
        let (allocations, sampled) = while_dropping(&target, &time);
        assert_eq!(allocations, 0);
        assert!((150..700).contains(&sampled), "{sampled}");
    }
}
