//! loom models of the record: every interleaving of outcomes, of the clock, and of judgments. Run by `ci/loom.sh`.

use super::record::Record;
use super::share::{Rules, WHOLE};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// Buckets of 10 ns; the window is two.
const RULES: Rules = Rules {
    bucket_ns: 10,
    window: 2,
    recent: 1,
    min_requests: 1,
    multiplier_permille: 2000,
    probes: WHOLE / 4,
};

fn explore(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// An outcome at the time that the clock shows.
fn outcome(record: &Record, clock: &AtomicU64, is_accepted: bool) {
    let bucket = record.look(&RULES, clock.load(Ordering::SeqCst)).judged;
    record.count(bucket, is_accepted);
}

#[test]
fn no_outcome_is_lost_and_none_is_counted_twice() {
    explore(|| {
        let shared = Arc::new((Record::new(&RULES), AtomicU64::new(100)));
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                outcome(&shared.0, &shared.1, true);
                outcome(&shared.0, &shared.1, false);
            }
        });
        // Meanwhile the next bucket begins.
        shared.1.store(110, Ordering::SeqCst);
        outcome(&shared.0, &shared.1, true);
        other.join().expect("no panic");
        assert_eq!(shared.0.counts(RULES.window, 12), [3, 2]);
    });
}

#[test]
fn a_bucket_is_judged_once_however_many_look() {
    explore(|| {
        let record = Arc::new(Record::new(&RULES));
        assert_eq!(record.look(&RULES, 100).judged, 10);
        record.count(10, true);
        (0..3).for_each(|_| record.count(10, false));
        let other = thread::spawn({
            let record = Arc::clone(&record);
            move || record.look(&RULES, 110)
        });
        // A thread that counts in a bucket that has been judged changes nothing for the others.
        record.count(11, false);
        let here = record.look(&RULES, 115);
        assert_eq!((here.judged, here.share), (11, WHOLE / 2));
        assert_eq!(other.join().expect("no panic"), here);
    });
}

#[test]
fn of_the_requests_of_all_threads_exactly_the_share_is_sent() {
    explore(|| {
        let record = Arc::new(Record::new(&RULES));
        let two = |record: &Record| (0..2).filter(|_| record.is_next_sent(WHOLE / 2)).count();
        let other = thread::spawn({
            let record = Arc::clone(&record);
            move || two(&record)
        });
        let here = two(&record);
        assert_eq!(here + other.join().expect("no panic"), 2);
    });
}
