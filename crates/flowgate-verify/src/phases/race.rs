//! Are concurrent requests admitted beyond the limit?

use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::fit::Fit;
use crate::inquiry::{Inquiry, count};
use crate::{Defect, Phase, ProbeOutcome, ProbeSubject};

/// Number of batches. Whether two requests collide is a matter of chance.
const TIMES: u32 = 5;

/// Share of the remaining time that a batch and the rest before it may use.
const SHARE: f64 = 0.08;

/// Sends more than the burst over all connections concurrently, several times, each after a rest.
pub(crate) fn race<S: ProbeSubject>(
    inquiry: &mut Inquiry<'_, S>,
    fit: &Fit,
    clock: Clock,
) -> Result<Option<Defect>, S::Error> {
    let model = fit.at_most();
    let burst = model.burst();
    let n = burst + (burst / 4.0).max(8.0).max(f64::from(inquiry.connections()));
    let mut worst: Option<(u64, u64)> = None;
    for _ in 0..TIMES {
        let rest = 1.05 * model.memory();
        let affordable = inquiry.requests_left() as f64 / 8.0;
        if n > affordable || rest > inquiry.time_left_ns() as f64 * SHARE {
            break;
        }
        let times = vec![inquiry.now_ns() as f64 + rest; n as usize];
        let answers = inquiry.ask_at(Phase::Race, &times, u32::MAX, 0)?;
        let over = model.over(&Evidence::on(clock, answers));
        let admitted = count(answers, ProbeOutcome::Admitted);
        if over > 0 && worst.is_none_or(|(most, _)| over > most) {
            worst = Some((over, admitted));
        }
    }
    Ok(worst.map(|(over, admitted)| Defect::Race {
        admitted,
        allowed: (admitted - over) as f64,
    }))
}
