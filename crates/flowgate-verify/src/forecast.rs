use std::time::Duration;

use crate::models::{Bucket, Counter, Log, Model, OnRequest};
use crate::{Claim, ClaimedKind, Investigation, Phase, Question, Simulated};

/// How long an answer is taken to need at most.
const SERVICE: Duration = Duration::from_micros(500);

/// What an investigation will take if the claim is right.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Each phase, in the order of their beginnings: how many requests, and how long.
    pub phases: Vec<(Phase, u64, Duration)>,
    /// All of them.
    pub requests: u64,
    /// All of it.
    pub time: Duration,
}

/// Investigates a simulated limiter of which the claim is true.
pub(crate) fn forecast(investigation: &Investigation, claim: Claim) -> Forecast {
    let mut deciders: Vec<_> = (0..investigation.keys_asked())
        .map(|_| as_claimed(claim).start())
        .collect();
    let keys = deciders.len();
    let decide = move |question: Question| {
        let key = question.key as usize % keys;
        deciders[key](question.at_ns as f64).into()
    };
    let mut subject = Simulated::new(decide).service(SERVICE, 1);
    let mut volleys: Vec<(Phase, u64, Duration)> = Vec::new();
    let Ok(findings) = investigation.run(&mut subject, &mut |progress| {
        volleys.push((progress.phase, progress.requests, progress.elapsed));
    });
    let time = Duration::from_secs_f64(findings.seconds);
    let mut phases: Vec<(Phase, u64, Duration)> = Vec::new();
    let ends = volleys
        .iter()
        .skip(1)
        .map(|(_, requests, at)| (*requests, *at));
    for ((phase, from, began), (until, ended)) in
        volleys.iter().zip(ends.chain([(findings.requests, time)]))
    {
        let (requests, took) = (until - from, ended.saturating_sub(*began));
        match phases.iter_mut().find(|(known, _, _)| known == phase) {
            Some(known) => {
                known.1 += requests;
                known.2 += took;
            }
            None => phases.push((*phase, requests, took)),
        }
    }
    Forecast {
        phases,
        requests: findings.requests,
        time,
    }
}

fn as_claimed(claim: Claim) -> Model {
    let quota = claim.quota;
    let window = quota.period().as_nanos() as f64;
    let limit = quota.count() as f64;
    match claim.kind {
        None | Some(ClaimedKind::Token | ClaimedKind::Queue) => Model::Bucket(Bucket {
            interval: window / limit,
            burst: quota.max_burst() as f64,
        }),
        Some(ClaimedKind::Fixed) => Model::OnRequest(OnRequest { limit, window }),
        Some(ClaimedKind::Sliding) => Model::Log(Log::new(limit, window)),
        Some(ClaimedKind::Approximate) => Model::Counter(Counter {
            limit,
            window,
            phase: 0.0,
            spare: Counter::WHOLE,
        }),
    }
}
