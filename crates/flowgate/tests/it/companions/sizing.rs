//! How large a limit has to be: against Erlang's definition in fractions, a table, and a simulated service.

use flowgate::sizing::{MAX_LIMIT, bare, limit_for, qps_for, queue_len, rejected};
use num_rational::BigRational;
use std::collections::BinaryHeap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Erlang's definition in fractions, numerator and denominator times c!, so that both are whole: aᶜ, and the sum
/// of aᵏ · c! / k!.
fn exact(limit: u32, offered: u32) -> BigRational {
    let whole = |n: u32| BigRational::from_integer(n.into());
    let (above, below) = (1..=limit).fold((whole(1), whole(1)), |(above, below), places| {
        let above = above * whole(offered);
        let below = below * whole(places) + &above;
        (above, below)
    });
    above / below
}

fn assert_close(found: f64, expected: f64, digits: i32, what: &str) {
    let error = (found - expected).abs();
    assert!(
        error <= expected * 10_f64.powi(-digits),
        "{what}: {found:e} instead of {expected:e}"
    );
}

/// a; per cent turned away by a limit of a, to one place; the limits for 1 % and for 0.1 %, and how many √a above a
/// they are.
type Row = (u32, f64, (u32, Option<f64>), (u32, Option<f64>));

const TABLE: [Row; 8] = [
    (1, 50.0, (5, None), (6, None)),
    (4, 31.1, (10, Some(3.0)), (12, Some(4.0))),
    (10, 21.5, (18, Some(2.53)), (21, Some(3.48))),
    (20, 15.9, (30, Some(2.24)), (35, Some(3.35))),
    (50, 10.5, (64, Some(1.98)), (71, Some(2.97))),
    (100, 7.6, (117, Some(1.70)), (128, Some(2.80))),
    (500, 3.5, (527, Some(1.21)), (555, Some(2.46))),
    (1000, 2.5, (1029, Some(0.92)), (1072, Some(2.28))),
];

#[test]
fn the_table_of_the_module() {
    for (offered, percent, one, tenth) in TABLE {
        let qps = f64::from(offered);
        let bare_rejects = 100.0 * rejected(offered, qps, SECOND).expect("in range");
        assert_eq!(
            format!("{bare_rejects:.1}"),
            format!("{percent:.1}"),
            "{offered}"
        );
        for (target, (limit, above)) in [(0.01, one), (0.001, tenth)] {
            assert_eq!(
                limit_for(qps, SECOND, target),
                Ok(limit),
                "{offered} to {target}"
            );
            let found = (f64::from(limit) - qps) / qps.sqrt();
            if let Some(above) = above {
                assert!((found - above).abs() <= 0.006, "{offered}: {found}");
            }
        }
    }
}

#[test]
fn the_worked_example() {
    let (qps, mean) = (150_000.0 / 600.0, ms(40));
    assert_eq!(qps, 250.0);
    assert_eq!(bare(qps, mean), Ok(10.0));
    let by_the_bare_rule = rejected(10, qps, mean).expect("in range");
    assert_eq!(format!("{:.1} %", 100.0 * by_the_bare_rule), "21.5 %");
    assert!(rejected(17, qps, mean).expect("in range") > 0.01);
    assert!(rejected(18, qps, mean).expect("in range") < 0.01);
    assert_eq!(limit_for(qps, mean, 0.01), Ok(18));
    // 100 per second of 2 s each.
    assert_eq!(bare(100.0, Duration::from_secs(2)), Ok(200.0));
}

#[test]
fn blocking_is_what_erlang_defines() {
    for offered in [1, 2, 7, 30, 200] {
        for limit in [1, 2, 3, 10, 29, 30, 31, 60, 150, 200, 260] {
            let exact = exact(limit, offered);
            let (above, below) = (exact.numer().bits() as i32, exact.denom().bits() as i32);
            // To 64 bits, so that any size of fraction becomes an f64 that is right.
            let shift = below - above + 64;
            let scaled = match shift {
                0.. => (exact.numer() << shift) / exact.denom(),
                _ => exact.numer() / (exact.denom() << -shift),
            };
            let expected = scaled.to_string().parse::<f64>().expect("a number");
            let expected = expected * 2_f64.powi(-shift / 2) * 2_f64.powi(-shift + shift / 2);
            let found = rejected(limit, f64::from(offered), SECOND).expect("in range");
            if expected < 1e-308 {
                assert!(found < 1e-308, "B({limit}, {offered}): {found:e}");
                continue;
            }
            assert_close(found, expected, 13, &format!("B({limit}, {offered})"));
        }
    }
}

/// The same series, summed to 40 decimal digits.
#[test]
fn blocking_of_large_limits_is_good_to_nine_digits() {
    let known = [
        (10_000, 1e4, 7.936_563_248_805_671e-3, 13),
        (10_200, 1e4, 5.542_999_314_900_133e-4, 13),
        (1_000_000, 1e6, 7.974_603_068_555_61e-4, 9),
        (1_003_000, 1e6, 4.451_168_639_812_92e-6, 9),
        (5, 1e6, 9.999_950_000_05e-1, 13),
        (MAX_LIMIT, 2_147_483_647.0, 1.721_750_206_605_048e-5, 9),
        (MAX_LIMIT, 2_147_300_000.0, 3.345_571_840_207_32e-9, 9),
        (MAX_LIMIT, 2_146_000_000.0, 1.789_133_978_215_975e-228, 9),
    ];
    for (limit, offered, expected, digits) in known {
        let found = rejected(limit, offered, SECOND).expect("in range");
        assert_close(found, expected, digits, &format!("B({limit}, {offered})"));
    }
}

#[test]
fn a_limit_is_the_smallest_that_keeps_to_the_target() {
    for qps in [0.001, 0.7, 3.0, 99.5, 4_000.0, 1e6] {
        for target in [0.999, 0.5, 0.1, 0.01, 1e-6, 1e-100] {
            let limit = limit_for(qps, SECOND, target).expect("in range");
            let rejects = |limit| rejected(limit, qps, SECOND).expect("in range");
            assert!(rejects(limit) <= target, "{qps} to {target}: {limit}");
            if limit > 1 {
                assert!(rejects(limit - 1) > target, "{qps} to {target}: {limit}");
            }
        }
    }
}

#[test]
fn a_rate_is_the_highest_that_a_limit_carries() {
    let shortest = Duration::from_nanos(1);
    for (limits, mean) in [
        (&[1, 18, 200, 100_000][..], shortest),
        (&[1, 18, 200, MAX_LIMIT], ms(40)),
        (&[1, 18, 200, 100_000], Duration::MAX),
    ] {
        for &limit in limits {
            let qps = qps_for(limit, mean, 0.01).expect("in range");
            let rejects = |qps| rejected(limit, qps, mean).expect("in range");
            assert!(rejects(qps) <= 0.01, "{limit} of {mean:?}: {qps}");
            assert!(
                rejects(qps.next_up()) > 0.01,
                "{limit} of {mean:?}: not {qps}"
            );
        }
    }
    // With one place, B = a / (1 + a).
    for target in [1e-300, 1e-9, 0.25, 0.5, 0.999_999] {
        let expected = target / (1.0 - target);
        let qps = qps_for(1, SECOND, target).expect("in range");
        assert_close(qps, expected, 9, "one place");
    }
    assert_eq!(limit_for(260.8, ms(40), 0.01), Ok(18));
    assert_eq!(limit_for(261.0, ms(40), 0.01), Ok(19));
}

#[test]
fn a_queue_is_as_long_as_the_deadline_allows() {
    let table = [
        (18, ms(40), ms(200), 72),
        (10, ms(10), ms(100), 90),
        (1, ms(10), ms(10), 0),
        (1, ms(10), ms(20) - Duration::from_nanos(1), 0),
        (1, ms(10), ms(20), 1),
        (3, ms(7), ms(24), 7), // 7.28…
        (1, Duration::from_nanos(1), Duration::MAX, u64::MAX),
        (MAX_LIMIT, Duration::MAX, Duration::MAX, 0),
        (
            MAX_LIMIT,
            Duration::from_nanos(1),
            Duration::from_nanos(3),
            2 * u64::from(MAX_LIMIT),
        ),
    ];
    for (limit, mean, deadline, expected) in table {
        assert_eq!(
            queue_len(limit, mean, deadline),
            Ok(expected),
            "{limit} of {mean:?} in {deadline:?}"
        );
    }
}

#[test]
fn the_extremes_are_answered() {
    assert_eq!(limit_for(f64::MIN_POSITIVE, ms(1), 1e-9), Ok(1));
    assert_eq!(rejected(1, f64::MIN_POSITIVE, ms(1)), Ok(0.0));
    assert_eq!(rejected(1, 5e-324, Duration::from_nanos(1)), Ok(0.0));
    assert_eq!(rejected(MAX_LIMIT, 1e-3, ms(1)), Ok(0.0));
    assert_eq!(rejected(1, 1e300, ms(1)), Ok(1.0));
    assert_eq!(qps_for(1, Duration::MAX, f64::MIN_POSITIVE), Ok(0.0));
    let most = limit_for(2_147_300_000.0, SECOND, 1e-6).expect("in range");
    assert!(
        (2_147_300_000..=MAX_LIMIT).contains(&most),
        "{most} of {MAX_LIMIT}"
    );
}

#[test]
fn bad_input_names_value_and_range() {
    let rate = |qps: &str| {
        format!("a rate of {qps} calls per second is out of range: a finite number above 0")
    };
    let target = |target: &str| {
        format!(
            "a reject target of {target} is out of range: above 0 and below 1, such as 0.01 for one \
             call in a hundred"
        )
    };
    let limit = |limit: &str| format!("a limit of {limit} is out of range: 1 to 2147483647");
    let load = |load: &str| {
        format!(
            "an offered load of {load} concurrent calls takes a limit out of range: it is at most 2147483647"
        )
    };
    let latency = String::from("a mean latency of 0 is out of range: it must be 1ns or more");

    for (qps, shown) in [
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (-5.0, "-5.0"),
    ] {
        assert_eq!(bare(qps, SECOND).unwrap_err().to_string(), rate(shown));
        assert_eq!(
            rejected(1, qps, SECOND).unwrap_err().to_string(),
            rate(shown)
        );
        let error = limit_for(qps, SECOND, 0.01).unwrap_err();
        assert_eq!(error.to_string(), rate(shown));
    }
    for (bad, shown) in [
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (-0.1, "-0.1"),
        (1.5, "1.5"),
    ] {
        let error = limit_for(1.0, SECOND, bad).unwrap_err();
        assert_eq!(error.to_string(), target(shown));
        let error = qps_for(1, SECOND, bad).unwrap_err();
        assert_eq!(error.to_string(), target(shown));
    }
    for (bad, shown) in [(0, "0"), (1 << 31, "2147483648"), (u32::MAX, "4294967295")] {
        let error = rejected(bad, 1.0, SECOND).unwrap_err();
        assert_eq!(error.to_string(), limit(shown));
        let error = qps_for(bad, SECOND, 0.5).unwrap_err();
        assert_eq!(error.to_string(), limit(shown));
        let error = queue_len(bad, SECOND, SECOND).unwrap_err();
        assert_eq!(error.to_string(), limit(shown));
    }
    let zero = Duration::ZERO;
    for error in [
        bare(1.0, zero).unwrap_err(),
        rejected(1, 1.0, zero).unwrap_err(),
        limit_for(1.0, zero, 0.5).unwrap_err(),
        qps_for(1, zero, 0.5).unwrap_err(),
        queue_len(1, zero, zero).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), latency);
    }
    let error = limit_for(3e9, SECOND, 0.01).unwrap_err();
    assert_eq!(error.to_string(), load("3000000000.0"));
    assert!(limit_for(f64::MAX, Duration::from_nanos(1), 0.01).is_err());
    let error = bare(f64::MAX, Duration::MAX).unwrap_err();
    assert_eq!(error.to_string(), load("inf"));
    assert_eq!(
        queue_len(1, ms(40), ms(39)).unwrap_err().to_string(),
        "a deadline of 39ms is out of range: it must be at least the mean latency, 40ms"
    );
}

/// How a service of `places` that takes 1 on average, and turns away whoever finds it full, fares with independent
/// arrivals of `offered` per unit of time: the share that it turns away.
fn simulated(places: usize, offered: f64, service: fn(&mut fastrand::Rng) -> f64) -> f64 {
    const ARRIVALS: u32 = 200_000;
    let mut draw = fastrand::Rng::with_seed(1);
    // When each call in service ends, in units of 2⁻³², the earliest at the top.
    let mut ends = BinaryHeap::new();
    let (mut now, mut turned_away) = (0.0_f64, 0);
    let ticks = |time: f64| (time * 2_f64.powi(32)) as u64;
    for _ in 0..ARRIVALS {
        now += -(1.0 - draw.f64()).ln() / offered;
        while let Some(&std::cmp::Reverse(end)) = ends.peek()
            && end <= ticks(now)
        {
            ends.pop();
        }
        match ends.len() < places {
            true => ends.push(std::cmp::Reverse(ticks(now + service(&mut draw)))),
            false => turned_away += 1,
        }
    }
    f64::from(turned_away) / f64::from(ARRIVALS)
}

/// That only the mean matters is a theorem about loss systems; three services that differ as much as can be agree.
#[test]
fn a_simulated_service_turns_away_what_the_formula_says_however_latency_is_distributed() {
    let constant: fn(&mut fastrand::Rng) -> f64 = |_| 1.0;
    let exponential: fn(&mut fastrand::Rng) -> f64 = |draw| -(1.0 - draw.f64()).ln();
    // 9 of 10 take 0.2, one takes 8.2.
    let two_kinds: fn(&mut fastrand::Rng) -> f64 = |draw| match draw.u32(0..10) {
        0 => 8.2,
        _ => 0.2,
    };
    for service in [constant, exponential, two_kinds] {
        for (places, within) in [(10, 0.006), (18, 0.0015)] {
            let expected = rejected(places, 10.0, SECOND).expect("in range");
            let found = simulated(places as usize, 10.0, service);
            assert!(
                (found - expected).abs() < within,
                "{places} places: {found} instead of {expected}"
            );
        }
    }
}
