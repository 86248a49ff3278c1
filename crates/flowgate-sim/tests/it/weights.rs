//! A concurrency limit for requests of one slot and of eight: a large one waits until as many slots are free, and nobody overtakes it meanwhile.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{ConcurrencyLimit, Quota};
use flowgate_schedule::Schedule;
use flowgate_sim::{
    Arrivals, Distribution, LimiterPolicy, RunOutcome, Server, Simulation, SourceOutcome, Traffic,
};

const MILLI: Duration = Duration::from_millis(1);
const SECONDS: u64 = 20;
const SLOTS: u32 = 100;
/// How long a request has its slots, and how long it waits for them.
const SERVICE: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(100);
const LARGE: u64 = 8;

/// Each size alone would use `percent` / 2 of the slots.
fn run(percent: u64, seed: u64) -> RunOutcome {
    let per_second = u64::from(SLOTS) * percent / 2;
    let traffic = |name: &str, cost: u64, seed: u64| {
        let quota = Quota::per_second(per_second / cost);
        let requests = per_second / cost * (SECONDS + 1);
        let schedule = Schedule::poisson(quota, seed, requests).expect("a schedule");
        Traffic::new(name, Arrivals::Scheduled(schedule)).cost(cost)
    };
    let server = Server::new(10 * SLOTS, Distribution::exponential(SERVICE));
    let outcome = Simulation::new(seed, Duration::from_secs(SECONDS))
        .traffic(traffic("small", 1, 2 * seed))
        .traffic(traffic("large", LARGE, 2 * seed + 1))
        .server(server)
        .run("weights", |time| {
            let limit = ConcurrencyLimit::builder(SLOTS).clock(time).build();
            let limit = Arc::new(limit.expect("a limit"));
            Ok::<_, Infallible>(LimiterPolicy::concurrency(limit).wait(LONGEST_WAIT))
        });
    let Ok(outcome) = outcome;
    outcome
}

/// Without a wait, the second of two that do not fit together is refused.
#[test]
fn a_large_request_takes_as_many_slots_as_it_costs() {
    for (slots, admitted) in [(15, 1), (16, 2)] {
        let both = Schedule::replay(b"0\n0\n".as_slice()).expect("times");
        let outcome = Simulation::new(1, Duration::from_secs(1))
            .traffic(Traffic::new("large", Arrivals::Scheduled(both)).cost(LARGE))
            .server(Server::new(SLOTS, Distribution::constant(SERVICE)))
            .run("slots", |time| {
                let limit = ConcurrencyLimit::builder(slots).clock(time).build();
                Ok::<_, Infallible>(LimiterPolicy::concurrency(Arc::new(
                    limit.expect("a limit"),
                )))
            });
        let Ok(outcome) = outcome;
        assert_eq!(outcome.counts.admitted, admitted, "{slots} slots");
    }
}

fn sources(outcome: &RunOutcome) -> [&SourceOutcome; 2] {
    let [small, large] = outcome.sources.as_slice() else {
        panic!("two sources");
    };
    [small, large]
}

#[test]
fn under_overload_large_requests_leave_few_slots_unused() {
    for seed in 1..=5 {
        let outcome = run(200, seed);
        let [small, large] = sources(&outcome);
        let slots = small.counts.admitted + LARGE * large.counts.admitted;
        let used = slots as f64 * SERVICE.as_secs_f64() / (u64::from(SLOTS) * SECONDS) as f64;
        assert!((0.9..=1.01).contains(&used), "seed {seed}: {used}");
        // Recorded with three digits.
        assert!(large.wait.max() <= LONGEST_WAIT + MILLI, "seed {seed}");
        assert!(large.counts.admitted > 0, "seed {seed}");
    }
}

/// Nobody who came later went before them, however many small requests would have fitted.
#[test]
fn below_capacity_large_requests_wait_little_longer_than_small_ones() {
    for seed in 1..=5 {
        let outcome = run(90, seed);
        let [small, large] = sources(&outcome);
        assert_eq!(outcome.counts.admitted, outcome.counts.operations);
        let [of_small, of_large] = [small, large].map(|source| source.wait.mean());
        assert!(
            of_large <= of_small + 2 * MILLI,
            "seed {seed}: {of_small:?} {of_large:?}"
        );
    }
}
