//! Every other limiter that has a queue: no waiter is left in it, and its guarantee holds.

use super::*;
use crate::limiter::Limiter;
use crate::types::approximate_window::ApproximateWindow;
use crate::types::decaying_bucket::DecayingBucket;
use crate::types::fixed_window::FixedWindow;
use crate::types::segmented_window::SegmentedWindow;
use crate::types::sliding_window::SlidingWindow;
use crate::types::warm_up::WarmUp;

const WINDOW_NS: u64 = 20;
const WINDOW: Duration = Duration::from_nanos(WINDOW_NS);

fn two_per_window() -> Quota {
    Quota::new(2, WINDOW).expect("within range")
}

/// Some callers wait, one gives up, `change` is made, and the clock moves on until all can be served. At most `most` are
/// granted in any interval of one window.
#[track_caller]
fn crowd(limiter: &dyn Limiter, time: &ManualClock, most: u64, change: impl FnOnce() + Send) {
    let ledger = Ledger::default();
    let left = AtomicU64::new(3);
    let spans = Mutex::new(Vec::new());
    // A caller that did not wait has the timestamp of its own clock reading. It was counted when it was admitted, no later
    // than now.
    let note = |grant: Grant| {
        let counted_by = match grant.waited() {
            Duration::ZERO => time.now(),
            _ => grant.at(),
        };
        let mut spans = spans.lock().expect("nobody panics meanwhile");
        spans.push((grant.at(), counted_by, grant.units()));
    };
    thread::scope(|threads| {
        for n in [1, 2, 1] {
            let (ledger, left, note) = (&ledger, &left, &note);
            threads.spawn(move || {
                let answer = ledger.wait_for_window(limiter.acquire().n(n), time);
                note(answer.expect("in turn"));
                left.fetch_sub(1, SeqCst);
            });
        }
        threads.spawn(|| {
            if let Some(answer) = leave_early(limiter.acquire().n(2)) {
                note(answer.expect("nothing is refused"));
            }
        });
        threads.spawn(change);
        threads.spawn(|| walk_until_none_is(&left, time, 7));
    });
    assert!(limiter.queue().is_empty(), "somebody is left in active");
    ledger.assert_in_order();
    let spans = spans.into_inner().expect("nobody panicked");
    for &(from, _, _) in &spans {
        let within = spans
            .iter()
            .filter(|&&(at, by, _)| at >= from && by < from + WINDOW);
        let granted: u64 = within.map(|&(_, _, units)| units).sum();
        assert!(
            granted <= most,
            "{granted} of {most} from {from:?} on: {spans:?}"
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

/// What a larger limit makes possible was not possible before.
#[test]
fn c1_those_in_line_are_dated_when_a_larger_limit_let_them_through() {
    explore(|| {
        let time = ManualClock::new();
        let builder = SlidingWindow::builder(two_per_window()).clock(&time);
        let limiter = builder.max_limit(4).build().expect("within range");
        limiter.try_acquire_n(2).expect("there is room for two");
        time.set(at(1));
        let mut waits: Vec<_> = (0..2)
            .map(|_| std::boxed::Box::pin(limiter.acquire()))
            .collect();
        for wait in &mut waits {
            let poll = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll.is_pending());
        }
        thread::scope(|threads| {
            threads.spawn(|| {
                time.set(at(15));
                let four = Quota::new(4, WINDOW).expect("within range");
                limiter.set_quota(four).expect("within range");
            });
            threads.spawn(|| {
                for _ in 0..3 {
                    let _ = limiter.try_acquire_n(4).unwrap_err();
                }
            });
        });
        for wait in waits {
            let Some(Ok(grant)) = leave_early(wait) else {
                panic!("its turn has come")
            };
            assert_eq!(grant.at(), at(15));
        }
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

/// Its costs are not checked here, only that it lets all waiters through.
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
