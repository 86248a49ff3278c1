//! loom models of changes of quota: a caller reserves, cancels, or decides by a time from before the change, meanwhile.
//!
//! Run by `ci/loom.sh`. The clock stands still at its origin.

use super::{Carry, TokenBucket};
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
    thread::spawn(move || bucket.set_quota_with(to, Carry::Kept))
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

/// In the word of 64 bits, and in that of 128.
const LAYOUTS: [&str; 2] = ["1/10ns burst 1", "999999937/day burst 1000000000"];

/// Takes all there is at the origin, and has it back at the instant that this returns.
fn drained(quota: &str) -> (Arc<TokenBucket>, Timestamp) {
    let bucket = bucket(quota.parse().expect("a quota within range"));
    let burst = bucket.take_up_to(u64::MAX);
    let full_at = Timestamp::ORIGIN + bucket.snapshot().reset_after;
    assert!(burst > 0 && bucket.available() == 0);
    (bucket, full_at)
}

/// The bucket is full again when its quota becomes a slow one, by which the origin was not long ago.
#[test]
fn model_c4_a_time_from_before_a_change_adds_no_credit() {
    for quota in LAYOUTS {
        // The parameters are overwritten word by word, which has two threads interleave in too many ways to explore all.
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let (bucket, full_at) = drained(quota);
            let changed = Arc::clone(&bucket);
            let changer = thread::spawn(move || {
                let quota = Quota::per_hour(1).burst(1);
                changed.at(full_at).set_quota(quota).unwrap();
            });
            assert!(bucket.at(Timestamp::ORIGIN).try_acquire().is_err());
            assert_eq!(bucket.at(Timestamp::ORIGIN).take_up_to(1), 0);
            changer.join().expect("no panic");
            assert!(bucket.at(Timestamp::ORIGIN).try_acquire().is_err());
            assert!(bucket.at(full_at).try_acquire().is_ok());
        });
    }
}

/// Between the two, nobody takes anything.
#[test]
fn model_c4_a_time_from_before_two_changes_adds_no_credit() {
    loom::model(|| {
        let (bucket, full_at) = drained(LAYOUTS[0]);
        bucket
            .at(full_at)
            .set_quota(Quota::per_hour(1).burst(1))
            .unwrap();
        let changed = Arc::clone(&bucket);
        let changer = thread::spawn(move || {
            changed
                .at(full_at)
                .set_quota(Quota::per_day(1).burst(1))
                .unwrap();
        });
        assert!(bucket.at(Timestamp::ORIGIN).try_acquire().is_err());
        changer.join().expect("no panic");
        assert!(bucket.at(Timestamp::ORIGIN).try_acquire().is_err());
        assert!(bucket.at(full_at).try_acquire().is_ok());
    });
}
