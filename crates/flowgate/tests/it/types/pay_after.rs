//! The next caller pays: Guava's tables for smooth bursts, and what flowgate promises beyond them.

use flowgate::{Limiter, ManualClock, PayAfter, Quota, TokenBucket};
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// `RateLimiter.create(rate)`: one second's worth of burst, empty to begin with, unlimited debt.
fn guava(text: &str, time: &ManualClock) -> PayAfter {
    TokenBucket::builder(text.parse().expect("a quota"))
        .clock(time)
        .initial_tokens(0)
        .max_debt(1_000_000)
        .build()
        .expect("a limiter")
        .pay_after()
}

/// `acquire(n)`: waits for its turn, and tells how long that was.
fn acquire(limiter: &PayAfter, time: &ManualClock, n: u64) -> Duration {
    let at = limiter.reserve_n(n).expect("a turn").at();
    let wait = at.saturating_duration_since(time.now());
    time.advance(wait);
    wait
}

/// Rates; then U = let time pass, A = acquire n and expect a wait, S = set the rate. In milliseconds.
enum Do {
    U(u64),
    A(u64, u64),
    S(&'static str),
}
use Do::{A, S, U};

#[rustfmt::skip]
const GUAVA: &[(&str, &str, &[Do])] = &[
    ("testAcquire",             "5/s", &[A(1, 0), A(1, 200), A(1, 200)]),
    ("testAcquireAndUpdate",    "5/s", &[A(1, 0), U(200), A(1, 0), A(1, 200)]),
    ("testAcquireReturnValue",  "5/s", &[A(1, 0), U(400), A(1, 0), A(1, 0), A(1, 200)]),
    ("testBurst",               "5/s", &[U(1000), U(1000), A(1, 0), A(1, 0), A(3, 0), A(1, 0), A(1, 200)]),
    ("testAcquireParameter",    "1/s", &[A(1, 0), A(1, 1000), A(2, 1000), A(4, 2000), A(8, 4000), A(1, 8000)]),
    // Guava answers 1000 to the first after the change, because it keeps the debt as a time. flowgate keeps
    // it as the token that is owed, which flows in sooner at the higher rate: kept as a time it would
    // let more through than burst + what flows in, when the rate is lowered.
    ("testSetRate",             "1/s", &[A(1, 0), A(1, 1000), S("2/s"), A(1, 500), A(2, 500), A(4, 1000), A(1, 2000)]),
];

#[test]
fn c3_guava_smooth_bursty_to_the_nanosecond() {
    for (name, quota, steps) in GUAVA {
        let time = ManualClock::new();
        let limiter = guava(quota, &time);
        for (index, step) in steps.iter().enumerate() {
            match step {
                U(ms) => time.advance(*ms as u32 * MS),
                A(n, ms) => assert_eq!(
                    acquire(&limiter, &time, *n),
                    *ms as u32 * MS,
                    "{name}, step {index}"
                ),
                S(quota) => limiter.set_quota(quota.parse().unwrap()).unwrap(),
            }
        }
    }
}

#[test]
fn c3_guava_try_acquire_with_and_without_patience() {
    let time = ManualClock::new();
    let limiter = guava("5/s", &time);
    let within = |ms: u32| limiter.reserve_within(ms * MS).is_ok();
    // testTryAcquire_noWaitAllowed
    assert!(limiter.try_acquire().is_ok());
    assert!(limiter.try_acquire().is_err() && !within(0));
    time.advance(100 * MS);
    assert!(limiter.try_acquire().is_err());
    // testTryAcquire_someWaitAllowed
    let time = ManualClock::new();
    let limiter = guava("5/s", &time);
    let within = |ms: u32| limiter.reserve_within(ms * MS).is_ok();
    assert!(within(0) && within(200) && !within(100));
    time.advance(100 * MS);
    assert!(within(100 + 200) && !within(0));
    // testTryAcquire_overflow
    let time = ManualClock::new();
    let limiter = guava("5/s", &time);
    assert!(limiter.reserve_within(Duration::ZERO).is_ok());
    time.advance(100 * MS);
    assert!(limiter.reserve_within(Duration::MAX).is_ok());
    // testTryAcquire_negative: five at once, then nothing for 900 of 1000 ms
    let time = ManualClock::new();
    let limiter = guava("5/s", &time);
    assert!(limiter.reserve_n_within(5, Duration::ZERO).is_ok());
    time.advance(900 * MS);
    assert!(limiter.reserve_within(Duration::ZERO).is_err());
    time.advance(100 * MS);
    assert!(limiter.reserve_within(Duration::ZERO).is_ok());
}

#[test]
fn c3_a_refusal_says_when_the_debt_is_paid() {
    let time = ManualClock::new();
    let limiter = guava("10/s", &time);
    limiter.try_acquire_n(7).unwrap();
    let wait = limiter
        .try_acquire_n(1_000)
        .unwrap_err()
        .retry_after()
        .unwrap();
    assert_eq!(wait, 700 * MS);
    time.advance(wait - Duration::from_nanos(1));
    assert!(limiter.try_acquire_n(1_000).is_err());
    time.advance(Duration::from_nanos(1));
    assert!(limiter.try_acquire_n(1_000).is_ok());
}

#[test]
fn c1_the_debt_has_a_bound() {
    let time = ManualClock::new();
    let limiter = TokenBucket::builder("10/s burst 5".parse().unwrap())
        .clock(&time)
        .max_debt(3)
        .build()
        .unwrap()
        .pay_after();
    let denied = limiter.try_acquire_n(9).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "9 can never be granted: the maximum is 8"
    );
    limiter.try_acquire_n(8).unwrap();
    // 4 while 3 are owed is too deep now, and for as long as less than one is there.
    assert_eq!(
        limiter.try_acquire_n(4).unwrap_err().retry_after(),
        Some(400 * MS)
    );
    // One that waits waits for as long, not only for the debt.
    assert_eq!(limiter.reserve_n(4).unwrap().at().as_nanos(), 400_000_000);
}

#[test]
fn c5_the_last_reservation_comes_back_whole_and_no_other() {
    let time = ManualClock::new();
    let limiter = guava("10/s", &time);
    let first = limiter.reserve_n(5).unwrap();
    let second = limiter.reserve_n(2).unwrap();
    assert_eq!(second.at().as_nanos(), 500_000_000);
    let third = limiter.reserve_n(9).unwrap();
    assert_eq!(second.cancel(), 0);
    assert_eq!(third.cancel(), 9);
    assert_eq!(limiter.reserve().unwrap().at().as_nanos(), 700_000_000);
    assert_eq!(first.cancel(), 0);
}

#[test]
fn any_limiter_may_pay_after() {
    let time = ManualClock::new();
    let limiter: &dyn Limiter = &guava("10/s", &time);
    assert!(limiter.try_acquire_n(20).is_ok());
    assert!(limiter.try_acquire().is_err());
    assert_eq!(
        limiter.try_reserve_n(1).unwrap().unwrap().at().as_nanos(),
        2_000_000_000
    );
}

proptest! {
    /// A caller waits exactly for what those before it took beyond what had flowed in.
    #[test]
    fn c1_c2_c3_a_turn_comes_when_all_before_it_is_paid(
        burst in 1_u64..6,
        steps in prop::collection::vec((0_u64..40, 1_u64..9), 1..40),
    ) {
        const NS_PER_TOKEN: u64 = 7;
        let time = ManualClock::new();
        let limiter = TokenBucket::builder(Quota::spacing(Duration::from_nanos(NS_PER_TOKEN)).unwrap().burst(burst))
            .clock(&time)
            .max_debt(100)
            .build()
            .unwrap()
            .pay_after();
        // In nanoseconds' worth of tokens: what is in stock, and when the next may go.
        let (mut stock, mut free_at, mut now) = (burst * NS_PER_TOKEN, 0_u64, 0_u64);
        for (later, n) in steps {
            now += later;
            time.advance(Duration::from_nanos(later));
            if now > free_at {
                stock = (stock + (now - free_at)).min(burst * NS_PER_TOKEN);
                free_at = now;
            }
            let at = free_at;
            let cost = n * NS_PER_TOKEN;
            let from_stock = stock.min(cost);
            stock -= from_stock;
            free_at += cost - from_stock;
            prop_assert_eq!(limiter.reserve_n(n).unwrap().at().as_nanos(), at);
        }
    }
}

#[test]
fn c1_a_faster_quota_does_not_forgive_the_debt_of_those_who_wait() {
    let time = ManualClock::new();
    let limiter = TokenBucket::builder("1/s burst 1".parse().unwrap())
        .clock(&time)
        .max_debt(10)
        .build()
        .unwrap()
        .pay_after();
    let _first = limiter.reserve_n(5).unwrap();
    let second = limiter.reserve_n(5).unwrap();
    limiter.set_quota("10/s burst 1".parse().unwrap()).unwrap();
    time.set(second.at());
    assert!(limiter.try_acquire_n(5).is_err(), "10 at one instant");
    time.advance(500 * MS);
    assert!(limiter.try_acquire_n(5).is_ok());
}

#[test]
fn c5_what_comes_back_is_what_is_said_to_come_back() {
    let per_6_ns = Quota::spacing(Duration::from_nanos(6)).unwrap();
    let limiter = TokenBucket::builder(per_6_ns)
        .clock(ManualClock::new())
        .max_debt(2)
        .build()
        .unwrap()
        .pay_after();
    let at = |ns| flowgate::Timestamp::from_nanos(ns);
    let mut admitted = 2 - limiter.at(at(0)).reserve_n(2).unwrap().cancel_at(at(7));
    for (ns, n) in [(7, 1), (9, 2)] {
        admitted += n * u64::from(limiter.at(at(ns)).try_acquire_n(n).is_ok());
    }
    // Burst, the largest that was overdrawn, and one and a half that flow in.
    assert!(admitted <= 1 + 2 + 1, "{admitted} in 9 ns");
}

#[test]
fn c5_a_cancelled_reservation_is_in_nobodys_way() {
    let time = ManualClock::new();
    let limiter = guava("1/s burst 1", &time);
    limiter.try_acquire_n(5).unwrap();
    assert_eq!(limiter.reserve_n(2).unwrap().cancel(), 2);
    assert_eq!(limiter.refund(3), 3);
}

#[test]
fn what_was_done_already_is_a_debt_or_else_what_there_is() {
    let limiter = TokenBucket::builder("10/h".parse().unwrap()).clock(ManualClock::new());
    let limiter = limiter.build().unwrap().pay_after();
    limiter.charge(4);
    assert_eq!(limiter.available(), 6);
    limiter.charge(17); // more than it may owe
    assert_eq!(limiter.available(), 0);
    assert!(limiter.try_acquire_n(10).is_ok(), "there is no debt yet");
    limiter.charge(1);
    assert_eq!(limiter.refund(20), 20);
}
