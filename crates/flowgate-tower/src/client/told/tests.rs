use super::*;

fn told(fields: &[(&'static str, &'static str)]) -> Told {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_static(value));
    }
    // 2026-11-22 06:00:00 UTC
    Told::of(&headers, UNIX_EPOCH + Duration::from_secs(1_795_327_200))
}

const fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

#[test]
fn the_tightest_of_several_limits_is_told() {
    let told = told(&[
        (
            "ratelimit-policy",
            "\"hour\";q=1000;w=3600, \"minute\";q=50;w=60",
        ),
        ("ratelimit", "\"hour\";r=800;t=1800, \"minute\";r=3;t=20"),
    ]);
    let expected = Told {
        retry_after: None,
        remaining: Some(3),
        more_after: seconds(20),
        limit: Some(50),
        window: seconds(60),
    };
    assert_eq!(told, expected);
}

#[test]
fn exact_times_are_read_unless_they_are_contradicted() {
    let micros = |micros| Some(Duration::from_micros(micros));
    for (text, expected) in [
        ("\"a\";r=0;t_us=10000", micros(10_000)),
        ("\"a\";r=0;t=8;t_us=7500001", micros(7_500_001)),
        ("\"a\";r=0;t=8;t_us=8000001", seconds(8)),
        ("\"a\";r=0;t=8;t_us=-1", seconds(8)),
    ] {
        assert_eq!(told(&[("ratelimit", text)]).more_after, expected, "{text}");
    }
}

#[test]
fn older_fields_are_read_too() {
    let expected = Told {
        retry_after: None,
        remaining: Some(9),
        more_after: seconds(30),
        limit: Some(10),
        window: None,
    };
    for fields in [
        &[
            ("x-ratelimit-limit", "10"),
            ("x-ratelimit-remaining", "9"),
            ("x-ratelimit-reset", "1795327230"),
        ][..],
        &[
            ("ratelimit-limit", "10, 10;w=60"),
            ("ratelimit-remaining", " 9"),
            ("ratelimit-reset", "30"),
        ],
        &[("ratelimit", "limit=10, remaining=9, reset=30")],
    ] {
        assert_eq!(told(fields), expected, "{fields:?}");
    }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    for (text, expected) in [
        ("7", seconds(7)),
        ("0", seconds(0)),
        ("Sun, 22 Nov 2026 06:00:05 GMT", seconds(5)),
        ("Sun, 22 Nov 2026 05:00:00 GMT", seconds(0)),
        ("soon", None),
        ("-1", None),
        ("", None),
    ] {
        assert_eq!(
            told(&[("retry-after", text)]).retry_after,
            expected,
            "{text}"
        );
    }
}

#[test]
fn what_cannot_be_read_says_nothing() {
    for (name, text) in [
        ("ratelimit", "default;r=1;t=2"),
        ("ratelimit", "\"default"),
        ("ratelimit", "limit"),
        ("ratelimit", "\"a\";r=-1;t=1.5"),
        ("x-ratelimit-limit", "many"),
        ("x-ratelimit-limit", "99999999999999999999"),
        ("ratelimit-policy", "\"a\";q=\"1\""),
    ] {
        assert_eq!(told(&[(name, text)]), Told::default(), "{name}: {text}");
    }
}
