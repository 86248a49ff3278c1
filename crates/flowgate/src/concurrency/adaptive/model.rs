//! loom models: outcomes, the end of a window and a change of the bounds, in every interleaving.

use super::{Adapt, AdaptWindow, AdaptiveLimit, CallOutcome, FineLimit};
use crate::clock::{ManualClock, Timestamp};
use alloc::sync::Arc;
use core::time::Duration;
use loom::thread;

/// Counts the outcomes that it is told of, in the limit itself: one permit for each.
struct Counts;

impl Adapt for Counts {
    fn initial(&self) -> FineLimit {
        FineLimit::whole(10)
    }

    fn on_window(&mut self, _: Timestamp, window: &AdaptWindow) -> FineLimit {
        let outcomes = window.successes + window.overloads;
        window.limit.plus(outcomes * FineLimit::ONE.parts())
    }
}

fn limit_of(min_outcomes: u64) -> (Arc<AdaptiveLimit<Counts>>, ManualClock) {
    let time = ManualClock::new();
    let builder = AdaptiveLimit::builder(Counts)
        .without_growth_guard()
        .min_outcomes(min_outcomes)
        .clock(&time);
    (Arc::new(builder.build().expect("valid settings")), time)
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Each outcome is in one window, or still in the word: none is lost or counted twice.
#[test]
fn model_two_outcomes_meet_the_end_of_a_window() {
    explore(3, || {
        let (limit, time) = limit_of(1);
        let permits = [(); 2].map(|()| limit.try_acquire_owned().expect("a permit"));
        time.advance(Duration::from_secs(1));
        let threads =
            permits.map(|permit| thread::spawn(move || permit.finish(CallOutcome::Success)));
        for thread in threads {
            thread.join().expect("no panic");
        }
        let counted = u64::from(limit.limit().permits()) - 10;
        let left = limit.samples().seen().outcomes();
        assert_eq!(counted + left, 2);
        assert!(
            counted >= 1,
            "the window was over, and nobody has closed it"
        );
        assert_eq!(limit.in_flight(), 0);
    });
}

/// The permits have the limit that the windower has, within the bounds.
#[test]
fn model_the_end_of_a_window_meets_a_change_of_the_bounds() {
    explore(3, || {
        let (limit, time) = limit_of(1);
        let permit = limit.try_acquire_owned().expect("a permit");
        time.advance(Duration::from_secs(1));
        let other = thread::spawn({
            let limit = Arc::clone(&limit);
            move || limit.set_bounds(FineLimit::whole(2), FineLimit::whole(5))
        });
        permit.finish(CallOutcome::Success);
        other.join().expect("no panic").expect("in order");
        assert_eq!(limit.limit(), FineLimit::whole(5));
        assert_eq!(limit.permits().limit(), 5);
    });
}
