//! Clients that try again when a server is slow: a short fault becomes an outage without an end, unless a budget bounds the retries.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{ManualClock, RetryBudget, Throttle};
use flowgate_schedule::Schedule;
use flowgate_sim::{
    AdmissionDecision, AdmissionPolicy, Arrivals, Distribution, Fault, FaultKind, Held, Request,
    Retries, RunOutcome, Server, Simulation, Traffic,
};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// Of a client. The server serves 200 requests per second, in 10 ms each.
const TIMEOUT: Duration = Duration::from_millis(250);
/// When the fault is over.
const REPAIRED: Duration = Duration::from_secs(25);
const SEEDS: u64 = 20;

/// The library of a client: it asks before it sends, and notes what became of it.
struct Client {
    budget: Option<RetryBudget>,
    throttle: Option<Arc<Throttle>>,
}

impl AdmissionPolicy for Client {
    fn decide(&mut self, request: &Request) -> AdmissionDecision {
        let is_retry = request.attempt > 1;
        let retry = match &self.budget {
            Some(budget) if is_retry => budget.try_withdraw(),
            _ => Ok(()),
        };
        let throttle = &self.throttle;
        let begin = || {
            throttle
                .as_ref()
                .map_or(Ok(()), |it| it.try_begin().map(drop))
        };
        match retry.and_then(|()| begin()) {
            Ok(()) => AdmissionDecision::Admit(Held::nothing()),
            Err(denied) => AdmissionDecision::Refuse {
                retry_after: denied.retry_after(),
            },
        }
    }

    fn finished(&mut self, _: &Request, _: Held, took: Duration, is_served: bool) {
        let is_accepted = is_served && took <= TIMEOUT;
        if let Some(throttle) = &self.throttle {
            throttle.record(is_accepted);
        }
        if let Some(budget) = self.budget.as_ref().filter(|_| is_accepted) {
            budget.deposit();
        }
    }
}

/// A load of three quarters, and a pause of the server of five seconds.
fn storm(seed: u64, client: impl FnOnce(&ManualClock) -> Client) -> RunOutcome {
    let schedule = Schedule::poisson("150/s".parse().expect("a quota"), seed, 150 * 120);
    let retries = Retries::new(3, 10 * MILLI);
    let traffic = Traffic::new("users", Arrivals::Scheduled(schedule.expect("a schedule")));
    Simulation::new(seed, 100 * SECOND)
        .traffic(
            traffic
                .deadline(2 * SECOND)
                .attempt_timeout(TIMEOUT)
                .retries(retries),
        )
        .server(Server::new(2, Distribution::exponential(10 * MILLI)))
        .fault(Fault::new(FaultKind::Pause, 20 * SECOND, 5 * SECOND))
        .drain(SECOND)
        .run("client", |time| Ok::<_, Infallible>(client(time)))
        .expect("infallible")
}

fn plain(_: &ManualClock) -> Client {
    Client {
        budget: None,
        throttle: None,
    }
}

fn with_budget(time: &ManualClock) -> Client {
    let budget = RetryBudget::builder().clock(time).build();
    Client {
        budget: Some(budget.expect("settings")),
        throttle: None,
    }
}

fn with_both(time: &ManualClock) -> Client {
    let throttle = Throttle::builder().clock(time).build();
    Client {
        throttle: Some(Arc::new(throttle.expect("settings"))),
        ..with_budget(time)
    }
}

/// The goodput per second in a part of the run.
fn goodput(outcome: &RunOutcome, from: Duration, to: Duration) -> f64 {
    let slot = |time: Duration| (time.as_nanos() / outcome.slot.as_nanos()) as usize;
    let slots = &outcome.slots[slot(from)..slot(to)];
    let in_time: u64 = slots.iter().map(|slot| slot.in_time).sum();
    in_time as f64 / (to - from).as_secs_f64()
}

#[test]
fn a_retry_storm_lasts_without_a_budget_and_ends_with_one() {
    for seed in 1..=SEEDS {
        let plain = storm(seed, plain);
        // All is well before the fault, and nothing ever after.
        assert!(goodput(&plain, 10 * SECOND, 20 * SECOND) > 135.0);
        let after = goodput(&plain, 90 * SECOND, 100 * SECOND);
        assert!(after < 7.5, "seed {seed}: {after} per second");

        let budget = storm(seed, with_budget);
        assert!(goodput(&budget, 10 * SECOND, 20 * SECOND) > 135.0);
        let after = goodput(&budget, REPAIRED + 20 * SECOND, 100 * SECOND);
        assert!(after > 142.0, "seed {seed}: {after} per second");
    }
}

#[test]
fn with_a_throttle_and_a_budget_the_server_is_back_within_two_windows() {
    for seed in 1..=SEEDS {
        let both = storm(seed, with_both);
        let after = goodput(&both, REPAIRED + 20 * SECOND, 100 * SECOND);
        assert!(after > 142.0, "seed {seed}: {after} per second");
        assert!(goodput(&both, 10 * SECOND, 20 * SECOND) > 135.0);
    }
}
