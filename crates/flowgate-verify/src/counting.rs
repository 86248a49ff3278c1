//! The limit and the length of a window in which refused requests count, too.

use crate::models::{Asked, Counting};
use crate::plateau::Plateau;
use crate::{DetectedAlgorithm, DetectedKind, Estimate, Observation, ProbeOutcome};

/// Lengths are tried from this fraction of the estimate to this multiple.
const AROUND: f64 = 6.0;
const STEPS: usize = 600;

/// Share of the responses that may be unexplained: none of a few.
const MARGIN_SHARE: f64 = 0.002;

/// Number of requests that show such a window.
const FEWEST: usize = 100;

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
    let limits = (-2_i32..=2).map(|more| burst + f64::from(more));
    let tried = limits.filter(|limit| *limit >= 1.0).map(|limit| {
        let score = |window: f64| Counting { limit, window }.unexplained(&asked);
        let plateau = Plateau::find(guess / AROUND, guess * AROUND, STEPS, score);
        (limit, plateau.widened(plateau.score, score))
    });
    let tried: Vec<(f64, Plateau)> = tried.collect();
    let (limit, best) = *tried.iter().min_by(|a, b| a.1.order(&b.1))?;
    if best.score > (record.len() as f64 * MARGIN_SHARE) as u64 {
        return None;
    }
    let as_good = tried.iter().filter(|(_, other)| other.score == best.score);
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
