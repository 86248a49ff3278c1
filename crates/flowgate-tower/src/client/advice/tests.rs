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
    advice(&response, now)
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
            assert_eq!(found, Advice::Stop(expected), "{text}");
        }
        assert_eq!(said(200, &[("retry-after", text)]), Advice::Fine, "{text}");
    }
}

#[test]
fn rate_limit_is_read_where_nothing_is_left() {
    let table = [
        ("\"default\";r=0;t=30", Advice::Rest(seconds(30))),
        ("\"default\";t=30;r=0", Advice::Rest(seconds(30))),
        (
            "\"a\";r=0;t=5, \"b\";r=0;t=7,\"c\";r=3;t=90",
            Advice::Rest(seconds(7)),
        ),
        ("\"a\\\" ;r=1, \";r=0;t=5", Advice::Rest(seconds(5))),
        (
            "\"a\"; r=0; t=5;pk=:cHsdsRa894==:",
            Advice::Rest(seconds(5)),
        ),
        ("\"a\";x;r=0;t=5", Advice::Rest(seconds(5))),
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
    assert_eq!(said(200, &two_lines), Advice::Rest(seconds(6)));
    let both = [("ratelimit", "\"a\";r=0;t=5"), ("retry-after", "9")];
    assert_eq!(said(429, &both), Advice::Stop(Some(seconds(9))));
    assert_eq!(said(503, &two_lines), Advice::Stop(Some(seconds(6))));
    assert_eq!(said(503, &[]), Advice::Stop(None));
}

proptest! {
    #[test]
    fn nothing_that_is_answered_panics(text in "[ -~]{0,80}", items_like in "(\"[a-z\\\\\"]{0,3}\"?(;[rt]=[0-9.-]{0,3}){0,3}[, ]{0,2}){0,4}") {
        for text in [&text, &items_like] {
            said(429, &[("retry-after", text), ("ratelimit", text)]);
        }
    }
}
