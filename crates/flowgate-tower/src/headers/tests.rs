use super::*;

#[test]
fn c3_seconds_are_rounded_up_and_retry_after_is_never_0() {
    let table = [
        (Duration::ZERO, 0, 1),
        (Duration::from_nanos(1), 1, 1),
        (Duration::from_millis(900), 1, 1),
        (Duration::from_secs(1), 1, 1),
        (Duration::new(1, 1), 2, 2),
        (Duration::new(59, 999_999_999), 60, 60),
        (Duration::from_secs(u64::MAX), u64::MAX, u64::MAX),
        (Duration::MAX, u64::MAX, u64::MAX),
    ];
    for (time, whole, retry_after) in table {
        assert_eq!(whole_seconds(time), whole, "{time:?}");
        assert_eq!(retry_after_seconds(time), retry_after, "{time:?}");
    }
}

#[test]
fn c3_an_epoch_is_never_before_the_reset() {
    let now = UNIX_EPOCH + Duration::new(1_000_000_000, 700_000_000);
    assert_eq!(epoch(now, Duration::ZERO), 1_000_000_001);
    assert_eq!(epoch(now, Duration::from_millis(300)), 1_000_000_001);
    assert_eq!(epoch(now, Duration::from_millis(301)), 1_000_000_002);
    assert_eq!(epoch(now, Duration::MAX), u64::MAX);
    let before_1970 = UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(epoch(before_1970, Duration::from_secs(5)), 5);
}

#[test]
fn a_name_can_be_anything() {
    let table = [
        ("tenants", "tenants"),
        ("say \"hi\"", "say \\\"hi\\\""),
        ("a\\b", "a\\\\b"),
        ("grüße\r\n\0", "gr__e___"),
        ("", ""),
    ];
    for (name, written) in table {
        assert_eq!(escaped(name), written);
        assert_eq!(quoted(name), format!("\"{written}\""));
    }
}

#[test]
fn an_integer_has_15_digits_at_the_most() {
    let values = [
        0,
        1,
        9,
        10,
        99,
        100,
        12_345,
        MOST - 1,
        MOST,
        MOST + 1,
        u64::MAX,
    ];
    for value in values {
        let mut parameters = Parameters::default();
        parameters.integer(b";r=", value);
        let written = format!(";r={}", value.min(MOST));
        assert_eq!(parameters.text(), written.as_bytes());
    }
}

#[test]
fn the_longest_parameters_that_there_are_fit() {
    let mut parameters = Parameters::default();
    parameters.integer(b";q=", u64::MAX);
    parameters.push(b";qu=\"concurrent-requests\"");
    parameters.integer(b";w=", u64::MAX);
    let written = format!(";q={MOST};qu=\"concurrent-requests\";w={MOST}");
    assert_eq!(parameters.text(), written.as_bytes());
}

#[test]
fn c3_microseconds_are_rounded_up() {
    let table = [
        (Duration::ZERO, 0),
        (Duration::from_nanos(1), 1),
        (Duration::from_micros(10_000), 10_000),
        (Duration::new(1, 999_999_001), 2_000_000),
        (Duration::MAX, u64::MAX),
    ];
    for (time, expected) in table {
        assert_eq!(whole_micros(time), expected, "{time:?}");
    }
}

#[test]
fn the_longest_standing_fits() {
    let mut parameters = Parameters::default();
    for name in [&b";r="[..], b";t=", b";t_us="] {
        parameters.integer(name, u64::MAX);
    }
    assert_eq!(parameters.text().len(), 57);
}

#[test]
fn items_of_a_list_are_apart() {
    let mut parameters = Parameters::default();
    parameters.integer(b";r=", 7);
    let mut list = Vec::new();
    add_item(&mut list, b"\"a\"", &parameters);
    assert_eq!(list, b"\"a\";r=7");
    assert_eq!(list.capacity(), list.len());
    add_item(&mut list, b"\"b\"", &parameters);
    assert_eq!(list, b"\"a\";r=7, \"b\";r=7");
}
