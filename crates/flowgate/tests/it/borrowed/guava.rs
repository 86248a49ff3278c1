//! The test vectors of Guava's `RateLimiter` with a warm-up, for [`WarmUp`]; each table is named after Guava's test.
//!
//! Guava waits in whole microseconds, cut; a row passes if flowgate waits as long to 1 µs.
//!
//! Not here: smooth bursts (`types/pay_after.rs`, on a `TokenBucket`), and infinite rates, which are not quotas.

use flowgate::{ManualClock, Quota, WarmUp};
use std::time::Duration;

const SECOND_US: u64 = 1_000_000;

/// A = acquire one and expect a wait, U = let time pass, S = set the rate. In microseconds.
#[derive(Clone, Copy)]
enum Do {
    A(u64),
    U(u64),
    S(&'static str),
}
use Do::{A, S, U};

struct Table {
    guava: &'static str,
    rate: &'static str,
    warm_up_s: u64,
    cold_factor: u32,
    steps: &'static [Do],
}

#[rustfmt::skip]
const TABLES: &[Table] = &[
    Table {
        guava: "testWarmUp",
        rate: "2/s",
        warm_up_s: 4,
        cold_factor: 3,
        steps: &[
            // Cold.
            A(0), A(1_375_000), A(1_125_000), A(875_000), A(625_000), A(500_000), A(500_000), A(500_000),
            // Cold again.
            U(500_000), U(4_000_000),
            A(0), A(1_375_000), A(1_125_000), A(875_000), A(625_000), A(500_000), A(500_000), A(500_000),
            // Not so long that it is cold.
            U(500_000), U(2_000_000),
            A(0), A(500_000), A(500_000), A(500_000), A(500_000), A(500_000), A(500_000), A(500_000),
        ],
    },
    Table {
        guava: "testWarmUpWithColdFactor",
        rate: "5/s",
        warm_up_s: 4,
        cold_factor: 10,
        steps: &[
            A(0), A(1_752_500), A(1_257_500), A(762_500), A(300_227), A(200_000), A(200_000), A(200_000),
            U(200_000), U(4_000_000),
            A(0), A(1_752_500), A(1_257_500), A(762_500), A(300_227), A(200_000), A(200_000), A(200_000),
            U(200_000), U(1_000_000),
            A(0), A(200_000), A(200_000), A(200_000), A(200_000), A(200_000), A(200_000), A(200_000),
        ],
    },
    Table {
        guava: "testWarmUpWithColdFactor1",
        rate: "5/s",
        warm_up_s: 4,
        cold_factor: 1,
        steps: &[
            A(0), A(200_000), A(200_000), A(200_000), A(200_000), A(200_000), A(200_000), A(200_000),
            U(340_000),
            A(0), A(200_000), A(200_000), A(200_000), A(200_000), A(200_000), A(200_000), A(200_000),
        ],
    },
    Table {
        guava: "testWarmUpAndUpdate",
        rate: "2/s",
        warm_up_s: 4,
        cold_factor: 3,
        steps: &[
            A(0), A(1_375_000), A(1_125_000), A(875_000), A(625_000), A(500_000), A(500_000), A(500_000),
            U(4_500_000),
            A(0), A(1_375_000), A(1_125_000),
            S("4/s"),
            // The debt of the one before the change; then as warm as before, at the new rate.
            A(875_000), A(343_750), A(281_250), A(250_000), A(250_000),
            U(4_250_000),
            A(0), A(718_750), A(656_250), A(593_750), A(531_250), A(468_750), A(406_250), A(343_750), A(281_250),
            A(250_000), A(250_000),
        ],
    },
    Table {
        guava: "testWarmUpAndUpdateWithColdFactor",
        rate: "5/s",
        warm_up_s: 4,
        cold_factor: 10,
        steps: &[
            A(0), A(1_752_500), A(1_257_500), A(762_500), A(300_227), A(200_000), A(200_000), A(200_000),
            U(4_200_000),
            A(0), A(1_752_500), A(1_257_500),
            S("10/s"),
            A(762_500), A(195_625), A(104_602), A(100_000), A(100_000),
            U(4_100_000),
            A(0), A(938_125), A(814_375), A(690_625), A(566_875), A(443_125), A(319_375), A(195_625), A(104_602),
            A(100_000), A(100_000),
        ],
    },
];

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn limiter(text: &str, warm_up: Duration, cold_factor: u32, time: &ManualClock) -> WarmUp {
    WarmUp::builder(quota(text))
        .warm_up(warm_up)
        .cold_factor(cold_factor)
        .clock(time)
        .build()
        .expect("a limiter")
}

/// `acquire(n)`: waits for its turn, and tells how long that was.
fn acquire(limiter: &WarmUp, time: &ManualClock, n: u64) -> Duration {
    let at = limiter.reserve_n(n).expect("a turn").at();
    let wait = at.saturating_duration_since(time.now());
    time.advance(wait);
    wait
}

#[test]
fn c3_guava_smooth_warming_up_to_the_microsecond() {
    for table in TABLES {
        let time = ManualClock::new();
        let warm_up = Duration::from_secs(table.warm_up_s);
        let limiter = limiter(table.rate, warm_up, table.cold_factor, &time);
        for (index, &step) in table.steps.iter().enumerate() {
            match step {
                U(us) => time.advance(Duration::from_micros(us)),
                S(rate) => limiter
                    .set_quota(quota(rate))
                    .expect("a quota for this warm-up"),
                A(us) => {
                    let (waited, expected) =
                        (acquire(&limiter, &time, 1), Duration::from_micros(us));
                    assert!(
                        waited.abs_diff(expected) <= Duration::from_micros(1),
                        "{}, step {index}: waited {waited:?}, Guava {expected:?}",
                        table.guava
                    );
                }
            }
        }
    }
}

/// `testWeNeverGetABurstMoreThanOneSec` asks for random chunks; so do these.
fn chunks(total: u64, random: &mut impl FnMut() -> u64) -> Vec<u64> {
    let (mut left, mut chunks) = (total, Vec::new());
    while left > 0 {
        let chunk = 1 + random() % left;
        chunks.push(chunk);
        left -= chunk;
    }
    chunks
}

fn xorshift() -> impl FnMut() -> u64 {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    }
}

/// `testTimeToWarmUpIsHonouredEvenWithWeights`: from cold, ten permits in chunks of any size take exactly the warm-up.
#[test]
fn c3_guava_the_warm_up_is_honoured_even_with_weights() {
    let mut random = xorshift();
    for cold_factor in [2, 3, 10] {
        for (rate, tenths_per_s) in [
            ("4/s", 40),
            ("2/s", 20),
            ("1/s", 10),
            ("0.5/s", 5),
            ("0.1/s", 1),
        ] {
            // Half of (1 + cold factor) stable intervals each on the average, for ten of them.
            let warm_up_us =
                (1 + u64::from(cold_factor)) * 10 * 10 * SECOND_US / (2 * tenths_per_s);
            for _ in 0..20 {
                let time = ManualClock::new();
                let quota = format!("{rate} burst 10");
                let limiter = limiter(
                    &quota,
                    Duration::from_micros(warm_up_us),
                    cold_factor,
                    &time,
                );
                for chunk in chunks(10, &mut random) {
                    acquire(&limiter, &time, chunk);
                }
                // To repay the last.
                acquire(&limiter, &time, 1);
                let took = Duration::from_nanos(time.now().as_nanos());
                let warm_up = Duration::from_micros(warm_up_us);
                assert!(
                    took >= warm_up,
                    "{rate}, {cold_factor}: {took:?} of {warm_up:?}"
                );
                assert!(
                    took - warm_up < Duration::from_micros(1),
                    "{rate}, {cold_factor}: {took:?} of {warm_up:?}"
                );
            }
        }
    }
}

/// `testTryAcquire_noWaitAllowed`, `_someWaitAllowed` and `_overflow`, without a warm-up.
#[test]
fn c3_guava_try_acquire_with_and_without_patience() {
    let ms = Duration::from_millis;
    let time = ManualClock::new();
    let none = limiter("5/s", Duration::ZERO, 3, &time);
    assert!(none.try_acquire().is_ok());
    assert!(none.try_acquire().is_err());
    assert!(none.try_acquire().is_err());
    time.advance(ms(100));
    assert!(none.try_acquire().is_err());

    let time = ManualClock::new();
    let some = limiter("5/s", Duration::ZERO, 3, &time);
    assert!(some.reserve_within(Duration::ZERO).is_ok());
    assert!(some.reserve_within(ms(200)).is_ok());
    assert!(some.reserve_within(ms(100)).is_err());
    time.advance(ms(100));
    assert!(some.reserve_within(ms(300)).is_ok());

    let time = ManualClock::new();
    let overflow = limiter("5/s", Duration::ZERO, 3, &time);
    assert!(overflow.reserve_within(Duration::ZERO).is_ok());
    time.advance(ms(100));
    assert!(overflow.reserve_within(Duration::MAX).is_ok());
}

/// `testTryAcquire_negative`, with 0 for the negative patience.
#[test]
fn c3_guava_a_large_request_goes_at_once_and_the_next_pays() {
    let time = ManualClock::new();
    let limiter = limiter("5/s", Duration::ZERO, 3, &time);
    assert!(limiter.try_acquire_n(5).is_ok());
    time.advance(Duration::from_millis(900));
    assert!(limiter.try_acquire().is_err());
    time.advance(Duration::from_millis(100));
    assert!(limiter.try_acquire().is_ok());
}

/// google/guava#2730, #6475: a warm-up of 0 or next to nothing divides zero by zero there, and the limiter is wide
/// open.
#[test]
fn c1_guava_a_warm_up_of_nothing_is_no_hole() {
    for ns in [0, 1, 999, 1_000] {
        let time = ManualClock::new();
        let limiter = limiter("1/s", Duration::from_nanos(ns), 3, &time);
        for _ in 0..5 {
            acquire(&limiter, &time, 1);
        }
        let took = Duration::from_nanos(time.now().as_nanos());
        assert!(took >= Duration::from_secs(4), "warm-up {ns} ns: {took:?}");
        assert!(
            took <= Duration::from_secs(4) + Duration::from_nanos(ns),
            "warm-up {ns} ns: {took:?}"
        );
    }
}

/// google/guava#5290: intervals that are cut to microseconds make 80,000 per second 83,333, and more than a million
/// unlimited.
#[test]
fn c8_guava_rates_that_are_no_whole_microseconds_do_not_drift() {
    for (rate, per_s) in [
        ("80000/s", 80_000),
        ("300k/s", 300_000),
        ("900k/s", 900_000),
        ("1.5M/s", 1_500_000),
    ] {
        let time = ManualClock::new();
        let limiter = limiter(rate, Duration::ZERO, 3, &time);
        let permits = 100_000;
        for _ in 0..=permits {
            acquire(&limiter, &time, 1);
        }
        let exact_ns = (permits * 1_000_000_000_u64).div_ceil(per_s);
        assert_eq!(time.now().as_nanos(), exact_ns, "{rate}");
    }
}

/// google/guava#3552, which is how the curve is defined: polled, it cools by a permit between one that it
/// grants and the next, and stays cold. (The report saw yes, no, yes, no, which begins from half warm.)
#[test]
fn guava_polled_with_pauses_it_does_not_get_warm() {
    let time = ManualClock::new();
    let limiter = limiter("10/s", Duration::from_millis(500), 3, &time);
    let mut admitted = 0;
    for _ in 0..100 {
        admitted += u32::from(limiter.try_acquire().is_ok());
        time.advance(Duration::from_millis(120));
    }
    assert_eq!(admitted, 34, "yes, no, no, and so on");
}

/// `testInfinite_…` needs a rate that is no quota; the slowest rate there is grants one, and no other.
#[test]
fn guava_minimal_rate() {
    let time = ManualClock::new();
    let limiter = limiter("1/292y", Duration::ZERO, 3, &time);
    assert!(limiter.try_acquire().is_ok());
    assert!(limiter.try_acquire().is_err());
    time.advance(Duration::from_millis(1 << 31));
    assert!(limiter.try_acquire().is_err());
}

/// `testSetRate` and friends: what is refused, and what that leaves.
#[test]
fn guava_get_and_set_rate() {
    let time = ManualClock::new();
    let limiter = limiter("5/s", Duration::from_secs(5), 3, &time);
    assert_eq!(limiter.quota(), quota("5/s"));
    limiter
        .set_quota(quota("10/s"))
        .expect("a quota for this warm-up");
    assert_eq!(limiter.quota(), quota("10/s"));
}
