//! The smallest limits that keep a wish, where theory knows them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{ConcurrencyLimit, Quota};
use flowgate_schedule::Schedule;
use flowgate_sim::{
    Arrivals, Distribution, LimiterPolicy, RunOutcome, Search, Server, Simulation, Suggestion,
    Traffic, Unprotected, Wish, suggest,
};

use crate::closed_forms::{erlang_b, erlang_c, longer};

const MILLI: Duration = Duration::from_millis(1);

fn poisson(per_second: u64, requests: u64) -> Simulation {
    let schedule = Schedule::poisson(Quota::per_second(per_second), 1, requests);
    let traffic = Traffic::new(
        "poisson",
        Arrivals::Scheduled(schedule.expect("a schedule")),
    );
    Simulation::new(1, Duration::from_secs(requests / per_second + 60)).traffic(traffic)
}

fn find(wish: &str, search: Search, run: impl Fn(u64) -> RunOutcome) -> Suggestion {
    let wish: Wish = wish.parse().expect("a wish");
    let found = suggest(&wish, &search, |value| Ok::<_, Infallible>(run(value)));
    found.unwrap_or_else(|never| match never {})
}

#[test]
fn as_many_workers_are_suggested_as_erlang_c_needs() {
    let needed = (10..40).find(|workers| {
        longer(
            erlang_c(*workers, 8.0),
            f64::from(*workers) * 100.0 - 800.0,
            0.048,
        ) <= 0.01
    });
    let simulation = poisson(800, 300_000);
    let found = find("p99 <= 48ms", Search::smallest(9..=100), |workers| {
        let server = Server::new(workers as u32, Distribution::exponential(10 * MILLI));
        let outcome = simulation.clone().server(server);
        let outcome = outcome.run("none", |_| Ok::<_, Infallible>(Unprotected));
        outcome.unwrap_or_else(|never| match never {})
    });
    assert_eq!(found.value, needed.map(u64::from));
    assert!(found.is_monotone && found.is_settled, "{found:?}");
}

#[test]
fn as_many_permits_are_suggested_as_erlang_b_needs() {
    let needed = (1..40).find(|permits| erlang_b(*permits, 8.0) <= 0.01);
    let server = Server::new(100, Distribution::exponential(10 * MILLI));
    let simulation = poisson(800, 300_000).server(server);
    let found = find("refused <= 1%", Search::smallest(1..=100), |permits| {
        let outcome = simulation.run("permits", |time| {
            let limit = ConcurrencyLimit::builder(permits as u32)
                .clock(time)
                .build();
            Ok::<_, Infallible>(LimiterPolicy::concurrency(Arc::new(
                limit.expect("a limit"),
            )))
        });
        outcome.unwrap_or_else(|never| match never {})
    });
    assert_eq!(found.value, needed.map(u64::from));
    assert!(found.is_monotone && found.is_settled, "{found:?}");
}
