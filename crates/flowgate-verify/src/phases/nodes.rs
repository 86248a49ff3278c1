//! Does another connection have another limit?

use crate::evidence::Evidence;
use crate::fit::Fit;
use crate::inquiry::{Inquiry, count};
use crate::{Fault, Outcome, Phase, Subject};

/// Lanes that are tried beside the first.
const LANES: u32 = 7;

/// Uses everything up over one lane, and asks at once for the same over others, one after the other.
pub(crate) fn nodes<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    fit: &Fit,
) -> Result<Option<Fault>, S::Error> {
    let model = fit.at_most();
    let lanes = LANES.min(inquiry.lanes() - 1);
    let n = model.burst().ceil() as usize + 1;
    let affordable = inquiry.requests_left() / 3;
    let is_fast_enough = inquiry.lanes_for(model.rate() / 1e9) == 1;
    let rest = 1.05 * model.memory();
    let is_in_time = rest < inquiry.time_left_ns() as f64 * 0.2;
    if lanes == 0 || !is_fast_enough || !is_in_time || n as u64 * u64::from(lanes + 1) > affordable
    {
        return Ok(None);
    }
    let times = vec![inquiry.now_ns() as f64 + rest; n + n / 4 + 1];
    let used_up = inquiry.ask_at(Phase::Nodes, &times, 1, 0)?.to_vec();
    if count(&used_up, Outcome::Refused) == 0 {
        return Ok(None);
    }
    let mut at_least = 1;
    for lane in 1..=lanes {
        let answers = inquiry.ask_over(Phase::Nodes, n as u64, lane)?;
        let both = Evidence::of(used_up.iter().chain(answers));
        let is_as_much = count(answers, Outcome::Admitted) * 2 > n as u64 - 1;
        at_least += u32::from(is_as_much && model.over(&both) > 0);
    }
    Ok((at_least > 1).then_some(Fault::Nodes { at_least }))
}
