//! The simulated plant: a server, its load and its faults; and what of a run counts.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{ConcurrencyLimit, ManualClock, Quota};
use flowgate_schedule::Schedule;
use flowgate_sim::{Arrivals, Distribution, Fault, FaultKind, Keys, Server, Simulation, Traffic};

use crate::algorithm::Algorithm;
use crate::limit::Limit;
use crate::policy::{Record, Recorder};

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
    /// How many requests the server lets wait. It refuses others.
    pub queue: usize,
    /// Clients that share the server, each with a limit of its own.
    pub clients: u32,
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
            queue: usize::MAX,
            clients: 1,
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

    /// Runs the algorithm on the requests of this seed.
    pub fn run(&self, seed: u64, algorithm: Algorithm) -> Record {
        self.run_starting_at(20, seed, algorithm)
    }

    /// Runs the algorithm from a limit of this number of permits.
    pub fn run_starting_at(&self, permits: u32, seed: u64, algorithm: Algorithm) -> Record {
        let deadline = algorithm.reads_overloads_only().then_some(self.deadline);
        self.run_limits(seed, self.clients, deadline, &|client, time| {
            algorithm.starting_at(permits, seed + u64::from(client), time)
        })
    }

    fn run_fixed(&self, seed: u64, permits: u32) -> Record {
        self.run_limits(seed, 1, None, &|_, time| {
            let limit = ConcurrencyLimit::builder(permits).clock(time).build();
            Limit::Fixed(Arc::new(limit.expect("a limit")))
        })
    }

    /// Runs with a limit for each client, of which a request that is served after `overload` is one.
    fn run_limits(
        &self,
        seed: u64,
        clients: u32,
        overload: Option<Duration>,
        make: &dyn Fn(u32, &ManualClock) -> Limit,
    ) -> Record {
        let per_hour = (self.capacity_per_second() * self.load * 3600.0) as u64;
        let requests = (per_hour as f64 / 3600.0 * self.seconds * 1.05) as u64 + 100;
        let quota = Quota::new(per_hour, Duration::from_secs(3600)).expect("a quota");
        let schedule = Schedule::poisson(quota, seed, requests).expect("a schedule");
        let service: Distribution = self.service.parse().expect("a distribution");
        let traffic = Traffic::new("all", Arrivals::Scheduled(schedule));
        let traffic = match self.clients {
            1 => traffic,
            clients => traffic.keys(Keys::uniform(clients.into())),
        };
        let mut simulation = Simulation::new(seed, Duration::from_secs_f64(self.seconds))
            .traffic(traffic)
            .server(Server::new(self.workers, service).queue(self.queue));
        for fault in &self.faults {
            simulation = simulation.fault(*fault);
        }
        let record = RefCell::new(None);
        let outcome = simulation.run("limit", |time| {
            let limits = (0..clients).map(|client| make(client, time)).collect();
            let (recorder, recorded) = Recorder::new(limits, overload, time);
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
        // Both are in the order of time.
        let first = record.served.partition_point(|(at_ns, _)| *at_ns < from_ns);
        let last = record
            .served
            .partition_point(|(at_ns, _)| *at_ns < until_ns);
        let served = record.served[first..last].iter();
        let mut latencies: Vec<u64> = served.map(|(_, took_ns)| *took_ns).collect();
        let deadline_ns = self.deadline.as_nanos() as u64;
        let in_time = latencies.iter().filter(|took_ns| **took_ns <= deadline_ns);
        let in_time = in_time.count();
        let refused = [until_ns, from_ns]
            .map(|end_ns| record.refused_ns.partition_point(|at_ns| *at_ns < end_ns));
        let refused = (refused[0] - refused[1]) as f64;
        let p99_ns = match latencies.len() * 99 / 100 {
            at if at < latencies.len() => *latencies.select_nth_unstable(at).1,
            _ => 0,
        };
        Result {
            goodput: in_time as f64 / (self.capacity_per_second() * (until - from)),
            p99_ms: p99_ns as f64 / 1e6,
            refused: refused / (refused + latencies.len() as f64).max(1.0),
        }
    }

    /// Returns the best fixed limit for the same requests.
    ///
    /// Of the limits with 99.9 % of the best goodput, it is the one with the lowest 99th percentile.
    pub fn oracle(&self, seed: u64, from: f64, until: f64) -> (u32, Result) {
        let workers = f64::from(self.workers);
        let mut limits: Vec<u32> = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5]
            .iter()
            .map(|roots| (workers + roots * workers.sqrt()).round() as u32)
            .collect();
        limits.dedup();
        let results: Vec<(u32, Result)> = limits
            .into_iter()
            .map(|limit| {
                (
                    limit,
                    self.result(&self.run_fixed(seed, limit), from, until),
                )
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

    /// The least goodput of any second.
    pub fn worst_second(&self, record: &Record, from: f64, until: f64) -> f64 {
        let starts = (0..(until - from) as u32).map(|second| from + f64::from(second));
        let goodputs = starts.map(|start| self.result(record, start, start + 1.0).goodput);
        goodputs.fold(f64::MAX, f64::min)
    }

    /// How many seconds after `from` the goodput of a second is back at `least`.
    pub fn back_after(&self, record: &Record, from: f64, until: f64, least: f64) -> f64 {
        let mut start = from;
        while start + 1.0 <= until {
            if self.result(record, start, start + 1.0).goodput >= least {
                return start - from;
            }
            start += 0.1;
        }
        f64::INFINITY
    }
}
