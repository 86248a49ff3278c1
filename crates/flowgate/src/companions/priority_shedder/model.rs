//! loom models: requests meet the end of a window, in every interleaving. Run by `ci/loom.sh`.

use super::PriorityShedder;
use crate::clock::ManualClock;
use crate::primitive::Ordering;
use alloc::sync::Arc;
use core::time::Duration;
use loom::thread;

/// Each request is in the histogram once, or still counted for the next window.
#[test]
fn model_two_requests_meet_the_end_of_a_window() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let time = ManualClock::new();
        let shedder = PriorityShedder::builder(2).min_requests(1).clock(&time);
        let shedder = Arc::new(shedder.build().expect("valid settings"));
        shedder.try_admit(0).expect("no threshold yet");
        time.advance(Duration::from_secs(1));
        let threads = [(); 2].map(|()| {
            let shedder = Arc::clone(&shedder);
            thread::spawn(move || shedder.try_admit(1))
        });
        for thread in threads {
            thread
                .join()
                .expect("no panic")
                .expect("nothing is in excess");
        }
        let arrived = shedder
            .arrived
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        let left: u64 = arrived.sum();
        let judged: u64 = shedder.closing.lock().judge.recent.iter().sum();
        assert_eq!(judged + left, 3);
        assert!(
            judged >= 1,
            "the window was over, and no caller has closed it"
        );
    });
}
