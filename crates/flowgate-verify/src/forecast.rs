use std::time::Duration;

use crate::models::{Bucket, Counter, Log, Model, OnRequest};
use crate::{
    Answer, Budget, Claim, ClaimedKind, Estimate, Findings, Investigation, Phase, Question,
    Simulated, Verdict,
};

/// How long an answer is taken to need at most.
const SERVICE: Duration = Duration::from_micros(500);

/// A rate that may be off by a larger part of it than this is not known.
const VAGUE: f64 = 0.05;

/// A run that took less than this part of what it may is not short of it.
const SHORT: u32 = 4;

/// Who has so many answers knows as much as more time would tell.
const ENOUGH: u64 = 1_000;

/// Budgets beyond these are not tried.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
const MOST_REQUESTS: u64 = 100_000;

/// What an investigation will take if the claim is right.
///
/// ```
/// use flowgate_verify::{Claim, Investigation, Phase};
/// use std::time::Duration;
///
/// let forecast = |claim: &str| Some(Investigation::new().claim(claim.parse::<Claim>().ok()?).forecast()?);
///
/// let quick = forecast("100/s burst 20").ok_or("a claim")?;
/// assert_eq!(quick.needs, None);
/// assert_eq!(quick.phases[0].0, Phase::Hello);
/// assert_eq!(quick.phases.iter().map(|(_, requests, _)| requests).sum::<u64>(), quick.requests);
///
/// // Five tokens take five minutes to come back; the default budget is one.
/// let slow = forecast("1/min burst 5").ok_or("a claim")?;
/// assert!(slow.needs.ok_or("more time")?.time > Duration::from_secs(300));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Each phase, in the order of their beginnings: how many requests, and how long.
    pub phases: Vec<(Phase, u64, Duration)>,
    /// All of them.
    pub requests: u64,
    /// All of it. A server that tells `Retry-After` is kept to it besides: for a quarter of the budget's time, or five
    /// times.
    pub time: Duration,
    /// What it would have to be allowed for a verdict, if the budget is too small for one, as it is for low rates: at most
    /// twice the least, and never more than a century. `None` if the budget suffices, or if a larger one would not help.
    pub needs: Option<Budget>,
}

/// Investigates a simulated limiter of which the claim is true.
pub(crate) fn forecast(investigation: &Investigation, claim: Claim) -> Forecast {
    let mut volleys: Vec<(Phase, u64, Duration)> = Vec::new();
    let findings = simulate(investigation, claim, |phase, requests, elapsed| {
        volleys.push((phase, requests, elapsed));
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
        needs: needs(investigation, claim, findings),
    }
}

/// Doubles what a run is short of until there is a verdict; `first` is what was found within the budget.
fn needs(investigation: &Investigation, claim: Claim, first: Findings) -> Option<Budget> {
    let allowed = investigation.budget_allowed();
    let (mut budget, mut findings) = (allowed, first);
    while !is_told(claim, &findings) {
        let is_short_of_time =
            findings.requests < ENOUGH && findings.seconds > (budget.time / SHORT).as_secs_f64();
        let is_short_of_requests = findings.requests > budget.requests / u64::from(SHORT);
        if is_short_of_time && budget.time >= LONGEST {
            break;
        }
        let is_at_its_end = is_short_of_requests && budget.requests >= MOST_REQUESTS;
        if is_at_its_end || !(is_short_of_time || is_short_of_requests) {
            return None;
        }
        if is_short_of_time {
            budget.time = LONGEST.min(budget.time * 2);
        }
        if is_short_of_requests {
            budget.requests *= 2;
        }
        let longer = investigation.clone().budget(budget);
        findings = simulate(&longer, claim, |_, _, _| ());
    }
    (budget != allowed).then_some(budget)
}

/// Whether what is so was found to be so, and not only by what is uncertain.
fn is_told(claim: Claim, findings: &Findings) -> bool {
    let likeness = &findings.likeness;
    let is_of_its_kind = claim.kind.is_none_or(|kind| kind.is(likeness.kind));
    let is_known = |rate: Estimate| rate.plus_minus <= VAGUE * rate.value;
    let judged = findings.claim.as_ref();
    is_of_its_kind
        && likeness.rate.is_some_and(is_known)
        && judged.is_some_and(|judged| judged.verdict == Verdict::Consistent)
}

fn simulate(
    investigation: &Investigation,
    claim: Claim,
    mut at_volley: impl FnMut(Phase, u64, Duration),
) -> Findings {
    let mut deciders: Vec<_> = (0..investigation.keys_asked())
        .map(|_| as_claimed(claim))
        .collect();
    let keys = deciders.len();
    let decide = move |question: Question| {
        let key = question.key as usize % keys;
        deciders[key](question.at_ns as f64)
    };
    let mut subject = Simulated::new(decide).service(SERVICE, 1);
    let Ok(findings) = investigation.run(&mut subject, &mut |progress| {
        at_volley(progress.phase, progress.requests, progress.elapsed);
    });
    findings
}

/// Answers at times that do not go back.
type Limiter = Box<dyn FnMut(f64) -> Answer>;

fn as_claimed(claim: Claim) -> Limiter {
    let quota = claim.quota;
    let window = quota.period().as_nanos() as f64;
    let limit = quota.count() as f64;
    let bucket = Bucket {
        interval: window / limit,
        burst: quota.max_burst() as f64,
    };
    let model = match claim.kind {
        Some(ClaimedKind::Queue) => return queue(bucket),
        None | Some(ClaimedKind::Token) => Model::Bucket(bucket),
        Some(ClaimedKind::Fixed) => Model::OnRequest(OnRequest { limit, window }),
        Some(ClaimedKind::Sliding) => Model::Log(Log::new(limit, window)),
        Some(ClaimedKind::Approximate) => Model::Counter(Counter {
            limit,
            window,
            phase: 0.0,
            spare: Counter::WHOLE,
        }),
    };
    let mut decide = model.start();
    Box::new(move |now| decide(now).into())
}

/// Admits as `bucket` does, and answers when the turn comes.
fn queue(bucket: Bucket) -> Limiter {
    let mut decide = bucket.start();
    let mut next = 0.0_f64;
    Box::new(move |now| {
        if !decide(now) {
            return false.into();
        }
        let turn = next.max(now);
        next = turn + bucket.interval;
        Answer {
            held: Duration::from_nanos((turn - now) as u64),
            ..true.into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast_of(claim: &str, budget: Budget) -> Forecast {
        let claim: Claim = claim.parse().unwrap();
        let investigation = Investigation::new().claim(claim).budget(budget);
        investigation.forecast().unwrap()
    }

    #[test]
    fn a_rate_too_low_for_the_time_says_how_long_it_takes() {
        let forecast = forecast_of("1/min burst 5", Budget::default());
        let needs = forecast.needs.unwrap();
        // Five tokens take five minutes to come back, once.
        assert!(needs.time > Duration::from_secs(5 * 60), "{needs:?}");
        assert!(needs.time < Duration::from_secs(60 * 60), "{needs:?}");
        assert_eq!(needs.requests, Budget::default().requests);
        let longer = forecast_of("1/min burst 5", needs);
        assert_eq!(longer.needs, None);
        assert!(longer.time > needs.time / 4 && longer.time <= needs.time);
    }

    #[test]
    fn too_few_requests_say_how_many_it_takes() {
        let few = Budget {
            requests: 100,
            ..Budget::default()
        };
        let needs = forecast_of("100/s burst 100", few).needs.unwrap();
        assert!((200..5_000).contains(&needs.requests), "{needs:?}");
        assert_eq!(needs.time, few.time);
        assert_eq!(forecast_of("100/s burst 100", needs).needs, None);
    }

    #[test]
    fn what_the_budget_suffices_for_or_no_other_would_needs_none() {
        for claim in [
            "100/s burst 20",
            "token 5/s burst 3",
            "queue 100/s burst 20",
            "fixed 100/s",
            "sliding 100/s",
            "approximate 100/s",
            // More at once than is ever asked.
            "100000/s burst 10000",
        ] {
            let forecast = forecast_of(claim, Budget::default());
            assert_eq!(forecast.needs, None, "{claim}: {forecast:?}");
        }
    }

    #[test]
    fn a_claim_that_takes_a_century_is_not_waited_for() {
        let needs = forecast_of("1/36500d burst 2", Budget::default()).needs;
        assert_eq!(needs.map(|needs| needs.time), Some(LONGEST));
    }
}
