//! loom models of the tally: every interleaving of calls and of the clock. Run by `ci/loom.sh`.

use super::tally::{Policy, Tally};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const INTERVAL_NS: u64 = 10;

const fn policy(first: u64, every: u64, interval_ns: u64) -> Policy {
    Policy {
        first,
        every,
        interval_ns,
    }
}

/// What a thread's calls came to: how many spoke, and the silent ones that they were told of.
#[derive(Default)]
struct Sum {
    spoke: u64,
    told: u64,
}

fn calls(shared: &(Tally, AtomicU64), policy: &Policy, count: u64) -> Sum {
    let mut sum = Sum::default();
    for _ in 0..count {
        let told = shared.0.check(policy, || shared.1.load(Ordering::SeqCst));
        sum.spoke += u64::from(told.is_some());
        sum.told += told.unwrap_or(0);
    }
    sum
}

/// `threads` beside the one that moves the clock by an interval and calls once more; all with `each` calls.
/// Returns how many calls spoke, after checking that no silent call is lost or told twice.
fn explore(policy: Policy, threads: u64, each: u64, check: fn(spoke: u64)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let shared = Arc::new((Tally::new(), AtomicU64::new(1)));
        let others: Vec<_> = (0..threads)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || calls(&shared, &policy, each))
            })
            .collect();
        shared.1.fetch_add(INTERVAL_NS, Ordering::SeqCst);
        let mut sum = calls(&shared, &policy, 1);
        for other in others {
            let other = other.join().expect("no panic");
            sum.spoke += other.spoke;
            sum.told += other.told;
        }
        let made = threads * each + 1;
        assert_eq!(
            sum.spoke + sum.told + shared.0.silent(),
            made,
            "silent calls were lost or told twice"
        );
        check(sum.spoke);
    });
}

#[test]
fn c1_one_call_speaks_per_interval() {
    // One at the first instant, or none if all calls come after the clock has moved; one after it.
    explore(policy(0, 0, INTERVAL_NS), 2, 2, |spoke| {
        assert!((1..=2).contains(&spoke), "{spoke} spoke");
    });
}

#[test]
fn c1_as_many_speak_as_the_numbers_say() {
    explore(policy(2, 0, 0), 2, 2, |spoke| assert_eq!(spoke, 2));
    explore(policy(0, 2, 0), 2, 2, |spoke| assert_eq!(spoke, 3)); // 1, 3 and 5 of 5
    explore(policy(0, 0, 0), 2, 2, |spoke| assert_eq!(spoke, 1));
}

#[test]
fn c1_an_interval_and_numbers_add_up() {
    // The first, and at most one more because an interval has passed.
    explore(policy(1, 0, INTERVAL_NS), 2, 2, |spoke| {
        assert!((1..=2).contains(&spoke), "{spoke} spoke");
    });
    // Calls 1, 3 and 5, and at most one more.
    explore(policy(0, 2, INTERVAL_NS), 2, 2, |spoke| {
        assert!((3..=4).contains(&spoke), "{spoke} spoke");
    });
}
