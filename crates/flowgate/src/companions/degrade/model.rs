//! loom models of the record: every interleaving of calls, of the clock, and of judgements. Run by `ci/loom.sh`.

use super::judge::{Counts, Rules};
use super::record::Record;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// Buckets of 10 ns; a call is slow after one, the window is two.
const RULES: Rules = Rules {
    bucket_ns: 10,
    slow_ns: 10,
    slow: 1,
    window: 2,
    min_calls: 1,
    enter_permille: 500,
    exit_permille: 100,
    dwell: 1,
    recovery: 1,
    levels: 3,
};

fn explore(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// A call at the time that the clock shows, which is ended in time if `is_fast`. Whether it was counted.
fn call(record: &Record, clock: &AtomicU64, is_fast: bool) -> bool {
    let bucket = record.look(&RULES, clock.load(Ordering::SeqCst)).judged;
    let is_counted = record.begin(bucket);
    if is_counted && is_fast {
        record.end_fast(bucket);
    }
    is_counted
}

#[test]
fn no_call_is_lost_and_none_is_counted_twice() {
    explore(|| {
        let shared = Arc::new((Record::new(RULES.reach()), AtomicU64::new(100)));
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                assert!(call(&shared.0, &shared.1, true));
                assert!(call(&shared.0, &shared.1, false));
            }
        });
        // Meanwhile the next bucket begins.
        shared.1.store(110, Ordering::SeqCst);
        assert!(call(&shared.0, &shared.1, true));
        other.join().expect("no panic");
        assert_eq!(shared.0.counts(10..12), Counts { begun: 3, fast: 2 });
        assert_eq!(shared.0.look(&RULES, 0).judged, 11);
    });
}

#[test]
fn a_call_that_is_ignored_or_recycled_leaves_the_others() {
    explore(|| {
        let record = Arc::new(Record::new(RULES.reach()));
        assert!(record.begin(10));
        let other = thread::spawn({
            let record = Arc::clone(&record);
            // The same place of the ring, a round later.
            move || assert!(record.begin(14))
        });
        record.end_fast(10);
        assert!(record.begin(14));
        record.forget(10);
        other.join().expect("no panic");
        assert_eq!(record.counts(10..11), Counts::default());
        assert_eq!(record.counts(14..15), Counts { begun: 2, fast: 0 });
        assert!(!record.begin(10));
    });
}

#[test]
fn a_bucket_is_judged_once_however_many_look() {
    explore(|| {
        let record = Arc::new(Record::new(RULES.reach()));
        assert_eq!(record.look(&RULES, 100).judged, 10);
        assert!(record.begin(10));
        let look = |record: &Record| record.look(&RULES, 120);
        let other = thread::spawn({
            let record = Arc::clone(&record);
            move || look(&record)
        });
        let here = look(&record);
        let there = other.join().expect("no panic");
        assert_eq!((here.level, here.since, here.judged), (1, 12, 12));
        assert_eq!(there, here);
        // One that is late finds the same.
        assert_eq!(record.look(&RULES, 90), here);
    });
}

#[test]
fn c4_what_has_been_judged_stays_so() {
    explore(|| {
        let record = Arc::new(Record::new(RULES.reach()));
        assert!(record.begin(0));
        let other = thread::spawn({
            let record = Arc::clone(&record);
            move || record.look(&RULES, 20)
        });
        let here = record.look(&RULES, 30);
        let there = other.join().expect("no panic");
        assert!(here.judged == 3 && there.judged >= 2);
        assert_eq!(record.look(&RULES, 0), here);
        assert_eq!((here.level, here.since), (1, 2));
    });
}

#[test]
fn a_call_that_ends_in_time_is_no_reason_to_step_up() {
    explore(|| {
        let record = Arc::new(Record::new(RULES.reach()));
        let bucket = record.look(&RULES, 100).judged;
        assert!(record.begin(bucket));
        let other = thread::spawn({
            let record = Arc::clone(&record);
            move || record.look(&RULES, 110).level
        });
        record.end_fast(bucket);
        assert_eq!(other.join().expect("no panic"), 0);
        assert_eq!(record.look(&RULES, 200).level, 0);
    });
}
