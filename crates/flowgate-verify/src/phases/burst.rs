//! How large is the burst? Batches that double until something is refused.

use super::delays::is_late_alone;
use super::queue::is_queued;
use crate::delays::{Late, is_last_late};
use crate::inquiry::{Inquiry, Unreachable, count, took_ns};
use crate::{Observation, Phase, ProbeOutcome};

/// Batches of more than this many requests use more connections.
const ON_ONE_CONNECTION: u64 = 64;

/// Size of the largest batch.
const LARGEST: u64 = 4_096;

/// Number of requests over one connection after which it is looked whether they are delayed: of those, each takes longer. After a late
/// one, each is looked at: a short window leaves time for few. Of delays that grow, more are needed.
const IN_A_ROW: u64 = 8;

/// Result of this phase.
pub(crate) enum Found {
    /// Nothing was refused.
    NoLimit,
    /// Some requests were refused.
    Refusals,
    /// The requests of this batch waited in a queue.
    Queue(Vec<Observation>),
    /// Requests are late, also if one is sent alone after a rest.
    Late(Late),
}

/// What else than a refusal ends this phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// Requests that are late, also alone after a rest.
    pub(crate) late: bool,
    /// Requests that wait in a queue.
    pub(crate) queued: bool,
}

/// Sends 1, 2, 4, … concurrent requests until some are refused, or are delayed in a way that ends this phase.
pub(crate) fn burst(inquiry: &mut Inquiry<'_>, ends: Ends) -> Result<Found, Unreachable> {
    let mut size = 1;
    while size <= LARGEST && inquiry.requests_left() > 0 && inquiry.time_left_ns() > 0 {
        let connections = u32::try_from(size / ON_ONE_CONNECTION * 8).unwrap_or(u32::MAX);
        let from = inquiry.record().len();
        let (mut sent, mut until) = (0, from);
        while sent < size {
            let in_a_row = match connections {
                2.. => size,
                _ if ends.late && is_last_late(inquiry.record()) => 1,
                _ => IN_A_ROW,
            };
            let n = in_a_row.min(size - sent);
            inquiry.ask_in_burst(Phase::Burst, n, connections.max(1), 0)?;
            sent += n;
            until = inquiry.record().len();
            // A client that waits for each response does not fill a queue: what grows is a delay.
            if let Some(late) = Late::of(inquiry.record()).filter(|_| ends.late)
                && (late.is_growing && connections <= 1 || is_late_alone(inquiry, late)?)
            {
                return Ok(Found::Late(late));
            }
        }
        // The first of a batch does not wait.
        let idle_ns = inquiry.record().iter().map(took_ns).min().unwrap_or(0);
        let answers = &inquiry.record()[from..until];
        if ends.queued && is_queued(answers, idle_ns) {
            return Ok(Found::Queue(answers.to_vec()));
        }
        if count(answers, ProbeOutcome::Refused) > 0 {
            return Ok(Found::Refusals);
        }
        if count(answers, ProbeOutcome::Admitted) == 0 {
            break;
        }
        size *= 2;
    }
    Ok(Found::NoLimit)
}

/// Measures the burst again after a rest, for a limiter that admits about `n` in a burst and then `rate` per
/// nanosecond. The batch is fast enough that little refills meanwhile.
pub(crate) fn burst_again(inquiry: &mut Inquiry<'_>, n: f64, rate: f64) -> Result<(), Unreachable> {
    let connections = inquiry.connections_for(4.0 * rate);
    let at = inquiry.now_ns() as f64 + 2.0 * n / rate;
    let affordable = inquiry.requests_left() / 8;
    let n = ((1.5 * n).ceil() as u64 + 2).min(affordable);
    let times = vec![at; usize::try_from(n).unwrap_or(usize::MAX)];
    inquiry.ask_at(Phase::Burst, &times, connections, 0)?;
    Ok(())
}
