//! Several quotas in one value: text, range, and errors that point at the offending quota.

use flowgate::{Quota, Quotas};
use proptest::prelude::*;

fn parse(text: &str) -> Quotas {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    match text.parse::<Quotas>() {
        Ok(quotas) => panic!("{text:?} was read as {quotas}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn text_is_read_exactly_and_printed_in_one_form() {
    let table = [
        ("10/s burst 5; 1000/day", "10/s burst 5; 1000/day"),
        ("10/s", "10/s"),
        ("  10 / s;5000/min burst  50 ", "10/s; 5000/min burst 50"),
        ("1000/day;10/s", "1000/day; 10/s"),
        ("2.5/s; 0.1/s", "2.5/s; 1/10s"),
        (
            "10MiB/s burst 64KiB; 1GiB/day",
            "10MiB/s burst 64KiB; 1GiB/day",
        ),
        (
            "1/s units 1000; 60/h units 1k",
            "1/s units 1000; 60/h units 1000",
        ),
        // One has no effect beside the other.
        ("10/s; 1000000/day", "10/s; 1000000/day"),
        ("5/s; 5/s", "5/s; 5/s"),
    ];
    for (text, canonical) in table {
        let quotas = parse(text);
        assert_eq!(quotas.to_string(), canonical, "{text}");
        assert_eq!(parse(canonical), quotas, "{text}");
        let parts: Vec<Quota> = text.split(';').map(|part| part.parse().unwrap()).collect();
        assert_eq!(quotas.as_slice(), parts, "{text}");
        assert_eq!(Quotas::new(parts), Ok(quotas), "{text}");
    }
}

#[test]
fn order_and_what_goes_unsaid_are_part_of_the_value() {
    assert_ne!(parse("10/s; 1000/day"), parse("1000/day; 10/s"));
    assert_ne!(parse("10/s; 1000/day"), parse("10/s"));
    assert_ne!(parse("10/s; 10/s"), parse("10/s"));
    assert_ne!(parse("10/s; 1000/day"), parse("10/s burst 10; 1000/day"));
    assert_eq!(Quotas::from(Quota::per_second(10)), parse("10/s"));
}

/// Each refusal is checked to the letter: it is what someone reads who typed the text.
#[test]
fn a_refusal_points_at_the_offending_quota() {
    const EMPTY: &str = "it is empty; write a count and a period, as in \"100/s\"";
    const MISSING: &str = "a quota is missing beside it; write both, as in \"10/s; 1000/day\"";
    // The text, the word in it, where that begins, and the rest of the message.
    let table = [
        ("", "", 1, EMPTY),
        (";", ";", 1, MISSING),
        (";10/s", ";", 1, MISSING),
        ("10/s;", ";", 5, MISSING),
        ("10/s ;  ", ";", 6, MISSING),
        ("10/s; ;1000/day", ";", 5, MISSING),
        ("10/s; 1000/day;", ";", 15, MISSING),
        ("10/s; 1000", "1000", 7, "say per what, as in \"1000/s\""),
        ("10; 1000/day", "10", 1, "say per what, as in \"10/s\""),
        (
            "10/s burst; 1000/day",
            "burst",
            6,
            "a number is missing after it; write \"burst 20\"",
        ),
        (
            "10/s bust 5; 1000/day",
            "bust",
            6,
            "not known here; after the rate may follow \"burst\" and \"units\", as in \"100/s burst 20\"",
        ),
        (
            "10/s; 1000/day burst 0",
            "0",
            22,
            "a burst of 0 admits nothing; it must be 1 or more",
        ),
        (
            "10/s; 0/day",
            "0",
            7,
            "a count of 0 admits nothing; it must be 1 or more",
        ),
        (
            "10/µs; 7/µs; 1000/day",
            "1000/day",
            14,
            "3 quotas; one limiter takes 1 to 2, and a gate any number of limiters",
        ),
        (
            "1/s; 2/s; 3/s ;4/s ",
            "3/s ;4/s",
            11,
            "4 quotas; one limiter takes 1 to 2, and a gate any number of limiters",
        ),
        ("10/s; 1000/day; 7", "7", 17, "say per what, as in \"7/s\""),
        (
            "10/s units 10; 1000/day units 100",
            "100",
            31,
            "100 units per token, and 10 in the quota before; it must be the same in both",
        ),
        (
            "10/s units 10; 1000/day",
            "1000",
            16,
            "1 units per token, and 10 in the quota before; it must be the same in both",
        ),
        (
            "10/s; 1MiB/day",
            "1MiB",
            7,
            "this is in bytes and the quota before is not; both must be the same",
        ),
        (
            "1MiB/s; 1000/day",
            "1000",
            9,
            "the quota before is in bytes and this is not; both must be the same",
        ),
        (
            "1/ns burst 9223372036854775808; 3/ns burst 9223372036854775807",
            "9223372036854775808",
            12,
            "a burst of 9223372036854775808 is too large beside the other quota; it must be 1 to 281474959933437",
        ),
    ];
    for (text, word, character, rest) in table {
        let place = if word == text {
            format!("{text:?}")
        } else if text.len() <= 48 {
            format!("{text:?}: at {word:?} (character {character})")
        } else {
            format!("at {word:?} (character {character})")
        };
        assert_eq!(refusal(text), format!("invalid quota {place}: {rest}"));
    }
}

#[test]
fn one_large_burst_leaves_room_for_a_small_one() {
    parse("1/ns; 1/ns burst 18446744073709551615");
    parse("1/ns burst 18446744073709551615; 1/ns");
}

/// The largest burst that an error names is accepted, and one more is not.
#[test]
fn the_largest_burst_that_is_named_is_the_largest() {
    let most = Quota::new(1, std::time::Duration::from_nanos(1)).expect("in range");
    let most = most.burst(1 << 60);
    for part in 0..2 {
        let pair = |burst| {
            let other = most.burst(1 << 59);
            match part {
                0 => Quotas::new([most.burst(burst), other]),
                _ => Quotas::new([other, most.burst(burst)]),
            }
        };
        let error = pair(1 << 60).expect_err("they take 120 bits").to_string();
        let (_, named) = error.rsplit_once("1 to ").expect("a range");
        let named: u64 = named.parse().expect("a number");
        assert!(pair(named).is_ok(), "{error}");
        assert!(pair(named + 1).is_err(), "{error}");
    }
}

#[test]
fn the_number_of_quotas_is_bounded() {
    let refusal = |number| {
        let error = Quotas::new([Quota::per_second(1)].repeat(number)).unwrap_err();
        error.to_string()
    };
    let range = "one limiter takes 1 to 2, and a gate any number of limiters";
    assert_eq!(refusal(0), format!("invalid quota: 0 quotas; {range}"));
    assert_eq!(refusal(3), format!("invalid quota: 3 quotas; {range}"));
    assert!(Quotas::new(core::iter::repeat(Quota::per_second(1))).is_err());
}

#[cfg(feature = "serde")]
#[test]
fn serde_is_the_text_form() {
    let quotas = parse("10/s burst 5; 1000/day");
    let json = serde_json::to_string(&quotas).expect("text");
    assert_eq!(json, "\"10/s burst 5; 1000/day\"");
    assert_eq!(
        serde_json::from_str::<Quotas>(&json).expect("quotas"),
        quotas
    );
    let error = serde_json::from_str::<Quotas>("\"10/s; 5\"").unwrap_err();
    assert!(
        error.to_string().contains("at \"5\" (character 7)"),
        "{error}"
    );
    let error = serde_json::from_str::<Quotas>("5").unwrap_err();
    assert!(error.to_string().contains("quotas such as"), "{error}");
}

proptest! {
    #[test]
    fn what_is_printed_is_read_as_an_equal_value(
        counts in prop::array::uniform2(1_u64..=1_000_000_000),
        periods in prop::array::uniform2(0_usize..5),
        bursts in prop::array::uniform2(prop::option::of(1_u64..=1_000_000_000)),
    ) {
        let quota = |i: usize| {
            let period = ["s", "min", "h", "day", "30d"][periods[i]];
            let quota: Quota = format!("{}/{period}", counts[i]).parse().expect("in range");
            match bursts[i] {
                Some(burst) => quota.burst(burst),
                None => quota,
            }
        };
        let quotas = Quotas::new([quota(0), quota(1)]).expect("in range");
        prop_assert_eq!(quotas.to_string().parse::<Quotas>(), Ok(quotas));
    }

    #[test]
    fn no_text_panics(text in "[0-9/; a-z.µ]{0,40}") {
        if let Ok(quotas) = text.parse::<Quotas>() {
            prop_assert_eq!(quotas.to_string().parse::<Quotas>(), Ok(quotas));
        }
    }
}
