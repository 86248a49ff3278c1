//! loom models of the word and its ring: every interleaving of decisions, refunds, changes of quota and the clock.
//!
//! Run by `ci/loom.sh`. The clock is an atomic that moves while the others decide.

use super::segments::Segments;
use crate::limiter::engine::{Engine, Refunds, Requotas, Units};
use crate::quota::Quota;
use core::time::Duration;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const SEGMENT_NS: u64 = 10;

/// Two segments per window.
fn per_window(limit: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(2 * SEGMENT_NS)).expect("a quota within range")
}

struct Model {
    segments: Segments,
    now_ns: AtomicU64,
}

impl Model {
    fn new(limit: u64) -> Self {
        Self {
            segments: Segments::new(per_window(limit), Some(2)).expect("in range"),
            now_ns: AtomicU64::new(0),
        }
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn take_at(&self, now_ns: u64, n: u64) -> u64 {
        match self.segments.decide(now_ns, Units(n)) {
            Ok(()) => n,
            Err(_) => 0,
        }
    }

    fn take(&self, n: u64) -> u64 {
        self.take_at(self.now_ns(), n)
    }

    /// What counts at `now_ns`, by what is still to be had.
    fn held_at(&self, now_ns: u64) -> u64 {
        let seen = self.segments.snapshot(now_ns);
        seen.limit - seen.remaining
    }
}

/// A thread for each of `parts`, and the clock moving to `until_ns`; what the parts returned, in sum.
fn explore(
    preemptions: usize,
    first: fn() -> Model,
    until_ns: u64,
    parts: &'static [fn(&Model) -> u64],
    end: fn(&Model, u64),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let model = Arc::new(first());
        let threads: Vec<_> = parts
            .iter()
            .map(|part| {
                let model = Arc::clone(&model);
                thread::spawn(move || part(&model))
            })
            .collect();
        model.now_ns.store(until_ns, Ordering::SeqCst);
        let told = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum();
        end(&model, told);
    });
}

/// The clock moves two segments on, which still count together: none may be lost when one is closed.
#[test]
fn c1_c2_takers_race_each_other_while_segments_close() {
    explore(
        3,
        || Model::new(2),
        2 * SEGMENT_NS,
        &[|model| model.take(1), |model| model.take(1) + model.take(1)],
        |model, told| {
            assert_eq!(told, 2, "admitted {told} of 3 with a limit of 2");
            assert_eq!(model.held_at(2 * SEGMENT_NS), 2);
        },
    );
}

/// One is in the first segment, the clock leaves it behind.
#[test]
fn c1_c2_takers_race_each_other_as_a_segment_leaves() {
    explore(
        3,
        || {
            let model = Model::new(2);
            assert_eq!(model.take(1), 1);
            model
        },
        3 * SEGMENT_NS,
        &[|model| model.take(1), |model| model.take(1)],
        |model, told| {
            assert!((1..=2).contains(&told), "admitted {told}");
            let held = model.held_at(3 * SEGMENT_NS);
            // One at 0 has left by then, or one of the others was before it left; no more than these.
            assert!(told - 1 <= held && held <= told, "{held} held of {told}");
        },
    );
}

/// A refund makes the word shrink after somebody has begun to close it: the ring must not keep the larger sum.
#[test]
fn c5_takers_that_close_a_segment_race_a_refund() {
    explore(
        3,
        || {
            let model = Model::new(3);
            assert_eq!(model.take(2), 2);
            model
        },
        SEGMENT_NS,
        &[
            |model| model.take_at(SEGMENT_NS, 1),
            |model| model.take_at(2 * SEGMENT_NS, 1),
            |model| 100 * model.segments.refund(1, &|| 0),
        ],
        |model, told| {
            let (taken, back) = (told % 100, told / 100);
            // What is not given back counts until the first segments leave, and what was taken later does longer.
            assert_eq!(model.held_at(2 * SEGMENT_NS), 2 + taken - back);
            let late = model.held_at(3 * SEGMENT_NS);
            assert!(late <= taken, "{late} held of {taken}");
            assert!(
                late + back >= taken,
                "{late} held of {taken} with {back} back"
            );
            assert!(taken >= 1);
        },
    );
}

/// Units are taken out of a closed segment, and of the sums of those after it, while another is closed.
#[test]
fn c5_takers_that_close_a_segment_race_a_taking_out() {
    explore(
        3,
        || {
            let model = Model::new(3);
            assert_eq!(model.take_at(0, 1) + model.take_at(SEGMENT_NS, 1), 2);
            model
        },
        SEGMENT_NS,
        &[
            |model| model.take_at(SEGMENT_NS, 1),
            |model| model.take_at(2 * SEGMENT_NS, 1),
            |model| {
                model.segments.take_back(0, 1, &[], &|| 0);
                0
            },
        ],
        |model, told| {
            assert!((1..=2).contains(&told), "admitted {told}");
            assert_eq!(model.held_at(2 * SEGMENT_NS), 1 + told);
            assert_eq!(model.held_at(3 * SEGMENT_NS), 1 + told);
        },
    );
}

#[test]
fn c1_takers_race_a_change_of_limit() {
    explore(
        2,
        || Model::new(1),
        SEGMENT_NS,
        &[
            |model| model.take(1),
            |model| model.take(1),
            |model| {
                let told = model.segments.set_quota(per_window(2), &|| model.now_ns());
                told.expect("in range");
                0
            },
        ],
        |model, told| {
            assert!((1..=2).contains(&told), "admitted {told}");
            assert_eq!(model.held_at(2 * SEGMENT_NS), told);
        },
    );
}

#[test]
fn c1_takers_race_a_change_of_window() {
    explore(
        2,
        || {
            let model = Model::new(2);
            assert_eq!(model.take(1), 1);
            model
        },
        SEGMENT_NS,
        &[
            |model| model.take(1) + model.take(1),
            |model| {
                let quota = Quota::new(2, Duration::from_nanos(6 * SEGMENT_NS));
                let quota = quota.expect("a quota within range");
                let told = model.segments.set_quota(quota, &|| model.now_ns());
                told.expect("in range");
                0
            },
        ],
        |model, told| {
            assert_eq!(told, 1, "admitted {told} beside the one before");
            assert_eq!(model.held_at(6 * SEGMENT_NS), 2);
        },
    );
}

/// Nothing is in the window any longer when that becomes longer.
#[test]
fn c4_a_time_from_before_a_change_of_the_window_adds_no_credit() {
    explore(
        3,
        || {
            let model = Model::new(2);
            assert_eq!(model.take(2), 2);
            model
        },
        0,
        &[
            |model| {
                let quota = Quota::new(2, Duration::from_nanos(4 * SEGMENT_NS));
                let later_ns = 40 * SEGMENT_NS;
                let set = model
                    .segments
                    .set_quota(quota.expect("in range"), &|| later_ns);
                set.expect("in range");
                0
            },
            |model| model.take_at(0, 1) + model.take_at(0, 1),
        ],
        |model, told| {
            assert_eq!(told + model.take_at(0, 1), 0);
            assert_eq!(model.take_at(40 * SEGMENT_NS, 2), 2);
        },
    );
}

/// The limit is larger from the change on, and not before.
#[test]
fn c1_c4_takers_with_a_time_from_before_race_each_other_and_the_change() {
    explore(
        2,
        || Model::new(2),
        0,
        &[
            |model| {
                let later_ns = 40 * SEGMENT_NS;
                let set = model.segments.set_quota(per_window(3), &|| later_ns);
                set.expect("in range");
                0
            },
            |model| model.take_at(0, 1) + model.take_at(0, 1),
            |model| model.take_at(0, 1),
        ],
        |model, told| {
            assert_eq!(told + model.take_at(0, 1), 2);
        },
    );
}
