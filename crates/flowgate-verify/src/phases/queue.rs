//! Do requests over the rate wait? Then the gaps between responses show the rate, and refusals show the queue length.

use crate::clock::SHORTEST_TICK;
use crate::delays::{TIMES_AS_LONG, longest_prompt};
use crate::fit::Fit;
use crate::inquiry::{Inquiry, Unreachable, count, took_ns};
use crate::models::{Bucket, Model};
use crate::quantile::{median, percentile_90};
use crate::{Estimate, Observation, Phase, ProbeOutcome};

/// Gaps are constant if they differ from the median by at most this share.
const EVEN: f64 = 0.2;

/// Sums of this many successive gaps are also compared: a late response makes one gap longer and the next one shorter. Sums of gaps of
/// random length differ by half as much as the gaps.
const TOGETHER: usize = 4;
const EVEN_TOGETHER: f64 = EVEN / 2.0;

/// Number of responses that determine the rate.
const ANSWERS: u64 = 120;

/// Number of requests over one connection, one after the other, that must wait as long as concurrent ones.
const IN_A_ROW: u64 = 12;

/// Share of the remaining time that the measurement may use.
const SHARE: f64 = 0.4;

/// Returns whether the responses to a batch were late and arrived at constant intervals.
pub(crate) fn is_queued(answers: &[Observation], idle_ns: u64) -> bool {
    let (gaps, middle) = gaps(answers);
    let mut took: Vec<u64> = answers.iter().map(took_ns).collect();
    took.sort_unstable();
    let is_late = took
        .get(took.len() / 2)
        .is_some_and(|took| *took > longest_prompt(idle_ns));
    // A busy server also responds sequentially, as fast as it can.
    let is_held = middle > (TIMES_AS_LONG * idle_ns) as f64;
    is_late && is_held && are_even(&gaps, middle)
}

/// Returns the gaps between the responses to admitted requests, and the median gap.
fn gaps(answers: &[Observation]) -> (Vec<f64>, f64) {
    let admitted = answers
        .iter()
        .filter(|seen| seen.outcome == ProbeOutcome::Admitted);
    let mut ends: Vec<u64> = admitted.map(|seen| seen.answered_ns).collect();
    ends.sort_unstable();
    let gaps: Vec<f64> = ends
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64)
        .collect();
    let middle = median(&mut gaps.clone());
    (gaps, middle)
}

/// Returns whether there are enough gaps, and three quarters of them, or of their sums, differ little from the median.
fn are_even(gaps: &[f64], middle: f64) -> bool {
    let are_near = |values: &[f64], middle: f64, even: f64| {
        let is_uneven = |value: &&f64| (**value - middle).abs() > even * middle;
        values.iter().filter(is_uneven).count() * 4 <= values.len()
    };
    let together = gaps.windows(TOGETHER).map(|gaps| gaps.iter().sum());
    let mut together: Vec<f64> = together.collect();
    let all = median(&mut together);
    (gaps.len() >= 5 && are_near(gaps, middle, EVEN))
        || (gaps.len() >= 2 * TOGETHER && are_near(&together, all, EVEN_TOGETHER))
}

/// Counts the gaps that a queue cannot cause: too short, although the previous response was not late. (A response may
/// be delayed in transit; the next gap is then shorter.)
fn early(gaps: &[f64], middle: f64) -> usize {
    let mut late = 0.0;
    let mut is_early = |gap: &&f64| {
        let off: f64 = **gap - middle;
        let is_early = late + off < -EVEN * middle;
        late = (late + off).max(0.0);
        is_early
    };
    gaps.iter().filter(|gap| is_early(gap)).count()
}

/// Returns the time between two grants, and its uncertainty, from the gaps between responses.
///
/// Any response may be late. So responses half of all gaps apart are compared: the median of these is the value, and its
/// uncertainty is what nearly all of them differ by.
fn between_grants(gaps: &[f64]) -> Option<(f64, f64)> {
    let apart = gaps.len() / 2;
    if apart == 0 {
        return None;
    }
    let mut means: Vec<f64> = gaps
        .windows(apart)
        .map(|gaps| gaps.iter().sum::<f64>() / apart as f64)
        .collect();
    let middle = median(&mut means);
    let mut off: Vec<f64> = means.iter().map(|mean| (mean - middle).abs()).collect();
    // The server's clock may have whole milliseconds.
    let off = percentile_90(&mut off) + SHORTEST_TICK / gaps.len() as f64;
    (middle > 0.0).then_some((middle, off))
}

/// Returns whether requests of one connection, one after the other, are answered at this interval, too.
///
/// A queue spaces them like all others. A server that is only slow when it has much to do answers them sooner.
fn is_paced(inquiry: &mut Inquiry<'_>, interval: f64) -> Result<bool, Unreachable> {
    let answers = inquiry.ask_over(Phase::Saturate, IN_A_ROW, 0)?;
    let (gaps, middle) = gaps(answers);
    Ok(are_even(&gaps, middle) && middle > (1.0 - EVEN) * interval)
}

/// Measures the rate and length of the queue: first in one burst after a rest, then for long enough.
///
/// Returns `None` if it is no queue.
pub(crate) fn queue(
    inquiry: &mut Inquiry<'_>,
    batch: &[Observation],
) -> Result<Option<Fit>, Unreachable> {
    let (_, interval) = gaps(batch);
    let connections = inquiry.connections();
    let rest = f64::from(connections) * interval;
    let at = inquiry.now_ns() as f64 + rest;
    let all = vec![at; connections as usize];
    let answers = inquiry.ask_at(Phase::Refill, &all, connections, 0)?;
    let admitted = count(answers, ProbeOutcome::Admitted);
    let is_full = count(answers, ProbeOutcome::Refused) > 0;
    if admitted < 2 {
        return Ok(None);
    }
    // No larger than the free part of the queue, so that none is refused.
    let busy = u32::try_from(admitted)
        .unwrap_or(connections)
        .min(connections)
        .div_ceil(2)
        .max(2);
    let affordable = (inquiry.time_left_ns() as f64 * SHARE / interval) as u64;
    let n = ANSWERS.min(affordable).max(u64::from(busy));
    let answers = inquiry.ask_in_burst(Phase::Saturate, n, busy, 0)?;
    let (gaps, middle) = gaps(answers);
    let Some((interval, off)) = between_grants(&gaps) else {
        return Ok(None);
    };
    // If that takes too long, it stays unchecked.
    let is_quick = IN_A_ROW as f64 * interval <= inquiry.time_left_ns() as f64 * SHARE;
    if is_quick && (!are_even(&gaps, middle) || !is_paced(inquiry, interval)?) {
        return Ok(None);
    }
    let share = off / interval;
    let burst = admitted as f64;
    let rate = 1e9 / interval;
    Ok(Some(Fit {
        model: Model::Queue(Bucket { interval, burst }),
        unexplained: early(&gaps, middle) as u64,
        of: gaps.len() as u64,
        rate: Estimate {
            value: rate,
            plus_minus: rate * share,
        },
        // If none was refused, the queue may be longer.
        burst: Estimate {
            value: burst,
            plus_minus: if is_full { 0.0 } else { f64::INFINITY },
        },
        window: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_late_excuses_who_comes_after_and_nobody_may_be_early() {
        for (gaps, expected) in [
            (&[10.0, 10.5, 9.0, 10.0][..], 0),
            (&[10.0, 16.0, 4.0, 10.0], 0),
            (&[10.0, 35.0, 0.0, 1.0, 4.0, 10.0], 0),
            (&[10.0, 4.0, 16.0, 10.0], 1),
            (&[10.0, 16.0, 4.0, 4.0, 10.0], 1),
        ] {
            assert_eq!(early(gaps, 10.0), expected, "{gaps:?}");
        }
    }

    #[test]
    fn gaps_are_even_also_if_some_responses_are_late() {
        let gaps = |late: &[f64]| -> Vec<f64> {
            let pairs = late.windows(2);
            pairs.map(|pair| 10.0 + pair[1] - pair[0]).collect()
        };
        let late = [0.0, 3.0, 0.5, 4.0, 0.0, 2.5, 1.0, 3.5, 0.0, 3.0, 0.0];
        let gaps = gaps(&late);
        assert!(are_even(&gaps, 10.0), "{gaps:?}");
        assert!(
            !are_even(&gaps[..7], 10.0),
            "too few to look at more than one"
        );
        let random = [2.0, 14.0, 25.0, 1.0, 9.0, 3.0, 31.0, 6.0, 0.5, 12.0, 8.0];
        assert!(!are_even(&random, 8.0));
    }
}
