//! loom models of a manual clock's alarms: every interleaving of asking, moving the clock and taking back.
//!
//! Run by `ci/loom.sh`.

use super::ManualAlarms;
use crate::primitive::{AtomicU64, Ordering};
use alloc::task::Wake;
use core::task::Waker;
use loom::sync::Arc;
use loom::thread;

/// A clock that stands at an atomic, and its alarms.
struct Model {
    now_ns: AtomicU64,
    // Not loom's: what it counts is not modelled.
    alarms: alloc::sync::Arc<ManualAlarms>,
}

/// Counts.
struct Rung(std::sync::atomic::AtomicU64);

impl Rung {
    fn new() -> alloc::sync::Arc<Self> {
        alloc::sync::Arc::new(Self(std::sync::atomic::AtomicU64::new(0)))
    }

    fn count(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl Wake for Rung {
    fn wake(self: alloc::sync::Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            now_ns: AtomicU64::new(0),
            alarms: Default::default(),
        })
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Acquire)
    }

    /// As `ManualClock` does.
    fn move_to(&self, to_ns: u64) {
        self.now_ns.swap(to_ns, Ordering::AcqRel);
        self.alarms.ring(|| self.now_ns());
    }

    fn ask(&self, at_ns: u64, rung: &alloc::sync::Arc<Rung>) -> super::Alarm {
        self.alarms
            .ask(at_ns, Waker::from(rung.clone()), || self.now_ns())
    }
}

#[test]
fn model_an_alarm_is_not_missed_by_a_clock_that_moves_meanwhile() {
    loom::model(|| {
        let model = Model::new();
        let rung = Rung::new();
        let mover = thread::spawn({
            let model = model.clone();
            move || model.move_to(5)
        });
        let alarm = model.ask(5, &rung);
        mover.join().expect("no panic");
        assert_eq!(rung.count(), 1);
        drop(alarm);
    });
}

#[test]
fn model_two_ask_while_the_clock_moves() {
    loom::model(|| {
        let model = Model::new();
        let (early, late) = (Rung::new(), Rung::new());
        let mover = thread::spawn({
            let model = model.clone();
            move || model.move_to(5)
        });
        let asker = thread::spawn({
            let (model, early) = (model.clone(), early.clone());
            move || model.ask(4, &early)
        });
        let alarm = model.ask(5, &late);
        mover.join().expect("no panic");
        let other = asker.join().expect("no panic");
        assert_eq!((early.count(), late.count()), (1, 1));
        drop((alarm, other));
    });
}

#[test]
fn model_taking_one_back_hides_no_other() {
    loom::model(|| {
        let model = Model::new();
        let (given_up, kept) = (Rung::new(), Rung::new());
        let first = model.ask(3, &given_up);
        let mover = thread::spawn({
            let model = model.clone();
            move || model.move_to(5)
        });
        let asker = thread::spawn({
            let (model, kept) = (model.clone(), kept.clone());
            move || model.ask(5, &kept)
        });
        drop(first);
        mover.join().expect("no panic");
        let alarm = asker.join().expect("no panic");
        assert_eq!(kept.count(), 1);
        assert!(given_up.count() <= 1);
        drop(alarm);
    });
}
