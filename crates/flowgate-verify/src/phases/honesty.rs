//! Is it true what a refusal says of when to come back?

use crate::fit::Fit;
use crate::inquiry::{Inquiry, count};
use crate::{Honesty, Observation, Outcome, Phase, Subject};

/// How often it is kept to at most, and how often at least, if there is time at all.
const TIMES: u32 = 50;
const LEAST: u32 = 5;

/// Of the whole time, what may go by until the last that is beyond the least.
const SHARE: f64 = 0.25;

/// How often is asked after a retry that was refused, until something is admitted.
const POLLS: u32 = 40;

/// Is refused, waits for exactly as long as told, and asks once; and again, up to 50 times, or, beyond five times, for a quarter
/// of the whole time.
pub(crate) fn honesty<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    fit: &Fit,
) -> Result<Honesty, S::Error> {
    let mut honesty = Honesty::default();
    let burst = fit.model.burst().ceil() as u64;
    let lanes = inquiry.lanes_for(4.0 * fit.model.rate() / 1e9);
    let whole_ns = inquiry.end_ns() - inquiry.began_ns();
    let share_ends_ns = inquiry.now_ns() + (whole_ns as f64 * SHARE) as u64;
    // As many as all of it, the first time; later on, what has come back meanwhile.
    let mut n = burst + burst / 4 + 2;
    for time in 0..TIMES {
        if inquiry.requests_left() < n {
            break;
        }
        inquiry.ask_at_once(Phase::Honesty, n, lanes, 0)?;
        // What is told while others are under way, they may make untrue. So one asks alone.
        let alone = inquiry.ask_at_once(Phase::Honesty, 1, 1, 0)?;
        let Some(last) = alone
            .first()
            .filter(|seen| seen.outcome == Outcome::Refused)
            .cloned()
        else {
            n = n.saturating_mul(2);
            continue;
        };
        let Some(after) = last.told.retry_after else {
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
            .ask_at(Phase::Honesty, &[at_ns as f64], 1, 0)?
            .to_vec();
        if answer.len() as u64 == count(&answer, Outcome::Failed) {
            continue;
        }
        honesty.retries += 1;
        if let Some(refused) = answer.iter().find(|seen| seen.outcome == Outcome::Refused) {
            let step_ns = (after_ns / 8).max(1_000_000);
            let admitted_ns = admitted_after(inquiry, refused, step_ns)?;
            honesty.too_early += 1;
            let by = admitted_ns.saturating_sub(at_ns) as f64 / 1e9;
            honesty.too_early_by = honesty.too_early_by.max(by);
        }
        let came_back = fit.model.rate() * after.as_secs_f64();
        n = (came_back.min(burst as f64) * 1.5).ceil() as u64 + 2;
    }
    Ok(honesty)
}

/// When something was admitted after a refusal, asked about gently, or how long it surely was not.
fn admitted_after<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    refused: &Observation,
    step_ns: u64,
) -> Result<u64, S::Error> {
    let mut last_ns = refused.sent_ns;
    for _ in 0..POLLS {
        let at_ns = inquiry.now_ns() + step_ns;
        let answers = inquiry.ask_at(Phase::Honesty, &[at_ns as f64], 1, 0)?;
        let Some(answer) = answers.first() else { break };
        last_ns = answer.sent_ns;
        if answer.outcome == Outcome::Admitted {
            break;
        }
    }
    Ok(last_ns)
}

/// What all answers together say of the truth of what was told.
pub(crate) fn tell(honesty: &mut Honesty, record: &[Observation]) {
    let refused = || {
        record
            .iter()
            .filter(|seen| seen.outcome == Outcome::Refused)
    };
    honesty.refusals = refused().count() as u64;
    honesty.refusals_with_retry_after = refused()
        .filter(|seen| seen.told.retry_after.is_some())
        .count() as u64;
    let has_fields = |seen: &&Observation| {
        let told = &seen.told;
        told.remaining.is_some() || told.limit.is_some() || told.more_after.is_some()
    };
    honesty.with_fields = record.iter().filter(has_fields).count() as u64;
    for (index, pair) in record.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        let said = before.told.remaining.is_some_and(|remaining| remaining > 0);
        let others = record[..index].iter().rev().take(64);
        let alone = before.answered_ns <= after.sent_ns
            && others
                .clone()
                .all(|other| other.answered_ns <= before.sent_ns);
        if said && alone && before.key == after.key {
            honesty.remaining_checked += 1;
            honesty.remaining_untrue += u64::from(after.outcome == Outcome::Refused);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::models::{Bucket, Model};
    use crate::{Answer, Budget, Question, Simulated, Told};

    const RATE: f64 = 100.0;
    const BURST: f64 = 20.0;

    /// Keeps to what a bucket tells, which is always the same. What is found, and after how many seconds.
    fn keep_to(told: Duration, time: Duration) -> (Honesty, f64) {
        let model = Model::Bucket(Bucket {
            interval: 1e9 / RATE,
            burst: BURST,
        });
        let fit = Fit::exactly(model);
        let mut decide = model.start();
        let mut subject = Simulated::new(|question: Question| Answer {
            told: Told {
                retry_after: Some(told),
                ..Told::default()
            },
            ..decide(question.at_ns as f64).into()
        })
        .service(Duration::from_micros(500), 1);
        let budget = Budget {
            time,
            ..Budget::default()
        };
        let mut silent = |_: crate::Progress<'_>| ();
        let mut inquiry = Inquiry::new(&mut subject, budget, 32, &mut silent);
        let Ok(found) = honesty(&mut inquiry, &fit);
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
        // A token takes 10 ms: told 1 ms, most are too early, and each is followed up until something is admitted.
        let (found, took) = keep_to(Duration::from_millis(1), Duration::from_millis(400));
        assert!((5..50).contains(&found.retries), "{found:?}");
        assert!((1..=found.retries).contains(&found.too_early), "{found:?}");
        assert!(found.too_early_by < 0.015, "{found:?}");
        assert!(took < 0.12, "{took} s");
    }
}
