//! Does another connection have a separate limit?

use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::fit::Fit;
use crate::inquiry::{Inquiry, Unreachable, count};
use crate::{Defect, Phase, ProbeOutcome};

/// Number of connections that are tried beside the first.
const CONNECTIONS: u32 = 7;

/// Number of times that the result must repeat: one stall of the machine can cause it once.
const TIMES: u32 = 2;

/// Uses up the limit over one connection, then immediately tries others, one after the other.
pub(crate) fn nodes(
    inquiry: &mut Inquiry<'_>,
    fit: &Fit,
    clock: Clock,
) -> Result<Option<Defect>, Unreachable> {
    let model = fit.at_most();
    let connections = CONNECTIONS.min(inquiry.connections() - 1);
    let n = model.burst().ceil() as u64 + 1;
    let mut at_least = u32::MAX;
    for _ in 0..TIMES {
        let affordable = inquiry.requests_left() / 3;
        let is_fast_enough = inquiry.connections_for(model.rate() / 1e9) == 1;
        let is_in_time = 1.05 * model.memory() < inquiry.time_left_ns() as f64 * 0.2;
        let is_affordable = n * u64::from(connections + 2) <= affordable;
        if connections == 0 || !is_fast_enough || !is_in_time || !is_affordable {
            return Ok(None);
        }
        at_least = at_least.min(apart(inquiry, fit, clock, n, connections)?);
        if at_least < 2 {
            return Ok(None);
        }
    }
    Ok(Some(Defect::Nodes { at_least }))
}

/// Returns how many connections, including the first, were certainly admitted beyond the limit.
fn apart(
    inquiry: &mut Inquiry<'_>,
    fit: &Fit,
    clock: Clock,
    n: u64,
    connections: u32,
) -> Result<u32, Unreachable> {
    let at = inquiry.now_ns() as f64 + 1.05 * fit.at_most().memory();
    let times = vec![at; usize::try_from(n + n / 4).unwrap_or(usize::MAX)];
    let used_up = inquiry.ask_at(Phase::Nodes, &times, 1, 0)?.to_vec();
    if count(&used_up, ProbeOutcome::Refused) == 0 {
        return Ok(1);
    }
    let mut got_more = 0;
    for connection in 0..=connections {
        let answers = inquiry.ask_over(Phase::Nodes, n, connection)?;
        let both = Evidence::on(clock, used_up.iter().chain(answers));
        let is_as_much = count(answers, ProbeOutcome::Admitted) * 2 > n - 1;
        let has_more = is_as_much && fit.certainly_over(&both) > 0;
        if has_more && connection == 0 {
            // The limit was not used up.
            return Ok(1);
        }
        got_more += u32::from(has_more);
    }
    Ok(1 + got_more)
}
