//! Queues whose mean behavior is known exactly.

use std::time::Duration;

use flowgate_schedule::Schedule;
use flowgate_sim::{Arrivals, Distribution, RunOutcome, Server, Simulation, Traffic, Unprotected};

const MILLI: Duration = Duration::from_millis(1);

/// Poisson arrivals at so many per second, before a server.
fn run(per_second: u64, requests: u64, server: Server, seed: u64) -> RunOutcome {
    let rate = flowgate::Quota::per_second(per_second);
    let schedule = Schedule::poisson(rate, seed, requests).expect("a schedule");
    let duration = Duration::from_secs(requests / per_second + 60);
    Simulation::new(seed, duration)
        .traffic(Traffic::new("poisson", Arrivals::Scheduled(schedule)))
        .server(server)
        .run("none", |_| Ok::<_, std::convert::Infallible>(Unprotected))
        .expect("infallible")
}

/// The probability that a request waits: Erlang's C formula for `c` workers at `load` erlangs.
pub fn erlang_c(c: u32, load: f64) -> f64 {
    let blocked = erlang_b(c, load);
    let utilization = load / f64::from(c);
    blocked / (1.0 - utilization * (1.0 - blocked))
}

/// The probability that a request finds all `c` workers busy, without a queue: Erlang's B formula.
pub fn erlang_b(c: u32, load: f64) -> f64 {
    (1..=c).fold(1.0, |blocked, n| {
        load * blocked / (f64::from(n) + load * blocked)
    })
}

/// The probability that a request finds all `c` workers busy and `queue` requests waiting, at `load` erlangs.
fn lost_of_a_queue(c: u32, queue: u32, load: f64) -> f64 {
    let utilization = load / f64::from(c);
    (0..queue).fold(erlang_b(c, load), |lost, _| {
        utilization * lost / (1.0 + utilization * lost)
    })
}

fn assert_close(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let error = measured / expected - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{what}: {measured}, expected {expected}: {error}"
    );
}

#[test]
fn m_m_1_and_m_m_20_agree_with_erlang_c() {
    for (workers, per_second) in [(1, 70), (20, 1_800)] {
        let server = Server::new(workers, Distribution::exponential(10 * MILLI));
        let outcome = run(per_second, 1_000_000, server, 7);
        let load = per_second as f64 * 0.01;
        let c = f64::from(workers);
        // The mean time in the system: service, and the wait of those that wait.
        let mean = 0.01 + erlang_c(workers, load) * 0.01 / (c - load);
        assert_close("mean", outcome.latency.mean().as_secs_f64(), mean, 0.02);
        if workers == 1 {
            // The time in the system is exponential.
            let p99 = mean * 100_f64.ln();
            assert_close(
                "p99",
                outcome.latency.quantile(0.99).as_secs_f64(),
                p99,
                0.03,
            );
        }
        assert_eq!(outcome.counts.in_time, 1_000_000);
    }
}

#[test]
fn m_d_1_agrees_with_pollaczek_and_khinchine() {
    let server = Server::new(1, Distribution::constant(10 * MILLI));
    let outcome = run(80, 1_000_000, server, 3);
    let mean = 0.01 + 0.8 * 0.01 / (2.0 * (1.0 - 0.8));
    assert_close("mean", outcome.latency.mean().as_secs_f64(), mean, 0.02);
}

#[test]
fn without_a_queue_as_many_are_lost_as_erlang_b_says() {
    let server = Server::new(20, Distribution::exponential(10 * MILLI)).queue(0);
    let outcome = run(2_000, 1_000_000, server.clone(), 5);
    let lost = outcome.counts.queue_full as f64 / outcome.counts.operations as f64;
    assert_close("exponential", lost, erlang_b(20, 20.0), 0.02);
    // Whatever the distribution of the service is.
    let server = Server::new(20, "bimodal 5ms 55ms 10%".parse().expect("a distribution")).queue(0);
    let outcome = run(2_000, 1_000_000, server, 6);
    let lost = outcome.counts.queue_full as f64 / outcome.counts.operations as f64;
    assert_close("bimodal", lost, erlang_b(20, 20.0), 0.02);
}

#[test]
fn of_a_bounded_queue_as_many_are_lost_as_birth_and_death_say() {
    for (workers, queue, per_second) in [(1, 3, 90), (20, 5, 2_200)] {
        let server = Server::new(workers, Distribution::exponential(10 * MILLI));
        let outcome = run(per_second, 1_000_000, server.queue(queue as usize), 9);
        let lost = outcome.counts.queue_full as f64 / outcome.counts.operations as f64;
        let expected = lost_of_a_queue(workers, queue, per_second as f64 * 0.01);
        assert_close("lost", lost, expected, 0.02);
    }
}

/// Means within 1 %, and percentiles within 3 %, in ten million requests.
#[test]
#[ignore = "takes a minute; ci/long.sh runs it"]
fn ten_million_requests_agree_with_closed_forms() {
    let most = 10_000_000;
    for (workers, per_second) in [(1, 70), (20, 1_800)] {
        let server = Server::new(workers, Distribution::exponential(10 * MILLI));
        let outcome = run(per_second, most, server, 7);
        let load = per_second as f64 * 0.01;
        let (waits, drained) = (erlang_c(workers, load), (f64::from(workers) - load) * 100.0);
        let mean = 0.01 + waits / drained;
        assert_close("mean", outcome.latency.mean().as_secs_f64(), mean, 0.01);
        let p99 = outcome.latency.quantile(0.99).as_secs_f64();
        assert_close(
            "p99",
            p99,
            quantile(|t| longer(waits, drained, t), 0.01),
            0.03,
        );
    }
    let outcome = run(
        80,
        most,
        Server::new(1, Distribution::constant(10 * MILLI)),
        3,
    );
    let mean = 0.01 + 0.8 * 0.01 / (2.0 * (1.0 - 0.8));
    assert_close("M/D/1", outcome.latency.mean().as_secs_f64(), mean, 0.01);
    let server = Server::new(20, Distribution::exponential(10 * MILLI)).queue(5);
    let outcome = run(2_200, most, server, 9);
    let lost = outcome.counts.queue_full as f64 / outcome.counts.operations as f64;
    assert_close("M/M/20/25", lost, lost_of_a_queue(20, 5, 22.0), 0.01);
}

/// The share of M/M/c that takes longer than `t`: with the probability of a wait, and its rate. Service is 10 ms.
pub fn longer(waits: f64, drained: f64, t: f64) -> f64 {
    let served = 100.0;
    let after_a_wait =
        (drained * (-served * t).exp() - served * (-drained * t).exp()) / (drained - served);
    (1.0 - waits) * (-served * t).exp() + waits * after_a_wait
}

/// Where a falling function reaches `share`.
fn quantile(longer: impl Fn(f64) -> f64, share: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        match longer(middle) > share {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

#[test]
fn processor_sharing_has_the_mean_of_m_m_1_whatever_the_service() {
    let alone = flowgate_sim::Contention {
        sigma: 1.0,
        kappa: 0.0,
    };
    for service in ["exponential 10ms", "bimodal 5ms 55ms 10%"] {
        let server =
            Server::new(1_000_000, service.parse().expect("a distribution")).contention(alone);
        let outcome = run(70, 500_000, server, 11);
        let mean = 0.01 / (1.0 - 0.7);
        assert_close(service, outcome.latency.mean().as_secs_f64(), mean, 0.03);
    }
}

#[test]
fn the_same_simulation_has_the_same_hash_and_another_seed_another() {
    let server = || Server::new(20, Distribution::exponential(10 * MILLI));
    let hash = |seed| run(1_800, 20_000, server(), seed).hash();
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
    // On every machine, and at every optimization level.
    assert_eq!(format!("{:016x}", hash(1)), "77c8ac7b12b87a81");
}
