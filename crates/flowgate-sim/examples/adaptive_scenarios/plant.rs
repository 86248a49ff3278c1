//! The simulated plant: a server, its load and its faults; and what of a run counts.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{Adapt, AdaptiveLimit, ConcurrencyLimit, FineLimit, ManualClock, Quota};
use flowgate_schedule::Schedule;
use flowgate_sim::{Arrivals, Distribution, Fault, FaultKind, Server, Simulation, Traffic};

use crate::policy::{Limit, Record, Recorder};

/// The mean service time of every plant.
pub const SERVICE: Duration = Duration::from_millis(10);

/// A server with this many workers, and traffic of `load` times what it can serve.
#[derive(Clone, Debug)]
pub struct Plant {
    pub workers: u32,
    pub service: &'static str,
    pub load: f64,
    pub seconds: f64,
    pub faults: Vec<Fault>,
    /// A request that is served later is of no use.
    pub deadline: Duration,
}

/// The limits to try.
pub enum Setting<'a> {
    Fixed(u32),
    Adaptive(&'a dyn Fn(&ManualClock) -> AdaptiveLimit<Box<dyn Adapt>>),
}

/// Of the part of a run that counts.
#[derive(Clone, Copy, Debug)]
pub struct Result {
    /// Served in time, as a share of what the workers can serve.
    pub goodput: f64,
    pub p99_ms: f64,
    /// Refused, of all requests.
    pub refused: f64,
}

impl Plant {
    pub fn new(workers: u32, service: &'static str, load: f64, seconds: f64) -> Self {
        Self {
            workers,
            service,
            load,
            seconds,
            faults: Vec::new(),
            deadline: 10 * SERVICE,
        }
    }

    pub fn fault(mut self, kind: FaultKind, from: f64, lasts: f64) -> Self {
        let [from, lasts] = [from, lasts].map(Duration::from_secs_f64);
        self.faults.push(Fault::new(kind, from, lasts));
        self
    }

    pub fn capacity_per_second(&self) -> f64 {
        f64::from(self.workers) / SERVICE.as_secs_f64()
    }

    pub fn run(&self, seed: u64, setting: &Setting<'_>) -> Record {
        let per_hour = (self.capacity_per_second() * self.load * 3600.0) as u64;
        let requests = (per_hour as f64 / 3600.0 * self.seconds * 1.05) as u64 + 100;
        let quota = Quota::new(per_hour, Duration::from_secs(3600)).expect("a quota");
        let schedule = Schedule::poisson(quota, seed, requests).expect("a schedule");
        let service: Distribution = self.service.parse().expect("a distribution");
        let mut simulation = Simulation::new(seed, Duration::from_secs_f64(self.seconds))
            .traffic(Traffic::new("all", Arrivals::Scheduled(schedule)))
            .server(Server::new(self.workers, service));
        for fault in &self.faults {
            simulation = simulation.fault(*fault);
        }
        let record = RefCell::new(None);
        let outcome = simulation.run("limit", |time| {
            let limit = match setting {
                Setting::Fixed(limit) => {
                    let limit = ConcurrencyLimit::builder(*limit).clock(time).build();
                    Limit::Fixed(Arc::new(limit.expect("a limit")))
                }
                Setting::Adaptive(make) => Limit::Adaptive(Arc::new(make(time))),
            };
            let (recorder, recorded) = Recorder::new(limit, time);
            *record.borrow_mut() = Some(recorded);
            Ok::<_, Infallible>(recorder)
        });
        outcome.expect("infallible");
        let record = record.borrow_mut().take().expect("it ran");
        record.take()
    }

    /// From `from` to `until`, in seconds.
    pub fn result(&self, record: &Record, from: f64, until: f64) -> Result {
        let [from_ns, until_ns] = [from, until].map(|s| (s * 1e9) as u64);
        let within = |at_ns: u64| (from_ns..until_ns).contains(&at_ns);
        let mut latencies: Vec<u64> = record
            .served
            .iter()
            .filter(|(at_ns, _)| within(*at_ns))
            .map(|(_, took_ns)| *took_ns)
            .collect();
        latencies.sort_unstable();
        let deadline_ns = self.deadline.as_nanos() as u64;
        let in_time = latencies.partition_point(|took_ns| *took_ns <= deadline_ns);
        let refused = record.refused_ns.iter().filter(|at_ns| within(**at_ns));
        let refused = refused.count() as f64;
        let p99 = latencies.get(latencies.len() * 99 / 100).copied();
        Result {
            goodput: in_time as f64 / (self.capacity_per_second() * (until - from)),
            p99_ms: p99.unwrap_or(0) as f64 / 1e6,
            refused: refused / (refused + latencies.len() as f64).max(1.0),
        }
    }

    /// Returns the best fixed limit for the same requests.
    ///
    /// Of the limits with 99.9 % of the best goodput, it is the one with the lowest 99th percentile.
    pub fn oracle(&self, seed: u64, from: f64, until: f64) -> (u32, Result) {
        let workers = f64::from(self.workers);
        let mut limits: Vec<u32> = [0.75, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0]
            .iter()
            .map(|times| (workers * times).round() as u32)
            .chain([(workers + workers.sqrt()).round() as u32])
            .collect();
        limits.sort_unstable();
        limits.dedup();
        let results: Vec<(u32, Result)> = limits
            .into_iter()
            .map(|limit| {
                let record = self.run(seed, &Setting::Fixed(limit));
                (limit, self.result(&record, from, until))
            })
            .collect();
        let best = results
            .iter()
            .map(|(_, result)| result.goodput)
            .fold(0.0, f64::max);
        let good = results
            .into_iter()
            .filter(|(_, result)| result.goodput >= 0.999 * best);
        good.min_by(|a, b| a.1.p99_ms.total_cmp(&b.1.p99_ms))
            .expect("there are limits")
    }
}

/// An adaptive limit of 1 to 2,000 permits.
pub fn adaptive(algorithm: impl Adapt, time: &ManualClock) -> AdaptiveLimit<Box<dyn Adapt>> {
    let algorithm: Box<dyn Adapt> = Box::new(algorithm);
    AdaptiveLimit::builder(algorithm)
        .bounds(FineLimit::ONE, FineLimit::whole(2_000))
        .clock(time)
        .build()
        .expect("valid settings")
}
