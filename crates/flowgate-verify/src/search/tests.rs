//! Searches find the parameters of a limiter from its responses, although the start of its windows is unknown.

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use super::*;
use crate::clock::Clock;
use crate::hints::hints;
use crate::models::{Counter, Segments};
use crate::{Observation, Phase, Probe, ProbeBatch, ProbeSubject, Simulated};

const SECOND: f64 = 1e9;

/// A full burst and random batches, then 2.5 times the rate for ten windows, and random batches again. Also returns the
/// range of the steady stream.
fn ask(model: Model, service: Duration, rng: &mut Rng) -> (Vec<Observation>, Range<usize>) {
    let mut decide = model.start();
    let mut subject = Simulated::new(move |question| decide(question.at_ns as f64).into())
        .service(service, rng.u64(..));
    let (limit, rate) = (model.burst(), model.rate() / SECOND);
    let mut times = vec![0.0; limit as usize + 3];
    let mut at = 0.0;
    let batches = |until: usize, times: &mut Vec<f64>, at: &mut f64, rng: &mut Rng| {
        while times.len() < until {
            let size = 1.0 + (rng.f64() * limit / 2.0).floor();
            times.extend(std::iter::repeat_n(*at, size as usize));
            *at += size / rate * rng.f64() * 1.5;
        }
    };
    batches(10 * limit as usize, &mut times, &mut at, rng);
    let from = times.len();
    let until = at + 10.0 * limit / rate;
    while at < until {
        times.push(at);
        at += (0.5 + rng.f64()) / (2.5 * rate);
    }
    let stream = from..times.len();
    batches(stream.end + 800, &mut times, &mut at, rng);
    let connections = (0..4).cycle();
    let probes = times.iter().zip(connections).map(|(at, connection)| Probe {
        at_ns: *at as u64,
        connection,
        key: 0,
    });
    let Ok(seen) = subject.send(&ProbeBatch {
        phase: Phase::Shape,
        probes: probes.collect(),
    });
    (seen, stream)
}

#[test]
fn a_length_and_a_phase_that_nobody_sees_are_found() {
    let mut rng = Rng::with_seed(1);
    let (mut missed, mut tried) = (Vec::new(), 0);
    for (limit, window) in [(7.0, 3.0 * SECOND), (20.0, 0.2 * SECOND)] {
        for service in [100, 3_000].map(Duration::from_micros) {
            let phase = rng.f64() * window;
            let counter = |spare| {
                Model::Counter(Counter {
                    limit,
                    window,
                    phase,
                    spare,
                })
            };
            let segments = |count| {
                Model::Segments(Segments {
                    limit,
                    window,
                    phase,
                    count,
                })
            };
            for model in [
                counter(Counter::WHOLE),
                counter(Counter::ANY),
                segments(1),
                segments(3),
                segments(11),
            ] {
                let (seen, stream) = ask(model, service, &mut rng);
                let evidence = Evidence::of(&seen);
                assert_eq!(model.unexplained(&evidence), 0, "{model:?}");
                let first = &seen[..limit as usize + 3];
                let hints = hints(first, &seen[stream], &seen, 0, 0.0, Clock::EXACT);
                let search = SEARCHES
                    .iter()
                    .find(|(kind, _)| kind.is_of_a_sort_with(model.kind()));
                let reach = Reach::thorough(limit);
                let (plateau, found) = search.unwrap().1(&evidence, &hints, reach).unwrap();
                tried += 1;
                if plateau.score > 0 {
                    missed.push(format!(
                        "{model:?} {service:?}: {found:?} {plateau:?} {}",
                        limit / hints.rate
                    ));
                }
            }
        }
    }
    assert!(
        missed.len() * 20 <= tried,
        "{}/{tried} {missed:#?}",
        missed.len()
    );
}
