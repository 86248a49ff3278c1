//! How much comes back in how much time?

use crate::fit::Fit;
use crate::inquiry::Inquiry;
use crate::{Phase, Subject};

/// Of the time left, what all pauses together may take.
const SHARE: f64 = 0.2;

/// Uses everything up, pauses, and asks for everything again: after one token's time, and half of, one and two times
/// what a whole burst takes. And asks for one, pauses, and for twice everything: there is something left when the
/// pause begins. What there is no time for is left out. Whether everything was back before the first of all these.
pub(crate) fn refill<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    fit: &Fit,
) -> Result<bool, S::Error> {
    let rate = fit.model.rate() / 1e9;
    let burst = fit.model.burst();
    let n = (burst * 1.1).ceil() as u64 + 2;
    // Several times as fast as it comes back.
    let lanes = inquiry.lanes_for(2.0 * rate);
    let all = burst / rate;
    let until_ns = inquiry.now_ns() as f64 + inquiry.time_left_ns() as f64 * SHARE;
    let at = inquiry.now_ns() as f64 + 2.0 * all;
    let is_whole = at <= until_ns && n <= inquiry.requests_left() / 10;
    let from = inquiry.record().len();
    let twice = 2 * n;
    if at + 1.2 * all < until_ns && twice < inquiry.requests_left() / 10 {
        let everything = std::iter::repeat_n(at + 1.2 * all, twice as usize);
        let times: Vec<f64> = [at].into_iter().chain(everything).collect();
        inquiry.ask_at(Phase::Refill, &times, lanes, 0)?;
    }
    for pause in [2.0 * all, all / 2.0, all, 1.0 / rate] {
        let at = inquiry.now_ns() as f64 + pause;
        let affordable = inquiry.requests_left() / 10;
        if at > until_ns || n > affordable {
            continue;
        }
        let times = vec![at; usize::try_from(n).unwrap_or(usize::MAX)];
        inquiry.ask_at(Phase::Refill, &times, lanes, 0)?;
    }
    Ok(is_whole && inquiry.record().len() > from)
}
