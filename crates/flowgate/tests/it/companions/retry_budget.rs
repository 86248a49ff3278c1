//! How many retries a budget grants, on a clock that is moved by hand; and against fractions.

use fastrand::Rng;
use flowgate::{ManualClock, RetryBudget, Timestamp};
use num_rational::Ratio;
use std::time::Duration;

fn budget(share_permille: u32, min_per_second: u32, capacity: u32) -> (ManualClock, RetryBudget) {
    let time = ManualClock::new();
    let budget = RetryBudget::builder()
        .share_permille(share_permille)
        .min_per_second(min_per_second)
        .capacity(capacity)
        .clock(&time)
        .build()
        .expect("settings");
    (time, budget)
}

fn withdraw_all(budget: &RetryBudget) -> usize {
    std::iter::from_fn(|| budget.try_withdraw().ok()).count()
}

#[test]
fn c1_retries_are_a_share_of_the_deposits() {
    for (share, deposits, retries) in [
        (100, 9, 0),
        (100, 10, 1),
        (100, 1000, 50), // the capacity
        (1000, 7, 7),
        (1, 999, 0),
        (1, 1000, 1),
        (333, 3, 0),
        (334, 3, 1),
        (0, 1000, 0),
    ] {
        let (_, budget) = budget(share, 0, 50);
        assert_eq!(withdraw_all(&budget), 50, "it begins full");
        (0..deposits).for_each(|_| budget.deposit());
        assert_eq!(budget.balance(), retries, "{deposits} at {share}");
        assert_eq!(withdraw_all(&budget) as u64, retries);
    }
}

#[test]
fn c3_a_refusal_names_the_exact_time() {
    for per_second in [1, 3, 7, 1_000_000] {
        let (time, budget) = budget(137, per_second, 2);
        withdraw_all(&budget);
        budget.deposit();
        let wait = budget.try_withdraw().expect_err("spent").retry_after();
        let wait = wait.expect("a time");
        time.advance(wait - Duration::from_nanos(1));
        assert!(budget.try_withdraw().is_err(), "{per_second} per second");
        time.advance(Duration::from_nanos(1));
        assert!(budget.try_withdraw().is_ok(), "{per_second} per second");
    }
    let (_, budget) = budget(100, 0, 1);
    withdraw_all(&budget);
    let denied = budget.try_withdraw().expect_err("spent");
    assert!(denied.is_busy() && denied.retry_after().is_none());
}

#[test]
fn c4_a_clock_that_runs_backward_adds_nothing() {
    let (time, budget) = budget(100, 1, 10);
    time.set(Timestamp::from_nanos(100_000_000_000));
    withdraw_all(&budget);
    time.set(Timestamp::ORIGIN);
    let denied = budget.try_withdraw().expect_err("spent");
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(101)));
    (0..10).for_each(|_| budget.deposit());
    assert!(budget.try_withdraw().is_ok());
    time.set(Timestamp::from_nanos(100_000_000_000));
    assert!(budget.try_withdraw().is_err());
    time.set(Timestamp::MAX);
    assert_eq!(withdraw_all(&budget), 10);
}

#[test]
fn what_has_accrued_is_credited_at_the_old_settings() {
    let (time, budget) = budget(100, 1, 10);
    withdraw_all(&budget);
    time.advance(Duration::from_secs(3));
    budget.set_min_per_second(0).expect("a rate");
    time.advance(Duration::from_secs(60));
    assert_eq!(budget.balance(), 3);
    budget.set_min_per_second(2).expect("a rate");
    time.advance(Duration::from_secs(2));
    assert_eq!(budget.balance(), 7);
    budget.set_capacity(5).expect("a capacity");
    assert_eq!(budget.balance(), 5);
    budget.set_capacity(1_000).expect("a capacity");
    time.advance(Duration::from_secs(1));
    // Nothing was cut from what nothing was done with; two have accrued.
    assert_eq!(budget.balance(), 7);
    budget.set_share_permille(1000).expect("a share");
    budget.deposit();
    assert_eq!(budget.balance(), 8);
    assert!(budget.set_share_permille(1001).is_err());
    assert!(budget.set_min_per_second(1_000_001).is_err());
    assert!(budget.set_capacity(0).is_err());
}

/// Any history of operations, against fractions.
#[test]
fn c8_the_balance_is_exact() {
    for seed in 0..20 {
        let mut random = Rng::with_seed(seed);
        let (mut share, mut per_second) = (random.u32(..=1000), random.u32(..=1000));
        let capacity = random.u32(1..=20);
        let (time, budget) = budget(share, per_second, capacity);
        let most = Ratio::from(i128::from(capacity));
        let mut exact = most;
        for _ in 0..2_000 {
            let ns = random.u64(..20_000_000);
            time.advance(Duration::from_nanos(ns));
            exact += Ratio::new(i128::from(per_second) * i128::from(ns), 1_000_000_000);
            exact = exact.min(most);
            match random.u32(..20) {
                0 => {
                    share = random.u32(..=1000);
                    budget.set_share_permille(share).expect("a share");
                }
                1 => {
                    per_second = random.u32(..=1000);
                    budget.set_min_per_second(per_second).expect("a rate");
                }
                2..=9 => {
                    budget.deposit();
                    exact = (exact + Ratio::new(i128::from(share), 1000)).min(most);
                }
                _ => {
                    let is_granted = exact >= Ratio::from(1);
                    assert_eq!(budget.try_withdraw().is_ok(), is_granted, "seed {seed}");
                    if is_granted {
                        exact -= Ratio::from(1);
                    }
                }
            }
            let balance = exact.floor().to_integer();
            assert_eq!(i128::from(budget.balance()), balance, "seed {seed}");
        }
    }
}

#[test]
fn c1_threads_share_one_balance() {
    let (_, budget) = budget(250, 0, 1000);
    let retries: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let round = |_| {
                        budget.deposit();
                        usize::from(budget.try_withdraw().is_ok())
                    };
                    (0..5_000).map(round).sum::<usize>()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    });
    let left = withdraw_all(&budget);
    // 1,000, and a quarter of 20,000, less what a full budget had no room for.
    assert!(retries + left <= 6_000, "{retries} and {left}");
    assert!(retries + left >= 5_998, "{retries} and {left}");
}
