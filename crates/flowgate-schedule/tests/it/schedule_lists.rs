//! Bursts, and times that a text lists.

use std::io::{self, BufReader, Read};
use std::time::Duration;

use flowgate::Quota;
use flowgate_schedule::{Schedule, ScheduleError};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_burst_comes_when_its_first_request_would_at_a_constant_rate() {
    for (rate, size) in [
        ("100/s", 20),
        ("7/s", 3),
        ("20/10s", 20),
        ("5/s", 1),
        ("5/s", 0),
    ] {
        let quota: Quota = rate.parse().unwrap();
        let bursts = Schedule::bursts(quota, size, 30 * SECOND).unwrap();
        let size = size.max(1);
        let constant = Schedule::lasting(quota, 30 * SECOND).unwrap();
        assert_eq!(bursts.len(), constant.len() / size * size, "{rate}");
        for (index, scheduled) in (0..).zip(bursts.times()) {
            assert_eq!(
                Some(scheduled),
                constant.scheduled(index / size * size),
                "{rate}, {index}"
            );
        }
        assert!(
            bursts.times().skip(5).step_by(7).eq(bursts
                .times()
                .collect::<Vec<_>>()
                .into_iter()
                .skip(5)
                .step_by(7))
        );
    }
}

#[test]
fn a_duration_has_whole_bursts_and_at_least_one() {
    let quota = Quota::per_second(100);
    let lasting = |ms| Schedule::bursts(quota, 20, Duration::from_millis(ms)).unwrap();
    assert_eq!(
        [1, 200, 399, 400].map(|ms| lasting(ms).len()),
        [20, 20, 20, 40]
    );
    let counted = Schedule::bursts(quota, 20, 30).unwrap();
    assert_eq!((counted.len(), counted.span()), (30, SECOND / 5));
    assert_eq!(counted.highest_per_second(), Some(100.0));
    let yearly: Quota = "1/year".parse().unwrap();
    assert_eq!(
        Schedule::bursts(yearly, 10, 1000),
        Err(ScheduleError::TooLong)
    );
    // However many there are: all of them are scheduled for the same time.
    let all = Schedule::bursts(yearly, u64::MAX, SECOND).unwrap();
    assert_eq!((all.len(), all.span()), (u64::MAX, Duration::ZERO));
}

fn replay(text: &str) -> Result<Schedule, String> {
    Schedule::replay(text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn each_line_is_a_due_time() {
    let text = "# seconds\n0\n0.000000001\r\n\n  1.5 \n1.5\n01.50\n2.\n.25e\n";
    assert!(replay(text).is_err());
    let schedule = replay(&text.replace(".25e", "18446744073.709551615")).unwrap();
    let nanos: Vec<_> = schedule
        .times()
        .map(|scheduled| scheduled.as_nanos())
        .collect();
    let half = 1_500_000_000;
    assert_eq!(
        nanos,
        [0, 1, half, half, half, 2_000_000_000, u128::from(u64::MAX)]
    );
    assert_eq!(replay(".5").unwrap().scheduled(0), Some(SECOND / 2));
    // Late rather than early, and in order.
    let rounded = replay("0.0000000001\n0.0000000010\n0.00000000100\n0.0000000011").unwrap();
    let nanos: Vec<_> = rounded
        .times()
        .map(|scheduled| scheduled.as_nanos())
        .collect();
    assert_eq!(nanos, [1, 1, 1, 2]);
    assert_eq!(
        (schedule.interval(), schedule.per_second().is_some()),
        (Duration::ZERO, true)
    );
    assert_eq!(replay("3\n3").unwrap().per_second(), None);
}

#[test]
fn the_busiest_second_of_a_replay_says_how_many_are_on_their_way() {
    let schedule = replay("0\n5\n5.1\n5.2\n5.999999999\n6.0\n6.5\n9").unwrap();
    // 5 up to but not including 6, and 5.1 to 6.0 as well: 4; 5.2 to 6.0: 3; 5.999999999 on: 3.
    assert_eq!(schedule.highest_per_second(), Some(4.0));
}

#[test]
fn what_is_no_time_is_named_by_its_line() {
    let long = "9".repeat(1000);
    for (text, expected) in [
        ("0\nsoon\n", "line 2: \"soon\" is not a time"),
        ("# a\n\n-1\n", "line 3: \"-1\" is not a time"),
        ("1e3", "line 1: \"1e3\""),
        ("1,5", "line 1: \"1,5\""),
        ("NaN", "line 1: \"NaN\""),
        ("inf", "line 1: \"inf\""),
        (".", "line 1: \".\""),
        ("1 GET /", "line 1: \"1 GET /\""),
        ("+1", "line 1: \"+1\""),
        (
            "0\n2\n1.5\n",
            "line 3: 1.5 is earlier than 2, the previous time",
        ),
        (
            "18446744073.709551616",
            "line 1: 18446744073.709551616 s exceed the maximum of 584 years",
        ),
        ("99999999999999999999999999999999999999999999", "584 years"),
        (
            &long,
            "line 1: \"9999999999999999999999999999999999999999\" is not a time",
        ),
        ("", "contains no times"),
        ("# nothing\n\n", "contains no times"),
    ] {
        let error = replay(text).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let binary = Schedule::replay(&[0, 255, 254, 10][..]).unwrap_err();
    assert!(binary.to_string().contains("line 1"), "{binary}");
}

#[test]
fn a_long_comment_is_passed_over() {
    let comment = "#".repeat(10_000);
    assert_eq!(replay(&format!("{comment}\n1\n")).unwrap().len(), 1);
    assert_eq!(replay(&format!("1\n{comment}")).unwrap().len(), 1);
    for length in 250..260 {
        let text = format!("#{}\n1\n2", "x".repeat(length));
        assert_eq!(replay(&text).unwrap().len(), 2, "{length}");
    }
}

/// A reader that never ends is read no further than the most that is kept.
#[test]
fn reading_is_bounded_and_its_errors_are_told() {
    let endless = BufReader::new(io::repeat(b'7'));
    let error = Schedule::replay(endless).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");

    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let error = Schedule::replay(BufReader::new(Broken)).unwrap_err();
    assert_eq!(error.to_string(), "cannot be read: the disk is gone");
}
