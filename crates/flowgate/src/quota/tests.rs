//! What only the crate sees: the rate in lowest terms, and quotas made from quotas.

use alloc::string::ToString;
use core::time::Duration;

use super::ratio::MAX_SCALE;
use super::ratio::{MAX_NANOS, MAX_UNITS, TICKS_END, gcd, lowest_terms};
use super::{Quota, QuotaError, Ratio};

#[test]
fn ratio_is_in_lowest_terms() {
    let table = [
        ("1/s", 1, 1_000_000_000),
        ("100/s", 1, 10_000_000),
        ("3/s", 3, 1_000_000_000),
        ("1000000000/s", 1, 1),
        ("600000000/s", 3, 5),
        ("2.5/s", 1, 400_000_000),
        ("7/day", 7, 86_400_000_000_000),
        ("10GiB/s", 4_194_304, 390_625),
        ("1TiB/s", 1 << 31, 1_953_125),
        ("1/s units 1000", 1, 1_000_000),
        ("1/s burst 5 units 3", 3, 1_000_000_000),
    ];
    for (text, units, nanos) in table {
        let quota: Quota = text.parse().unwrap();
        assert_eq!(quota.ratio(), Ratio { units, nanos }, "{text}");
    }
}

#[test]
fn ratio_reaches_its_limits_and_no_further() {
    let ns = Duration::from_nanos;
    assert_eq!(
        Quota::new(MAX_UNITS, ns(1)).unwrap().ratio(),
        Ratio {
            units: MAX_UNITS,
            nanos: 1
        }
    );
    assert!(Quota::new(MAX_UNITS + 1, ns(1)).is_err());
    let slowest = Quota::spacing(ns(MAX_NANOS)).unwrap();
    assert_eq!(
        slowest.ratio(),
        Ratio {
            units: 1,
            nanos: MAX_NANOS
        }
    );
    assert!(Quota::spacing(ns(MAX_NANOS + 1)).is_err());
    // Shortening counts: twice in twice the time is the same rate.
    let twice = Quota::new(2, ns(2 * MAX_NANOS)).unwrap();
    assert_eq!(twice.ratio(), slowest.ratio());
    // A full bucket in ticks.
    let most = (TICKS_END - 1) / u128::from(MAX_NANOS);
    let most = u64::try_from(most).unwrap();
    assert!(slowest.try_burst(most).is_ok());
    assert!(slowest.try_burst(most + 1).is_err());
    // Exactly 2⁹³ ticks is already too much.
    let power_of_two = Quota::spacing(ns(1 << 40)).unwrap();
    assert!(power_of_two.try_burst((1 << 53) - 1).is_ok());
    assert!(power_of_two.try_burst(1 << 53).is_err());
}

#[test]
fn burst_units_fit_64_bits() {
    let fast = Quota::new(1, Duration::from_nanos(1))
        .unwrap()
        .units_per_token(2)
        .unwrap();
    let most = u64::MAX / 2;
    assert_eq!(fast.try_burst(most).unwrap().burst_units(), u64::MAX - 1);
    assert!(fast.try_burst(most + 1).is_err());

    let finest = Quota::per_second(1).units_per_token(MAX_SCALE).unwrap();
    assert_eq!(finest.burst_units(), MAX_SCALE);
    assert!(finest.units_per_token(MAX_SCALE + 1).is_err());
    assert!(finest.units_per_token(0).is_err());
}

#[test]
fn with_rate_keeps_all_but_the_rate() {
    let before: Quota = "10MiB/s burst 64KiB units 3".parse().unwrap();
    let after = before.with_rate(5 << 20, Duration::from_secs(60)).unwrap();
    assert_eq!(after.to_string(), "5MiB/min burst 64KiB units 3");
    assert!(before.with_rate(0, Duration::from_secs(1)).is_err());
    assert!(before.with_rate(1, Duration::ZERO).is_err());
    assert!(before.with_rate(1, Duration::MAX).is_err());
}

#[test]
fn a_setting_names_itself_its_value_and_its_range() {
    let error = QuotaError::out_of_range("initial tokens", 30, 0, 20);
    assert_eq!(
        error.to_string(),
        "initial tokens of 30 is out of range: 0 to 20"
    );
}

/// A limiter's constructor returns it by value.
#[test]
fn an_error_is_small() {
    assert!(
        size_of::<QuotaError>() <= 128,
        "{}",
        size_of::<QuotaError>()
    );
}

#[test]
fn gcd_and_lowest_terms_agree_with_the_definition() {
    for a in 1..60 {
        for b in 0..60 {
            let largest = (1..=a).rev().find(|d| a % d == 0 && b % d == 0);
            assert_eq!(Some(gcd(a, b)), largest, "{a} {b}");
        }
    }
    assert_eq!(
        lowest_terms(u128::from(u64::MAX) * 6, 4),
        (u128::from(u64::MAX) * 3, 2)
    );
    assert_eq!(
        lowest_terms(u128::MAX, u64::MAX),
        (u128::MAX / u128::from(u64::MAX), 1)
    );
}
