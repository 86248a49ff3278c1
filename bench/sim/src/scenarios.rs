//! Scenarios of the benchmark.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{AnyKeyed, Keyed, LeakyBucket, ManualClock, Quota, TokenBucket};
use flowgate_schedule::Schedule;
use flowgate_sim::{Arrivals, Distribution, Keys, LimiterPolicy, Server, Simulation, Traffic};

use crate::direct::Requests;

/// Requests per second.
const RATE: u64 = 100_000;
/// How long a request waits, where it waits.
pub const PATIENCE: Duration = Duration::from_millis(1);

/// A simulation and its policy.
pub struct Scenario {
    pub name: &'static str,
    simulation: Simulation,
    policy: Box<dyn Fn(&ManualClock) -> LimiterPolicy>,
    /// Makes the calls to the library alone, and returns the number of events.
    calls: Option<Box<dyn Fn(&Requests) -> u64>>,
    requests: OnceCell<Requests>,
}

impl Scenario {
    /// Runs it, and returns the number of events.
    pub fn run(&self) -> u64 {
        let outcome = self
            .simulation
            .run(self.name, |time| Ok::<_, Infallible>((self.policy)(time)));
        let Ok(outcome) = outcome;
        outcome.events
    }

    /// The same requests and calls without the simulator, where they are most of the work.
    pub fn direct(&self) -> Option<impl FnOnce() -> u64> {
        let calls = self.calls.as_ref()?;
        let requests = (self.requests).get_or_init(|| Requests::of(&self.simulation));
        Some(|| calls(requests))
    }

    fn with_calls(self, calls: impl Fn(&Requests) -> u64 + 'static) -> Self {
        let calls: Option<Box<dyn Fn(&Requests) -> u64>> = Some(Box::new(calls));
        Self { calls, ..self }
    }
}

/// All scenarios, with `requests` requests each.
pub fn all(requests: u64) -> Vec<Scenario> {
    let schedule = Schedule::poisson(Quota::per_second(RATE), 1, requests).expect("a schedule");
    let duration = Duration::from_secs(1 + 2 * requests / RATE);
    let simulation = |traffic| Simulation::new(1, duration).traffic(traffic);
    let poisson = || Traffic::new("poisson", Arrivals::Scheduled(schedule.clone()));
    let bucket = |time: &ManualClock| {
        let bucket = TokenBucket::builder(Quota::per_second(RATE * 9 / 10).burst(100)).clock(time);
        LimiterPolicy::rate(Arc::new(bucket.build().expect("a bucket")))
    };
    let queue = |time: &ManualClock| {
        let queue = LeakyBucket::builder(Quota::per_second(RATE * 9 / 10)).clock(time);
        Arc::new(queue.build().expect("a limiter"))
    };
    let keyed = |time: &ManualClock| {
        let keyed = Keyed::token_bucket(Quota::per_second(10).burst(20)).clock(time);
        AnyKeyed::TokenBucket(Arc::new(keyed.capacity(1_000_000).expect("a limiter")))
    };
    // 0.9 of its capacity, after the bucket.
    let service = Distribution::exponential(Duration::from_secs(20) / RATE as u32);
    // As many users as the bare heap has pending events, who ask RATE times a second.
    let think = Distribution::exponential(Duration::from_secs(10_000) / RATE as u32);
    let users = Traffic::new(
        "users",
        Arrivals::Closed {
            users: 10_000,
            think,
        },
    );
    let closed =
        Simulation::new(1, Duration::from_secs_f64(requests as f64 / RATE as f64)).traffic(users);
    vec![
        scenario("token bucket", simulation(poisson()), bucket),
        scenario(
            "token bucket and server",
            simulation(poisson()).server(Server::new(20, service)),
            bucket,
        ),
        scenario(
            "waits for a leaky bucket",
            simulation(poisson()),
            move |time| LimiterPolicy::rate(queue(time)).wait(PATIENCE),
        )
        .with_calls(move |requests| {
            let time = ManualClock::new();
            requests.wait(&time, &queue(&time))
        }),
        scenario(
            "a million keys",
            simulation(poisson().keys(Keys::zipf(1_000_000, 1.1))),
            move |time| LimiterPolicy::keyed(keyed(time)),
        )
        .with_calls(move |requests| {
            let time = ManualClock::new();
            requests.decide(&time, &keyed(&time))
        }),
        scenario("10,000 users", closed, bucket),
    ]
}

fn scenario(
    name: &'static str,
    simulation: Simulation,
    policy: impl Fn(&ManualClock) -> LimiterPolicy + 'static,
) -> Scenario {
    Scenario {
        name,
        simulation,
        policy: Box::new(policy),
        calls: None,
        requests: OnceCell::new(),
    }
}
