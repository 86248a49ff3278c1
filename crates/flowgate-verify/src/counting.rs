//! The limit and the length of a window in which refused requests count, too.

use crate::clock::SHORTEST_TICK;
use crate::evidence::Evidence;
use crate::models::{Counting, Periods};
use crate::plateau::{Plateau, as_good_as};
use crate::{DetectedAlgorithm, DetectedKind, Estimate, Observation, ProbeOutcome};

/// Lengths are tried from this fraction of the estimate to this multiple, each longer by the same share.
const AROUND: f64 = 6.0;
const STEPS: usize = 600;

/// Share of the responses that may be unexplained: none of a few.
const MARGIN_SHARE: f64 = 0.0025;

/// The limits that are tried, relative to the burst.
const LESS: i32 = -2;
const MORE: i32 = 8;

/// Number of requests that show such a window.
const FEWEST: usize = 100;

/// Periods shorter than this do not show, as a clock may have whole milliseconds.
const SHORTEST: f64 = 40.0 * SHORTEST_TICK;

/// Number of responses that exclude two counters, or do not.
const SAMPLE: usize = 400;

/// Returns the window that explains the record if refused requests count. `burst` is the number of requests that were
/// admitted first, and `rate` per nanosecond is known within a factor of a few.
pub(crate) fn counting(record: &[Observation], burst: f64, rate: f64) -> Option<DetectedAlgorithm> {
    detected(
        record,
        &[(DetectedKind::CountsRefused, log(record, burst, rate))],
    )
}

/// The same, also for two counters. That search is slow.
pub(crate) fn counting_any(
    record: &[Observation],
    burst: f64,
    rate: f64,
) -> Option<DetectedAlgorithm> {
    let sample = &record[..record.len().min(SAMPLE)];
    let may_be = counters(sample, burst, rate).is_some_and(|best| best.score <= margin(record));
    let counters = may_be.then(|| counters(record, burst, rate)).flatten();
    let kinds = [
        (DetectedKind::CountsRefused, log(record, burst, rate)),
        (DetectedKind::CounterCountsRefused, counters),
    ];
    detected(record, &kinds)
}

fn log(record: &[Observation], burst: f64, rate: f64) -> Option<Best> {
    let evidence = Evidence::of(record);
    best_of(record, burst, rate, |limit| {
        let counting = Counting::of(limit as usize, &evidence);
        move |window| counting.unexplained(window)
    })
}

fn counters(record: &[Observation], burst: f64, rate: f64) -> Option<Best> {
    let evidence = &Evidence::of(record);
    best_of(record, burst, rate, |limit| {
        move |period| {
            let counts_refused = true;
            Periods {
                limit,
                period,
                counts_refused,
            }
            .unexplained(evidence)
        }
    })
}

/// Returns the best of these kinds, if it explains the record; of those that are about as good, the first one.
fn detected(
    record: &[Observation],
    kinds: &[(DetectedKind, Option<Best>)],
) -> Option<DetectedAlgorithm> {
    let has_failed = |seen: &Observation| seen.outcome == ProbeOutcome::Failed;
    if record.len() < FEWEST || record.iter().any(has_failed) {
        return None;
    }
    let kinds = || {
        kinds
            .iter()
            .filter_map(|(kind, best)| Some((*kind, (*best)?)))
    };
    let least = kinds().map(|(_, best)| best.score).min()?;
    let most = most_as_good(least, record);
    let mut as_good = kinds().filter(|(_, best)| best.score <= most);
    let (kind, best) = as_good.next().filter(|_| least <= margin(record))?;
    let alternatives = as_good.map(|(kind, _)| kind).collect();
    // The server's clock may have whole milliseconds.
    let [value, plus_minus] = [best.length / 1e9, best.length_off / 1e9 + 1e-3];
    let share = plus_minus / value + best.limit_off / best.limit;
    Some(DetectedAlgorithm {
        kind,
        alternatives,
        rate: Some(Estimate {
            value: best.limit / value,
            plus_minus: best.limit / value * share,
        }),
        burst: Some(Estimate {
            value: best.limit,
            plus_minus: best.limit_off,
        }),
        window: Some(Estimate { value, plus_minus }),
        clock_tick: None,
        limits: Vec::new(),
        delays: None,
        block: None,
        consistent: record.len() as u64 - best.score,
        answers: record.len() as u64,
    })
}

/// A limit and a length in nanoseconds, with their uncertainties.
#[derive(Clone, Copy, Debug)]
struct Best {
    score: u64,
    limit: f64,
    limit_off: f64,
    length: f64,
    length_off: f64,
}

/// Returns the limit near `burst` and the length that leave the least unexplained.
fn best_of<S: Fn(f64) -> u64>(
    record: &[Observation],
    burst: f64,
    rate: f64,
    unexplained: impl Fn(f64) -> S,
) -> Option<Best> {
    let guess = burst / rate;
    let low = (guess / AROUND).max(SHORTEST);
    if guess * AROUND <= low {
        return None;
    }
    // Requests before the burst count, too, and concurrent ones may be decided in another order.
    let limits = LESS..=MORE;
    let limits = limits.map(|more| burst + f64::from(more));
    let limits = limits.filter(|limit| *limit >= 1.0);
    let tried = limits.map(|limit| {
        let score = unexplained(limit);
        let plateau = Plateau::find_narrow(low, guess * AROUND, STEPS, &score);
        (limit, plateau.widened(plateau.score, &score))
    });
    let tried: Vec<(f64, Plateau)> = tried.collect();
    let (limit, best) = *tried.iter().min_by(|a, b| a.1.order(&b.1))?;
    let most = most_as_good(best.score, record);
    let as_good = || tried.iter().filter(|(_, other)| other.score <= most);
    let length = best.middle();
    let lengths = as_good().flat_map(|(_, other)| [other.low, other.high]);
    let most_off = |value: f64, others: &mut dyn Iterator<Item = f64>| {
        others
            .map(|other| (other - value).abs())
            .fold(0.0, f64::max)
    };
    Some(Best {
        score: best.score,
        limit,
        limit_off: most_off(limit, &mut as_good().map(|(other, _)| *other)),
        length,
        length_off: most_off(length, &mut { lengths }),
    })
}

/// Returns how many responses may be unexplained.
fn margin(record: &[Observation]) -> u64 {
    (record.len() as f64 * MARGIN_SHARE) as u64
}

/// Returns up to how many unexplained responses others are as good as one with `least`. A clock of whole milliseconds may cause one.
fn most_as_good(least: u64, record: &[Observation]) -> u64 {
    as_good_as(least, record.len() as u64).max(1)
}
