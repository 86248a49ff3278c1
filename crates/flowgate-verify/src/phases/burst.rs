//! How many at once? Volleys that double until something is refused.

use super::queue::is_queued;
use crate::inquiry::{Inquiry, count, took_ns};
use crate::{Observation, Outcome, Phase, Subject};

/// Volleys of more than this many take more lanes.
const ON_ONE_LANE: u64 = 64;

/// The largest volley.
const LARGEST: u64 = 4_096;

/// What stood in the way.
pub(crate) enum Found {
    /// Nothing.
    NoLimit,
    /// Some were refused.
    Refusals,
    /// Those of this volley waited in a queue.
    Queue(Vec<Observation>),
}

/// Asks for 1, 2, 4, … at once until some are refused, or have to wait.
pub(crate) fn burst<S: Subject>(inquiry: &mut Inquiry<'_, S>) -> Result<Found, S::Error> {
    let mut size = 1;
    while size <= LARGEST && inquiry.requests_left() > 0 && inquiry.time_left_ns() > 0 {
        let lanes = u32::try_from(size / ON_ONE_LANE * 8).unwrap_or(u32::MAX);
        let from = inquiry.record().len();
        inquiry.ask_at_once(Phase::Burst, size, lanes.max(1), 0)?;
        // The first of a volley does not wait.
        let idle_ns = inquiry.record().iter().map(took_ns).min().unwrap_or(0);
        let answers = &inquiry.record()[from..];
        if is_queued(answers, idle_ns) {
            return Ok(Found::Queue(answers.to_vec()));
        }
        if count(answers, Outcome::Refused) > 0 {
            return Ok(Found::Refusals);
        }
        if count(answers, Outcome::Admitted) == 0 {
            break;
        }
        size *= 2;
    }
    Ok(Found::NoLimit)
}

/// The same once more for a limiter that admits about `n` at once and then so much per nanosecond: after a rest, and
/// fast enough that little comes back meanwhile.
pub(crate) fn burst_again<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    n: f64,
    rate: f64,
) -> Result<(), S::Error> {
    let lanes = inquiry.lanes_for(4.0 * rate);
    let at = inquiry.now_ns() as f64 + 2.0 * n / rate;
    let affordable = inquiry.requests_left() / 8;
    let n = ((1.5 * n).ceil() as u64 + 2).min(affordable);
    let times = vec![at; usize::try_from(n).unwrap_or(usize::MAX)];
    inquiry.ask_at(Phase::Burst, &times, lanes, 0)?;
    Ok(())
}
