//! Faults of a server.

use std::convert::Infallible;
use std::time::Duration;

use flowgate_schedule::Schedule;
use flowgate_sim::{
    Arrivals, Contention, Distribution, Fault, FaultKind, RunOutcome, Server, Share, Simulation,
    Traffic, Unprotected,
};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

fn run(server: Server, fault: Option<Fault>) -> RunOutcome {
    let schedule =
        Schedule::lasting("100/s".parse().expect("a quota"), 30 * SECOND).expect("a schedule");
    let mut simulation = Simulation::new(1, 30 * SECOND)
        .traffic(Traffic::new("users", Arrivals::Scheduled(schedule)))
        .server(server);
    if let Some(fault) = fault {
        simulation = simulation.fault(fault);
    }
    simulation
        .run("none", |_| Ok::<_, Infallible>(Unprotected))
        .expect("infallible")
}

fn workers() -> Server {
    Server::new(2, Distribution::constant(10 * MILLI))
}

fn shared() -> Server {
    let contention = Contention {
        sigma: 1.0,
        kappa: 0.0,
    };
    Server::new(1_000, Distribution::constant(5 * MILLI)).contention(contention)
}

#[test]
fn in_a_pause_everything_waits() {
    for server in [workers(), shared()] {
        let pause = Fault::new(FaultKind::Pause, 10 * SECOND, 2 * SECOND);
        let outcome = run(server, Some(pause));
        assert_eq!(outcome.counts.in_time, 3_000);
        let longest = outcome.latency.max();
        assert!((2 * SECOND..4 * SECOND).contains(&longest), "{longest:?}");
    }
}

#[test]
fn in_an_outage_everything_fails() {
    for server in [workers(), shared()] {
        let outage = Fault::new(FaultKind::Outage, 10 * SECOND, 2 * SECOND);
        let outcome = run(server, Some(outage));
        // What came in two seconds, and perhaps what was being served.
        assert!(
            (200..=201).contains(&outcome.counts.down),
            "{:?}",
            outcome.counts
        );
        assert_eq!(outcome.counts.failed, outcome.counts.down);
        assert_eq!(outcome.counts.in_time + outcome.counts.down, 3_000);
    }
}

#[test]
fn with_less_capacity_a_queue_grows_and_shrinks() {
    // A quarter of 200 a second, for ten seconds: 500 are left over, and are worked off at 100 a second more than come.
    let half = Fault::new(
        FaultKind::Capacity(Share::new(0.25)),
        10 * SECOND,
        10 * SECOND,
    );
    let server = Server::new(4, Distribution::constant(20 * MILLI));
    let outcome = run(server, Some(half));
    assert_eq!(outcome.counts.in_time, 3_000);
    let longest = outcome.latency.max();
    assert!((2 * SECOND..6 * SECOND).contains(&longest), "{longest:?}");
    let calm = run(workers(), None);
    assert_eq!(calm.latency.max().as_millis(), 10);
}

#[test]
fn slow_service_takes_longer() {
    let slow = Fault::new(FaultKind::Service(1.5), 10 * SECOND, 10 * SECOND);
    let outcome = run(workers(), Some(slow));
    assert_eq!(outcome.latency.max().as_millis(), 15);
}
