//! loom models of what reservations were told: somebody reserves, or cancels, while the quota changes.
//!
//! Run by `ci/loom.sh`. The clock stands still at its origin.

use super::TokenBucket;
use crate::clock::{ManualClock, Timestamp};
use crate::quota::Quota;
use alloc::sync::Arc;
use core::time::Duration;
use loom::thread::{self, JoinHandle};

/// `count` in 10 ns, one at once.
fn quota(count: u64, units_per_token: u64) -> Quota {
    Quota::new(count, Duration::from_nanos(10))
        .and_then(|quota| quota.try_burst(1)?.units_per_token(units_per_token))
        .expect("a quota within range")
}

fn bucket(quota: Quota) -> Arc<TokenBucket> {
    let builder = TokenBucket::builder(quota).clock(ManualClock::new());
    Arc::new(builder.build().expect("within range"))
}

fn change(bucket: &Arc<TokenBucket>, to: Quota) -> JoinHandle<()> {
    let bucket = Arc::clone(bucket);
    thread::spawn(move || bucket.set_quota(to))
}

/// What the second is told for stands, so nothing comes back from under it, in whichever units it was made.
fn reserve_while_units_change(from: u64, to: u64) {
    loom::model(move || {
        let bucket = bucket(quota(1, from));
        let first = bucket.reserve().expect("it is there");
        let changer = change(&bucket, quota(1, to));
        let second = bucket.reserve().expect("it will be there");
        assert!(second.at() >= Timestamp::from_nanos(10));
        changer.join().expect("no panic");
        assert_eq!(first.cancel(), 0);
    });
}

#[test]
fn model_c5_a_reservation_in_smaller_units_is_counted() {
    reserve_while_units_change(1, 2);
}

#[test]
fn model_c5_a_reservation_in_larger_units_is_counted() {
    reserve_while_units_change(4, 2);
}

/// Two are told the same nanosecond, and one of them stands.
#[test]
fn model_c1_a_change_knows_of_who_was_told_while_another_cancels() {
    loom::model(|| {
        let bucket = bucket(quota(20, 1));
        let _now = bucket.reserve().expect("it is there");
        let told = [(); 2].map(|()| bucket.reserve().expect("it will be there"));
        let end = told[1].at();
        assert!(told.iter().all(|turn| turn.at() == end));
        let changer = change(&bucket, quota(200, 1));
        let [cancelled, _stands] = told;
        assert_eq!(cancelled.cancel(), 0);
        changer.join().expect("no panic");
        assert_eq!(bucket.at(end).take_up_to(1), 0);
    });
}
