//! Every other limiter that has a line: nobody is left in it, and its promise holds.

use super::*;
use crate::approximate_window::ApproximateWindow;
use crate::decaying_bucket::DecayingBucket;
use crate::fixed_window::FixedWindow;
use crate::limiter::Limiter;
use crate::segmented_window::SegmentedWindow;
use crate::sliding_window::SlidingWindow;
use crate::warm_up::WarmUp;

const WINDOW_NS: u64 = 20;
const WINDOW: Duration = Duration::from_nanos(WINDOW_NS);

fn two_per_window() -> Quota {
    Quota::new(2, WINDOW).expect("within range")
}

/// Some wait, one gives up, `change` is made and the clock moves on until all can be served. At most `most` are let
/// through in any span of one window.
#[track_caller]
fn crowd(limiter: &dyn Limiter, time: &ManualClock, most: u64, change: impl FnOnce() + Send) {
    let ledger = Ledger::default();
    let left = AtomicU64::new(3);
    thread::scope(|threads| {
        for n in [1, 2, 1] {
            let (ledger, left) = (&ledger, &left);
            threads.spawn(move || {
                ledger.wait(limiter.acquire().n(n)).expect("in turn");
                left.fetch_sub(1, SeqCst);
            });
        }
        threads.spawn(|| ledger.pass_by(limiter.acquire().n(2)));
        threads.spawn(change);
        threads.spawn(|| walk_until_none_is(&left, time, 7));
    });
    assert!(limiter.line().is_empty(), "somebody is left in line");
    ledger.assert_in_order();
    let turns = ledger.turns();
    let grants = || turns.iter().map(|(_, grant)| grant);
    for from in grants().map(Grant::at) {
        let within = grants().filter(|grant| grant.at() >= from && grant.at() < from + WINDOW);
        let granted: u64 = within.map(Grant::units).sum();
        assert!(
            granted <= most,
            "{granted} of {most} from {from:?} on: {turns:?}"
        );
    }
}

#[test]
fn fixed_window() {
    explore(|| {
        let time = ManualClock::new();
        let builder = FixedWindow::builder(two_per_window()).clock(&time);
        let limiter = builder.build().expect("within range");
        crowd(&limiter, &time, 4, || {
            limiter.set_quota(two_per_window()).expect("within range");
        });
    });
}

#[test]
fn sliding_window() {
    explore(|| {
        let time = ManualClock::new();
        let builder = SlidingWindow::builder(two_per_window()).clock(&time);
        let limiter = builder.build().expect("within range");
        crowd(&limiter, &time, 2, || {
            limiter.set_quota(two_per_window()).expect("within range");
        });
    });
}

#[test]
fn segmented_window() {
    explore(|| {
        let time = ManualClock::new();
        let builder = SegmentedWindow::builder(two_per_window()).clock(&time);
        let limiter = builder.segments(4).build().expect("within range");
        crowd(&limiter, &time, 2, || {
            limiter.set_quota(two_per_window()).expect("within range");
        });
    });
}

#[test]
fn approximate_window() {
    explore(|| {
        let time = ManualClock::new();
        let builder = ApproximateWindow::builder(two_per_window()).clock(&time);
        let limiter = builder.build().expect("within range");
        crowd(&limiter, &time, 3, || {
            limiter.set_quota(two_per_window()).expect("within range");
        });
    });
}

/// Its costs are not checked here, but that it lets everybody through.
#[test]
fn warm_up() {
    explore(|| {
        let time = ManualClock::new();
        let builder = WarmUp::builder(two_per_window())
            .clock(&time)
            .warm_up(WINDOW);
        let limiter = builder.build().expect("within range");
        crowd(&limiter, &time, u64::MAX, || {
            limiter.set_quota(two_per_window()).expect("within range");
        });
    });
}

/// Half of two is gone after 20 ns.
#[test]
fn decaying_bucket() {
    explore(|| {
        let time = ManualClock::new();
        let builder = DecayingBucket::builder(2, WINDOW).clock(&time);
        let limiter = builder.build().expect("within range");
        crowd(&limiter, &time, 4, || {
            limiter.set(2, WINDOW).expect("within range");
        });
    });
}
