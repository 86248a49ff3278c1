//! When does an empty limiter admit again? Requests become rarer until one is admitted; then a burst measures how many.

use crate::inquiry::{Inquiry, Unreachable, count};
use crate::{Observation, Phase, ProbeOutcome};

/// The shortest pause.
const SHORTEST_NS: u64 = 1_000_000;

/// Number of times that something has to refill.
const TIMES: u32 = 3;

/// Share of the remaining time that this phase may use.
const SHARE: f64 = 0.6;

/// What refilled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Comeback {
    /// Rate per nanosecond, within a factor of two.
    Rate(f64),
    /// Nothing within this many nanoseconds.
    Nothing(u64),
}

/// Waits for a refill after a refusal, several times.
pub(crate) fn comeback(inquiry: &mut Inquiry<'_>) -> Result<Comeback, Unreachable> {
    let empty_ns = inquiry.now_ns();
    let until_ns = empty_ns + (inquiry.time_left_ns() as f64 * SHARE) as u64;
    let mut wait_ns = SHORTEST_NS.max(2 * inquiry.service_ns());
    let (mut waited_ns, mut admitted, mut times) = (0, 0, 0);
    let mut full_ns = empty_ns;
    while times < TIMES {
        let now_ns = inquiry.now_ns();
        // What a refusal tells is tried if it comes first.
        let told_ns =
            told(inquiry.record()).filter(|at_ns| (now_ns..now_ns + wait_ns).contains(at_ns));
        let at_ns = told_ns.unwrap_or(now_ns + wait_ns);
        let is_long = times > 0 && (at_ns - empty_ns) > (until_ns - empty_ns) / 4;
        if at_ns > until_ns || is_long || inquiry.requests_left() == 0 {
            break;
        }
        let answers = inquiry.ask_at(Phase::Saturate, &[at_ns as f64], 1, 0)?;
        waited_ns += at_ns - now_ns;
        if count(answers, ProbeOutcome::Admitted) == 0 {
            wait_ns = match told_ns {
                // It was nearly right, as fields have whole seconds.
                Some(_) => (waited_ns / 16).max(SHORTEST_NS),
                None => wait_ns * 2,
            };
            continue;
        }
        admitted += 1 + exhaust(inquiry)?;
        full_ns = inquiry.now_ns();
        times += 1;
        wait_ns = (waited_ns / 4).max(SHORTEST_NS);
        waited_ns = 0;
    }
    let took_ns = full_ns - empty_ns;
    Ok(if admitted == 0 {
        Comeback::Nothing(inquiry.now_ns() - empty_ns)
    } else {
        Comeback::Rate(admitted as f64 / took_ns.max(1) as f64)
    })
}

/// Returns when a request is admitted again, according to the last refusal.
fn told(record: &[Observation]) -> Option<u64> {
    let last = record.last()?;
    let after = last.advertised.retry_after.or(last.advertised.more_after)?;
    let after_ns = u64::try_from(after.as_nanos()).ok()?;
    Some(last.answered_ns.saturating_add(after_ns))
}

/// Sends 1, 2, 4, … requests until some are refused. Returns the number of admissions.
fn exhaust(inquiry: &mut Inquiry<'_>) -> Result<u64, Unreachable> {
    let (mut size, mut admitted) = (1, 0);
    while inquiry.requests_left() > size {
        let connections = u32::try_from(size / 16).unwrap_or(u32::MAX).max(1);
        let answers = inquiry.ask_in_burst(Phase::Saturate, size, connections, 0)?;
        let fits = count(answers, ProbeOutcome::Admitted);
        admitted += fits;
        if fits < size {
            break;
        }
        size *= 2;
    }
    Ok(admitted)
}
