//! Schedules against their closed form: request k is scheduled at ⌈k · period / count⌉ ns.

use std::time::Duration;

use flowgate::Quota;
use flowgate_schedule::{Schedule, ScheduleError};

fn lasting(rate: &str, duration: Duration) -> Schedule {
    Schedule::lasting(rate.parse().unwrap(), duration).unwrap()
}

#[test]
fn a_schedule_holds_rate_times_duration_requests_rounded_down_but_at_least_one() {
    let second = Duration::from_secs(1);
    for (rate, duration, len) in [
        ("1000/s", 5 * second, 5000),
        ("3/s", second / 2, 1),
        ("3/s", second, 3),
        ("2.5/s", second, 2),
        ("2.5/s", 2 * second, 5),
        ("90/min", 10 * second, 15),
        ("1/10s", second, 1),
        ("1/day", Duration::from_nanos(1), 1),
        ("1000000000/s", second, 1_000_000_000),
        ("10/s", second - Duration::from_nanos(1), 9),
    ] {
        assert_eq!(
            lasting(rate, duration).len(),
            len,
            "{rate} for {duration:?}"
        );
    }
}

#[test]
fn c8_every_request_is_due_at_the_closed_form_and_before_the_end() {
    for (rate, count, period_ns, duration_ms) in [
        ("1/s", 1, 1_000_000_000, 20_000),
        ("3/s", 3, 1_000_000_000, 20_000),
        ("7/min", 7, 60_000_000_000, 600_000),
        ("2.5/s", 5, 2_000_000_000, 20_000),
        ("9999/s", 9999, 1_000_000_000, 1_000),
        ("600000001/s", 600_000_001, 1_000_000_000, 0),
    ] {
        let duration = Duration::from_millis(duration_ms);
        let schedule = lasting(rate, duration).at_most(10_000);
        for index in 0..schedule.len() {
            let scheduled = (u128::from(index) * period_ns).div_ceil(count);
            assert_eq!(
                schedule.scheduled(index).unwrap().as_nanos(),
                scheduled,
                "{rate}, request {index}"
            );
            assert!(index == 0 || scheduled < duration.as_nanos());
        }
        assert_eq!(schedule.scheduled(schedule.len()), None);
    }
}

#[test]
fn c8_a_schedule_does_not_drift_over_a_year() {
    let year = Duration::from_secs(365 * 86_400);
    let schedule = lasting("3/s", 2 * year);
    let per_year = 3 * 365 * 86_400;
    assert_eq!(schedule.scheduled(per_year), Some(year));
    assert_eq!(
        schedule.scheduled(per_year + 1),
        Some(year + Duration::from_nanos(333_333_334))
    );
}

#[test]
fn a_count_of_requests_makes_a_schedule_of_its_own() {
    let schedule = Schedule::of(Quota::per_second(10), 25).unwrap();
    assert_eq!(
        (schedule.len(), schedule.span()),
        (25, Duration::from_millis(2400))
    );
    assert_eq!(schedule.interval(), Duration::from_millis(100));
    assert_eq!(
        schedule.clone().at_most(3).span(),
        Duration::from_millis(200)
    );
    assert_eq!(schedule.at_most(0).len(), 1);
    assert_eq!(Schedule::of(Quota::per_second(10), 0).unwrap().len(), 1);
}

#[test]
fn what_reaches_past_584_years_is_refused() {
    let yearly: Quota = "1/y".parse().unwrap();
    assert!(Schedule::of(yearly, 585).is_ok());
    assert_eq!(Schedule::of(yearly, 586), Err(ScheduleError::TooLong));
    assert_eq!(Schedule::of(yearly, u64::MAX), Err(ScheduleError::TooLong));
    let fast: Quota = "2000000000/s".parse().unwrap();
    assert_eq!(
        Schedule::lasting(fast, Duration::MAX),
        Err(ScheduleError::TooLong)
    );
}
