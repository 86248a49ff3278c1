//! Clients that try again, give up, or think.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flowgate::TokenBucket;
use flowgate_schedule::Schedule;
use flowgate_sim::{
    Arrivals, Distribution, LimiterPolicy, Retries, RunOutcome, Server, Share, Simulation, Traffic,
    Unprotected,
};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

fn at(times_ms: &[u64]) -> Arrivals {
    let text: String = times_ms
        .iter()
        .map(|ms| format!("{}\n", *ms as f64 / 1_000.0))
        .collect();
    Arrivals::Scheduled(Schedule::replay(text.as_bytes()).expect("times"))
}

fn bucket(simulation: &Simulation, quota: &str) -> RunOutcome {
    let outcome = simulation.run(quota, |time| {
        let bucket = TokenBucket::builder(quota.parse().expect("a quota"))
            .clock(time)
            .build();
        Ok::<_, Infallible>(LimiterPolicy::rate(Arc::new(bucket.expect("a bucket"))))
    });
    outcome.expect("infallible")
}

#[test]
fn a_retry_heeds_retry_after_and_is_admitted() {
    let retries = Retries::new(3, 10 * MILLI).jitter(false);
    let simulation =
        Simulation::new(1, 10 * SECOND).traffic(Traffic::new("two", at(&[0, 0])).retries(retries));
    let outcome = bucket(&simulation, "1/s burst 1");
    assert_eq!((outcome.counts.attempts, outcome.counts.in_time), (3, 2));
    assert_eq!(outcome.latency.max().as_millis(), 1_000);

    // Blind, it asks after 10 and 20 ms, and fails.
    let blind = Retries::new(3, 10 * MILLI)
        .jitter(false)
        .heeds_retry_after(false);
    let simulation =
        Simulation::new(1, 10 * SECOND).traffic(Traffic::new("two", at(&[0, 0])).retries(blind));
    let outcome = bucket(&simulation, "1/s burst 1");
    assert_eq!((outcome.counts.attempts, outcome.counts.failed), (4, 1));
}

#[test]
fn a_deadline_bounds_waits_and_retries() {
    let traffic = || Traffic::new("three", at(&[0, 0, 0])).deadline(500 * MILLI);
    let simulation =
        Simulation::new(1, 10 * SECOND).traffic(traffic().retries(Retries::new(9, MILLI)));
    let outcome = bucket(&simulation, "1/s burst 1");
    assert_eq!((outcome.counts.in_time, outcome.counts.failed), (1, 2));

    let simulation = Simulation::new(1, 10 * SECOND).traffic(traffic());
    let outcome = simulation.run("waits", |time| {
        let bucket = TokenBucket::builder("4/s burst 1".parse().expect("a quota"))
            .clock(time)
            .build();
        let bucket = Arc::new(bucket.expect("a bucket"));
        Ok::<_, Infallible>(LimiterPolicy::rate(bucket).wait(60 * SECOND))
    });
    let outcome = outcome.expect("infallible");
    assert_eq!((outcome.counts.in_time, outcome.counts.failed), (3, 0));
    assert_eq!(outcome.latency.max().as_millis(), 500);
}

#[test]
fn a_budget_bounds_retries() {
    let schedule =
        Schedule::lasting("100/s".parse().expect("a quota"), 100 * SECOND).expect("a schedule");
    let retries = Retries::new(5, MILLI).heeds_retry_after(false);
    let with = |retries| {
        let traffic = Traffic::new("users", Arrivals::Scheduled(schedule.clone())).retries(retries);
        bucket(
            &Simulation::new(1, 100 * SECOND).traffic(traffic),
            "1/s burst 1",
        )
        .counts
    };
    let counts = with(retries);
    assert!(counts.attempts > 45_000, "{counts:?}");
    let counts = with(retries.budget(Share::new(0.1)));
    assert!(counts.attempts <= 11_010, "{counts:?}");
}

#[test]
fn what_is_served_after_the_deadline_is_late() {
    let server = Server::new(1, Distribution::constant(300 * MILLI));
    let simulation = |server| {
        Simulation::new(1, 10 * SECOND)
            .traffic(Traffic::new("three", at(&[0, 0, 0])).deadline(500 * MILLI))
            .server(server)
    };
    let run = |server| {
        let outcome = simulation(server).run("none", |_| Ok::<_, Infallible>(Unprotected));
        outcome.expect("infallible").counts
    };
    let counts = run(server.clone());
    assert_eq!((counts.in_time, counts.late, counts.expired), (1, 2, 0));
    // The third is not begun after its deadline.
    let counts = run(server.drops_expired(true));
    assert_eq!((counts.in_time, counts.late, counts.expired), (1, 1, 1));
}

#[test]
fn users_who_think_follow_littles_law() {
    let think = Distribution::exponential(SECOND);
    let simulation = Simulation::new(1, 2_000 * SECOND)
        .traffic(Traffic::new("users", Arrivals::Closed { users: 50, think }))
        .server(Server::new(100, Distribution::exponential(250 * MILLI)));
    let outcome = simulation
        .run("none", |_| Ok::<_, Infallible>(Unprotected))
        .expect("infallible");
    // 50 users, each of whom asks once in 1.25 s on average.
    let per_second = outcome.counts.operations as f64 / 2_000.0;
    assert!((per_second / 40.0 - 1.0).abs() < 0.01, "{per_second}");
}

/// One worker, and a client that waits 100 ms for each of two attempts.
#[test]
fn an_attempt_that_is_given_up_is_served_all_the_same() {
    let client = Traffic::new("client", at(&[0]))
        .attempt_timeout(100 * MILLI)
        .retries(Retries::new(2, Duration::ZERO));
    let server = Server::new(2, Distribution::constant(150 * MILLI));
    let simulation = Simulation::new(1, SECOND).traffic(client).server(server);
    let outcome = simulation.run("none", |_| Ok::<_, Infallible>(Unprotected));
    let counts = outcome.expect("infallible").counts;
    assert_eq!((counts.operations, counts.attempts), (1, 2));
    assert_eq!((counts.timed_out, counts.wasted), (2, 2));
    assert_eq!((counts.failed, counts.in_time, counts.late), (1, 0, 0));
}
