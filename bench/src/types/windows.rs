//! Limiters that count within windows.

use std::time::Duration;

use flowgate::{ApproximateWindow, FixedWindow, Quota, SegmentedWindow, SlidingWindow};
use flowgate_bench::cases::Case;

use super::{full, per_hour, quota, through_trait, with_room};

pub fn admitting() -> Vec<Case> {
    // 3 ns for each: as fast as nobody is. 64 bits hold it, and 24 bits the count.
    let fast = quota(16_000_000, Duration::from_millis(50));
    let wide = quota(1_000_000_000, Duration::from_secs(1));
    // 10 ns and 1 ns for each. A lap spans many windows, so that admissions leave while others come.
    let hundred = quota(100, Duration::from_micros(1));
    let million = quota(1_000_000, Duration::from_millis(1));
    vec![
        with_room("FixedWindow", || fixed(fast)),
        with_room("FixedWindow, wide", || fixed(wide)),
        with_room("FixedWindow, clock-free", || clock_free(fast)),
        with_room("ApproximateWindow", || approximate(fast)),
        with_room("SegmentedWindow, k = 1", || segmented(fast, 1)),
        with_room("SegmentedWindow, k = 10", || segmented(fast, 10)),
        with_room("SlidingWindow, 100", || wrapped(hundred)),
        with_room("SlidingWindow, 1,000,000", || wrapped(million)),
    ]
}

pub fn refusing() -> Vec<Case> {
    let million = per_hour(1_000_000);
    vec![
        full("FixedWindow", || fixed(per_hour(1))),
        full("FixedWindow, wide", || fixed(million)),
        full("FixedWindow, clock-free", || clock_free(per_hour(1))),
        full("ApproximateWindow", || approximate(per_hour(1))),
        full("SegmentedWindow, k = 1", || segmented(per_hour(1), 1)),
        full("SegmentedWindow, k = 10", || segmented(per_hour(1), 10)),
        full("SlidingWindow, 100", || sliding(per_hour(100))),
        full("SlidingWindow, 1,000,000", || sliding(million)),
    ]
}

fn fixed(quota: Quota) -> FixedWindow {
    FixedWindow::new(quota).expect("the limits fit")
}

fn clock_free(quota: Quota) -> FixedWindow {
    FixedWindow::builder(quota)
        .clock_free()
        .build()
        .expect("the limits fit")
}

fn approximate(quota: Quota) -> ApproximateWindow {
    ApproximateWindow::new(quota).expect("the limits fit")
}

fn segmented(quota: Quota, segments: u64) -> SegmentedWindow {
    SegmentedWindow::builder(quota)
        .segments(segments)
        .build()
        .expect("the limits fit")
}

fn sliding(quota: Quota) -> SlidingWindow {
    SlidingWindow::new(quota).expect("the limits fit")
}

/// A window of which the ring has been written all around, so that it wraps, in memory that is there.
fn wrapped(quota: Quota) -> SlidingWindow {
    let limiter = sliding(quota);
    for _ in 0..2 * quota.count() {
        let _ = through_trait(&limiter).try_acquire();
    }
    limiter
}
