//! Limiters of flowgate in the simulator.

use std::sync::Arc;
use std::time::Duration;

use flowgate::{
    Clock, ConcurrencyLimit, Gate, KeyedLimiterConfig, Limiter, LimiterConfig, LimiterKind,
    ManualClock, Timestamp,
};
use flowgate_schedule::Schedule;
use flowgate_sim::{
    Arrivals, Distribution, Keys, LimiterPolicy, RunOutcome, Server, Simulation, Traffic,
};

const SECOND: Duration = Duration::from_secs(1);

fn poisson(per_second: u64, requests: u64) -> Schedule {
    Schedule::poisson(flowgate::Quota::per_second(per_second), 1, requests).expect("a schedule")
}

fn run(simulation: &Simulation, policy: impl FnOnce(&ManualClock) -> LimiterPolicy) -> RunOutcome {
    let outcome = simulation.run("policy", |time| {
        Ok::<_, std::convert::Infallible>(policy(time))
    });
    outcome.expect("infallible")
}

/// Each limiter decides as it does alone, at the same times.
#[test]
fn each_limiter_decides_as_it_does_outside() {
    // Windows aligned to the clock on the wall begin at another time in each run.
    let kinds = LimiterKind::ALL.into_iter();
    for kind in kinds.filter(|kind| *kind != LimiterKind::Aligned) {
        let text = format!("{} 100/s", kind.name());
        let config: LimiterConfig = text.parse().expect("a limiter");
        let schedule = poisson(150, 4_500);
        let simulation = Simulation::new(1, 60 * SECOND).traffic(Traffic::new(
            "poisson",
            Arrivals::Scheduled(schedule.clone()),
        ));
        let outcome = run(&simulation, |time| {
            LimiterPolicy::from_config(&config, time).expect("a limiter")
        });
        let time = ManualClock::new();
        let limiter: Arc<dyn Limiter> = match kind {
            // Its windows begin with the run.
            LimiterKind::Aligned => {
                let window = flowgate::FixedWindow::builder(flowgate::Quota::per_second(100));
                Arc::new(
                    window
                        .clock(&time)
                        .align(Timestamp::ORIGIN)
                        .build()
                        .expect("a limiter"),
                )
            }
            _ => config.build_on(&time).expect("a limiter"),
        };
        let mut admitted = 0;
        for at in schedule.times() {
            time.set(Timestamp::from_nanos(at.as_nanos() as u64));
            admitted += u64::from(limiter.try_acquire().is_ok());
        }
        assert_eq!(outcome.counts.admitted, admitted, "{text}");
        assert_eq!(outcome.counts.refused, 4_500 - admitted, "{text}");
    }
}

/// A leaky bucket that lets requests wait is a queue with constant service.
#[test]
fn waits_take_as_long_as_the_queue() {
    let schedule = poisson(80, 200_000);
    let simulation = Simulation::new(1, 3_000 * SECOND)
        .traffic(Traffic::new("poisson", Arrivals::Scheduled(schedule)));
    let outcome = run(&simulation, |time| {
        let limiter = flowgate::LeakyBucket::builder("100/s".parse().expect("a quota")).clock(time);
        LimiterPolicy::rate(Arc::new(limiter.build().expect("a limiter"))).wait(1_000 * SECOND)
    });
    assert_eq!(outcome.counts.in_time, 200_000);
    // M/D/1, without the service.
    let mean = 0.8 * 0.01 / (2.0 * (1.0 - 0.8));
    let error = outcome.latency.mean().as_secs_f64() / mean - 1.0;
    assert!(error.abs() < 0.05, "{error}");
}

#[test]
fn permits_bound_what_is_at_the_server() {
    let schedule = poisson(4_000, 100_000);
    let simulation = Simulation::new(1, 30 * SECOND)
        .traffic(Traffic::new("poisson", Arrivals::Scheduled(schedule)))
        .server(Server::new(
            20,
            Distribution::exponential(Duration::from_millis(10)),
        ));
    let outcome = run(&simulation, |time| {
        let limit = ConcurrencyLimit::builder(20)
            .clock(time)
            .build()
            .expect("a limit");
        LimiterPolicy::concurrency(Arc::new(limit))
    });
    // No queue before the server: Erlang's B for 40 erlangs at 20 workers, about 0.5 of 4,000/s are served.
    assert_eq!(outcome.counts.queue_full, 0);
    let served = outcome.counts.in_time as f64 / outcome.counts.operations as f64;
    let blocked = (1..=20).fold(1.0, |b, n| 40.0 * b / (f64::from(n) + 40.0 * b));
    assert!((served / (1.0 - blocked) - 1.0).abs() < 0.02, "{served}");
    // Nothing waits, so the latency is that of the service.
    let p50 = outcome.latency.quantile(0.5).as_secs_f64();
    assert!((p50 / (0.01 * 2_f64.ln()) - 1.0).abs() < 0.03, "{p50}");
}

#[test]
fn a_gate_takes_a_token_and_a_permit() {
    let simulation = Simulation::new(1, 10 * SECOND)
        .traffic(Traffic::new(
            "poisson",
            Arrivals::Scheduled(poisson(500, 5_000)),
        ))
        .server(Server::new(
            100,
            Distribution::constant(Duration::from_millis(50)),
        ));
    let outcome = run(&simulation, |time| {
        let bucket =
            flowgate::TokenBucket::builder("200/s burst 1".parse().expect("a quota")).clock(time);
        let limit = ConcurrencyLimit::builder(5)
            .clock(time)
            .build()
            .expect("a limit");
        let gate = Gate::builder()
            .limit("rate", bucket.build().expect("a bucket"))
            .limit("slots", limit)
            .build();
        LimiterPolicy::gate(Arc::new(gate.expect("a gate")))
    });
    // Five permits of 50 ms each: at most 100 a second.
    let per_second = outcome.counts.admitted as f64 / 10.0;
    assert!((90.0..=100.6).contains(&per_second), "{per_second}");
}

#[test]
fn keys_have_limits_of_their_own() {
    let config: KeyedLimiterConfig = "keyed token 1/s burst 5".parse().expect("a limiter");
    let simulation = Simulation::new(1, 60 * SECOND).traffic(
        Traffic::new("users", Arrivals::Scheduled(poisson(100, 6_000))).keys(Keys::zipf(100, 1.2)),
    );
    let outcome = run(&simulation, |time| {
        LimiterPolicy::keyed(
            config
                .build_on(Clock::from(time), 1_000)
                .expect("a limiter"),
        )
    });
    assert!(outcome.keys.values().all(|counts| counts.admitted <= 65));
    let first = outcome.keys[0];
    assert!(
        first.attempts > 1_000 && (60..=65).contains(&first.admitted),
        "{first:?}"
    );
    assert!(outcome.fairness() > 0.5);
}

/// Two policies see the same requests.
#[test]
fn a_policy_does_not_move_the_workload() {
    let simulation = Simulation::new(1, 60 * SECOND)
        .traffic(
            Traffic::new("users", Arrivals::Scheduled(poisson(100, 6_000)))
                .keys(Keys::zipf(100, 1.2)),
        )
        .server(Server::new(
            2,
            "lognormal 10ms 1".parse().expect("a distribution"),
        ));
    let keys = |text: &str| {
        let config: LimiterConfig = text.parse().expect("a limiter");
        let outcome = run(&simulation, |time| {
            LimiterPolicy::rate(config.build_on(Clock::from(time)).expect("a limiter"))
        });
        let keys = outcome
            .keys
            .iter()
            .map(|(key, counts)| (key, counts.attempts));
        keys.collect::<Vec<_>>()
    };
    assert_eq!(keys("token 50/s"), keys("sliding 10/s"));
}
