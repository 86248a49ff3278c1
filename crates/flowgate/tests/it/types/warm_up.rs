//! `WarmUp` from outside: the promise over whole histories, clocks, amounts, giving back, threads.
//!
//! That each step is Guava's is tested beside the code, where the state can be seen.

use flowgate::{Limiter, ManualClock, Quota, Timestamp, WarmUp};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn limiter(text: &str, warm_up: Duration, cold_factor: u32) -> WarmUp {
    WarmUp::builder(quota(text))
        .warm_up(warm_up)
        .cold_factor(cold_factor)
        .clock(ManualClock::new())
        .build()
        .expect("a limiter")
}

fn ns(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// Guava's definitions in floating point, good to far less than the nanosecond that histories are compared to.
struct Guava {
    stable_ns: f64,
    cold_factor: f64,
    warm_up_ns: f64,
    stored: f64,
    next_free_ns: f64,
}

impl Guava {
    fn cold(per_s: f64, warm_up: Duration, cold_factor: u32) -> Self {
        let mut guava = Self {
            stable_ns: 1e9 / per_s,
            cold_factor: f64::from(cold_factor),
            warm_up_ns: warm_up.as_nanos() as f64,
            stored: 0.0,
            next_free_ns: 0.0,
        };
        guava.stored = guava.max();
        guava
    }

    fn threshold(&self) -> f64 {
        0.5 * self.warm_up_ns / self.stable_ns
    }

    fn max(&self) -> f64 {
        self.threshold() + 2.0 * self.warm_up_ns / (self.stable_ns * (1.0 + self.cold_factor))
    }

    /// The cost of `n` at `now_ns`, which is a time that was granted.
    fn grant(&mut self, now_ns: f64, n: f64) {
        let idle_ns = (now_ns - self.next_free_ns).max(0.0);
        let (max, threshold) = (self.max(), self.threshold());
        self.stored = (self.stored + idle_ns * max / self.warm_up_ns).min(max);
        let drawn = self.stored.min(n);
        let above = (self.stored - threshold).max(0.0);
        let above_drawn = above.min(drawn);
        let slope = (self.cold_factor - 1.0) * self.stable_ns / (max - threshold);
        let mean_ns = self.stable_ns + slope * (above - above_drawn / 2.0);
        let cost_ns = above_drawn * mean_ns + (n - above_drawn) * self.stable_ns;
        self.next_free_ns = self.next_free_ns.max(now_ns) + cost_ns;
        self.stored -= drawn;
    }
}

proptest! {
    /// Whoever takes as soon as it is allowed, with pauses, is granted when Guava's costs are paid: to 2 × cold
    /// factor ticks, here at most as many nanoseconds, for each grant so far.
    #[test]
    fn c1_c2_in_a_history_each_grant_waits_for_the_costs_before_it(
        per_s in 1_u64..5_000,
        warm_up_ms in 1_u64..20_000,
        cold_factor in 1_u32..8,
        steps in prop::collection::vec((1_u64..50, 0_u64..3, 0_u64..4_000_000_000), 1..40),
    ) {
        let warm_up = Duration::from_millis(warm_up_ms);
        let limiter = limiter(&format!("{per_s}/s burst 50"), warm_up, cold_factor);
        let mut guava = Guava::cold(per_s as f64, warm_up, cold_factor);
        let mut now_ns = 0;
        for (index, &(n, pause, pause_ns)) in steps.iter().enumerate() {
            if pause == 0 {
                now_ns += pause_ns;
            }
            let granted_ns = loop {
                match limiter.at(ns(now_ns)).try_acquire_n(n) {
                    Ok(()) => break now_ns as f64,
                    Err(denied) => now_ns += denied.retry_after().expect("within the burst").as_nanos() as u64,
                }
            };
            let bound_ns = 2.0 * f64::from(cold_factor) * (index + 1) as f64;
            prop_assert!(granted_ns > guava.next_free_ns - bound_ns, "{granted_ns}, paid at {}", guava.next_free_ns);
            if pause > 0 && index > 0 {
                let late_ns = granted_ns - guava.next_free_ns;
                prop_assert!(late_ns < bound_ns, "{granted_ns}, paid {late_ns} before");
            }
            guava.grant(granted_ns, n as f64);
        }
    }

    #[test]
    fn c3_retry_after_is_exact(
        count in 1_u64..1_000_000_000,
        day: bool,
        warm_up_ns in 0_u64..1_000_000_000,
        n in 1_u64..1_000,
        now_ns in 0_u64..1 << 60,
        before_ns in 0_u64..1 << 40,
    ) {
        let quota = if day { Quota::per_day(count) } else { Quota::per_second(count) };
        let limiter = WarmUp::builder(quota.burst(1_000))
            .warm_up(Duration::from_nanos(warm_up_ns))
            .clock(ManualClock::new())
            .build()
            .expect("a limiter");
        limiter.at(ns(now_ns)).try_acquire_n(n).expect("it starts free");
        let asked_ns = now_ns.saturating_sub(before_ns);
        if let Err(denied) = limiter.at(ns(asked_ns)).try_acquire_n(n) {
            let wait_ns = denied.retry_after().expect("within the burst").as_nanos() as u64;
            prop_assert!(wait_ns > 0);
            prop_assert!(limiter.at(ns(asked_ns + wait_ns - 1)).try_acquire_n(n).is_err());
            prop_assert_eq!(limiter.at(ns(asked_ns + wait_ns)).available(), 1_000);
            prop_assert_eq!(limiter.at(ns(asked_ns + wait_ns)).try_acquire_n(n), Ok(()));
        } else {
            prop_assert_eq!(asked_ns, now_ns.max(asked_ns));
        }
    }

    #[test]
    fn c4_no_time_and_no_amount_panics_or_wraps(
        count in 1_u64..=1_000_000_000,
        calls in prop::collection::vec((0_u8..8, any::<u64>(), any::<u64>(), 0_u32..64), 1..60),
    ) {
        let limiter = limiter(&format!("{count}/day burst 1000000000"), SECOND, 3);
        for (verb, now, n, shift) in calls {
            let (at, n) = (limiter.at(ns(now)), n >> shift);
            match verb {
                0 => drop(at.reserve_n(n)),
                1 => drop(at.reserve_n(n).map(|reservation| reservation.cancel())),
                2 => drop(at.refund(n)),
                3 => drop(at.take_up_to(n)),
                4 => drop(limiter.set_quota(Quota::per_day(1 + n % 1_000_000_000))),
                5 => drop(at.snapshot()),
                _ => drop(at.try_acquire_n(n)),
            }
        }
    }

    /// A limiter that got units back grants nothing sooner than one from which they were never taken.
    #[test]
    fn c5_what_is_refunded_counts_as_never_taken(
        per_s in 1_u64..2_000,
        warm_up_ms in 0_u64..10_000,
        cold_factor in 1_u32..4,
        before in prop::collection::vec((1_u64..20, 0_u64..2_000_000_000), 0..8),
        (kept, refunded) in (0_u64..20, 1_u64..20),
        refund_after_ns in 0_u64..1_000_000_000,
        after in prop::collection::vec((1_u64..20, 0_u64..2_000_000_000), 1..8),
    ) {
        let new = || limiter(&format!("{per_s}/s burst 100"), Duration::from_millis(warm_up_ms), cold_factor);
        let (with, without) = (new(), new());
        let mut now_ns = 0;
        let take = |limiter: &WarmUp, now_ns: &mut u64, n| {
            *now_ns = (*now_ns).max(limiter.at(ns(*now_ns)).reserve_n(n).expect("a turn").at().as_nanos());
        };
        for &(n, pause_ns) in &before {
            take(&with, &mut now_ns.clone(), n);
            take(&without, &mut now_ns, n);
            now_ns += pause_ns;
        }
        // One request of both, at a time at which it goes at once.
        let (mut at_ns, mut same_ns) = (now_ns, now_ns);
        take(&with, &mut at_ns, kept + refunded);
        take(&without, &mut same_ns, kept);
        prop_assert_eq!(kept == 0 || at_ns == same_ns, true);
        now_ns = at_ns + refund_after_ns;
        let back = with.at(ns(now_ns)).refund(refunded);
        prop_assert!(back <= refunded);
        if back < refunded {
            // What did not come back stays taken.
            return Ok(());
        }
        let (mut with_ns, mut without_ns) = (now_ns, now_ns);
        for &(n, pause_ns) in &after {
            take(&with, &mut with_ns, n);
            take(&without, &mut without_ns, n);
            // Some ticks, which the curve may double with each pause.
            let slack_ns = 10_000;
            prop_assert!(with_ns + slack_ns >= without_ns, "{with_ns} before {without_ns}");
            (with_ns, without_ns) = (with_ns + pause_ns, without_ns + pause_ns);
        }
    }
}

#[test]
fn c4_a_clock_that_runs_backward_stores_nothing() {
    let time = ManualClock::new();
    let limiter = WarmUp::builder(quota("10/s"))
        .warm_up(SECOND)
        .clock(&time)
        .build()
        .expect("a limiter");
    time.advance(100 * SECOND);
    assert!(limiter.try_acquire().is_ok());
    let free = limiter.reserve().expect("a turn").at();
    for back_s in [1, 50, 100] {
        assert!(
            limiter
                .at(ns((100 - back_s) * 1_000_000_000))
                .try_acquire()
                .is_err()
        );
    }
    // As cold as it was: the third of a warm-up costs the same as without looking back.
    let undisturbed = self::limiter("10/s", SECOND, 3);
    let far = undisturbed.at(ns(100 * 1_000_000_000));
    assert!(far.try_acquire().is_ok());
    assert_eq!(far.reserve().expect("a turn").at(), free);
    let next = limiter.at(free).reserve().expect("a turn").at();
    assert_eq!(next, undisturbed.at(free).reserve().expect("a turn").at());
}

#[test]
fn c5_cancel_undoes_the_last_reservation_and_no_other() {
    let limiter = limiter("2/s", 4 * SECOND, 3);
    let starts = |limiter: &WarmUp, n: usize| -> Vec<u64> {
        let at_ms = || limiter.reserve().expect("a turn").at().as_nanos() / 1_000_000;
        (0..n).map(|_| at_ms()).collect()
    };
    assert_eq!(starts(&limiter, 2), [0, 1375]);
    let third = limiter.reserve_n(2).expect("a turn");
    let fourth = limiter.reserve().expect("a turn");
    assert_eq!(fourth.at().as_nanos(), 4_000_000_000);
    assert_eq!(fourth.cancel(), 1);
    assert_eq!(third.cancel(), 2);
    let overtaken = limiter.reserve().expect("a turn");
    assert_eq!(starts(&limiter, 3), [3375, 4000, 4500]);
    assert_eq!(overtaken.cancel(), 0);
    assert_eq!(starts(&limiter, 1), [5000]);

    let before_a_change = limiter.reserve().expect("a turn");
    limiter
        .set_quota(quota("4/s"))
        .expect("a quota for this warm-up");
    assert_eq!(before_a_change.cancel(), 0);
    let none = limiter
        .reserve_n(0)
        .expect("nothing can be had at any time");
    assert_eq!((none.at().as_nanos(), none.cancel()), (0, 0));
}

#[test]
fn c5_nothing_is_refunded_under_a_reservation_or_of_an_earlier_rate() {
    let limiter = limiter("10/s", Duration::ZERO, 3);
    let at = |ms: u64| limiter.at(ns(ms * 1_000_000));
    assert_eq!(at(0).refund(5), 0);
    assert!(at(0).try_acquire_n(10).is_ok());
    assert_eq!(at(450).refund(100), 5);
    assert_eq!(at(450).snapshot().reset_after, Duration::from_millis(50));
    let waiting = at(450).reserve_n(10).expect("a turn");
    assert_eq!(waiting.at(), ns(500_000_000));
    assert_eq!(at(450).refund(5), 0);
    assert_eq!(at(500).refund(5), 0);
    assert_eq!(at(501).refund(5), 5);
    limiter
        .set_quota(quota("20/s"))
        .expect("a quota for this warm-up");
    assert_eq!(at(600).refund(5), 0);
    assert!(at(1_000).try_acquire_n(10).is_ok());
    assert_eq!(at(1_250).refund(100), 5);
    // An older time does not bring back what has been paid since.
    assert_eq!(at(1_000).refund(100), 0);
}

#[test]
fn c5_what_was_taken_cold_comes_back_and_of_an_empty_store_nothing() {
    let cold = limiter("10/s burst 100", SECOND, 3);
    let at = |ms: u64| cold.at(ns(ms * 1_000_000));
    at(0).try_acquire_n(2).expect("it has never been used");
    assert_eq!(at(0).refund(2), 2);
    // To a tick.
    assert!(at(0).snapshot().reset_after <= Duration::from_nanos(1));
    assert!(at(1).try_acquire_n(2).is_ok());
    assert_eq!(at(1).refund(2), 2);
    // So much that nobody can tell how cold they found it.
    at(2).try_acquire_n(100).expect("they have come back");
    assert_eq!(at(2).refund(5), 0);
    // It is always as cold as any other.
    let flat = limiter("10/s burst 100", SECOND, 1);
    flat.at(ns(0))
        .try_acquire_n(100)
        .expect("it has never been used");
    assert_eq!(flat.at(ns(0)).refund(5), 5);
}

#[test]
fn c8_the_stable_rate_never_drifts() {
    for count in [1, 7, 997, 1_000_003, 999_999_937, 1_000_000_000] {
        for (quota, period_ns) in [
            (Quota::per_second(count), 1_000_000_000),
            (Quota::per_day(count), 86_400_000_000_000_u128),
        ] {
            let limiter = WarmUp::builder(quota.burst(1_000))
                .clock(ManualClock::new())
                .build()
                .expect("a limiter");
            let mut taken = 0_u128;
            for n in (1..=1_000).chain([1; 1_000]) {
                let exact = (taken * period_ns).div_ceil(u128::from(count));
                let Ok(reservation) = limiter.reserve_n(n) else {
                    assert!(exact > u128::from(u64::MAX), "{quota} after {taken}");
                    break;
                };
                assert_eq!(
                    u128::from(reservation.at().as_nanos()),
                    exact,
                    "{quota} after {taken}"
                );
                taken += u128::from(n);
            }
        }
    }
}

#[test]
fn amounts() {
    let limiter = WarmUp::builder(quota("10/s burst 4 units 100"))
        .clock(ManualClock::new())
        .build()
        .expect("a limiter");
    assert_eq!(limiter.available(), 400);
    assert_eq!(limiter.try_acquire_n(0), Ok(()));
    let denied = limiter.try_acquire_n(401).unwrap_err();
    assert!(denied.is_never());
    assert_eq!(
        denied.to_string(),
        "401 can never be granted: the maximum is 400"
    );
    assert!(
        limiter
            .reserve_n(401)
            .expect_err("over the burst")
            .is_never()
    );
    assert_eq!(limiter.take_up_to(1_000), 400);
    assert_eq!(limiter.take_up_to(1), 0);
    assert_eq!(limiter.try_acquire_n(0), Ok(()));
    let seen = limiter.snapshot();
    assert_eq!((seen.limit, seen.remaining), (400, 0));
    assert_eq!(seen.reset_after, Duration::from_millis(400));
    // A token is 100 units.
    let limiter: Box<dyn Limiter> = Box::new(limiter);
    assert!(limiter.try_acquire_n_at(ns(400_000_000), 400).is_ok());
    let turn = limiter
        .try_reserve_n(100)
        .expect("it can reserve")
        .expect("a turn");
    assert_eq!(turn.at(), ns(800_000_000));
}

#[test]
fn a_turn_after_the_end_of_time_is_called_that() {
    let limiter = limiter("1/y burst 10", Duration::ZERO, 1);
    let denied = loop {
        if let Err(denied) = limiter.reserve() {
            break denied;
        }
    };
    assert!(denied.is_never());
    assert_eq!(
        denied.to_string(),
        "its turn would come after the end of time, in 584 years"
    );
}

#[test]
fn bad_input_is_refused_with_the_range() {
    let refused = |text: &str, warm_up: Duration, cold_factor| {
        let built = WarmUp::builder(quota(text))
            .warm_up(warm_up)
            .cold_factor(cold_factor)
            .build();
        built.expect_err("out of range").to_string()
    };
    assert_eq!(
        refused("1/s", SECOND, 0),
        "a cold factor of 0 is out of range: 1 to 4294967295"
    );
    assert_eq!(
        refused("999999937/s", Duration::from_secs(60), 3),
        "a warm-up in nanoseconds of 60000000000 is out of range: 0 to 2305843154"
    );
    assert!(
        refused("1/s", Duration::MAX, 3).contains("of 18446744073709551615 is out of range: 0 to ")
    );

    // Refused later, it changes nothing.
    let limiter = limiter("1/s", Duration::from_secs(60), 3);
    assert!(limiter.set_quota(quota("999999937/s")).is_err());
    assert_eq!(limiter.quota(), quota("1/s"));
    assert!(limiter.try_acquire().is_ok());
}

#[test]
fn c1_threads_share_one_limit_while_quota_and_clock_change() {
    let time = ManualClock::new();
    let limiter = WarmUp::builder(quota("1000/s"))
        .warm_up(Duration::from_millis(10))
        .clock(&time)
        .build()
        .expect("a limiter");
    let (granted, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    granted.fetch_add(u64::from(limiter.try_acquire().is_ok()), Ordering::Relaxed);
                }
            });
        }
        for step in 0..2_000 {
            time.advance(Duration::from_micros(500));
            if step % 10 == 0 {
                let rate = if step % 20 == 0 { "500/s" } else { "1000/s" };
                limiter
                    .set_quota(quota(rate))
                    .expect("a quota for this warm-up");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let granted = granted.into_inner();
    assert!(granted <= 1_001, "{granted} in a second");
}
