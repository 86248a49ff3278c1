//! loom models of the log: every interleaving of decisions, refunds, changes of quota and the clock.
//!
//! Run by `ci/loom.sh`. The clock is an atomic that moves while the others decide. What is checked at the end is
//! everything that was ever admitted, by the times in the log, and by what can still be had.

use super::log::Log;
use crate::limiter::engine::{Engine, Refunds, Requotas, Units};
use crate::quota::Quota;
use core::time::Duration;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const WINDOW_NS: u64 = 10;

fn per_window(limit: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(WINDOW_NS)).expect("a quota within range")
}

struct Model {
    log: Log,
    now_ns: AtomicU64,
}

impl Model {
    fn new(limit: u64, max_limit: u64) -> Self {
        Self {
            log: Log::new(per_window(limit), Some(max_limit)).expect("in range"),
            now_ns: AtomicU64::new(0),
        }
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn take(&self, n: u64) -> u64 {
        match self.log.decide(self.now_ns(), Units(n)) {
            Ok(()) => n,
            Err(_) => 0,
        }
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

/// The clock stays within the window: all that is admitted is together in it.
#[test]
fn c1_c2_takers_race_each_other_in_one_window() {
    explore(
        3,
        || Model::new(2, 2),
        WINDOW_NS - 1,
        &[|model| model.take(1), |model| model.take(1) + model.take(1)],
        |model, told| {
            assert_eq!(told, 2, "admitted {told} of 3 with a limit of 2");
            assert_eq!(model.log.snapshot(WINDOW_NS - 1).remaining, 0);
        },
    );
}

/// Whoever is refused is refused because the others were admitted.
#[test]
fn c1_c2_takers_of_several_race_each_other() {
    explore(
        3,
        || Model::new(3, 3),
        WINDOW_NS - 1,
        &[|model| model.take(2), |model| model.take(2)],
        |model, told| {
            assert_eq!(told, 2, "admitted {told}: one of two with a limit of 3");
            assert_eq!(model.log.snapshot(WINDOW_NS - 1).remaining, 1);
        },
    );
}

/// The ring is filled, and goes round while the clock moves one window on.
#[test]
fn c1_takers_race_each_other_round_the_ring() {
    explore(
        3,
        || {
            let model = Model::new(1, 1);
            for lap in 0..3 {
                model.log.decide(lap * WINDOW_NS, Units(1)).expect("room");
            }
            model.now_ns.store(2 * WINDOW_NS, Ordering::SeqCst);
            model
        },
        3 * WINDOW_NS,
        &[|model| model.take(1), |model| model.take(1)],
        |model, told| {
            // At 20 there is one already; so at most one, and only at 30.
            assert!(told <= 1, "admitted {told} in the window that begins at 30");
            assert_eq!(model.log.snapshot(3 * WINDOW_NS).remaining, 1 - told);
        },
    );
}

/// More laps than the record of a thread that stands still: what it finds is never what it looked for.
#[test]
fn c1_a_taker_is_overtaken_by_a_whole_ring() {
    explore(
        2,
        || Model::new(1, 1),
        0,
        &[
            |model| model.take(1),
            |model| {
                let laps = |lap| model.log.decide(lap * WINDOW_NS, Units(1)).is_ok();
                (1..=5).filter(|&lap| laps(lap)).count() as u64
            },
        ],
        |model, told| {
            // The first is admitted at 0, or, if the other was before it, at the time of that: then not
            // at all, as the limit is 1.
            assert!((5..=6).contains(&told), "admitted {told}");
            assert_eq!(model.log.snapshot(5 * WINDOW_NS).remaining, 0);
        },
    );
}

#[test]
fn c5_takers_race_a_refund() {
    explore(
        3,
        || {
            let model = Model::new(2, 2);
            assert_eq!(model.take(1), 1);
            model
        },
        WINDOW_NS - 1,
        &[
            |model| model.take(2),
            |model| 100 * model.log.refund(1, &|| model.now_ns()),
        ],
        |model, told| {
            let (taken, back) = (told % 100, told / 100);
            assert_eq!(back, 1, "one is there to give back");
            // Before the refund there is no room for 2; after it there is.
            let held = 1 + taken - back;
            assert!(held <= 2, "{held} in the window");
            assert_eq!(model.log.snapshot(WINDOW_NS - 1).remaining, 2 - held);
        },
    );
}

/// Two entries are taken back while others decide: more than one slot changes.
#[test]
fn c5_a_taker_races_a_refund_of_several_admissions() {
    explore(
        3,
        || {
            let model = Model::new(3, 3);
            assert_eq!(model.take(1) + model.take(1), 2);
            model
        },
        WINDOW_NS - 1,
        &[
            |model| model.take(1) + model.take(1),
            |model| 100 * model.log.refund(2, &|| model.now_ns()),
        ],
        |model, told| {
            let (taken, back) = (told % 100, told / 100);
            assert_eq!(back, 2, "two are there to give back");
            let held = 2 + taken - back;
            assert_eq!(model.log.snapshot(WINDOW_NS - 1).remaining, 3 - held);
        },
    );
}

/// An admission is taken out that others have come after, and these move.
#[test]
fn c5_a_taker_races_the_taking_out_of_an_older_admission() {
    explore(
        3,
        || {
            let model = Model::new(3, 3);
            model.log.decide(0, Units(1)).expect("room");
            model.log.decide(1, Units(2)).expect("room");
            model
        },
        WINDOW_NS - 1,
        &[
            |model| model.take(1) + model.take(1),
            |model| {
                model.log.take_back(0, 1, &[], &|| 0);
                0
            },
        ],
        |model, told| {
            assert!(told <= 1, "admitted {told} in the place of 1");
            assert_eq!(model.log.snapshot(WINDOW_NS - 1).remaining, 1 - told);
            // What came after it counts as long as it would have.
            assert_eq!(model.log.snapshot(WINDOW_NS).remaining, 1 - told);
        },
    );
}

#[test]
fn c1_takers_race_a_change_of_quota() {
    explore(
        2,
        || Model::new(1, 3),
        WINDOW_NS - 1,
        &[
            |model| model.take(1),
            |model| model.take(1),
            |model| {
                model.log.set_quota(per_window(2), &|| 0).expect("in range");
                0
            },
        ],
        |model, told| {
            assert!((1..=2).contains(&told), "admitted {told}");
            assert_eq!(model.log.snapshot(WINDOW_NS - 1).remaining, 2 - told);
        },
    );
}

/// A decision by the old limit would be over the new one.
#[test]
fn c1_a_taker_never_decides_by_two_quotas() {
    explore(
        3,
        || Model::new(3, 3),
        WINDOW_NS - 1,
        &[
            |model| model.take(1) + model.take(1),
            |model| {
                model.log.set_quota(per_window(1), &|| 0).expect("in range");
                // From here on the limit is 1: what was there may be more, but nothing is added to 1.
                let before = 1 - model.log.snapshot(0).remaining.min(1);
                let taken = model.take(1);
                assert!(before + taken <= 1, "{taken} more than {before}");
                taken
            },
        ],
        |_, told| assert!((1..=3).contains(&told), "admitted {told}"),
    );
}

/// The limit is larger from the change on, and not before.
#[test]
fn c1_c4_takers_with_a_time_from_before_race_each_other_and_the_change() {
    explore(
        2,
        || {
            let model = Model::new(2, 3);
            assert_eq!(model.take(1), 1);
            model
        },
        0,
        &[
            |model| {
                let set = model.log.set_quota(per_window(3), &|| 400);
                set.expect("in range");
                0
            },
            |model| model.take(1),
            |model| model.take(1),
        ],
        |model, told| {
            assert_eq!(told + model.take(1), 1);
        },
    );
}
