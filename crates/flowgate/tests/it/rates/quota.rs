//! Quotas: their text forms, their range, and when evenly spaced operations are due.

use std::time::Duration;

use flowgate::Quota;
use proptest::prelude::*;

const NS_PER_S: u64 = 1_000_000_000;

fn parse(text: &str) -> Quota {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    match text.parse::<Quota>() {
        Ok(quota) => panic!("{text:?} was read as {quota}"),
        Err(error) => error.to_string(),
    }
}

// ---- Text ----

/// text, count, period in nanoseconds, burst, canonical text
#[rustfmt::skip]
const FORMS: &[(&str, u64, u64, u64, &str)] = &[
    ("100/s",                   100, NS_PER_S,          100, "100/s"),
    ("100/s burst 20",          100, NS_PER_S,           20, "100/s burst 20"),
    ("5000/min burst 50",      5000, 60 * NS_PER_S,      50, "5000/min burst 50"),
    ("1/10s",                     1, 10 * NS_PER_S,       1, "1/10s"),
    ("3/day",                     3, 86_400 * NS_PER_S,   3, "3/day"),
    ("2.5/s",                     5, 2 * NS_PER_S,        3, "2.5/s"),
    ("2.5/s burst 3",             5, 2 * NS_PER_S,        3, "5/2s burst 3"),
    ("2.5/s burst 5",             5, 2 * NS_PER_S,        5, "5/2s burst 5"),
    ("2.50/s burst 4",            5, 2 * NS_PER_S,        4, "5/2s burst 4"),
    ("2.5/10s",                   5, 20 * NS_PER_S,       3, "2.5/10s"),
    ("0.3/7s",                    3, 70 * NS_PER_S,       1, "0.3/7s"),
    ("2.25/3s",                   9, 12 * NS_PER_S,       3, "2.25/3s"),
    ("100/s burst 100",         100, NS_PER_S,          100, "100/s burst 100"),
    ("2.5/min",                   5, 120 * NS_PER_S,      3, "2.5/min"),
    ("0.7/h",                     7, 36_000 * NS_PER_S,   1, "0.7/h"),
    ("0.1/s",                     1, 10 * NS_PER_S,       1, "1/10s"),
    ("0.10/s",                    1, 10 * NS_PER_S,       1, "1/10s"),
    ("1.0/s",                     1, NS_PER_S,            1, "1/s"),
    ("007/s",                     7, NS_PER_S,            7, "7/s"),
    ("1_000_000/s",       1_000_000, NS_PER_S,    1_000_000, "1000000/s"),
    ("1/0.5s",                    1, NS_PER_S / 2,        1, "1/500ms"),
    ("1/1.5min",                  1, 90 * NS_PER_S,       1, "1/90s"),
    ("10k/s",                10_000, NS_PER_S,       10_000, "10000/s"),
    ("1.5K/s burst 2k",       1_500, NS_PER_S,        2_000, "1500/s burst 2000"),
    ("2M/s burst 1",      2_000_000, NS_PER_S,            1, "2000000/s burst 1"),
    ("1G/s",          1_000_000_000, NS_PER_S, 1_000_000_000, "1000000000/s"),
    ("500B/s",                  500, NS_PER_S,          500, "500B/s"),
    ("64KiB/s",              65_536, NS_PER_S,       65_536, "64KiB/s"),
    ("64kB/s",               64_000, NS_PER_S,       64_000, "64kB/s"),
    ("64KB/s",               64_000, NS_PER_S,       64_000, "64kB/s"),
    ("10MiB/s",          10_485_760, NS_PER_S,   10_485_760, "10MiB/s"),
    ("10 MiB / s burst 1 MiB", 10_485_760, NS_PER_S, 1_048_576, "10MiB/s burst 1MiB"),
    ("1.5GB/s",       1_500_000_000, NS_PER_S, 1_500_000_000, "1500MB/s"),
    ("10GiB/s",            10 << 30, NS_PER_S,     10 << 30, "10GiB/s"),
    ("1024000B/s",        1_024_000, NS_PER_S,    1_024_000, "1000KiB/s"),
    ("1.1KiB/s",              5_632, 5 * NS_PER_S,    1_127, "1126.4B/s"),
    ("1/s units 1000",            1, NS_PER_S,            1, "1/s units 1000"),
    ("1/s units 1k burst 5",      1, NS_PER_S,            5, "1/s burst 5 units 1000"),
    ("  7\t/ s  burst   2 ",      7, NS_PER_S,            2, "7/s burst 2"),
    ("5/7d",                      5, 604_800 * NS_PER_S,  5, "5/week"),
    ("5/2w",                      5, 1_209_600 * NS_PER_S, 5, "5/2w"),
    ("5/30d",                     5, 2_592_000 * NS_PER_S, 5, "5/30d"),
    ("5/3600s",                   5, 3_600 * NS_PER_S,    5, "5/h"),
    ("5/86401s",                  5, 86_401 * NS_PER_S,   5, "5/86401s"),
    ("2147483648/ns", 1 << 31,       1,             1 << 31, "2147483648/ns"),
    // As people write them elsewhere.
    ("10 per second", 10,            NS_PER_S,      10,      "10/s"),
    ("2.5 per 10 min burst=7", 5,    1_200 * NS_PER_S, 7,    "5/20min burst 7"),
    ("10rps",         10,            NS_PER_S,      10,      "10/s"),
    ("10 qps burst 3", 10,           NS_PER_S,      3,       "10/s burst 3"),
    ("300rpm burst=3", 300,        60 * NS_PER_S, 3,       "300/min burst 3"),
    ("100 req/s",     100,           NS_PER_S,      100,     "100/s"),
    ("100 requests per minute", 100, 60 * NS_PER_S, 100,     "100/min"),
    ("10r/s",         10,            NS_PER_S,      10,      "10/s"),
    ("10k req/s",     10_000,        NS_PER_S,      10_000,  "10000/s"),
];

#[test]
fn text_is_read_exactly_and_printed_in_one_form() {
    for &(text, count, period_ns, burst, canonical) in FORMS {
        let quota = parse(text);
        assert_eq!(quota.count(), count, "{text}");
        assert_eq!(quota.period(), Duration::from_nanos(period_ns), "{text}");
        assert_eq!(quota.max_burst(), burst, "{text}");
        assert_eq!(quota.to_string(), canonical, "{text}");
        assert_eq!(parse(canonical), quota, "{text}");
    }
}

#[test]
fn every_name_of_a_unit_is_read() {
    let table: &[(u64, &str)] = &[
        (1, "ns nsec nanosecond nanoseconds"),
        (1_000, "us µs μs usec microsecond microseconds"),
        (1_000_000, "ms msec millisecond milliseconds"),
        (NS_PER_S, "s sec secs second seconds"),
        (60 * NS_PER_S, "m min mins minute minutes"),
        (3_600 * NS_PER_S, "h hr hrs hour hours"),
        (86_400 * NS_PER_S, "d day days"),
        (7 * 86_400 * NS_PER_S, "w week weeks"),
        (365 * 86_400 * NS_PER_S, "y yr yrs year years"),
    ];
    for (period_ns, names) in table {
        for name in names.split(' ') {
            let one = parse(&format!("1/{name}"));
            assert_eq!(one.period(), Duration::from_nanos(*period_ns), "{name}");
            let three = parse(&format!("1/3 {name}"));
            assert_eq!(
                three.period(),
                Duration::from_nanos(3 * period_ns),
                "{name}"
            );
        }
    }
}

#[test]
fn bytes_and_operations_are_not_equal() {
    assert_ne!(parse("500B/s"), parse("500/s"));
    assert_eq!(parse("500B/s"), Quota::per_second(500).bytes());
}

/// Each refusal is checked to the letter: it is what someone reads who typed the text.
#[test]
fn a_refusal_points_at_the_word() {
    const EMPTY: &str = "it is empty; write a count and a period, as in \"100/s\"";
    const UNKNOWN: &str = "not known here; after the rate may follow \"burst\" and \"units\", \
         as in \"100/s burst 20\"";
    const NO_COUNT: &str = "a count of 0 admits nothing; it must be 1 or more";
    const SIGN: &str = "a number has no sign; it must be greater than 0";
    const FINITE: &str = "not a finite number; write it as in 100 or 2.5";
    const EXPONENT: &str = "exponents are not read; write all digits, or a suffix, as in 10M";
    const NUMBER: &str = "not a number; write it as in 100, 2.5 or 1_000";
    const SUFFIX: &str = "not a suffix of a count; use k, M, G or T, or for bytes B, kB, MB, GB, \
         TB, KiB, MiB, GiB or TiB, as in \"10k/s\" and \"10MiB/s\"";
    const DIGITS: &str = "too many digits; at most 20 before the point and 18 after it";
    // The text, the word in it (none at its end), where that begins, and the rest of the message.
    let table = [
        ("", "", 1, EMPTY),
        (" \t", " \t", 1, EMPTY),
        ("5", "5", 1, "say per what, as in \"5/s\""),
        ("5 burst 3", "5", 1, "say per what, as in \"5/s\""),
        (
            "/s",
            "/",
            1,
            "a count is missing before \"/\"; write \"100/s\" for 100 per second",
        ),
        (
            "5/",
            "",
            3,
            "a period is missing after \"/\"; write \"/s\" for each second",
        ),
        ("5/10", "10", 3, "say of what, as in \"10s\""),
        ("5/10 burst 2", "10", 3, "say of what, as in \"10s\""),
        (
            "5/0s",
            "0s",
            3,
            "a period of 0 is no time; it must be 1ns or more",
        ),
        (
            "5/fortnight",
            "fortnight",
            3,
            "not a unit of time; use ns, us, ms, s, min, h, d, w or y",
        ),
        ("5/s/s", "/s", 4, UNKNOWN),
        (
            "5/S",
            "S",
            3,
            "units of time are in lower case: ns, us, ms, s, min, h, d, w or y",
        ),
        (
            "5/month",
            "month",
            3,
            "months differ in length; say how many days, as in \"30d\"",
        ),
        ("5/0.3ns", "0.3ns", 3, "not a whole number of nanoseconds"),
        ("5/600y", "600y", 3, "too long; a period is at most 584y"),
        (
            "1/500y",
            "1/500y",
            1,
            "1 per 500y is too slow; in lowest terms its period must be at most \
             9223372036854775807ns (292 years)",
        ),
        (
            "0.0000001/584y",
            "0.0000001/584y",
            1,
            "too slow; there must be at least one in 292y",
        ),
        ("0/s", "0", 1, NO_COUNT),
        ("0.0B/s", "0.0B", 1, NO_COUNT),
        ("-5/s", "-5", 1, SIGN),
        ("+5/s", "+5", 1, SIGN),
        ("5/-1s", "-1s", 3, SIGN),
        ("NaN", "NaN", 1, FINITE),
        ("inf/s", "inf", 1, FINITE),
        ("1e99", "1e99", 1, EXPONENT),
        ("1e99/s", "1e99", 1, EXPONENT),
        ("many/s", "many", 1, NUMBER),
        ("1..2/s", "1..2", 1, NUMBER),
        ("1,000/s", "1,000", 1, NUMBER),
        ("_1/s", "_1", 1, NUMBER),
        (".5/s", ".5", 1, NUMBER),
        ("5./s", "5.", 1, NUMBER),
        ("100hps", "hps", 4, SUFFIX),
        ("100 hits/s", "hits", 5, SUFFIX),
        ("10rpd", "rpd", 3, SUFFIX),
        ("10Mb/s", "Mb", 3, SUFFIX),
        (
            "99999999999999999999/s",
            "99999999999999999999",
            1,
            "too large; a count is at most 18446744073709551615",
        ),
        (
            "999999999999999999999/s",
            "999999999999999999999",
            1,
            DIGITS,
        ),
        (
            "0.1234567890123456789/s",
            "0.1234567890123456789",
            1,
            DIGITS,
        ),
        (
            "3000000001/s",
            "3000000001",
            1,
            "3000000001 per s cannot be kept exactly; in lowest terms it is 3000000001 per \
             1000000000ns, and the first of these must be at most 2147483648; 3000000000 per s \
             can be kept",
        ),
        (
            "3/s units 999999999",
            "999999999",
            11,
            "3 per s in 999999999 units per token cannot be kept exactly; in lowest terms it is \
             2999999997 per 1000000000ns, and the first of these must be at most 2147483648",
        ),
        (
            "100/s burst",
            "burst",
            7,
            "a number is missing after it; write \"burst 20\"",
        ),
        (
            "100/s burst 0",
            "0",
            13,
            "a burst of 0 admits nothing; it must be 1 or more",
        ),
        ("100/s bust 5", "bust", 7, UNKNOWN),
        ("100/s burst:5", "burst:5", 7, UNKNOWN),
        ("1/µs x", "x", 6, UNKNOWN),
        ("100/s burst -1", "-1", 13, SIGN),
        ("100/s burst 1.5", "1.5", 13, "must be a whole number"),
        ("100/s burst 1s", "s", 14, SUFFIX),
        (
            "100/s burst 1 burst 2",
            "burst",
            15,
            "given twice; give it once",
        ),
        (
            "100B/s burst 5",
            "5",
            14,
            "the count is in bytes and this is not; write \"5B\"",
        ),
        (
            "100/s burst 5B",
            "5B",
            13,
            "this is in bytes and the count is not; write it without a B",
        ),
        (
            "1/292y burst 2G",
            "2G",
            14,
            "a burst of 2000000000 is too large for this rate; it must be 1 to 1075474551",
        ),
        (
            "1/18446744073709551614ns units 4294967296",
            "4294967296",
            32,
            "too many units per token for this rate; no burst can be kept exactly",
        ),
        (
            "100/s units 0",
            "0",
            13,
            "a token cannot be divided into 0 units; it must be 1 to 4294967296",
        ),
        (
            "100/s units 5G",
            "5G",
            13,
            "a token cannot be divided into 5000000000 units; it must be 1 to 4294967296",
        ),
    ];
    let mut wrong = String::new();
    for (text, word, character, rest) in table {
        let place = match word {
            "" if !text.is_empty() => ": at the end".to_owned(),
            _ if word == text => String::new(),
            _ => format!(": at {word:?} (character {character})"),
        };
        let expected = format!("invalid quota {text:?}{place}: {rest}");
        let message = refusal(text);
        if message != expected {
            wrong += &format!("\n  {message}\n  {expected}\n");
        }
    }
    assert!(wrong.is_empty(), "got, and expected:{wrong}");
}

// ---- Range ----

#[test]
fn c8_every_count_to_a_thousand_million_is_accepted_at_its_ends() {
    const MOST: u64 = 1_000_000_000;
    for per in PERIODS {
        for count in [1, 2, 3, 7, 999_999_937, MOST - 1, MOST] {
            for burst in [1, 2, 999_999_937, MOST - 1, MOST] {
                let quota = per(count).burst(burst);
                assert_eq!((quota.count(), quota.max_burst()), (count, burst));
            }
        }
    }
}

const PERIODS: [fn(u64) -> Quota; 4] = [
    Quota::per_second,
    Quota::per_minute,
    Quota::per_hour,
    Quota::per_day,
];

#[test]
fn constructors_refuse_what_is_out_of_range() {
    let ns = Duration::from_nanos;
    let too_fine = |count, period: &str, nanos| {
        format!(
            "{count} per {period} cannot be kept exactly; in lowest terms it is {count} per \
             {nanos}ns, and the first of these must be at most 2147483648"
        )
    };
    let too_large = |burst, most| {
        format!("a burst of {burst} is too large for this rate; it must be 1 to {most}")
    };
    let units =
        |units| format!("a token cannot be divided into {units} units; it must be 1 to 4294967296");
    let no_period = "a period of 0 is no time; it must be 1ns or more";
    let per_second = Quota::per_second(1_000_000_000);
    let most = u64::MAX;
    let table = [
        (
            Quota::new(0, ns(1)),
            "a count of 0 admits nothing; it must be 1 or more".into(),
        ),
        (Quota::new(1, ns(0)), no_period.into()),
        (Quota::spacing(ns(0)), no_period.into()),
        (
            Quota::new(1, Duration::MAX),
            "a period of 18446744073709551615s is too long; it must be at most 18446744073s (584 \
             years)"
                .into(),
        ),
        (
            Quota::new(1, ns(most)),
            "1 per 18446744073709551615ns is too slow; in lowest terms its period must be at most \
             9223372036854775807ns (292 years)"
                .into(),
        ),
        (Quota::new(most, ns(1)), too_fine(most, "ns", 1)),
        (
            Quota::new(3_000_000_001, ns(7)),
            too_fine(3_000_000_001, "7ns", 7),
        ),
        (
            per_second.try_burst(0),
            "a burst of 0 admits nothing; it must be 1 or more".into(),
        ),
        (
            Quota::per_day(1).try_burst(most),
            too_large(u128::from(most), 114_624_077_711_609),
        ),
        (
            per_second.burst_for(Duration::MAX),
            too_large(18_446_744_073_709_551_615_999_999_999, most),
        ),
        (per_second.units_per_token(0), units(0_u64)),
        (
            per_second.units_per_token((1 << 32) + 1),
            units((1 << 32) + 1),
        ),
    ];
    for (result, expected) in table {
        assert_eq!(
            result.unwrap_err().to_string(),
            format!("invalid quota: {expected}")
        );
    }
}

#[test]
fn a_count_that_cannot_be_kept_exactly_is_answered_with_one_that_can() {
    for count in [3_000_000_001, 123_456_789_012, 1_999_999_999_999_999_999] {
        let message = Quota::new(count, Duration::from_secs(1))
            .unwrap_err()
            .to_string();
        let (_, advice) = message.rsplit_once("; ").unwrap();
        let (rounder, _) = advice.split_once(" per ").unwrap();
        let rounder: u64 = rounder.parse().unwrap();
        assert!(rounder < count && rounder > count / 2, "{message}");
        assert_eq!(Quota::per_second(rounder).count(), rounder);
    }
}

#[test]
#[should_panic = "a quota's count must be 1 or more, and was 0"]
fn per_second_panics_at_zero() {
    let _ = Quota::per_second(0);
}

#[test]
#[should_panic = "a quota's count cannot be kept exactly"]
fn per_minute_panics_where_new_is_an_error() {
    let _ = Quota::per_minute(60_000_000_001);
}

#[test]
#[should_panic = "a quota's burst must be 1 or more, and was 0"]
fn burst_panics_at_zero() {
    let _ = Quota::per_hour(1).burst(0);
}

#[test]
#[should_panic = "a quota's burst is too large for its rate"]
fn burst_panics_where_try_burst_is_an_error() {
    let _ = Quota::per_day(1).burst(u64::MAX);
}

#[test]
fn quotas_can_be_constants() {
    const STATED: Quota = Quota::per_second(100).burst(20).bytes();
    const CHECKED: Quota = match Quota::new(5, Duration::from_secs(2)) {
        Ok(quota) => quota,
        Err(_) => panic!("out of range"),
    };
    const SPACED: Option<Duration> = CHECKED.offset_of(5);
    assert_eq!(STATED.to_string(), "100B/s burst 20B");
    assert_eq!(CHECKED.to_string(), "5/2s");
    assert_eq!(SPACED, Some(Duration::from_secs(2)));
}

#[test]
fn burst_for_is_what_the_rate_yields_in_that_time() {
    let table = [
        (Quota::per_second(100), 250_000_000, 25),
        (Quota::per_second(100), 259_999_999, 25),
        (Quota::per_second(100), 260_000_000, 26),
        (Quota::per_second(100), 0, 1),
        (Quota::per_second(3), 333_333_333, 1),
        (Quota::per_second(3), 666_666_667, 2),
        (Quota::per_day(1), 1, 1),
        (Quota::per_day(1), u64::MAX, 213_503),
        (
            Quota::per_second(1).units_per_token(1_000).unwrap(),
            2_500_000_000,
            2,
        ),
    ];
    for (quota, ns, burst) in table {
        let with_burst = quota.burst_for(Duration::from_nanos(ns)).unwrap();
        assert_eq!(with_burst, quota.burst(burst), "{quota} for {ns} ns");
    }
}

// ---- When operations are due ----

#[test]
fn c8_offsets_are_exact() {
    let table: &[(&str, &[(u64, u64)])] = &[
        (
            "3/s",
            &[
                (0, 0),
                (1, 333_333_334),
                (2, 666_666_667),
                (3, 1_000_000_000),
            ],
        ),
        (
            "1000/s",
            &[
                (1, 1_000_000),
                (999, 999_000_000),
                (86_400_000, 86_400_000_000_000),
            ],
        ),
        (
            "600000000/s",
            &[(1, 2), (2, 4), (3, 5), (600_000_000, 1_000_000_000)],
        ),
        (
            "2147483648/ns",
            &[(1, 1), (2_147_483_648, 1), (2_147_483_649, 2)],
        ),
        // The burst and the units do not move them.
        (
            "3/s burst 100 units 7",
            &[(1, 333_333_334), (3, 1_000_000_000)],
        ),
    ];
    for (text, offsets) in table {
        for &(k, ns) in *offsets {
            let offset = parse(text).offset_of(k);
            assert_eq!(offset, Some(Duration::from_nanos(ns)), "{text} {k}");
        }
    }
}

#[test]
fn an_offset_beyond_every_duration_is_none() {
    let year = Duration::from_secs(365 * 86_400);
    let yearly = Quota::spacing(year).unwrap();
    let last = u64::MAX / year.as_secs();
    assert_eq!(
        yearly.offset_of(last),
        Some(Duration::from_secs(last * year.as_secs()))
    );
    assert_eq!(yearly.offset_of(last + 1), None);
    assert_eq!(yearly.offset_of(u64::MAX), None);
    assert_eq!(
        Quota::per_second(1).offset_of(u64::MAX),
        Some(Duration::from_secs(u64::MAX))
    );
}

// ---- Properties ----

/// Any number of 1 to `most`, each length in bits as likely as the others, and the ends and their
/// neighbours often.
fn upto(most: u64) -> impl Strategy<Value = u64> {
    let bits = 64 - most.leading_zeros();
    prop_oneof![
        8 => (0..bits, any::<u64>()).prop_map(|(drop, n)| n >> drop),
        1 => 0..3_u64,
        1 => (0..3_u64).prop_map(move |back| most.saturating_sub(back)),
    ]
    .prop_map(move |n| if n == 0 || n > most { n % most + 1 } else { n })
}

/// A rate that is accepted: c per p, both multiplied by `g`.
fn rate() -> impl Strategy<Value = (u64, u64)> {
    let unit = prop::sample::select(vec![
        1,
        1_000_000,
        NS_PER_S,
        60 * NS_PER_S,
        86_400 * NS_PER_S,
    ]);
    prop_oneof![
        (upto(1 << 31), upto((1 << 63) - 1), upto(1 << 33))
            .prop_map(|(c, p, g)| (c.saturating_mul(g), p.saturating_mul(g))),
        // The rates that people write.
        (upto(1_000_000_000), 1..100_u64, unit).prop_map(|(count, n, unit)| (count, n * unit)),
    ]
}

/// Quotas over the whole accepted range, with and without a burst, units and bytes.
fn quota() -> impl Strategy<Value = Quota> {
    let options = (
        any::<bool>(),
        upto(u64::MAX),
        any::<bool>(),
        upto(1 << 32),
        any::<bool>(),
    );
    (rate(), options).prop_filter_map("out of range", |((count, period_ns), options)| {
        let (has_burst, burst, has_units, units, bytes) = options;
        let mut quota = Quota::new(count, Duration::from_nanos(period_ns)).ok()?;
        if has_burst {
            // Where it is too large: what is left of it.
            quota = (0..64).find_map(|shift| quota.try_burst(burst >> shift).ok())?;
        }
        if has_units {
            quota = (0..33).find_map(|shift| quota.units_per_token(units >> shift).ok())?;
        }
        Some(if bytes { quota.bytes() } else { quota })
    })
}

const SUFFIXES: &[(&str, u64)] = &[
    ("", 1),
    ("k", 1_000),
    ("B", 1),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
];

const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("ms", 1_000_000),
    ("s", NS_PER_S),
    ("d", 86_400 * NS_PER_S),
];

/// Texts that get past the first word.
fn nearly_a_quota() -> impl Strategy<Value = String> {
    let count = "[0-9]{0,22}[0-9_.]{0,20}[kMGBi]{0,3}";
    let period = " ?/? ?[0-9.]{0,20}[a-zµ]{0,6}";
    let option = "( (burst|units|bust) ?[0-9.]{0,20}[kMGBi]{0,3}){0,3}";
    (count, period, option).prop_map(|(count, period, option)| count + &period + &option)
}

fn lowest_terms(over: u128, under: u128) -> (u128, u128) {
    let (mut a, mut b) = (over, under);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (over / a, under / a)
}

/// a × b, as the upper and the lower half.
fn product(a: u128, b: u128) -> (u128, u128) {
    let halves = |n: u128| (n >> 64, n & u128::from(u64::MAX));
    let ((a1, a0), (b1, b0)) = (halves(a), halves(b));
    let (carry, low) = halves(a0 * b0);
    let (carry1, middle) = halves(a1 * b0 + carry);
    let (carry2, middle) = halves(a0 * b1 + middle);
    (a1 * b1 + carry1 + carry2, middle << 64 | low)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4096,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn decimal_round_trip(over in 1_u64..1_000_000_000_000, places in 1_usize..=12, periods in 1_u64..1000, unit in 0_usize..7) {
        let unit = ["ns", "us", "ms", "s", "min", "h", "d"][unit];
        let digits = format!("{over:0>width$}", width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        let text = format!("{whole}.{fraction}/{periods}{unit}");
        if let Ok(quota) = text.parse::<Quota>() {
            prop_assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota), "{} as {}", text, quota);
        }
    }

    #[test]
    fn text_round_trip(quota in quota()) {
        let text = quota.to_string();
        let parsed = text.parse::<Quota>();
        prop_assert_eq!(parsed, Ok(quota), "{}", text);
        prop_assert_eq!(format!("{quota:?}"), format!("Quota({text})"));
    }

    #[test]
    fn text_with_decimals_is_exact(
        mantissa in upto(1_000_000_000_000),
        places in 0..13_usize,
        suffix in prop::sample::select(SUFFIXES),
        periods in 1..400_u64,
        unit in prop::sample::select(UNITS),
    ) {
        let ten = 10_u64.pow(places as u32);
        let number = match places {
            0 => mantissa.to_string(),
            _ => format!("{}.{:0places$}", mantissa / ten, mantissa % ten),
        };
        let text = format!("{number}{}/{periods}{}", suffix.0, unit.0);
        let parsed = text.parse::<Quota>();
        let written_ns = u128::from(periods) * u128::from(unit.1);
        let numerator = u128::from(mantissa) * u128::from(suffix.1);
        let burst = numerator.div_ceil(u128::from(ten)).max(1);

        // Refused exactly where it is out of range.
        let (count, under) = lowest_terms(numerator, u128::from(ten));
        let (c, p) = lowest_terms(count, under * written_ns);
        let in_range = count <= u128::from(u64::MAX)
            && under * written_ns <= u128::from(u64::MAX)
            && c <= 1 << 31
            && p < 1 << 63
            && product(burst, p) < (0, 1 << 93);
        prop_assert_eq!(parsed.is_ok(), in_range, "{}: {:?}", text, parsed);
        let Ok(quota) = parsed else { return Ok(()) };

        // count / period == mantissa × suffix / (ten × written period), cross-multiplied.
        prop_assert_eq!(
            product(u128::from(quota.count()) * u128::from(ten), written_ns),
            product(numerator, quota.period().as_nanos()),
            "{} is {}", text, quota
        );
        prop_assert_eq!(u128::from(quota.max_burst()), burst, "{}", text);
        prop_assert_eq!(quota.to_string().parse(), Ok(quota), "{}", text);
    }

    #[test]
    fn c8_every_count_to_a_thousand_million_is_accepted(
        count in upto(1_000_000_000),
        burst in upto(1_000_000_000),
        per in 0..4_usize,
    ) {
        let quota = PERIODS[per](count).burst(burst);
        prop_assert_eq!((quota.count(), quota.max_burst()), (count, burst));
        let unit = ["s", "min", "h", "day"][per];
        prop_assert_eq!(format!("{count}/{unit} burst {burst}").parse(), Ok(quota));
    }

    #[test]
    fn c8_offset_is_the_quotient_rounded_up(quota in quota(), k in upto(u64::MAX)) {
        let exact = (u128::from(k) * quota.period().as_nanos()).div_ceil(u128::from(quota.count()));
        prop_assert_eq!(quota.offset_of(0), Some(Duration::ZERO));
        match quota.offset_of(k) {
            Some(offset) => prop_assert_eq!(offset.as_nanos(), exact),
            None => prop_assert!(exact > Duration::MAX.as_nanos()),
        }
    }

    #[test]
    fn c8_offset_never_drifts(quota in quota(), periods in upto(1 << 40), k in upto(1 << 20)) {
        // A whole count of operations later is exactly a period later.
        if let Some(later) = quota.count().checked_mul(periods).and_then(|n| n.checked_add(k))
            && let Some(offset) = quota.offset_of(k)
        {
            let whole = u128::from(periods) * quota.period().as_nanos();
            let expected = whole + offset.as_nanos();
            let expected = (expected <= Duration::MAX.as_nanos()).then_some(expected);
            prop_assert_eq!(quota.offset_of(later).map(|d| d.as_nanos()), expected);
        }
    }

    #[test]
    fn the_largest_burst_named_is_accepted_and_one_more_is_not(quota in quota()) {
        if let Err(error) = quota.try_burst(u64::MAX) {
            let message = error.to_string();
            let (_, most) = message.rsplit_once(' ').unwrap();
            let most: u64 = most.parse().unwrap();
            prop_assert!(quota.try_burst(most).is_ok(), "{}", message);
            prop_assert!(quota.try_burst(most + 1).is_err(), "{}", message);
        }
    }

    #[test]
    fn no_constructor_panics(
        count: u64,
        secs: u64,
        nanos in 0..1_000_000_000_u32,
        burst: u64,
        units: u64,
    ) {
        let time = Duration::new(secs, nanos);
        for period in [time, Duration::from_nanos(secs)] {
            for result in [Quota::new(count, period), Quota::spacing(period)] {
                let said = result.and_then(|quota| quota.try_burst(burst));
                let said = said.and_then(|quota| quota.burst_for(time));
                let said = said.and_then(|quota| quota.units_per_token(units));
                if let Err(error) = said {
                    prop_assert!(error.to_string().starts_with("invalid quota: "));
                }
            }
        }
    }

    #[test]
    fn no_text_panics_and_every_refusal_is_one_short_line(
        text in prop_oneof![
            any::<String>(),
            nearly_a_quota(),
            "[0-9]{1,3}/s [\\PC/]{0,80}",
        ],
    ) {
        match text.parse::<Quota>() {
            Ok(quota) => prop_assert_eq!(quota.to_string().parse(), Ok(quota)),
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.starts_with("invalid quota"), "{}", message);
                prop_assert!(!message.chars().any(char::is_control), "{}", message);
                prop_assert!(message.len() < 1_000, "{}", message);
            }
        }
    }
}

#[test]
fn a_long_text_is_not_repeated() {
    let text = format!("100/s {} 5", "burst".repeat(1_000));
    assert_eq!(
        refusal(&text),
        "invalid quota at \"burstburstburstburstburstburstburstburstburstbur\" (character 7): not \
         known here; after the rate may follow \"burst\" and \"units\", as in \"100/s burst 20\""
    );
}

// ---- serde ----

#[cfg(feature = "serde")]
#[test]
fn serde_uses_the_text_form() {
    let quota = parse("100/s burst 20");
    assert_eq!(serde_json::to_string(&quota).unwrap(), "\"100/s burst 20\"");
    assert_eq!(
        serde_json::from_str::<Quota>("\"100/s burst 20\"").unwrap(),
        quota
    );
    // Owned text, as from a reader or a map.
    assert_eq!(
        serde_json::from_value::<Quota>("2.5/s".into()).unwrap(),
        parse("2.5/s")
    );

    let error = serde_json::from_str::<Quota>("\"5\"").unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid quota \"5\": say per what, as in \"5/s\" at line 1 column 3"
    );
    let error = serde_json::from_str::<Quota>("5").unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid type: integer `5`, expected a quota such as \"100/s burst 20\" at line 1 column 1"
    );
}
