//! An event that is left out takes no memory, in a real subscriber.

use flowgate::ManualClock;
use flowgate_tracing::RateLimitFilter;
use std::time::Duration;
use tracing::info;
use tracing_subscriber::{fmt, prelude::*};

/// How often `what` asks for memory in this thread.
fn allocations(what: impl FnOnce()) -> u64 {
    allocation_counter::measure(what).count_total
}

fn speak(peer: u64) {
    info!(peer, host = "db-7", load = 0.75, path = ?("a", 3), "slow: {} ms", peer * 3);
}

#[test]
fn memory_that_is_asked_for_is_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn c9_silence_takes_no_memory() {
    for field in [
        None,
        Some("peer"),
        Some("host"),
        Some("path"),
        Some("message"),
    ] {
        let time = ManualClock::new();
        let limit = RateLimitFilter::builder("1/h burst 2".parse().unwrap()).clock(&time);
        let limit = match field {
            Some(field) => limit.by_field(field, 1_000),
            None => limit,
        };
        let limit = limit.build().unwrap();
        let layer = fmt::layer().with_writer(std::io::sink);
        let subscriber = tracing_subscriber::registry().with(limit.clone().over(layer));
        tracing::subscriber::with_default(subscriber, || {
            for peer in 0..200 {
                speak(peer % 100);
            }
            let before = limit.suppressed();
            let taken = allocations(|| {
                for peer in 0..10_000 {
                    speak(peer % 100);
                    time.advance(Duration::from_nanos(1));
                }
            });
            assert_eq!(limit.suppressed() - before, 10_000, "by {field:?}");
            assert_eq!(taken, 0, "by {field:?}");
        });
    }
}
