//! What came out: a line for each server, and the goals.

use std::fmt::Write as _;

use serde::Serialize;

use crate::asked::Outcome;
use crate::shared::outcome::Verdict;
use crate::subject::{Expected, Subject};

/// How many of all repetitions have to find the kind.
const LEAST: f64 = 0.95;

/// By how much a rate may be off, as a part of it.
const RATE_OFF: f64 = 0.02;

/// By how much a burst may be off: by one, or as a part of it.
const BURST_OFF: f64 = 0.02;

/// Share of the runs with the true limit as the expectation that have to be consistent with it.
const CONSISTENT: f64 = 1_195.0 / 1_200.0;

/// A window of n requests in whole ticks of a clock has this uncertainty that no response shows.
const ROUNDING: f64 = 1e-4;

/// One server.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub kind_right: usize,
    /// Largest relative error of the rate; `None` if none was detected, or there is none.
    pub worst_rate_error: Option<f64>,
    /// In requests.
    pub worst_burst_error: Option<f64>,
    pub rate_right: usize,
    pub burst_right: usize,
    /// Repetitions that detected a rate, and those whose uncertainty holds the true one.
    pub rates: usize,
    pub rates_inside: usize,
    /// Repetitions that name another kind, and this one not even as an alternative.
    pub misnamed: usize,
    /// Repetitions that say something is wrong that is not.
    pub accused: usize,
    /// Repetitions with an expectation, and those that are consistent with it.
    pub judged: usize,
    pub consistent: usize,
    pub median_seconds: f64,
    pub outcomes: Vec<Outcome>,
}

impl Row {
    pub fn of(subject: &Subject, outcomes: &[Outcome]) -> Row {
        let Expected { kind, numbers } = subject.expected;
        // A number that was not found is not near.
        let off = |found: Option<f64>, expected: f64| {
            found.map_or(f64::INFINITY, |found| (found - expected).abs())
        };
        let rates: Vec<f64> = numbers.map_or(vec![], |(rate, _)| {
            let rates = outcomes
                .iter()
                .map(|outcome| off(outcome.rate, rate) / rate);
            rates.collect()
        });
        let (bursts, burst_off): (Vec<f64>, f64) = numbers.map_or((vec![], 0.0), |(_, burst)| {
            let bursts = outcomes.iter().map(|outcome| off(outcome.burst, burst));
            (bursts.collect(), (BURST_OFF * burst).max(1.0))
        });
        let count = |errors: &[f64], most: f64| match numbers {
            Some(_) => errors.iter().filter(|error| **error <= most).count(),
            None => outcomes.len(),
        };
        let worst = |errors: &[f64]| {
            let worst = errors.iter().copied().reduce(f64::max);
            worst.filter(|worst| worst.is_finite())
        };
        // A limit of one at a time is the same whatever its kind.
        let is_one = numbers.is_some_and(|(_, burst)| burst == 1.0);
        let is_kind = |outcome: &&Outcome| {
            let or_this = outcome.or.iter().any(|other| other == kind);
            outcome.kind == kind || (is_one && outcome.kind != "unknown" && or_this)
        };
        let is_other = |outcome: &&Outcome| {
            outcome.kind != kind
                && outcome.kind != "unknown"
                && outcome.or.iter().all(|other| other != kind)
        };
        // Of an unknown limiter, there is a guess.
        let known = outcomes.iter().filter(|outcome| outcome.kind == kind);
        let inside: Vec<bool> = known
            .filter_map(|outcome| {
                let (rate, _) = numbers?;
                let off = (outcome.rate? - rate).abs();
                Some(off <= outcome.rate_plus_minus? + ROUNDING * rate)
            })
            .collect();
        let mut seconds: Vec<f64> = outcomes.iter().map(|outcome| outcome.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        Row {
            subject: subject.name,
            kind_right: outcomes.iter().filter(is_kind).count(),
            worst_rate_error: worst(&rates),
            worst_burst_error: worst(&bursts),
            rate_right: count(&rates, RATE_OFF),
            burst_right: count(&bursts, burst_off),
            rates: inside.len(),
            rates_inside: inside.iter().filter(|inside| **inside).count(),
            misnamed: outcomes.iter().filter(is_other).count(),
            accused: outcomes
                .iter()
                .filter(|outcome| outcome.reports_beyond(subject.fault))
                .count(),
            judged: outcomes
                .iter()
                .filter(|outcome| outcome.verdict.is_some())
                .count(),
            consistent: outcomes
                .iter()
                .filter(|outcome| outcome.verdict.as_deref() == Some("consistent"))
                .count(),
            median_seconds: seconds.get(seconds.len() / 2).copied().unwrap_or(0.0),
            outcomes: outcomes.to_vec(),
        }
    }
}

impl Row {
    fn is_named(&self) -> bool {
        let right = self.kind_right.min(self.rate_right).min(self.burst_right);
        right as f64 >= LEAST * self.outcomes.len() as f64
    }
}

pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\n{:<44} {:>10} {:>17} {:>18} {:>7} {:>6} {:>7} {:>7}\n",
        "server",
        "kind right",
        "rate, worst error",
        "burst, worst error",
        "inside",
        "other",
        "accused",
        "seconds"
    );
    for row in rows {
        let of = row.outcomes.len();
        let error = |right: usize, worst: Option<String>| {
            let worst = worst.unwrap_or_else(|| "-".to_owned());
            format!("{right}/{of}, {worst:>7}")
        };
        let rate = row.worst_rate_error;
        let burst = row.worst_burst_error;
        let _ = writeln!(
            text,
            "{:<44} {:>10} {:>17} {:>18} {:>7} {:>6} {:>7} {:>7.1}",
            row.subject,
            format!("{}/{of}", row.kind_right),
            error(
                row.rate_right,
                rate.map(|error| format!("{:.2} %", 100.0 * error))
            ),
            error(row.burst_right, burst.map(|error| format!("{error}"))),
            format!("{}/{}", row.rates_inside, row.rates),
            row.misnamed,
            row.accused,
            row.median_seconds,
        );
    }
    text
}

/// Of all servers and runs together.
pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let share = |right: usize, of: usize| (of > 0).then(|| right as f64 / of as f64);
    let sum = |count: fn(&Row) -> usize| rows.iter().map(count).sum::<usize>();
    let runs = sum(|row| row.outcomes.len());
    let named = rows.iter().filter(|row| row.is_named()).count();
    let (servers, detected) = (rows.len(), sum(|row| row.rates));
    let mut verdicts = vec![
        Verdict::at_least(
            format!("of {servers} servers: kind, rate and burst are right in {LEAST} of the runs"),
            share(named, servers),
            LEAST,
            "",
        ),
        Verdict::at_most(
            format!("of {runs} runs: another kind is named for certain, or a defect that is none"),
            share(sum(|row| row.misnamed + row.accused), runs),
            0.0,
            "",
        ),
    ];
    if detected > 0 {
        verdicts.push(Verdict::at_least(
            format!("of {detected} detected rates: the true one is within the uncertainty"),
            share(sum(|row| row.rates_inside), detected),
            LEAST,
            "",
        ));
    }
    let judged = sum(|row| row.judged);
    if judged > 0 {
        verdicts.push(Verdict::at_least(
            format!("of {judged} runs that expect the true limit: consistent with it"),
            share(sum(|row| row.consistent), judged),
            CONSISTENT,
            "",
        ));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::SUBJECTS;

    fn outcome(kind: &str, rate: Option<f64>, burst: Option<f64>) -> Outcome {
        Outcome {
            kind: kind.to_owned(),
            or: Vec::new(),
            rate,
            rate_plus_minus: rate.map(|_| 1.5),
            burst,
            faults: Vec::new(),
            requests: 1000,
            seconds: 20.0,
            asks_for: None,
            verdict: None,
        }
    }

    #[test]
    fn what_is_off_or_was_not_found_is_not_right() {
        let token = &SUBJECTS[1];
        let row = Row::of(
            token,
            &[
                outcome("token-bucket", Some(101.0), Some(20.0)),
                outcome("token-bucket", Some(97.0), Some(22.0)),
                outcome("unknown", None, None),
            ],
        );
        assert_eq!((row.kind_right, row.rate_right, row.burst_right), (2, 1, 1));
        assert_eq!(row.worst_rate_error, None, "one was not found at all");
        assert_eq!((row.rates, row.rates_inside, row.misnamed), (2, 1, 0));
        let goals = verdicts(&[row]);
        assert_eq!(
            goals.iter().map(|goal| goal.met).collect::<Vec<_>>(),
            [false, true, false]
        );
        let other = Row::of(token, &[outcome("leaky-queue", Some(100.0), Some(20.0))]);
        assert_eq!((other.rates, other.misnamed), (0, 1));
        assert!(!verdicts(&[other])[1].met);
    }

    #[test]
    fn a_run_that_does_not_decide_is_not_consistent() {
        let judged = |verdict: &str| Outcome {
            verdict: Some(verdict.to_owned()),
            ..outcome("token-bucket", Some(100.0), Some(20.0))
        };
        let row = Row::of(
            &SUBJECTS[1],
            &["consistent", "undecided", "differs"].map(judged),
        );
        assert_eq!((row.judged, row.consistent), (3, 1));
        assert!(verdicts(&[row]).iter().any(|goal| !goal.met));
        let all = Row::of(&SUBJECTS[1], &[judged("consistent")]);
        assert!(verdicts(&[all]).iter().all(|goal| goal.met));
    }

    #[test]
    fn where_there_is_no_limit_no_number_is_asked() {
        let none = SUBJECTS.iter().find(|subject| subject.name == "none");
        let row = Row::of(
            none.expect("it is there"),
            &[outcome("unlimited", None, None)],
        );
        assert!(verdicts(&[row]).iter().all(|goal| goal.met));
    }
}
