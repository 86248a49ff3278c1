//! The scenarios, each with what it measures and what is to be reached.

use std::time::Duration;

use flowgate::{Adapt, AdaptiveLimit, Aimd, Bdp, FineLimit, Gradient, ManualClock, Vegas};
use flowgate_sim::{FaultKind, Share};

use crate::plant::{Plant, Setting, adaptive};
use crate::policy::{Record, Window};

/// What sets the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Gradient,
    Bdp,
    Vegas,
    Aimd,
    /// `Gradient` without its trials.
    NoTrials,
}

impl Algorithm {
    pub fn make(self, initial: FineLimit) -> Box<dyn Adapt> {
        match self {
            Self::Gradient => {
                let gradient = Gradient::builder().initial(initial);
                Box::new(gradient.build().expect("valid settings"))
            }
            Self::NoTrials => {
                let gradient = Gradient::builder().initial(initial).without_trials();
                Box::new(gradient.build().expect("valid settings"))
            }
            Self::Bdp => Box::new(Bdp::starting_at(initial)),
            Self::Vegas => Box::new(Vegas::starting_at(initial)),
            Self::Aimd => Box::new(Aimd::starting_at(initial)),
        }
    }

    pub fn limit(self, time: &ManualClock) -> AdaptiveLimit<Box<dyn Adapt>> {
        self.starting_at(20, time)
    }

    pub fn starting_at(self, permits: u32, time: &ManualClock) -> AdaptiveLimit<Box<dyn Adapt>> {
        adaptive(self.make(FineLimit::whole(permits)), time)
    }
}

/// A number, and what it should be.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    pub what: &'static str,
    pub value: f64,
    pub target: Target,
}

#[derive(Clone, Copy, Debug)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// For information.
    None,
}

impl Target {
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::None => true,
        }
    }
}

type RunAll = dyn Fn(u64, &[Algorithm]) -> Vec<Vec<Measure>>;

/// A run of several algorithms on the same requests.
pub struct Scenario {
    pub name: &'static str,
    pub workers: u32,
    /// The measures of each algorithm, for a seed.
    pub run: Box<RunAll>,
}

fn measure(what: &'static str, value: f64, target: Target) -> Measure {
    Measure {
        what,
        value,
        target,
    }
}

/// Long enough for several hundred windows, whatever the size.
fn seconds(workers: u32) -> f64 {
    match workers {
        0..=4 => 120.0,
        5..=20 => 60.0,
        21..=100 => 30.0,
        _ => 15.0,
    }
}

impl Scenario {
    fn new(
        name: &'static str,
        workers: u32,
        run: impl Fn(u64, Algorithm) -> Vec<Measure> + 'static,
    ) -> Self {
        Self {
            name,
            workers,
            run: Box::new(move |seed, algorithms| {
                algorithms.iter().map(|one| run(seed, *one)).collect()
            }),
        }
    }

    /// A steady load, compared with the best fixed limit.
    fn steady(
        name: &'static str,
        workers: u32,
        service: &'static str,
        load: f64,
        least_goodput: f64,
    ) -> Self {
        let seconds = match load > 5.0 {
            true => seconds(workers) / 3.0,
            false => seconds(workers),
        };
        let warm_up = seconds / 6.0;
        let plant = Plant::new(workers, service, load, seconds);
        let run = move |seed: u64, algorithms: &[Algorithm]| {
            let (_, oracle) = plant.oracle(seed, warm_up, seconds);
            let of = |algorithm: &Algorithm| {
                let record = run_of(&plant, seed, *algorithm);
                let result = plant.result(&record, warm_up, seconds);
                let workers = f64::from(workers);
                let within = share_of(&record, warm_up, |window| {
                    (workers..=2.0 * workers).contains(&window.limit)
                });
                vec![
                    measure("oracle", oracle.goodput, Target::None),
                    measure(
                        "goodput / oracle",
                        result.goodput / oracle.goodput,
                        Target::AtLeast(least_goodput),
                    ),
                    measure(
                        "p99 / oracle",
                        result.p99_ms / oracle.p99_ms,
                        Target::AtMost(1.25),
                    ),
                    measure("limit in [c, 2c]", within, Target::None),
                ]
            };
            algorithms.iter().map(of).collect()
        };
        Self {
            name,
            workers,
            run: Box::new(run),
        }
    }
}

fn run_of(plant: &Plant, seed: u64, algorithm: Algorithm) -> Record {
    plant.run(seed, &Setting::Adaptive(&|time| algorithm.limit(time)))
}

/// The windows after `from`, in seconds.
fn after(record: &Record, from: f64) -> impl Iterator<Item = &Window> {
    let from_ns = (from * 1e9) as u64;
    record
        .windows
        .iter()
        .filter(move |window| window.at_ns >= from_ns)
}

/// The share of the windows after `from` of which `is` holds.
fn share_of(record: &Record, from: f64, is: impl Fn(&Window) -> bool) -> f64 {
    let all = after(record, from).count().max(1);
    let those = after(record, from).filter(|window| is(window)).count();
    those as f64 / all as f64
}

fn mean_limit(record: &Record, from: f64, until: f64) -> f64 {
    let until_ns = (until * 1e9) as u64;
    let limits: Vec<f64> = after(record, from)
        .filter(|window| window.at_ns < until_ns)
        .map(|window| window.limit)
        .collect();
    limits.iter().sum::<f64>() / limits.len().max(1) as f64
}

/// The number of windows from `from` on until at most one in twenty of the following is not as it should be.
fn windows_until(record: &Record, from: f64, until: f64, is: impl Fn(&Window) -> bool) -> f64 {
    let until_ns = (until * 1e9) as u64;
    let good: Vec<bool> = after(record, from)
        .filter(|window| window.at_ns < until_ns)
        .map(is)
        .collect();
    let mut bad = 0;
    let mut first = good.len();
    for (index, is_good) in good.iter().enumerate().rev() {
        bad += usize::from(!is_good);
        if bad * 20 <= good.len() - index && *is_good {
            first = index;
        }
    }
    first as f64
}

/// The least goodput of any second.
fn worst_second(plant: &Plant, record: &Record, from: f64, until: f64) -> f64 {
    let starts = (0..(until - from) as u32).map(|second| from + f64::from(second));
    let goodputs = starts.map(|start| plant.result(record, start, start + 1.0).goodput);
    goodputs.fold(f64::MAX, f64::min)
}

/// When goodput is back at `least`, for a second, after `from`.
fn back_after(plant: &Plant, record: &Record, from: f64, until: f64, least: f64) -> f64 {
    let mut start = from;
    while start + 1.0 <= until {
        if plant.result(record, start, start + 1.0).goodput >= least {
            return start - from;
        }
        start += 0.1;
    }
    f64::INFINITY
}

const EXPONENTIAL: &str = "exponential 10ms";
const LOGNORMAL: &str = "lognormal 10ms 1";
const BIMODAL: &str = "bimodal 5ms 50ms 11.1%";
const CONSTANT: &str = "10ms";

/// All scenarios with these numbers of workers; those that are for one size, always.
pub fn all(sizes: &[u32]) -> Vec<Scenario> {
    let mut all = Vec::new();
    for &workers in sizes {
        all.push(Scenario::new(
            "1 load 0.8, exponential",
            workers,
            move |seed, algorithm| {
                let end = seconds(workers);
                let plant = Plant::new(workers, EXPONENTIAL, 0.8, end);
                let record = run_of(&plant, seed, algorithm);
                let refused = plant.result(&record, end / 6.0, end).refused;
                vec![measure("false rejections", refused, Target::AtMost(0.005))]
            },
        ));
        for (name, service) in [
            ("2-3 load 2, exponential", EXPONENTIAL),
            ("2-3 load 2, lognormal", LOGNORMAL),
            ("2-3 load 2, bimodal", BIMODAL),
            ("2-3 load 2, constant", CONSTANT),
        ] {
            all.push(Scenario::steady(name, workers, service, 2.0, 0.98));
        }
        all.push(Scenario::steady(
            "4 load 10, exponential",
            workers,
            EXPONENTIAL,
            10.0,
            0.97,
        ));
        all.push(Scenario::new(
            "8 service x 3",
            workers,
            move |seed, algorithm| slow_service(seed, algorithm, workers),
        ));
        all.push(Scenario::new(
            "9 spike x 5 of 2 s",
            workers,
            move |seed, algorithm| spike(seed, algorithm, workers, FaultKind::Service(5.0)),
        ));
        all.push(Scenario::new(
            "9 pause of 2 s",
            workers,
            move |seed, algorithm| spike(seed, algorithm, workers, FaultKind::Pause),
        ));
        all.push(Scenario::new(
            "10 load 0.8, lognormal",
            workers,
            move |seed, algorithm| {
                let end = seconds(workers);
                let plant = Plant::new(workers, LOGNORMAL, 0.8, end);
                let record = run_of(&plant, seed, algorithm);
                let from = end / 6.0;
                let mean = mean_limit(&record, from, end);
                let count = after(&record, from).count().max(1) as f64;
                let squares = after(&record, from).map(|window| (window.limit - mean).powi(2));
                let deviation = (squares.sum::<f64>() / count).sqrt();
                let refused = plant.result(&record, from, end).refused;
                vec![
                    measure(
                        "deviation of the limit",
                        deviation / mean,
                        Target::AtMost(0.15),
                    ),
                    measure("false rejections", refused, Target::AtMost(0.01)),
                ]
            },
        ));
    }
    all.push(Scenario::new(
        "5 an hour at load 2",
        20,
        |seed, algorithm| {
            let plant = Plant::new(20, EXPONENTIAL, 2.0, 3_600.0);
            let record = run_of(&plant, seed, algorithm);
            let ratio = mean_limit(&record, 3_540.0, 3_600.0) / mean_limit(&record, 30.0, 90.0);
            vec![
                measure("limit at the end / start", ratio, Target::AtMost(1.25)),
                measure(
                    "limit at the start / end",
                    1.0 / ratio,
                    Target::AtMost(1.25),
                ),
            ]
        },
    ));
    for (name, initial) in [("6 cold start at 1", 1), ("6 cold start at 20", 20)] {
        all.push(Scenario::new(name, 100, move |seed, algorithm| {
            let plant = Plant::new(100, EXPONENTIAL, 2.0, 20.0);
            let make = |time: &ManualClock| algorithm.starting_at(initial, time);
            let record = plant.run(seed, &Setting::Adaptive(&make));
            let goal = mean_limit(&record, 10.0, 20.0);
            let windows = windows_until(&record, 0.0, 20.0, |window| {
                (window.limit / goal - 1.0).abs() <= 0.25
            });
            vec![measure(
                "windows to within 25 %",
                windows,
                Target::AtMost(20.0),
            )]
        }));
    }
    all.push(Scenario::new(
        "7 capacity 100, 25, 100",
        100,
        |seed, algorithm| {
            let plant = Plant::new(100, EXPONENTIAL, 2.0, 40.0).fault(
                FaultKind::Capacity(Share::new(0.25)),
                15.0,
                10.0,
            );
            let record = run_of(&plant, seed, algorithm);
            let down = windows_until(&record, 15.0, 25.0, |window| window.limit <= 50.0);
            let low = plant.result(&record, 16.0, 25.0);
            let back = back_after(&plant, &record, 25.0, 40.0, 0.9) / 0.05;
            vec![
                measure("windows down", down, Target::AtMost(10.0)),
                measure(
                    "p99 while low, in services",
                    low.p99_ms / 10.0,
                    Target::AtMost(6.0),
                ),
                measure("goodput while low", low.goodput * 4.0, Target::None),
                measure("windows of 50 ms back", back, Target::AtMost(20.0)),
            ]
        },
    ));
    all.push(Scenario::new(
        "11 all calls time out",
        20,
        |seed, algorithm| {
            // Nothing is random here.
            let _ = seed;
            let time = ManualClock::new();
            let limit = algorithm.limit(&time);
            let mut windows = 0.0;
            while limit.limit() > FineLimit::whole(2) && windows < 1_000.0 {
                let seen = limit.inspect().windows;
                let calls: Vec<_> = std::iter::from_fn(|| limit.try_acquire().ok()).collect();
                time.advance(Duration::from_millis(500));
                for call in calls {
                    call.finish(flowgate::CallOutcome::Overload);
                }
                windows += (limit.inspect().windows - seen) as f64;
            }
            vec![measure(
                "windows to 2 permits",
                windows,
                Target::AtMost(10.0),
            )]
        },
    ));
    all.push(Scenario::new("12 2 requests/s", 4, |seed, algorithm| {
        let plant = Plant::new(4, EXPONENTIAL, 0.005, 600.0);
        let record = run_of(&plant, seed, algorithm);
        let refused = plant.result(&record, 0.0, 600.0).refused;
        vec![measure("false rejections", refused, Target::AtMost(0.0))]
    }));
    all
}

fn slow_service(seed: u64, algorithm: Algorithm, workers: u32) -> Vec<Measure> {
    let mut plant =
        Plant::new(workers, EXPONENTIAL, 2.0, 80.0).fault(FaultKind::Service(3.0), 15.0, 40.0);
    // Ten services, as elsewhere, of the slow ones.
    plant.deadline *= 3;
    let record = run_of(&plant, seed, algorithm);
    // A third of the capacity.
    let slow = plant.result(&record, 15.0, 55.0).goodput * 3.0;
    let worst = worst_second(&plant, &record, 15.0, 55.0) * 3.0;
    let after = plant.result(&record, 55.0, 80.0);
    vec![
        measure("goodput in 40 s", slow, Target::AtLeast(0.92)),
        measure("worst second", worst, Target::AtLeast(0.5)),
        measure("goodput after", after.goodput, Target::None),
        measure("p99 after, in services", after.p99_ms / 10.0, Target::None),
    ]
}

fn spike(seed: u64, algorithm: Algorithm, workers: u32, kind: FaultKind) -> Vec<Measure> {
    let plant = Plant::new(workers, EXPONENTIAL, 2.0, 30.0).fault(kind, 15.0, 2.0);
    let record = run_of(&plant, seed, algorithm);
    let back = back_after(&plant, &record, 17.0, 30.0, 0.95);
    let late = plant.result(&record, 20.0, 30.0);
    vec![
        measure("seconds to 95 %", back, Target::AtMost(3.0)),
        measure("goodput from 3 s on", late.goodput, Target::None),
    ]
}
