use super::*;
use proptest::prelude::*;
use std::time::UNIX_EPOCH;

fn said(status: u16, fields: &[(&str, &str)]) -> Advice {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    let response = response.body(()).expect("a response");
    // Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110's examples.
    let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
    advice(&response, now, true)
}

fn stop(time: Option<Duration>) -> Advice {
    Advice::Stop(Stop { time, each: None })
}

/// `t` of `n` seconds.
fn rest_of(n: u64) -> Advice {
    rest(seconds(n - 1), seconds(n))
}

fn rest(certain: Duration, full: Duration) -> Advice {
    Advice::Rest(Rest {
        certain,
        full,
        most: full,
        each: None,
    })
}

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn retry_after_is_a_number_of_seconds_or_a_date() {
    let table = [
        ("120", Some(seconds(120))),
        (" 0 ", Some(seconds(0))),
        (
            "99999999999999999999999",
            Some(Duration::from_secs(u64::MAX)),
        ),
        ("Sun, 06 Nov 1994 08:51:37 GMT", Some(seconds(120))),
        ("Sunday, 06-Nov-94 08:51:37 GMT", Some(seconds(120))),
        ("Sun Nov  6 08:51:37 1994", Some(seconds(120))),
        ("Sun, 06 Nov 1994 08:00:00 GMT", Some(seconds(0))),
        ("-1", None),
        ("1.5", None),
        ("", None),
        ("soon", None),
    ];
    for (text, expected) in table {
        for status in [429, 503] {
            let found = said(status, &[("retry-after", text)]);
            assert_eq!(found, stop(expected), "{text}");
        }
        assert_eq!(said(200, &[("retry-after", text)]), Advice::Fine, "{text}");
    }
}

#[test]
fn rate_limit_is_read_where_nothing_is_left() {
    let table = [
        ("\"default\";r=0;t=30", rest_of(30)),
        ("\"default\";t=30;r=0", rest_of(30)),
        ("\"a\";r=0;t=5, \"b\";r=0;t=7,\"c\";r=3;t=90", rest_of(7)),
        ("\"a\\\" ;r=1, \";r=0;t=5", rest_of(5)),
        ("\"a\"; r=0; t=5;pk=:cHsdsRa894==:", rest_of(5)),
        ("\"a\";x;r=0;t=5", rest_of(5)),
        ("\"a\";r=50;t=30", Advice::Fine),
        ("\"a\";r=0", Advice::Fine),
        ("\"a\";r=-0;t=5", Advice::Fine),
        ("\"a\";r=0;t=1.5", Advice::Fine),
        ("\"a\";r=0;t=1000000000000000", Advice::Fine),
        ("", Advice::Fine),
        // Not a field of this kind.
        ("limit=100, remaining=0, reset=5", Advice::Fine),
        ("\"a;r=0;t=5", Advice::Fine),
        ("\"a\";r=0;t=5 \"b\"", Advice::Fine),
        ("\"a\";=0;r=0;t=5", Advice::Fine),
    ];
    for (text, expected) in table {
        assert_eq!(said(200, &[("ratelimit", text)]), expected, "{text}");
    }
    let two_lines = [
        ("ratelimit", "\"a\";r=0;t=5"),
        ("ratelimit", "\"b\";r=0;t=6"),
    ];
    assert_eq!(said(200, &two_lines), rest_of(6));
    let both = [("ratelimit", "\"a\";r=0;t=5"), ("retry-after", "9")];
    assert_eq!(said(429, &both), stop(Some(seconds(9))));
    assert_eq!(said(503, &two_lines), stop(Some(seconds(6))));
    assert_eq!(said(503, &[]), stop(None));
}

/// A policy bounds both: the window bounds the wait, and its rate what rounding up can have added.
#[test]
fn a_wait_is_never_longer_than_the_policys_rate_implies() {
    let ms = Duration::from_millis;
    let table = [
        ("\"a\";q=100;w=1", "\"a\";r=0;t=1", (seconds(0), ms(10))),
        (
            "\"a\";q=1;w=60",
            "\"a\";r=0;t=30",
            (seconds(29), seconds(30)),
        ),
        (
            "\"a\";q=5;w=10",
            "\"a\";r=0;t=90",
            (seconds(10), seconds(10)),
        ),
        (
            "\"a\";q=100;w=1",
            "\"a\";r=0;t=9;t_us=8500000",
            (seconds(2), seconds(2)),
        ),
    ];
    for (policy, standing, (certain, full)) in table {
        let found = said(
            200,
            &[("ratelimit-policy", policy), ("ratelimit", standing)],
        );
        let Advice::Rest(rest) = found else {
            panic!("{standing}: {found:?}")
        };
        assert_eq!((rest.certain, rest.full), (certain, full), "{standing}");
        assert!(rest.each.is_some());
    }
    // Of another limit, or without a rate.
    for policy in [
        "\"b\";q=100;w=1",
        "\"a\";q=100",
        "\"a\";q=0;w=1",
        "\"a\";q=1;w=0",
    ] {
        let fields = [("ratelimit-policy", policy), ("ratelimit", "\"a\";r=0;t=5")];
        assert_eq!(said(200, &fields), rest_of(5), "{policy}");
    }
}

#[test]
fn exact_times_replace_those_that_are_rounded_up() {
    let us = Duration::from_micros;
    let ten_ms = rest(us(10_000), us(10_000));
    assert_eq!(said(200, &[("ratelimit", "\"a\";r=0;t_us=10000")]), ten_ms);
    assert_eq!(
        said(200, &[("ratelimit", "\"a\";r=0;t=1;t_us=10000")]),
        ten_ms
    );
    // They contradict each other.
    assert_eq!(
        said(200, &[("ratelimit", "\"a\";r=0;t=5;t_us=10000")]),
        rest_of(5)
    );
    for (retry_after, standing, expected) in [
        ("1", "\"a\";r=0;t_us=10000", us(10_000)),
        ("8", "\"a\";r=0;t=8;t_us=7500000", us(7_500_000)),
        ("9", "\"a\";r=0;t=8;t_us=7500000", seconds(9)),
        ("1", "\"a\";r=1;t_us=10000", seconds(1)),
        ("0", "\"a\";r=0;t_us=10000", seconds(0)),
    ] {
        let found = said(
            429,
            &[("retry-after", retry_after), ("ratelimit", standing)],
        );
        assert_eq!(found, stop(Some(expected)), "{retry_after} {standing}");
    }
    assert_eq!(
        said(429, &[("ratelimit", "\"a\";r=0;t_us=10000")]),
        stop(Some(us(10_000)))
    );
}

#[test]
fn trailers_of_grpc_alone_are_a_refusal() {
    let ms = |n| Some(Duration::from_millis(n));
    for status in ["8", "14"] {
        for (pushback, standing, expected) in [
            ("250", "", ms(250)),
            ("0", "", ms(0)),
            ("-1", "", None),
            ("soon", "", None),
            (
                "10",
                "\"a\";r=0;t_us=9001",
                Some(Duration::from_micros(9001)),
            ),
            ("11", "\"a\";r=0;t_us=9001", ms(11)),
        ] {
            let fields = [
                ("grpc-status", status),
                ("grpc-retry-pushback-ms", pushback),
                ("ratelimit", standing),
            ];
            assert_eq!(said(200, &fields), stop(expected), "{pushback}");
        }
        let fields = [("grpc-status", status), ("retry-after", "3")];
        assert_eq!(said(200, &fields), stop(Some(seconds(3))));
        assert_eq!(said(200, &[("grpc-status", status)]), stop(None));
    }
    for status in ["0", "3", "13", "80", ""] {
        assert_eq!(said(200, &[("grpc-status", status)]), Advice::Fine);
    }
}

#[test]
fn rate_limit_is_not_heeded_if_so_told() {
    let said = |status: u16| {
        let response = Response::builder().status(status);
        let response = response.header("ratelimit", "\"a\";r=0;t=5;t_us=4500000");
        let response = response.header("retry-after", "5").body(());
        advice(&response.expect("a response"), UNIX_EPOCH, false)
    };
    assert_eq!(said(200), Advice::Fine);
    assert_eq!(said(429), stop(Some(seconds(5))));
}

proptest! {
    #[test]
    fn nothing_that_is_answered_panics(text in "[ -~]{0,80}", items_like in "(\"[a-z\\\\\"]{0,3}\"?(;[rt]=[0-9.-]{0,3}){0,3}[, ]{0,2}){0,4}") {
        for text in [&text, &items_like] {
            said(429, &[("retry-after", text), ("ratelimit", text)]);
        }
    }
}
