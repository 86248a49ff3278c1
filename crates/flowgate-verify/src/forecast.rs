use std::time::Duration;

use crate::models::{Bucket, Counter, Log, Model, OnRequest};
use crate::{
    Answer, Budget, Estimate, ExpectedKind, ExpectedLimit, ExpectedVerdict, Findings,
    Investigation, Phase, Question, Simulated,
};

/// Maximum response time that a forecast assumes.
const SERVICE: Duration = Duration::from_micros(500);

/// A rate with a larger relative uncertainty than this counts as unknown.
const VAGUE: f64 = 0.05;

/// A run that used less than this share (1/4) of its budget did not lack budget.
const SHORT: u32 = 4;

/// After this many responses, more time does not help.
const ENOUGH: u64 = 1_000;

/// Budgets beyond these are not tried.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
const MOST_REQUESTS: u64 = 100_000;

/// Cost of an investigation if the limiter matches the expected limit.
///
/// ```
/// use flowgate_verify::{ExpectedLimit, Investigation, Phase};
/// use std::time::Duration;
///
/// let forecast = |expected: &str| Some(Investigation::new().expected(expected.parse::<ExpectedLimit>().ok()?).forecast()?);
///
/// let quick = forecast("100/s burst 20").ok_or("no expected limit")?;
/// assert_eq!(quick.needs, None);
/// assert_eq!(quick.phases[0].0, Phase::Hello);
/// assert_eq!(quick.phases.iter().map(|(_, requests, _)| requests).sum::<u64>(), quick.requests);
///
/// // Refilling five tokens takes five minutes; the default budget is one minute.
/// let slow = forecast("1/min burst 5").ok_or("no expected limit")?;
/// assert!(slow.needs.ok_or("more time")?.time > Duration::from_secs(300));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Each phase in order of its start: number of requests, and duration.
    pub phases: Vec<(Phase, u64, Duration)>,
    /// Total number of requests.
    pub requests: u64,
    /// Total duration.
    ///
    /// Retries at the time of `Retry-After` come in addition: at least five, then more for a quarter of the budget's
    /// time.
    pub time: Duration,
    /// Budget needed for a verdict, if the given budget is too small.
    ///
    /// It is at most twice the minimum, and at most 100 years. `None` if the budget suffices or a larger one would not
    /// help.
    pub needs: Option<Budget>,
}

/// Investigates a simulated limiter that matches `expected`.
pub(crate) fn forecast(investigation: &Investigation, expected: ExpectedLimit) -> Forecast {
    let mut batches: Vec<(Phase, u64, Duration)> = Vec::new();
    let findings = simulate(investigation, expected, |phase, requests, elapsed| {
        batches.push((phase, requests, elapsed));
    });
    let time = Duration::from_secs_f64(findings.seconds);
    let mut phases: Vec<(Phase, u64, Duration)> = Vec::new();
    let ends = batches
        .iter()
        .skip(1)
        .map(|(_, requests, at)| (*requests, *at));
    for ((phase, from, began), (until, ended)) in
        batches.iter().zip(ends.chain([(findings.requests, time)]))
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
        needs: needs(investigation, expected, findings),
    }
}

/// Doubles the part of the budget that a run lacked until there is a verdict. `first` is the result within the budget.
fn needs(
    investigation: &Investigation,
    expected: ExpectedLimit,
    first: Findings,
) -> Option<Budget> {
    let allowed = investigation.budget_allowed();
    let (mut budget, mut findings) = (allowed, first);
    while !is_told(expected, &findings) {
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
        findings = simulate(&longer, expected, |_, _, _| ());
    }
    (budget != allowed).then_some(budget)
}

/// Returns whether the findings name the true algorithm and parameters with little uncertainty.
fn is_told(expected: ExpectedLimit, findings: &Findings) -> bool {
    let detected = &findings.detected;
    let is_of_its_kind = expected.kind.is_none_or(|kind| kind.is(detected.kind));
    let is_known = |rate: Estimate| rate.plus_minus <= VAGUE * rate.value;
    let judged = findings.expected.as_ref();
    is_of_its_kind
        && detected.rate.is_some_and(is_known)
        && judged.is_some_and(|judged| judged.verdict == ExpectedVerdict::Consistent)
}

fn simulate(
    investigation: &Investigation,
    expected: ExpectedLimit,
    mut at_volley: impl FnMut(Phase, u64, Duration),
) -> Findings {
    let mut deciders: Vec<_> = (0..investigation.keys_asked())
        .map(|_| as_expected(expected))
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

fn as_expected(expected: ExpectedLimit) -> Limiter {
    let quota = expected.quota;
    let window = quota.period().as_nanos() as f64;
    let limit = quota.count() as f64;
    let bucket = Bucket {
        interval: window / limit,
        burst: quota.max_burst() as f64,
    };
    let model = match expected.kind {
        Some(ExpectedKind::Queue) => return queue(bucket),
        None | Some(ExpectedKind::Token) => Model::Bucket(bucket),
        Some(ExpectedKind::Fixed) => Model::OnRequest(OnRequest { limit, window }),
        Some(ExpectedKind::Sliding) => Model::Log(Log::new(limit, window)),
        Some(ExpectedKind::Approximate) => Model::Counter(Counter {
            limit,
            window,
            phase: 0.0,
            spare: Counter::WHOLE,
        }),
    };
    let mut decide = model.start();
    Box::new(move |now| decide(now).into())
}

/// Admits as `bucket` does, and responds at the time of the grant.
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

    fn forecast_of(expected: &str, budget: Budget) -> Forecast {
        let expected: ExpectedLimit = expected.parse().unwrap();
        let investigation = Investigation::new().expected(expected).budget(budget);
        investigation.forecast().unwrap()
    }

    #[test]
    fn a_rate_too_low_for_the_time_says_how_long_it_takes() {
        let forecast = forecast_of("1/min burst 5", Budget::default());
        let needs = forecast.needs.unwrap();
        // Refilling five tokens takes five minutes, once.
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
        for expected in [
            "100/s burst 20",
            "token 5/s burst 3",
            "queue 100/s burst 20",
            "fixed 100/s",
            "sliding 100/s",
            "approximate 100/s",
            // A burst larger than the largest batch.
            "100000/s burst 10000",
        ] {
            let forecast = forecast_of(expected, Budget::default());
            assert_eq!(forecast.needs, None, "{expected}: {forecast:?}");
        }
    }

    #[test]
    fn an_expected_limit_that_takes_a_century_has_no_forecast_of_it() {
        let needs = forecast_of("1/36500d burst 2", Budget::default()).needs;
        assert_eq!(needs.map(|needs| needs.time), Some(LONGEST));
    }
}
