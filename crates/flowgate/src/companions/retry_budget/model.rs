//! loom models of the balance: every interleaving of deposits, retries and changes. Run by `ci/loom.sh`.

use super::RetryBudget;
use crate::clock::{ManualClock, Timestamp};
use loom::sync::Arc;
use loom::thread;

fn explore(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

fn budget(per_second: u32) -> (ManualClock, Arc<RetryBudget>) {
    let time = ManualClock::new();
    let budget = RetryBudget::builder()
        .share_permille(500)
        .min_per_second(per_second)
        .capacity(2)
        .clock(&time)
        .build()
        .expect("settings");
    (time, Arc::new(budget))
}

#[test]
fn no_deposit_is_lost_and_no_retry_is_granted_twice() {
    explore(|| {
        let (_, budget) = budget(0);
        budget.try_withdraw().expect("it begins with two");
        let other = thread::spawn({
            let budget = Arc::clone(&budget);
            move || {
                budget.deposit();
                u32::from(budget.try_withdraw().is_ok())
            }
        });
        budget.deposit();
        let here = u32::from(budget.try_withdraw().is_ok());
        // One that was left, and one that two deposits paid for.
        assert_eq!(here + other.join().expect("no panic"), 2);
        assert!(budget.try_withdraw().is_err());
    });
}

#[test]
fn what_has_accrued_before_a_change_is_credited_at_the_old_rate() {
    explore(|| {
        let (time, budget) = budget(0);
        budget.try_withdraw().expect("it begins with two");
        budget.try_withdraw().expect("it begins with two");
        // An hour at no retries per second.
        time.set(Timestamp::from_nanos(3_600_000_000_000));
        let other = thread::spawn({
            let budget = Arc::clone(&budget);
            move || budget.set_min_per_second(1).expect("a rate")
        });
        assert!(budget.try_withdraw().is_err());
        other.join().expect("no panic");
        assert!(budget.try_withdraw().is_err());
    });
}
