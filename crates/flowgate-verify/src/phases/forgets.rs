//! Does a window that counts refused requests forget them all when it has passed?

use crate::inquiry::{Inquiry, Unreachable};
use crate::{DetectedAlgorithm, Phase};

/// Rests between bursts, in windows. A log has forgotten all of the last burst or nothing, and two counters forget it bit by bit.
const RESTS: [f64; 3] = [0.9, 1.15, 1.0];

/// Sends bursts of more than the limit, with a rest before each. Returns whether the budget allowed one.
pub(crate) fn forgets(
    inquiry: &mut Inquiry<'_>,
    shown: &DetectedAlgorithm,
) -> Result<bool, Unreachable> {
    let (Some(limit), Some(window)) = (shown.burst, shown.window) else {
        return Ok(false);
    };
    let n = (limit.value + limit.plus_minus).ceil() as u64 + 2;
    let asked = inquiry.record().len();
    for rest in RESTS {
        let rest_ns = rest * window.value * 1e9;
        if rest_ns < inquiry.time_left_ns() as f64 && n <= inquiry.requests_left() {
            let times = vec![inquiry.now_ns() as f64 + rest_ns; n as usize];
            inquiry.ask_at(Phase::Shape, &times, 1, 0)?;
        }
    }
    Ok(inquiry.record().len() > asked)
}
