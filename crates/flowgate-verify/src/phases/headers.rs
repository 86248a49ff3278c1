//! Are `Retry-After` and the other headers of a refusal accurate?

use crate::fit::Fit;
use crate::inquiry::{Inquiry, Unreachable, count};
use crate::{HeaderAccuracy, Observation, Phase, ProbeOutcome};

/// Number of retries: at most this many, and `LEAST` if there is time for any.
const TIMES: u32 = 50;
const LEAST: u32 = 5;

/// Share of the total time after which retries beyond the least end.
const SHARE: f64 = 0.25;

/// Number of requests after a retry that was refused, until one is admitted.
const POLLS: u32 = 40;

/// Retries exactly when `Retry-After` allows it. Up to 50 times; beyond five, for at most a quarter of the total time.
pub(crate) fn headers(inquiry: &mut Inquiry<'_>, fit: &Fit) -> Result<HeaderAccuracy, Unreachable> {
    let mut headers = HeaderAccuracy::default();
    let burst = fit.model.burst().ceil() as u64;
    let connections = inquiry.connections_for(4.0 * fit.model.rate() / 1e9);
    let whole_ns = inquiry.end_ns() - inquiry.began_ns();
    let share_ends_ns = inquiry.now_ns() + (whole_ns as f64 * SHARE) as u64;
    // The first time a full burst; later, what has refilled meanwhile.
    let mut n = burst + burst / 4 + 2;
    for time in 0..TIMES {
        if inquiry.requests_left() < n {
            break;
        }
        inquiry.ask_in_burst(Phase::Headers, n, connections, 0)?;
        // Concurrent requests can invalidate the headers of a refusal. So the request that reads them is sent alone.
        let alone = inquiry.ask_in_burst(Phase::Headers, 1, 1, 0)?;
        let Some(last) = alone
            .first()
            .filter(|seen| seen.outcome == ProbeOutcome::Refused)
            .cloned()
        else {
            n = n.saturating_mul(2);
            continue;
        };
        let Some(after) = last.advertised.retry_after else {
            break;
        };
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let at_ns = last.answered_ns.saturating_add(after_ns);
        let until_ns = match time {
            ..LEAST => inquiry.end_ns(),
            _ => inquiry.end_ns().min(share_ends_ns),
        };
        if at_ns >= until_ns {
            break;
        }
        let answer = inquiry
            .ask_at(Phase::Headers, &[at_ns as f64], 1, 0)?
            .to_vec();
        if answer.len() as u64 == count(&answer, ProbeOutcome::Failed) {
            continue;
        }
        headers.retries += 1;
        if let Some(refused) = answer
            .iter()
            .find(|seen| seen.outcome == ProbeOutcome::Refused)
        {
            let step_ns = (after_ns / 8).max(1_000_000);
            let admitted_ns = admitted_after(inquiry, refused, step_ns)?;
            headers.too_early += 1;
            let by = admitted_ns.saturating_sub(at_ns) as f64 / 1e9;
            headers.too_early_by = headers.too_early_by.max(by);
        }
        let came_back = fit.model.rate() * after.as_secs_f64();
        n = (came_back.min(burst as f64) * 1.5).ceil() as u64 + 2;
    }
    Ok(headers)
}

/// Returns when a request was admitted after a refusal, or how long certainly none was.
fn admitted_after(
    inquiry: &mut Inquiry<'_>,
    refused: &Observation,
    step_ns: u64,
) -> Result<u64, Unreachable> {
    let mut last_ns = refused.sent_ns;
    for _ in 0..POLLS {
        let at_ns = inquiry.now_ns() + step_ns;
        let answers = inquiry.ask_at(Phase::Headers, &[at_ns as f64], 1, 0)?;
        let Some(answer) = answers.first() else { break };
        last_ns = answer.sent_ns;
        if answer.outcome == ProbeOutcome::Admitted {
            break;
        }
    }
    Ok(last_ns)
}

/// Adds what all responses together show about the headers.
pub(crate) fn tell(headers: &mut HeaderAccuracy, record: &[Observation]) {
    let refused = || {
        record
            .iter()
            .filter(|seen| seen.outcome == ProbeOutcome::Refused)
    };
    headers.refusals = refused().count() as u64;
    headers.refusals_with_retry_after = refused()
        .filter(|seen| seen.advertised.retry_after.is_some())
        .count() as u64;
    let has_fields = |seen: &&Observation| {
        let told = &seen.advertised;
        told.remaining.is_some() || told.limit.is_some() || told.more_after.is_some()
    };
    headers.with_fields = record.iter().filter(has_fields).count() as u64;
    for (index, pair) in record.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        let said = before
            .advertised
            .remaining
            .is_some_and(|remaining| remaining > 0);
        let mut others = record[..index].iter().rev().take(64);
        let is_answered = before.answered_ns <= after.sent_ns
            && others.all(|other| other.answered_ns <= before.sent_ns);
        // A later request may have been decided first.
        let is_overtaken = record
            .get(index + 2)
            .is_some_and(|later| later.sent_ns < after.answered_ns);
        if said && is_answered && !is_overtaken && before.key == after.key {
            headers.remaining_checked += 1;
            headers.remaining_wrong += u64::from(after.outcome == ProbeOutcome::Refused);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::inquiry::AnySubject;
    use crate::models::{Bucket, Model};
    use crate::{Advertised, Answer, Budget, Question, Simulated};

    const RATE: f64 = 100.0;
    const BURST: f64 = 20.0;

    /// Follows a bucket whose `Retry-After` is constant. Returns the result, and after how many seconds.
    fn keep_to(advertised: Duration, time: Duration) -> (HeaderAccuracy, f64) {
        let model = Model::Bucket(Bucket {
            interval: 1e9 / RATE,
            burst: BURST,
        });
        let fit = Fit::exactly(model);
        let mut decide = model.start();
        let mut subject = Simulated::new(|question: Question| Answer {
            advertised: Advertised {
                retry_after: Some(advertised),
                ..Advertised::default()
            },
            ..decide(question.at_ns as f64).into()
        })
        .service(Duration::from_micros(500), 1);
        let budget = Budget {
            time,
            ..Budget::default()
        };
        let mut silent = |_: crate::ProbeProgress<'_>| ();
        let mut subject = AnySubject::new(&mut subject);
        let mut inquiry = Inquiry::new(&mut subject, budget, 32, &mut silent);
        let found = headers(&mut inquiry, &fit).expect("a simulated subject is reachable");
        (found, inquiry.now_ns() as f64 / 1e9)
    }

    #[test]
    fn what_is_told_is_kept_to_for_a_quarter_of_the_time_but_a_few_times_whatever_that_takes() {
        let minute = Duration::from_secs(60);
        for (told_ms, retries, seconds) in [
            (10, 45..=50, 0.45..1.0),
            (1_000, 13..=15, 13.0..15.1),
            (8_000, 5..=5, 40.0..41.0),
            (20_000, 2..=2, 40.0..60.0),
        ] {
            let (found, took) = keep_to(Duration::from_millis(told_ms), minute);
            assert!(retries.contains(&found.retries), "{told_ms} ms: {found:?}");
            assert!(seconds.contains(&took), "{told_ms} ms: {took} s");
        }
    }

    #[test]
    fn of_fewer_retries_it_is_said_how_many_were_too_early() {
        // A token takes 10 ms: with 1 ms most retries are too early, and each is followed until one is admitted.
        let (found, took) = keep_to(Duration::from_millis(1), Duration::from_millis(400));
        assert!((5..50).contains(&found.retries), "{found:?}");
        assert!((1..=found.retries).contains(&found.too_early), "{found:?}");
        assert!(found.too_early_by < 0.015, "{found:?}");
        assert!(took < 0.12, "{took} s");
    }

    #[test]
    fn a_request_that_another_may_have_overtaken_shows_nothing_about_what_remained() {
        let seen = |sent_ns, answered_ns, outcome| Observation {
            sent_ns,
            answered_ns,
            connection: 0,
            key: 0,
            outcome,
            advertised: Advertised {
                remaining: Some(1),
                ..Advertised::default()
            },
        };
        for (later_sent_ns, checked, wrong) in [(25, 0, 0), (30, 2, 1)] {
            let record = [
                seen(0, 10, ProbeOutcome::Admitted),
                seen(20, 30, ProbeOutcome::Refused),
                seen(later_sent_ns, 40, ProbeOutcome::Admitted),
            ];
            let mut headers = HeaderAccuracy::default();
            tell(&mut headers, &record);
            let found = (headers.remaining_checked, headers.remaining_wrong);
            assert_eq!(found, (checked, wrong), "{later_sent_ns}");
        }
    }
}
