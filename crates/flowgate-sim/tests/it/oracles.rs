//! Each limiter in the simulator against an independent model: the exact token bucket, and the bounds of grants.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use std::time::Duration;

use flowgate::{LimiterConfig, LimiterKind, ManualClock, Quota};
use flowgate_schedule::Schedule;
use flowgate_sim::{
    AdmissionDecision, AdmissionPolicy, Arrivals, LimiterPolicy, Request, Simulation, Traffic,
};
use flowgate_testkit::oracle::Oracle;
use flowgate_testkit::promise::{Anchor, Kind, Promise, TimedGrant};
use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};

/// A decision: when, on how many tokens, and whether they were admitted.
type Decided = (u64, u64, bool);

/// Writes down what a policy decides.
struct Recording {
    policy: LimiterPolicy,
    time: ManualClock,
    decided: Arc<Mutex<Vec<Decided>>>,
}

impl AdmissionPolicy for Recording {
    fn decide(&mut self, request: &Request) -> AdmissionDecision {
        let decision = self.policy.decide(request);
        let is_admitted = matches!(decision, AdmissionDecision::Admit(_));
        let decided = (self.time.now().as_nanos(), request.cost, is_admitted);
        self.decided.lock().expect("one thread").push(decided);
        decision
    }
}

/// Bursts of one source and random requests of another, which cost different numbers of tokens.
fn decisions(text: &str, seed: u64) -> Vec<Decided> {
    let config: LimiterConfig = text.parse().expect("a limiter");
    let rate = Quota::per_second(60);
    let poisson = Schedule::poisson(rate, seed, 1_500).expect("a schedule");
    let even = Schedule::lasting(rate, Duration::from_secs(25)).expect("a schedule");
    let simulation = Simulation::new(seed, Duration::from_secs(60))
        .traffic(Traffic::new("poisson", Arrivals::Scheduled(poisson)))
        .traffic(Traffic::new("even", Arrivals::Scheduled(even)).cost(2));
    let decided = Arc::default();
    let outcome = simulation.run(text, |time| {
        Ok::<_, Infallible>(Recording {
            policy: LimiterPolicy::from_config(&config, time).expect("a limiter"),
            time: time.clone(),
            decided: Arc::clone(&decided),
        })
    });
    let outcome = outcome.unwrap_or_else(|never| match never {});
    let decided = std::mem::take(&mut *decided.lock().expect("one thread"));
    assert_eq!(decided.len() as u64, outcome.counts.attempts);
    let admitted = decided
        .iter()
        .filter(|(_, _, is_admitted)| *is_admitted)
        .count();
    assert_eq!(admitted as u64, outcome.counts.admitted);
    assert!(
        admitted * 10 > decided.len() && admitted * 10 < decided.len() * 9,
        "{text}: {admitted}"
    );
    decided
}

#[test]
fn buckets_decide_as_the_exact_model() {
    for (text, quota) in [
        ("token 100/s burst 20", Quota::per_second(100).burst(20)),
        ("token 77/s", Quota::per_second(77)),
        ("leaky 100/s", Quota::per_second(100).burst(1)),
    ] {
        for seed in 1..=3 {
            // A leaky bucket never grants two at a time.
            let mut oracle = Oracle::new(&Setup::new(quota));
            for (at_ns, n, is_admitted) in decisions(text, seed) {
                let step = Step {
                    at_ns,
                    op: Op::Try { n },
                };
                let expected = oracle.step(&step) == OperationOutcome::Admitted;
                assert_eq!(is_admitted, expected, "{text}, seed {seed}, at {at_ns} ns");
            }
        }
    }
}

/// A window admits what keeps its bound, and refuses what would not.
#[test]
fn windows_decide_as_their_bounds_require() {
    let quota = Quota::per_second(80);
    let mut kinds = 0;
    for (kind, promised) in [
        (LimiterKind::Sliding, Kind::Sliding),
        (LimiterKind::Segmented, Kind::Segmented { segments: 10 }),
        (LimiterKind::Fixed, Kind::Window(Anchor::FirstGrant)),
        (LimiterKind::Aligned, Kind::Window(Anchor::Aligned(0))),
        (LimiterKind::Approximate, Kind::Approximate),
    ] {
        kinds += 1;
        let promise = Promise::new(promised, quota);
        let mut grants: Vec<TimedGrant> = Vec::new();
        for (at_ns, n, is_admitted) in decisions(&format!("{} 80/s", kind.name()), 4) {
            // What is older matters to no window.
            let recent = grants.len().saturating_sub(400);
            let anchor_matters = matches!(promised, Kind::Window(Anchor::FirstGrant));
            let known = if anchor_matters {
                &grants[..]
            } else {
                &grants[recent..]
            };
            let with: Vec<_> = known
                .iter()
                .copied()
                .chain([TimedGrant::new(at_ns, n)])
                .collect();
            if is_admitted {
                assert_eq!(promise.check(&with), Ok(()), "{kind:?}, at {at_ns} ns");
                grants.push(TimedGrant::new(at_ns, n));
            } else {
                assert_eq!(
                    promise.must_grant(&with),
                    Some(false),
                    "{kind:?}, at {at_ns} ns"
                );
            }
        }
    }
    // With the two kinds of buckets.
    assert_eq!(kinds + 2, LimiterKind::ALL.len());
}
