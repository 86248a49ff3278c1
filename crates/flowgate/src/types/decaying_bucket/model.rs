//! loom models of changes of settings while a caller decides by a time from before them.
//!
//! Run by `ci/loom.sh`. The clock stands still at its origin.

use super::DecayingBucket;
use crate::clock::{ManualClock, Timestamp};
use alloc::sync::Arc;
use core::time::Duration;
use loom::thread::{self, JoinHandle};

const CAPACITY: u64 = 2;
/// Long after the half-life of 1 ns: nothing is left of what was poured in at the origin.
const LATER: Timestamp = Timestamp::from_nanos(1_000);

fn full() -> Arc<DecayingBucket> {
    let builder = DecayingBucket::builder(CAPACITY, Duration::from_nanos(1));
    let bucket = builder.clock(ManualClock::new()).build().expect("in range");
    bucket.try_acquire_n(CAPACITY).expect("it is empty");
    Arc::new(bucket)
}

fn change(bucket: &Arc<DecayingBucket>) -> JoinHandle<()> {
    let bucket = Arc::clone(bucket);
    thread::spawn(move || {
        let settings = bucket.at(LATER).set(CAPACITY, Duration::from_secs(1));
        settings.expect("in range");
    })
}

#[test]
fn model_c4_a_time_from_before_a_change_adds_no_credit() {
    loom::model(|| {
        let bucket = full();
        let changer = change(&bucket);
        assert!(bucket.at(Timestamp::ORIGIN).try_acquire().is_err());
        assert_eq!(bucket.at(Timestamp::ORIGIN).take_up_to(1), 0);
        changer.join().expect("no panic");
        assert!(bucket.at(Timestamp::ORIGIN).try_acquire().is_err());
        assert!(bucket.at(LATER).try_acquire_n(CAPACITY).is_ok());
    });
}

/// The state is still that of the first when the second is noted.
#[test]
fn model_c4_a_time_from_before_two_changes_adds_no_credit() {
    loom::model(|| {
        let bucket = full();
        change(&bucket).join().expect("no panic");
        let changer = change(&bucket);
        assert!(bucket.at(Timestamp::ORIGIN).try_acquire().is_err());
        changer.join().expect("no panic");
        assert!(bucket.at(Timestamp::ORIGIN).try_acquire().is_err());
    });
}
