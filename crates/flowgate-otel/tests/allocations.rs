//! A trace that is not sampled takes no memory of a sampler, and a span that is not reported none of a limit.

use flowgate::ManualClock;
use flowgate_otel::{RateLimitingSampler, TargetRateSampler};
use opentelemetry::Context;
use opentelemetry::trace::{SpanKind, TraceId};
use opentelemetry_sdk::trace::{SamplingDecision, ShouldSample};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: it is the system's, which keeps the contract, and a count beside it that allocates nothing.
#[expect(unsafe_code, reason = "an allocator that counts")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often a sampler asks for memory while it drops so many, and how many it samples.
fn while_dropping(sampler: &dyn ShouldSample, time: &ManualClock) -> (u64, u64) {
    let root = Context::new();
    let mut random = fastrand::Rng::with_seed(3);
    let (mut allocations, mut sampled) = (0, 0);
    for _ in 0..20_000 {
        time.advance(Duration::from_micros(100));
        let id = TraceId::from(random.u128(..));
        let before = ALLOCATIONS.with(Cell::get);
        let result = sampler.should_sample(Some(&root), id, "", &SpanKind::Internal, &[], &[]);
        let taken = ALLOCATIONS.with(Cell::get) - before;
        if result.decision == SamplingDecision::Drop {
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
