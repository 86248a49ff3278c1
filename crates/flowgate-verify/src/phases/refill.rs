//! How much refills in how much time?

use crate::Phase;
use crate::fit::Fit;
use crate::inquiry::{Inquiry, Unreachable};

/// Share of the remaining time that all pauses together may use.
const SHARE: f64 = 0.2;

/// Uses up the limit, pauses, and sends a full burst: after the time of one token, and 0.5, 1 and 2 times the refill
/// time of a burst. Then sends one request, pauses, and sends two bursts: something is left when that pause begins.
/// Pauses that do not fit into the time are skipped. Returns whether everything was refilled before the first of these.
pub(crate) fn refill(inquiry: &mut Inquiry<'_>, fit: &Fit) -> Result<bool, Unreachable> {
    let rate = fit.model.rate() / 1e9;
    let burst = fit.model.burst();
    let n = (burst * 1.1).ceil() as u64 + 2;
    // Several times as fast as it refills.
    let connections = inquiry.connections_for(2.0 * rate);
    let all = burst / rate;
    let until_ns = inquiry.now_ns() as f64 + inquiry.time_left_ns() as f64 * SHARE;
    let at = inquiry.now_ns() as f64 + 2.0 * all;
    let is_whole = at <= until_ns && n <= inquiry.requests_left() / 10;
    let from = inquiry.record().len();
    let twice = 2 * n;
    if at + 1.2 * all < until_ns && twice < inquiry.requests_left() / 10 {
        let everything = std::iter::repeat_n(at + 1.2 * all, twice as usize);
        let times: Vec<f64> = [at].into_iter().chain(everything).collect();
        inquiry.ask_at(Phase::Refill, &times, connections, 0)?;
    }
    for pause in [2.0 * all, all / 2.0, all, 1.0 / rate] {
        let at = inquiry.now_ns() as f64 + pause;
        let affordable = inquiry.requests_left() / 10;
        if at > until_ns || n > affordable {
            continue;
        }
        let times = vec![at; usize::try_from(n).unwrap_or(usize::MAX)];
        inquiry.ask_at(Phase::Refill, &times, connections, 0)?;
    }
    Ok(is_whole && inquiry.record().len() > from)
}
