//! Random times: are they exponential, independent and reproducible?

use std::time::Duration;

use flowgate::Quota;
use flowgate_schedule::{MAX_POISSON, Schedule, ScheduleError};

const SEEDS: [u64; 6] = [0, 1, 7, 42, 0xdead_beef, u64::MAX];

fn of(requests: u64, seed: u64) -> Schedule {
    Schedule::poisson(Quota::per_second(1000), seed, requests).unwrap()
}

/// Gaps in mean gaps, that before the first request too.
fn gaps(schedule: &Schedule) -> Vec<f64> {
    let mut before = 0.0;
    let gap = |scheduled: Duration| {
        let at = scheduled.as_secs_f64() * 1000.0;
        let gap = at - before;
        before = at;
        gap
    };
    schedule.times().map(gap).collect()
}

/// The largest distance between what was found and the distribution function, times √n.
fn kolmogorov_smirnov(mut found: Vec<f64>, distribution: impl Fn(f64) -> f64) -> f64 {
    found.sort_by(f64::total_cmp);
    let n = found.len() as f64;
    let distance = |(rank, value): (usize, &f64)| {
        let expected = distribution(*value);
        let (below, above) = (rank as f64 / n, (rank + 1) as f64 / n);
        (expected - below).abs().max((above - expected).abs())
    };
    let largest = found.iter().enumerate().map(distance).fold(0.0, f64::max);
    largest * n.sqrt()
}

/// What a true sample exceeds once in a thousand times.
const ONE_IN_A_THOUSAND: f64 = 1.95;

#[test]
fn gaps_are_exponential() {
    for seed in SEEDS {
        let gaps = gaps(&of(100_000, seed));
        let statistic = kolmogorov_smirnov(gaps.clone(), |gap| 1.0 - (-gap).exp());
        assert!(statistic < ONE_IN_A_THOUSAND, "seed {seed}: {statistic}");
        // Mean 1 and standard deviation 1, each to within 4 of its own standard errors.
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        assert!((mean - 1.0).abs() < 4.0 / n.sqrt(), "seed {seed}: {mean}");
        assert!(
            (variance - 1.0).abs() < 4.0 * (8.0 / n).sqrt(),
            "seed {seed}: {variance}"
        );
    }
}

/// The test above can fail: evenly spaced times, and times off by 3 %, are told apart.
#[test]
fn the_test_tells_other_gaps_apart() {
    let even = Schedule::of(Quota::per_second(1000), 100_000).unwrap();
    let exponential = |gap: f64| 1.0 - (-gap).exp();
    assert!(kolmogorov_smirnov(gaps(&even), exponential) > 100.0);
    let stretched = gaps(&of(100_000, 7)).iter().map(|gap| gap * 1.03).collect();
    assert!(kolmogorov_smirnov(stretched, exponential) > ONE_IN_A_THOUSAND);
}

#[test]
fn gaps_know_nothing_of_each_other() {
    for seed in SEEDS {
        let gaps = gaps(&of(100_000, seed));
        let n = gaps.len() as f64;
        for distance in [1, 2, 3, 1024] {
            let products = gaps.iter().zip(&gaps[distance..]);
            let covariance = products.map(|(a, b)| (a - 1.0) * (b - 1.0)).sum::<f64>() / n;
            assert!(
                covariance.abs() < 4.0 / n.sqrt(),
                "seed {seed}, {distance}: {covariance}"
            );
        }
        // Times of a process of known number, by its length, are uniform.
        let schedule = of(100_000, seed);
        let span = schedule.span().as_secs_f64();
        let places = schedule
            .times()
            .take(99_999)
            .map(|scheduled| scheduled.as_secs_f64() / span)
            .collect();
        let statistic = kolmogorov_smirnov(places, |place| place);
        assert!(statistic < ONE_IN_A_THOUSAND, "seed {seed}: {statistic}");
    }
}

#[test]
fn the_same_seed_gives_the_same_times_to_any_number_of_workers() {
    let schedule = of(10_000, 42);
    let times: Vec<_> = schedule.times().collect();
    assert!(times.is_sorted());
    assert_eq!(times, of(10_000, 42).times().collect::<Vec<_>>());
    assert_ne!(times, of(10_000, 43).times().collect::<Vec<_>>());
    for workers in [2, 3, 1023, 1024, 1025, 5000] {
        for worker in [0, 1, workers - 1] {
            let of_worker = times.iter().copied().skip(worker).step_by(workers);
            assert!(
                schedule.times().skip(worker).step_by(workers).eq(of_worker),
                "{workers}"
            );
        }
    }
    for (index, scheduled) in (0..).zip(&times) {
        assert_eq!(schedule.scheduled(index), Some(*scheduled));
    }
    assert_eq!(
        schedule.clone().at_most(7).times().collect::<Vec<_>>(),
        times[..7]
    );
    // Pinned, so that a seed means the same next year.
    let first: Vec<_> = times[..3].iter().map(Duration::as_nanos).collect();
    assert_eq!(first, PINNED);
}

const PINNED: [u128; 3] = [298_993, 2_132_135, 3_410_109];

#[test]
fn as_many_are_due_before_the_end_as_the_rate_says_give_or_take() {
    let quota = Quota::per_second(1000);
    for seed in SEEDS {
        let duration = Duration::from_secs(100);
        let schedule = Schedule::poisson(quota, seed, duration).unwrap();
        let surplus = schedule.len() as f64 - 100_000.0;
        assert!(
            surplus.abs() < 4.0 * 100_000_f64.sqrt(),
            "seed {seed}: {surplus}"
        );
        assert!(schedule.span() <= duration);
        // The next one would have been too late.
        let one_more = of(schedule.len() + 1, seed);
        assert!(one_more.span() > duration - Duration::from_nanos(1));
    }
    let soon = Schedule::poisson(quota, 7, Duration::from_nanos(1)).unwrap();
    assert_eq!(soon.len(), 1);
}

#[test]
fn too_many_or_too_late_is_refused() {
    let quota = Quota::per_second(1000);
    let poisson = |requests: u64| Schedule::poisson(quota, 7, requests);
    let error = ScheduleError::TooManyPoisson(MAX_POISSON + 1);
    assert_eq!(poisson(MAX_POISSON + 1), Err(error));
    assert!(error.to_string().contains("100000000"));
    let lasting = |duration| Schedule::poisson(quota, 7, duration);
    let day = Duration::from_secs(86_400);
    assert_eq!(
        lasting(2 * day),
        Err(ScheduleError::TooManyPoisson(172_800_000))
    );
    assert_eq!(lasting(Duration::MAX), Err(ScheduleError::TooLong));
    let yearly: Quota = "1/year".parse().unwrap();
    assert_eq!(
        Schedule::poisson(yearly, 7, 2000),
        Err(ScheduleError::TooLong)
    );
    assert!(Schedule::poisson(yearly, 7, 200).is_ok());
    assert_eq!(poisson(0).unwrap().len(), 1);
}
