//! Runs that end before their time, windows, and counts of sources and keys.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use flowgate::{Clock, KeyedLimiterConfig, LimiterConfig, LimiterKind};
use flowgate_schedule::Schedule;
use flowgate_sim::{
    Arrivals, Distribution, Keys, LimiterPolicy, Recorded, Retries, RunOutcome, Server, Simulation,
    StopReason, Traffic, Unprotected,
};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

fn poisson(per_second: u64, requests: u64) -> Arrivals {
    let rate = flowgate::Quota::per_second(per_second);
    Arrivals::Scheduled(Schedule::poisson(rate, 1, requests).expect("a schedule"))
}

fn unprotected(simulation: &Simulation) -> RunOutcome {
    let outcome = simulation.run("none", |_| Ok::<_, Infallible>(Unprotected));
    outcome.unwrap_or_else(|never| match never {})
}

fn limited(simulation: &Simulation, text: &str) -> RunOutcome {
    let config: LimiterConfig = text.parse().expect("a limiter");
    let outcome = simulation.run(text, |time| LimiterPolicy::from_config(&config, time));
    outcome.expect("a limiter")
}

/// Users who neither think nor wait: time does not pass.
fn restless(users: u32) -> Simulation {
    let think = Distribution::constant(Duration::ZERO);
    let traffic = Traffic::new("users", Arrivals::Closed { users, think });
    Simulation::new(1, SECOND).traffic(traffic)
}

#[test]
fn a_run_in_which_time_does_not_pass_ends_after_the_most_events() {
    let outcome = unprotected(&restless(3).max_events(10_000));
    assert_eq!(
        (outcome.stopped, outcome.events),
        (Some(StopReason::Events), 10_000)
    );
    assert_eq!((outcome.goodput(), outcome.duration), (0.0, Duration::ZERO));
    // Through a server that takes no time.
    let server = Server::new(2, Distribution::constant(Duration::ZERO));
    let outcome = unprotected(&restless(3).server(server).max_events(10_000));
    assert_eq!(outcome.stopped, Some(StopReason::Events));
}

#[test]
fn operations_in_flight_and_events_to_come_are_bounded() {
    let outcome = unprotected(&restless(u32::MAX).max_pending(1_000));
    assert_eq!(outcome.stopped, Some(StopReason::Pending));
    // A server that is never done.
    let server = Server::new(1, Distribution::constant(1_000_000 * SECOND));
    let traffic = Traffic::new("users", poisson(1_000, 5_000));
    let simulation = Simulation::new(1, 10 * SECOND)
        .traffic(traffic)
        .server(server);
    let outcome = unprotected(&simulation.clone().max_pending(1_000));
    assert_eq!(outcome.stopped, Some(StopReason::Pending));
    assert_eq!(
        (outcome.counts.operations, outcome.counts.unfinished),
        (1_000, 1_000)
    );
    let outcome = unprotected(&simulation.max_pending(5_000));
    assert_eq!((outcome.stopped, outcome.counts.unfinished), (None, 5_000));
}

#[test]
fn an_interrupted_run_has_what_there_is_and_progress_is_reported() {
    let (interrupt, seen) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (stop, last) = (Arc::clone(&interrupt), Arc::clone(&seen));
    let simulation = Simulation::new(1, 100 * SECOND)
        .traffic(Traffic::new("users", poisson(1_000, 100_000)))
        .interrupt(interrupt)
        .on_progress(move |progress| {
            last.store(progress.events, Ordering::Relaxed);
            assert!(progress.now <= 100 * SECOND);
            if progress.events >= 20_000 {
                stop.store(true, Ordering::Relaxed);
            }
        });
    let outcome = limited(&simulation, "token 500/s");
    assert_eq!(outcome.stopped, Some(StopReason::Interrupted));
    assert_eq!(outcome.events, seen.load(Ordering::Relaxed));
    assert!(
        (20_000..30_000).contains(&outcome.events),
        "{}",
        outcome.events
    );
    // 20,000 events of 1,000 a second: the rates are those of the first 20 seconds.
    assert!(
        (19..=30).contains(&outcome.duration.as_secs()),
        "{:?}",
        outcome.duration
    );
    assert!(
        (outcome.goodput() - 500.0).abs() < 50.0,
        "{}",
        outcome.goodput()
    );
}

#[test]
fn records_that_go_backward_do_not_stop_the_run() {
    let recorded: Arc<[Recorded]> = [5, 3, 9, 1]
        .map(|ms| Recorded {
            at: ms * MILLI,
            key: 0,
            cost: 1,
        })
        .into();
    let traffic = Traffic::new("log", Arrivals::Recorded(recorded));
    let outcome = unprotected(&Simulation::new(1, SECOND).traffic(traffic));
    assert_eq!((outcome.counts.in_time, outcome.ended), (4, 9 * MILLI));
}

#[test]
fn a_long_drain_does_not_need_memory() {
    let traffic = Traffic::new("users", poisson(1_000_000, 10));
    let traffic = traffic.retries(Retries::new(2, 1_000_000 * SECOND));
    let simulation = Simulation::new(1, MILLI)
        .traffic(traffic)
        .drain(10_000_000 * SECOND);
    let outcome = limited(&simulation, "token 1/h");
    // The retries come days apart, so each finds a token.
    assert_eq!(outcome.counts.in_time, 10);
    assert!(outcome.slots.len() <= 4_000, "{}", outcome.slots.len());
}

/// No limiter admits more than it guarantees, and those that allow bursts come close to it.
#[test]
fn the_worst_window_is_within_the_bound_of_each_limiter() {
    let rate = flowgate::Quota::per_second(400);
    let bursts = Schedule::bursts(rate, 400, 20 * SECOND).expect("a schedule");
    let arrivals = Arrivals::Scheduled(bursts);
    let simulation = Simulation::new(1, 30 * SECOND)
        .traffic(Traffic::new("bursts", arrivals).cost(3))
        .traffic(Traffic::new("poisson", poisson(500, 15_000)))
        .watch_window(SECOND)
        .watch_window(700 * MILLI)
        .watch_window(2_500 * MILLI);
    for kind in LimiterKind::ALL {
        let outcome = limited(&simulation, &format!("{} 100/s", kind.name()));
        for found in &outcome.windows {
            let bound = found.bound.expect("a bound").tokens;
            assert_eq!(found.is_kept(), Some(true), "{kind:?} {found:?}");
            assert!(
                found.is_exact && found.worst.cost * 3 >= bound,
                "{kind:?} {found:?}"
            );
        }
        if kind == LimiterKind::Token {
            // The burst, and one second's refill.
            assert!(
                outcome.windows[0].worst.cost >= 195,
                "{:?}",
                outcome.windows[0]
            );
        }
    }
}

#[test]
fn a_bound_for_each_key_is_compared_with_the_worst_key() {
    let config: KeyedLimiterConfig = "keyed token 2/s burst 5".parse().expect("a limiter");
    let traffic = Traffic::new("users", poisson(500, 15_000)).keys(Keys::zipf(50, 1.0));
    let simulation = Simulation::new(1, 30 * SECOND)
        .traffic(traffic)
        .watch_window(SECOND);
    let outcome = simulation.run("keyed", |time| {
        LimiterPolicy::from_keyed_config(&config, time, 1_000)
    });
    let outcome = outcome.expect("a limiter");
    let found = outcome.windows[0];
    assert_eq!(
        (found.bound.map(|bound| bound.tokens), found.is_kept()),
        (Some(7), Some(true))
    );
    assert!(
        (6..=7).contains(&found.worst_of_key.cost) && found.worst.cost > 50,
        "{found:?}"
    );
    // A limiter of the caller's own has no bound.
    let outcome = simulation.run("own", |time| {
        Ok::<_, flowgate::KeyedError>(LimiterPolicy::keyed(
            config.build_on(Clock::from(time), 1_000)?,
        ))
    });
    assert_eq!(outcome.expect("a limiter").windows[0].is_kept(), None);
}

#[test]
fn a_noisy_neighbor_is_told_apart() {
    let simulation = Simulation::new(1, 30 * SECOND)
        .traffic(Traffic::new("quiet", poisson(10, 200)).keys(Keys::uniform(5)))
        .traffic(
            Traffic::new("noisy", poisson(1_000, 20_000))
                .keys(Keys::uniform(1))
                .cost(2),
        )
        .server(Server::new(50, Distribution::exponential(10 * MILLI)));
    let outcome = limited(&simulation, "token 100/s burst 10");
    let [quiet, noisy] = &outcome.sources[..] else {
        panic!("two sources");
    };
    assert_eq!(
        (quiet.name.as_str(), noisy.name.as_str()),
        ("quiet", "noisy")
    );
    assert_eq!(
        (quiet.counts.operations, noisy.counts.operations),
        (200, 20_000)
    );
    let sum = quiet.counts.admitted + noisy.counts.admitted;
    assert_eq!(outcome.counts.admitted, sum);
    assert_eq!(
        outcome.latency.count(),
        quiet.latency.count() + noisy.latency.count()
    );
    // The noisy one has key 0, like a fifth of the quiet one's requests.
    let refused = outcome.keys.most_refused(1);
    assert_eq!(refused[0].0, 0);
    let cost: u64 = outcome.keys.values().map(|counts| counts.cost).sum();
    assert_eq!(cost, quiet.counts.admitted + 2 * noisy.counts.admitted);
    let refused: u64 = outcome.keys.values().map(|counts| counts.refused).sum();
    assert_eq!(refused, outcome.counts.refused);
}
