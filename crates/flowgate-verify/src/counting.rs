//! The limit and the length of a window in which refused requests count, too.

use crate::models::{Asked, Counting};
use crate::plateau::{Plateau, as_good_as};
use crate::{DetectedAlgorithm, DetectedKind, Estimate, Observation, ProbeOutcome};

/// Lengths are tried from this fraction of the estimate to this multiple, each longer by the same share.
const AROUND: f64 = 6.0;
const STEPS: usize = 600;

/// Number of these lengths about which others are tried, and how many.
const NEAR: usize = 12;
const CLOSER: usize = 40;

/// Share of the responses that may be unexplained: none of a few.
const MARGIN_SHARE: f64 = 0.0025;

/// The limits that are tried, relative to the burst.
const LESS: i32 = -2;
const MORE: i32 = 8;

/// Number of requests that show such a window.
const FEWEST: usize = 100;

/// Returns the lengths with the lowest score. It is low only close to the true length, and elsewhere by chance.
fn lengths(guess: f64, score: impl Fn(f64) -> u64) -> Plateau {
    let step = AROUND.powf(2.0 / STEPS as f64);
    let mut rough: Vec<(u64, f64)> = (0..=STEPS)
        .map(|index| guess / AROUND * step.powf(index as f64))
        .map(|length| (score(length), length))
        .collect();
    rough.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let near = rough.iter().take(NEAR);
    let found = near.map(|(_, length)| Plateau::find(length / step, length * step, CLOSER, &score));
    found
        .min_by(Plateau::order)
        .unwrap_or_else(|| Plateau::find(guess / AROUND, guess * AROUND, STEPS, &score))
}

/// Returns the window that explains the record if refused requests count. `burst` is the number of requests that were
/// admitted first, and `rate` per nanosecond is known within a factor of a few.
pub(crate) fn counting(record: &[Observation], burst: f64, rate: f64) -> Option<DetectedAlgorithm> {
    if record.len() < FEWEST
        || record
            .iter()
            .any(|seen| seen.outcome == ProbeOutcome::Failed)
    {
        return None;
    }
    let asked = Asked::of(record);
    let guess = burst / rate;
    // Requests before the burst count, too, and concurrent ones may be decided in another order.
    let limits = LESS..=MORE;
    let limits = limits.map(|more| burst + f64::from(more));
    let limits = limits.filter(|limit| *limit >= 1.0);
    let tried = limits.map(|limit| {
        let score = |window: f64| Counting { limit, window }.unexplained(&asked);
        let plateau = lengths(guess, score);
        (limit, plateau.widened(plateau.score, score))
    });
    let tried: Vec<(f64, Plateau)> = tried.collect();
    let (limit, best) = *tried.iter().min_by(|a, b| a.1.order(&b.1))?;
    let of = record.len() as u64;
    let margin = (of as f64 * MARGIN_SHARE) as u64;
    if best.score > margin {
        return None;
    }
    let most = as_good_as(best.score, of).max(margin);
    let as_good = tried.iter().filter(|(_, other)| other.score <= most);
    let off = as_good
        .map(|(other, _)| (other - limit).abs())
        .fold(0.0, f64::max);
    // The server's clock may have whole milliseconds.
    let [value, plus_minus] = [best.middle() / 1e9, best.half() / 1e9 + 1e-3];
    let share = plus_minus / value + off / limit;
    Some(DetectedAlgorithm {
        kind: DetectedKind::CountsRefused,
        alternatives: Vec::new(),
        rate: Some(Estimate {
            value: limit / value,
            plus_minus: limit / value * share,
        }),
        burst: Some(Estimate {
            value: limit,
            plus_minus: off,
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
