//! How long exactly is a window in which refused requests count, too?

use crate::inquiry::{Inquiry, Unreachable};
use crate::{DetectedAlgorithm, DetectedKind, Phase};

/// Number of times at which the end of a window is looked for. Each divides what is unknown into one more part.
const POLLS: f64 = 8.0;

/// Number of requests at each of these times: a single one may be wrong. They count as well, so all of them are at most this share
/// of the limit.
const AT_EACH: f64 = 2.0;
const POLLS_SHARE: f64 = 0.5;

/// Uses up a window that is empty, in one burst, and sends requests at the times at which it may end. Returns whether the kind and
/// the budget allowed that.
pub(crate) fn sharpen(
    inquiry: &mut Inquiry<'_>,
    shown: &DetectedAlgorithm,
) -> Result<bool, Unreachable> {
    let (Some(limit), Some(window)) = (shown.burst, shown.window) else {
        return Ok(false);
    };
    if shown.kind != DetectedKind::CountsRefused {
        return Ok(false);
    }
    let polls = (POLLS_SHARE * limit.value / AT_EACH)
        .floor()
        .clamp(1.0, POLLS);
    let n = limit.value + AT_EACH * polls;
    let [least, most] = [
        window.value - window.plus_minus,
        window.value + window.plus_minus,
    ]
    .map(|seconds| seconds * 1e9);
    // With less time, it is likely to be empty; if it is not, that bounds its length, too.
    let rests = [most, (least + most) / 2.0];
    let times = rests.map(|rest| inquiry.now_ns() as f64 + rest);
    let has_time = |from: &f64| *from + most < inquiry.end_ns() as f64;
    let Some(from) = times.into_iter().find(has_time) else {
        return Ok(false);
    };
    if n > inquiry.requests_left() as f64 {
        return Ok(false);
    }
    let burst = vec![from; limit.value as usize];
    inquiry.ask_at(Phase::Shape, &burst, 1, 0)?;
    let part = (most - least) / (polls + 1.0);
    let polls = (1..=polls as u32).map(|poll| from + least + f64::from(poll) * part);
    let times: Vec<f64> = polls.flat_map(|at| [at; AT_EACH as usize]).collect();
    let answers = inquiry.ask_at(Phase::Shape, &times, 1, 0)?;
    Ok(!answers.is_empty())
}
