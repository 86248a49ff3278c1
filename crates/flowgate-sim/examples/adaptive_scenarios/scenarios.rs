//! The scenarios, each with what it measures and what is to be reached.

use std::time::Duration;

use flowgate::{CallOutcome, Clock, ManualClock};
use flowgate_sim::{FaultKind, Share};

use crate::algorithm::Algorithm;
use crate::limit::Limit;
use crate::measure::{
    Measure, Target, deviation, jain, mean_limit, measure, share_of, windows_until,
};
use crate::plant::{Plant, SERVICE};

type RunAll = dyn Fn(u64, &[Algorithm]) -> Vec<Vec<Measure>> + Sync;

/// A run of several algorithms on the same requests.
pub struct Scenario {
    pub name: &'static str,
    pub workers: u32,
    /// Whether a run takes so long that a fifth of the seeds has to do.
    pub is_long: bool,
    /// The measures of each algorithm, for a seed.
    pub run: Box<RunAll>,
}

/// Long enough for a hundred windows of 400 workers, and for several hundred of fewer.
fn seconds(workers: u32) -> f64 {
    match workers {
        0..=4 => 90.0,
        5..=20 => 30.0,
        21..=100 => 12.0,
        _ => 5.0,
    }
}

/// The seconds of 20 workers, in those of more: they have more calls in each.
fn scaled(workers: u32, seconds: f64) -> f64 {
    match workers {
        0..=20 => seconds,
        21..=100 => seconds / 4.0,
        _ => seconds / 8.0,
    }
}

impl Scenario {
    fn new(
        name: &'static str,
        workers: u32,
        run: impl Fn(u64, Algorithm) -> Vec<Measure> + Sync + 'static,
    ) -> Self {
        Self {
            name,
            workers,
            is_long: false,
            run: Box::new(move |seed, algorithms| {
                algorithms.iter().map(|one| run(seed, *one)).collect()
            }),
        }
    }

    /// A steady load, compared with the best fixed limit.
    fn steady(name: &'static str, plant: Plant, targets: [Target; 2]) -> Self {
        let workers = plant.workers;
        let (from, until) = (plant.seconds / 6.0, plant.seconds);
        let run = move |seed: u64, algorithms: &[Algorithm]| {
            let (_, oracle) = plant.oracle(seed, from, until);
            let of = |algorithm: &Algorithm| {
                let record = plant.run(seed, *algorithm);
                let result = plant.result(&record, from, until);
                let goodput = result.goodput / oracle.goodput;
                let p99 = result.p99_ms / oracle.p99_ms;
                let mut measures = vec![
                    measure("goodput / oracle", goodput, targets[0]),
                    measure("p99 / oracle", p99, targets[1]),
                    measure(
                        "worst second",
                        plant.worst_second(&record, from, until),
                        Target::High,
                    ),
                ];
                if plant.clients > 1 {
                    let fairness = jain(&record.served_of_client);
                    measures.push(measure("Jain's index", fairness, Target::High));
                } else {
                    let workers = f64::from(workers);
                    let within = share_of(&record, from, until, |window| {
                        (workers..=2.0 * workers).contains(&window.limit)
                    });
                    measures.push(measure("limit in [c, 2c]", within, Target::High));
                }
                measures
            };
            algorithms.iter().map(of).collect()
        };
        Self {
            name,
            workers,
            is_long: false,
            run: Box::new(run),
        }
    }
}

/// The targets of goodput and of the 99th percentile, over those of the best fixed limit.
fn close_to_oracle(least_goodput: f64) -> [Target; 2] {
    [Target::AtLeast(least_goodput), Target::AtMost(1.25)]
}

pub const EXPONENTIAL: &str = "exponential 10ms";
pub const LOGNORMAL: &str = "lognormal 10ms 1";
pub const BIMODAL: &str = "bimodal 5ms 50ms 11.1%";
pub const CONSTANT: &str = "10ms";

/// All scenarios, each with these numbers of workers.
pub fn all(sizes: &[u32]) -> Vec<Scenario> {
    sizes.iter().flat_map(|workers| of_size(*workers)).collect()
}

fn of_size(workers: u32) -> Vec<Scenario> {
    let seconds = seconds(workers);
    let mut all = vec![Scenario::new(
        "1 load 0.8, exponential",
        workers,
        move |seed, algorithm| {
            let plant = Plant::new(workers, EXPONENTIAL, 0.8, seconds);
            let record = plant.run(seed, algorithm);
            let refused = plant.result(&record, seconds / 6.0, seconds).refused;
            vec![measure("false rejections", refused, Target::AtMost(0.005))]
        },
    )];
    for (name, service) in [
        ("2-3 load 2, exponential", EXPONENTIAL),
        ("2-3 load 2, lognormal", LOGNORMAL),
        ("2-3 load 2, bimodal", BIMODAL),
        ("2-3 load 2, constant", CONSTANT),
    ] {
        let plant = Plant::new(workers, service, 2.0, seconds);
        all.push(Scenario::steady(name, plant, close_to_oracle(0.98)));
    }
    // The first second does not count: it has the slow start, and the trial at its end.
    let plant = Plant::new(workers, EXPONENTIAL, 10.0, (seconds / 3.0).max(6.0));
    all.push(Scenario::steady(
        "4 load 10, exponential",
        plant,
        close_to_oracle(0.97),
    ));
    all.push(Scenario {
        is_long: true,
        ..Scenario::new("5 an hour at load 2", workers, move |seed, algorithm| {
            drift(seed, algorithm, workers)
        })
    });
    for (name, initial) in [("6 cold start at 1", 1), ("6 cold start at 20", 20)] {
        all.push(Scenario::new(name, workers, move |seed, algorithm| {
            cold_start(seed, algorithm, workers, initial)
        }));
    }
    all.push(Scenario::new(
        "7 a quarter of the capacity",
        workers,
        move |seed, algorithm| lost_capacity(seed, algorithm, workers),
    ));
    all.push(Scenario::new(
        "8 service x 3",
        workers,
        move |seed, algorithm| slow_service(seed, algorithm, workers),
    ));
    for (name, kind) in [
        ("9 spike x 5 of 2 s", FaultKind::Service(5.0)),
        ("9 pause of 2 s", FaultKind::Pause),
    ] {
        all.push(Scenario::new(name, workers, move |seed, algorithm| {
            spike(seed, algorithm, workers, kind)
        }));
    }
    all.push(Scenario::new(
        "10 load 0.8, lognormal",
        workers,
        move |seed, algorithm| {
            let plant = Plant::new(workers, LOGNORMAL, 0.8, seconds);
            let record = plant.run(seed, algorithm);
            let from = seconds / 6.0;
            let deviation = deviation(&record, from, seconds);
            let refused = plant.result(&record, from, seconds).refused;
            vec![
                measure("deviation of the limit", deviation, Target::AtMost(0.15)),
                measure("false rejections", refused, Target::AtMost(0.01)),
            ]
        },
    ));
    all.push(Scenario::new(
        "11 all calls time out",
        workers,
        move |seed, algorithm| timeouts(seed, algorithm, workers),
    ));
    all.push(Scenario::new(
        "12 2 requests/s",
        workers,
        move |seed, algorithm| {
            let load = 2.0 * SERVICE.as_secs_f64() / f64::from(workers);
            let plant = Plant::new(workers, EXPONENTIAL, load, 600.0);
            let record = plant.run(seed, algorithm);
            let refused = plant.result(&record, 0.0, 600.0).refused;
            vec![measure("false rejections", refused, Target::AtMost(0.0))]
        },
    ));
    let mut plant = Plant::new(workers, EXPONENTIAL, 2.0, seconds);
    (plant.clients, plant.queue) = (5, workers as usize);
    // An algorithm by latency needs most of the calls for itself: this one is for information.
    all.push(Scenario::steady(
        "18 five clients",
        plant,
        [Target::High, Target::Low],
    ));
    if workers >= 20 {
        all.push(Scenario::new(
            "20 a burst of 20 drops",
            workers,
            move |seed, algorithm| dropped(seed, algorithm, workers),
        ));
    }
    all
}

/// An hour; with more workers, a part of it with several thousand windows of requests.
pub fn long_seconds(workers: u32) -> f64 {
    match workers {
        0..=20 => 3_600.0,
        21..=100 => 180.0,
        _ => 45.0,
    }
}

fn drift(seed: u64, algorithm: Algorithm, workers: u32) -> Vec<Measure> {
    let end = long_seconds(workers);
    let plant = Plant::new(workers, EXPONENTIAL, 2.0, end);
    let record = plant.run(seed, algorithm);
    // A minute each, of an hour.
    let part = end / 60.0;
    let ratio = mean_limit(&record, end - part, end) / mean_limit(&record, part / 2.0, part * 1.5);
    let last = plant.result(&record, end - part, end);
    vec![
        measure("limit at the end / start", ratio, Target::AtMost(1.25)),
        measure(
            "limit at the start / end",
            1.0 / ratio,
            Target::AtMost(1.25),
        ),
        measure("goodput at the end", last.goodput, Target::High),
        measure(
            "p99 at the end, in services",
            last.p99_ms / 10.0,
            Target::Low,
        ),
    ]
}

fn cold_start(seed: u64, algorithm: Algorithm, workers: u32, initial: u32) -> Vec<Measure> {
    let end = scaled(workers, 40.0);
    let plant = Plant::new(workers, EXPONENTIAL, 2.0, end);
    let record = plant.run_starting_at(initial, seed, algorithm);
    let goal = mean_limit(&record, end / 2.0, end);
    let windows = windows_until(&record, 0.0, end, |window| {
        (window.limit / goal - 1.0).abs() <= 0.25
    });
    let first = plant.result(&record, 0.0, 2.0);
    vec![
        measure("windows to within 25 %", windows, Target::AtMost(20.0)),
        measure("goodput of 2 s", first.goodput, Target::High),
    ]
}

/// When a fault of `lasts` seconds begins, and when all ends.
fn around(workers: u32, lasts: f64) -> [f64; 3] {
    let [from, lasts, after] = [15.0, lasts, 15.0].map(|time| scaled(workers, time));
    [from, from + lasts, from + lasts + after]
}

fn lost_capacity(seed: u64, algorithm: Algorithm, workers: u32) -> Vec<Measure> {
    let [from, back, end] = around(workers, 20.0);
    let plant = Plant::new(workers, EXPONENTIAL, 2.0, end);
    let plant = plant.fault(FaultKind::Capacity(Share::new(0.25)), from, back - from);
    let record = plant.run(seed, algorithm);
    let half = f64::from(workers) / 2.0;
    let down = windows_until(&record, from, back, |window| window.limit <= half);
    let low = plant.result(&record, from + 1.0, back);
    let recovery = plant.back_after(&record, back, end, 0.9) / 0.05;
    vec![
        measure("windows down", down, Target::AtMost(10.0)),
        measure(
            "p99 while low, in services",
            low.p99_ms / 10.0,
            Target::AtMost(6.0),
        ),
        measure("goodput while low", low.goodput * 4.0, Target::High),
        measure("windows of 50 ms back", recovery, Target::AtMost(20.0)),
    ]
}

fn slow_service(seed: u64, algorithm: Algorithm, workers: u32) -> Vec<Measure> {
    let [from, back, end] = around(workers, 40.0);
    let mut plant = Plant::new(workers, EXPONENTIAL, 2.0, end);
    plant = plant.fault(FaultKind::Service(3.0), from, back - from);
    // Ten services, as elsewhere, of the slow ones.
    plant.deadline *= 3;
    let record = plant.run(seed, algorithm);
    // A third of the capacity.
    let slow = plant.result(&record, from, back).goodput * 3.0;
    let worst = plant.worst_second(&record, from, back) * 3.0;
    let after = plant.result(&record, back, end);
    vec![
        measure("goodput while slow", slow, Target::AtLeast(0.92)),
        measure("worst second", worst, Target::AtLeast(0.5)),
        measure("goodput after", after.goodput, Target::High),
        measure("p99 after, in services", after.p99_ms / 10.0, Target::Low),
    ]
}

fn spike(seed: u64, algorithm: Algorithm, workers: u32, kind: FaultKind) -> Vec<Measure> {
    let from = scaled(workers, 15.0);
    let end = from + 2.0 + scaled(workers, 13.0).max(6.0);
    let plant = Plant::new(workers, EXPONENTIAL, 2.0, end).fault(kind, from, 2.0);
    let record = plant.run(seed, algorithm);
    let back = plant.back_after(&record, from + 2.0, end, 0.95);
    let late = plant.result(&record, from + 5.0, end);
    vec![
        measure("seconds to 95 %", back, Target::AtMost(3.0)),
        measure("goodput from 3 s on", late.goodput, Target::High),
    ]
}

/// Takes all permits, and ends the calls after `latency`: the first `dropped` ones with an overload.
fn round(limit: &Limit, time: &ManualClock, latency: Duration, dropped: usize) {
    let now_ns = || Clock::from(time).now().as_nanos();
    let calls: Vec<_> = std::iter::from_fn(|| limit.try_acquire(now_ns())).collect();
    time.advance(latency);
    for (index, call) in calls.into_iter().enumerate() {
        let outcome = match index < dropped {
            true => CallOutcome::Overload,
            false => CallOutcome::Success,
        };
        call.finish(now_ns(), outcome);
    }
}

/// Nothing is random here but the algorithm.
fn timeouts(seed: u64, algorithm: Algorithm, workers: u32) -> Vec<Measure> {
    let time = ManualClock::new();
    let limit = algorithm.starting_at(workers, seed, &time);
    let timeout = Duration::from_millis(500);
    let mut rounds = 0.0;
    while limit.permits() > 2.0 && rounds < 10_000.0 {
        round(&limit, &time, timeout, usize::MAX);
        rounds += 1.0;
    }
    let windows = match &limit {
        Limit::Adaptive(limit) => limit.inspect().windows as f64,
        _ => f64::NAN,
    };
    let seconds = match rounds < 10_000.0 {
        true => rounds * timeout.as_secs_f64(),
        false => f64::INFINITY,
    };
    vec![
        measure("windows to 2 permits", windows, Target::AtMost(10.0)),
        measure("seconds to 2 permits", seconds, Target::Low),
    ]
}

/// Twenty calls end with an overload in one round trip of a service that is otherwise steady.
fn dropped(seed: u64, algorithm: Algorithm, workers: u32) -> Vec<Measure> {
    let time = ManualClock::new();
    let limit = algorithm.starting_at(workers, seed, &time);
    let queued = |limit: &Limit| SERVICE.mul_f64((limit.permits() / f64::from(workers)).max(1.0));
    let is_measuring = || match &limit {
        Limit::Adaptive(limit) => limit.inspect().report.is_measuring,
        _ => false,
    };
    for settled in 0.. {
        if settled >= 300 && !is_measuring() {
            break;
        }
        round(&limit, &time, queued(&limit), 0);
    }
    let before = limit.permits();
    round(&limit, &time, queued(&limit), 20);
    let mut lowest = limit.permits();
    for _ in 0..15 {
        round(&limit, &time, queued(&limit), 0);
        lowest = lowest.min(limit.permits());
    }
    vec![measure(
        "limit after / before",
        lowest / before,
        Target::AtLeast(0.85),
    )]
}
