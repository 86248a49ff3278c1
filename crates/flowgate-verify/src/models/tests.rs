//! A model is consistent with every response of a limiter of its kind, whenever the limiter decided. It is not
//! consistent with the responses of another kind.

use std::time::Duration;

use fastrand::Rng;

use super::*;
use crate::{Observation, Phase, Probe, ProbeBatch, ProbeSubject, Simulated};

const SECOND: f64 = 1e9;

fn models(rate: f64, burst: f64) -> [Model; 9] {
    let (limit, window) = (burst, burst / rate * SECOND);
    let phase = window / 3.0;
    let segments = |count| {
        Model::Segments(Segments {
            limit,
            window,
            phase,
            count,
        })
    };
    let periods = |counts_refused| {
        Model::Periods(Periods {
            limit,
            period: window,
            counts_refused,
        })
    };
    [
        Model::Bucket(Bucket {
            interval: SECOND / rate,
            burst,
        }),
        Model::OnRequest(OnRequest { limit, window }),
        segments(1),
        Model::Log(Log { limit, window }),
        segments(2),
        segments(6),
        Model::Counter(Counter {
            limit,
            window,
            phase,
            spare: Counter::WHOLE,
        }),
        periods(false),
        periods(true),
    ]
}

/// Random bursts of up to half the limit, in total 1.5 times the rate, and some concurrent requests.
fn ask(model: Model, rate: f64, burst: f64, service: Duration, seed: u64) -> Vec<Observation> {
    let mut decide = model.start();
    let mut subject =
        Simulated::new(move |question| decide(question.at_ns as f64).into()).service(service, seed);
    let mut rng = Rng::with_seed(seed);
    let mut probes = Vec::new();
    let mut at = 0.0;
    while probes.len() < 1_500 {
        let size = rng.u64(1..=(burst / 2.0) as u64 + 1);
        for index in 0..size {
            let at_ns = at as u64;
            probes.push(Probe {
                at_ns,
                connection: (index % 8) as u32,
                key: 0,
            });
        }
        at += size as f64 / rate * SECOND * rng.f64() * 1.3;
    }
    let Ok(seen) = subject.send(&ProbeBatch {
        phase: Phase::Shape,
        probes,
    });
    seen
}

#[test]
fn what_a_limiter_answers_is_explained_wherever_it_decided() {
    for (rate, burst) in [
        (100.0, 20.0),
        (5.0, 1.0),
        (5_000.0, 100.0),
        (7.0 / 3.0, 7.0),
    ] {
        for seed in 0..20 {
            let service = [0, 1, 1_000_000][seed as usize % 3];
            // With a limit of 1, it is decisive in which period a request was.
            let are_exact = burst > 1.0 || service <= 1;
            let are_seen = |model: &Model| are_exact || !matches!(model, Model::Periods(_));
            for model in models(rate, burst).into_iter().filter(are_seen) {
                let seen = ask(model, rate, burst, Duration::from_nanos(service), seed);
                let evidence = Evidence::of(&seen);
                assert!(
                    evidence.refused.len() > 20,
                    "{model:?}: {}",
                    evidence.refused.len()
                );
                assert_eq!(
                    model.unexplained(&evidence),
                    0,
                    "{model:?} {service} {seed}"
                );
            }
        }
    }
}

#[test]
fn what_another_kind_answers_is_not_explained() {
    let (rate, burst) = (100.0, 20.0);
    let kinds = models(rate, burst);
    for is in kinds {
        let seen = ask(is, rate, burst, Duration::from_millis(1), 7);
        let evidence = Evidence::of(&seen);
        for other in kinds.into_iter().filter(|other| *other != is) {
            let unexplained = other.unexplained(&evidence);
            assert!(
                unexplained > 30,
                "{is:?} as {other:?}: {unexplained} unexplained"
            );
        }
    }
}
