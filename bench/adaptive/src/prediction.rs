//! The same server in the simulator.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{Adapt, AdaptiveLimit, Gradient};
use flowgate_schedule::Schedule;
use flowgate_sim::{
    AdmissionDecision, AdmissionPolicy, Arrivals, Distribution, Fault, FaultKind, Held,
    LimiterPolicy, Request, Server, Simulation, Traffic,
};

use crate::{DEADLINE, Measured, WORKERS};

/// How often the simulator draws the service times.
const DRAWS: u32 = 20;

/// What the simulator predicts for these requests and service times: the mean of several runs.
pub fn of(
    schedule: &Schedule,
    slowdown: f64,
    duration: Duration,
    services: Vec<Duration>,
) -> Measured {
    let service = Distribution::empirical(services);
    let runs = (0..DRAWS).map(|seed| run(schedule, seed.into(), slowdown, duration, &service));
    let runs: Vec<Measured> = runs.collect();
    let mean =
        |number: fn(&Measured) -> f64| runs.iter().map(number).sum::<f64>() / f64::from(DRAWS);
    Measured {
        goodput: mean(|run| run.goodput),
        mean_ms: mean(|run| run.mean_ms),
        p99_ms: mean(|run| run.p99_ms),
        refused: mean(|run| run.refused),
        limit: mean(|run| run.limit),
    }
}

fn run(
    schedule: &Schedule,
    seed: u64,
    slowdown: f64,
    duration: Duration,
    service: &Distribution,
) -> Measured {
    let traffic = Traffic::new("all", Arrivals::Scheduled(schedule.clone())).deadline(DEADLINE);
    let mut simulation = Simulation::new(seed, duration)
        .traffic(traffic)
        .server(Server::new(WORKERS, service.clone()));
    if slowdown > 1.0 {
        let third = duration / 3;
        simulation = simulation.fault(Fault::new(FaultKind::Service(slowdown), third, third));
    }
    let limits = Rc::new(Cell::new(0));
    let outcome = simulation.run("adaptive", |time| {
        let gradient: Box<dyn Adapt> = Box::new(Gradient::default());
        let limit = AdaptiveLimit::builder(gradient).clock(time).build();
        let limit = Arc::new(limit.expect("the defaults are valid"));
        Ok::<_, Infallible>(Watched {
            policy: LimiterPolicy::adaptive(Arc::clone(&limit)),
            limit,
            limits: Rc::clone(&limits),
        })
    });
    let Ok(outcome) = outcome;
    Measured {
        goodput: outcome.goodput(),
        mean_ms: outcome.latency.mean().as_secs_f64() * 1e3,
        p99_ms: outcome.latency.quantile(0.99).as_secs_f64() * 1e3,
        refused: outcome.refused_share(),
        limit: limits.get() as f64 / outcome.counts.attempts as f64,
    }
}

/// An adaptive limit, and the sum of the limits that requests met.
struct Watched {
    policy: LimiterPolicy,
    limit: Arc<AdaptiveLimit<Box<dyn Adapt>>>,
    limits: Rc<Cell<u64>>,
}

impl AdmissionPolicy for Watched {
    fn decide(&mut self, request: &Request) -> AdmissionDecision {
        let permits = u64::from(self.limit.limit().permits());
        self.limits.set(self.limits.get() + permits);
        self.policy.decide(request)
    }

    fn finished(&mut self, request: &Request, held: Held, took: Duration, is_served: bool) {
        self.policy.finished(request, held, took, is_served);
    }
}
