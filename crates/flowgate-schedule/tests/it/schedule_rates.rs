//! Rates that change, against the integral of the rate: request k is scheduled when it begins to exceed k.

use std::time::Duration;

use flowgate::Quota;
use flowgate_schedule::{MAX_SEGMENTS, Schedule, ScheduleError, Segment};

const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);

fn rate(text: &str) -> Option<Quota> {
    (text != "0").then(|| text.parse().unwrap())
}

/// `(seconds, from, to)`
fn plan(parts: &[(u64, &str, &str)]) -> Schedule {
    let segments: Vec<_> = parts
        .iter()
        .map(|(seconds, from, to)| Segment {
            duration: Duration::from_secs(*seconds),
            from: rate(from),
            to: rate(to),
        })
        .collect();
    Schedule::segments(&segments).unwrap()
}

/// Requests scheduled in `start..end`, found by asking for each.
fn due_between(schedule: &Schedule, start: Duration, end: Duration) -> usize {
    schedule
        .times()
        .filter(|scheduled| (start..end).contains(scheduled))
        .count()
}

/// In ascending order, and the same whether asked for one by one or in turn, by one or by three.
fn check_order(schedule: &Schedule) {
    let times: Vec<_> = schedule.times().collect();
    assert_eq!(times.len() as u64, schedule.len());
    assert!(times.is_sorted());
    for (index, scheduled) in (0..).zip(&times) {
        assert_eq!(
            schedule.scheduled(index),
            Some(*scheduled),
            "request {index}"
        );
    }
    for worker in 0..3 {
        let of_worker = times.iter().copied().skip(worker).step_by(3);
        assert!(schedule.times().skip(worker).step_by(3).eq(of_worker));
    }
    assert_eq!(schedule.scheduled(schedule.len()), None);
    assert_eq!(times.last(), Some(&schedule.span()));
}

#[test]
fn a_ramp_between_equal_rates_is_the_constant_rate() {
    for text in [
        "1/s",
        "3/s",
        "7/min",
        "2.5/s",
        "9999/s",
        "1/3s",
        "1000000000/s",
        "1/year",
    ] {
        let duration = 100 * SECOND;
        let constant = Schedule::lasting(text.parse().unwrap(), duration).unwrap();
        let ramp = Schedule::ramp(rate(text), rate(text), duration).unwrap();
        assert_eq!(ramp.len(), constant.len(), "{text}");
        let last = constant.len() - 1;
        for index in (0..last.min(5000)).chain([last / 3, last / 2, last]) {
            assert_eq!(
                ramp.scheduled(index),
                constant.scheduled(index),
                "{text}, {index}"
            );
        }
        assert_eq!(ramp.interval(), constant.interval(), "{text}");
    }
}

/// The oracle is the same inequality with everything multiplied out, in whole requests per whole
/// nanoseconds: c₁/p₁ · t + (c₂/p₂ − c₁/p₁) · t² / 2T ≥ k.
#[test]
fn c8_every_request_of_a_ramp_is_due_at_the_least_nanosecond_at_which_the_integral_reaches_it() {
    for (from, to, seconds) in [
        ((1_i128, 10_000_000_i128), (1, 200_000), 10),
        ((1, 200_000), (1, 10_000_000), 10),
        ((0, 1), (1, 1_000_000), 5),
        ((1, 1_000_000), (0, 1), 5),
        ((7, 60_000_000), (3, 1_000_000), 3),
        ((1, 3_000_000), (1, 2_999_999), 7),
    ] {
        let quota = |(count, period): (i128, i128)| {
            (count > 0).then(|| {
                let period = Duration::from_nanos(u64::try_from(period).unwrap());
                Quota::new(u64::try_from(count).unwrap(), period).unwrap()
            })
        };
        let ramp = Schedule::ramp(quota(from), quota(to), seconds * SECOND).unwrap();
        let twice = 2 * i128::from(seconds) * 1_000_000_000;
        let is_reached = |index: u64, t: i128| {
            from.0 * to.1 * twice * t + (to.0 * from.1 - from.0 * to.1) * t * t
                >= i128::from(index) * from.1 * to.1 * twice
        };
        let all = (from.0 * to.1 + to.0 * from.1) * twice / (4 * from.1 * to.1);
        assert_eq!(i128::from(ramp.len()), all, "{from:?} to {to:?}");
        for (index, scheduled) in (0..).zip(ramp.times()) {
            let scheduled = i128::try_from(scheduled.as_nanos()).unwrap();
            assert!(is_reached(index, scheduled), "{from:?} to {to:?}, {index}");
            let is_least = scheduled == 0 || !is_reached(index, scheduled - 1);
            assert!(is_least, "{from:?} to {to:?}, {index}");
        }
        check_order(&ramp);
    }
}

#[test]
fn each_part_of_a_plan_has_the_requests_of_its_own_integral() {
    let schedule = plan(&[
        (30, "50/s", "50/s"),
        (60, "200/s", "200/s"),
        (10, "200/s", "1000/s"),
        (5, "0", "0"),
        (2, "0", "3/s"),
        (4, "3/s", "0"),
        (10, "90/min", "90/min"),
    ]);
    let mut start = Duration::ZERO;
    for (seconds, count) in [
        (30, 1500),
        (60, 12_000),
        (10, 6000),
        (5, 0),
        (2, 3),
        (4, 6),
        (10, 15),
    ] {
        let end = start + seconds * SECOND;
        assert_eq!(due_between(&schedule, start, end), count, "{start:?}");
        start = end;
    }
    assert_eq!(schedule.len(), 19_524);
    check_order(&schedule);
}

#[test]
fn nothing_is_missing_or_doubled_at_a_seam() {
    // The last request of a part and the first of the next are as far apart as the rates say.
    let schedule = plan(&[
        (1, "10/s", "10/s"),
        (1, "100/s", "100/s"),
        (1, "10/s", "10/s"),
    ]);
    let ms = |index| schedule.scheduled(index).unwrap().as_millis();
    assert_eq!((ms(9), ms(10), ms(11)), (900, 1000, 1010));
    assert_eq!((ms(109), ms(110), ms(111)), (1990, 2000, 2100));

    // A part that ends within a request hands the rest on: 2.5, then 1 more at double speed.
    let schedule = plan(&[(5, "1/2s", "1/2s"), (1, "1/s", "1/s")]);
    assert_eq!(schedule.scheduled(2), Some(4 * SECOND));
    assert_eq!(schedule.len(), 3);
    let schedule = plan(&[(5, "1/2s", "1/2s"), (2, "1/s", "1/s")]);
    assert_eq!(schedule.scheduled(3), Some(SECOND * 11 / 2));

    // One request in three parts of a third each, and in parts that are no whole numbers at all.
    assert_eq!(plan(&[(1, "1/3s", "1/3s"); 3]).len(), 1);
    assert_eq!(plan(&[(1, "1/3s", "1/3s"); 6]).len(), 2);
    let split = plan(&[(1, "7/3s", "7/3s"); 900]);
    let whole = plan(&[(900, "7/3s", "7/3s")]);
    assert!(split.times().eq(whole.times()));
    // Four ramps of half a request each, with an odd number of nanoseconds.
    let odd = Duration::from_nanos(999_999_999);
    let half = Segment {
        duration: odd,
        from: None,
        to: Some(Quota::new(1, odd).unwrap()),
    };
    let halves = Schedule::segments(&[half; 4]).unwrap();
    assert_eq!((halves.len(), halves.scheduled(1)), (2, Some(2 * odd)));
    // A ramp cut in two where its rate is 3/s.
    let split = plan(&[(1, "0", "3/s"), (2, "3/s", "9/s")]);
    assert!(split.times().eq(plan(&[(3, "0", "9/s")]).times()));
}

#[test]
fn a_request_that_falls_on_a_pause_waits_for_its_end() {
    let schedule = plan(&[
        (2, "0", "0"),
        (3, "1/s", "1/s"),
        (5, "0", "0"),
        (1, "2/s", "2/s"),
    ]);
    let scheduled: Vec<_> = schedule
        .times()
        .map(|scheduled| scheduled.as_millis())
        .collect();
    assert_eq!(scheduled, [2000, 3000, 4000, 10_000, 10_500]);
    let at_the_end = plan(&[(3, "1/s", "1/s"), (5, "0", "0")]);
    assert_eq!((at_the_end.len(), at_the_end.span()), (3, 2 * SECOND));
    assert_eq!(
        plan(&[(9, "0", "0"), (1, "1/day", "1/day")]).scheduled(0),
        Some(9 * SECOND)
    );
}

#[test]
fn c8_a_plan_does_not_drift_over_a_century() {
    let year = 365 * 86_400;
    let schedule = plan(&[(99 * year, "3/s", "3/s"), (year, "0", "6/s")]);
    let last = 3 * 100 * year;
    assert_eq!(schedule.len(), last);
    assert_eq!(
        schedule.scheduled(3 * year + 1),
        Some(Duration::from_secs(year) + SECOND / 3 + NANO)
    );
    assert_eq!(
        schedule.scheduled(3 * 99 * year),
        Some(Duration::from_secs(99 * year))
    );
    // A quarter of the ramp's requests by half its time.
    let scheduled = schedule.scheduled(3 * 99 * year + 3 * year / 4).unwrap();
    assert_eq!(scheduled, Duration::from_secs(99 * year + year / 2));
}

#[test]
fn the_interval_is_that_of_the_highest_rate() {
    let ramp = plan(&[(1, "10/s", "300/s"), (1, "100/s", "0")]);
    assert_eq!(ramp.interval(), Duration::from_nanos(3_333_334));
    assert_eq!(ramp.highest_per_second(), Some(300.0));
    assert_eq!(ramp.constant(), None);
}

#[test]
fn a_plan_that_cannot_be_kept_is_refused() {
    let segment = |duration, text| Segment {
        duration,
        from: rate(text),
        to: rate(text),
    };
    let refusal = |segments: &[Segment]| Schedule::segments(segments).unwrap_err();
    assert_eq!(refusal(&[]), ScheduleError::NoRequests);
    assert_eq!(refusal(&[segment(SECOND, "0")]), ScheduleError::NoRequests);
    assert_eq!(
        refusal(&[segment(Duration::ZERO, "1/s")]),
        ScheduleError::NoRequests
    );
    let fast = "1000000001/s";
    let error = refusal(&[segment(SECOND, fast)]);
    assert_eq!(error, ScheduleError::TooFast(rate(fast).unwrap()));
    assert!(error.to_string().contains(fast), "{error}");
    let long = Duration::from_nanos(1 << 62);
    assert!(Schedule::segments(&[segment(long, "1000000000/s")]).is_ok());
    for segments in [
        &[segment(long, "1/s"), segment(NANO, "1/s")][..],
        &[segment(Duration::MAX, "1/s")],
        &[segment(SECOND, "1/s"), segment(Duration::MAX, "1/s")],
    ] {
        assert_eq!(refusal(segments), ScheduleError::SegmentsTooLong);
    }
    let many = vec![segment(SECOND, "1/s"); MAX_SEGMENTS + 1];
    assert_eq!(
        refusal(&many),
        ScheduleError::TooManySegments(MAX_SEGMENTS + 1)
    );
    assert!(Schedule::segments(&many[1..]).is_ok());
    let odd = |ns| Segment {
        duration: SECOND,
        from: Some(Quota::new(1, Duration::from_nanos(ns)).unwrap()),
        to: None,
    };
    // Two primes a little below 2³².
    let (one, other) = (odd(4_294_967_291), odd(4_294_967_279));
    assert!(Schedule::segments(&[one]).is_ok());
    assert_eq!(refusal(&[one, other]), ScheduleError::NoCommonPeriod);
}

#[test]
fn the_largest_numbers_that_are_accepted_are_computed_without_wrapping() {
    let duration = Duration::from_nanos(1 << 62);
    for (from, to) in [
        ("1000000000/s", "0"),
        ("0", "1000000000/s"),
        ("1/year", "1000000000/s"),
    ] {
        let schedule = Schedule::ramp(rate(from), rate(to), duration).unwrap();
        let last = schedule.len() - 1;
        for index in [0, 1, 2, last / 3, last / 2, last - 1, last] {
            let (scheduled, next) = (
                schedule.scheduled(index).unwrap(),
                schedule.scheduled(index + 1),
            );
            assert!(
                scheduled <= duration && next.is_none_or(|next| scheduled <= next),
                "{from}:{to} {index}"
            );
        }
    }
}

fn wave(mean: &str, amplitude: &str, period: Duration, duration: Duration) -> Schedule {
    let [mean, amplitude] = [mean, amplitude].map(|text| text.parse().unwrap());
    Schedule::sine(mean, amplitude, period, duration).unwrap()
}

#[test]
fn a_sine_has_its_mean_in_every_whole_period_and_more_in_the_first_half() {
    use std::f64::consts::PI;
    for (mean, amplitude, seconds) in [(500, 300, 60), (100, 100, 10), (1000, 1, 1), (7, 3, 86_400)]
    {
        let period = Duration::from_secs(seconds);
        let schedule = wave(
            &format!("{mean}/s"),
            &format!("{amplitude}/s"),
            period,
            3 * period,
        );
        let per_period = mean * seconds;
        assert_eq!(schedule.len(), 3 * per_period);
        for whole in 0..3 {
            let scheduled = schedule.scheduled(u64::from(whole) * per_period);
            assert_eq!(scheduled, Some(whole * period));
        }
        // amplitude · period / π more than the mean.
        let surplus = (amplitude * seconds) as f64 / PI;
        let first_half = (per_period as f64 / 2.0 + surplus).ceil();
        let found = due_between(&schedule, Duration::ZERO, period / 2);
        assert_eq!(found as f64, first_half, "{mean} {amplitude} {seconds}");
        if seconds < 100 {
            check_order(&schedule);
        }
    }
}

#[test]
fn every_request_of_a_sine_is_due_where_the_integral_reaches_it() {
    use std::f64::consts::PI;
    for amplitude in [0.001, 300.0, 499.999, 500.0] {
        let period = Duration::from_secs(8);
        let schedule = wave("500/s", &format!("{amplitude}/s"), period, 2 * period);
        let integral = |seconds: f64| {
            500.0 * seconds
                + amplitude * 8.0 / (2.0 * PI) * (1.0 - (2.0 * PI * seconds / 8.0).cos())
        };
        for (index, scheduled) in (0_u32..).zip(schedule.times()) {
            let (before, at) = (
                (scheduled.saturating_sub(NANO)).as_secs_f64(),
                scheduled.as_secs_f64(),
            );
            let index = f64::from(index);
            assert!(integral(at) > index - 1e-9, "{amplitude}, {index}");
            assert!(
                index == 0.0 || integral(before) < index + 1e-9,
                "{amplitude}, {index}"
            );
        }
    }
}

#[test]
fn a_sine_lasts_as_long_or_as_many_requests_as_is_asked() {
    let [mean, amplitude]: [Quota; 2] = ["10/s", "10/s"].map(|text| text.parse().unwrap());
    let schedule = Schedule::sine(mean, amplitude, 4 * SECOND, 1000).unwrap();
    assert_eq!(schedule.len(), 1000);
    assert_eq!(schedule.scheduled(40), Some(4 * SECOND));
    assert_eq!(schedule.interval(), SECOND / 20);
    assert_eq!(schedule.highest_per_second().map(f64::ceil), Some(20.0));
    // 1.67 in the first period and 0.57 in the part of the second.
    let schedule = wave("5/3s", "1/3s", SECOND, SECOND * 13 / 10);
    assert_eq!(schedule.len(), 2);
    // Over 100 years.
    let year = Duration::from_secs(365 * 86_400);
    let schedule = wave("10/s", "10/s", 4 * SECOND, 100 * year);
    assert_eq!(schedule.len(), 10 * 100 * 365 * 86_400);
    assert_eq!(schedule.scheduled(10 * 99 * 365 * 86_400), Some(99 * year));
}

#[test]
fn a_sine_that_cannot_be_kept_is_refused() {
    let sine = |mean: &str, amplitude: &str, period| {
        let [mean, amplitude] = [mean, amplitude].map(|text| text.parse().unwrap());
        Schedule::sine(mean, amplitude, period, SECOND).map_err(|error| error.to_string())
    };
    for (mean, amplitude, period, expected) in [
        ("10/s", "11/s", SECOND, "write at most 10/s"),
        ("60/min", "1001/1000s", SECOND, "write at most 60/min"),
        ("900000000/s", "200000000/s", SECOND, "1000000000/s"),
        ("10/s", "1/s", Duration::ZERO, "longer than 0"),
        (
            "500000000/s",
            "1/s",
            2001 * SECOND,
            "1000500000000 requests",
        ),
        ("10/s", "1/s", Duration::MAX, "584 years"),
    ] {
        let error = sine(mean, amplitude, period).err();
        let is_named = error
            .as_deref()
            .is_some_and(|error| error.contains(expected));
        // Twice the mean, to the last digit, is still a rate.
        assert!(
            is_named || (mean == "60/min" && error.is_none()),
            "{error:?}"
        );
    }
    assert!(sine("60/min", "1/s", SECOND).is_ok());
}
