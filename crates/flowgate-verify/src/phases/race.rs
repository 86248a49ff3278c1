//! Do many at once get more?

use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::fit::Fit;
use crate::inquiry::{Inquiry, count};
use crate::{Fault, Outcome, Phase, Subject};

/// Volleys. Whether two requests meet is a matter of luck.
const TIMES: u32 = 5;

/// Of the time left, what a volley may take with the rest before it.
const SHARE: f64 = 0.08;

/// Asks for more than everything over all lanes at one instant, several times, each after a rest.
pub(crate) fn race<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    fit: &Fit,
    clock: Clock,
) -> Result<Option<Fault>, S::Error> {
    let model = fit.at_most();
    let burst = model.burst();
    let n = burst + (burst / 4.0).max(8.0).max(f64::from(inquiry.lanes()));
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
        let admitted = count(answers, Outcome::Admitted);
        if over > 0 && worst.is_none_or(|(most, _)| over > most) {
            worst = Some((over, admitted));
        }
    }
    Ok(worst.map(|(over, admitted)| Fault::Race {
        admitted,
        allowed: (admitted - over) as f64,
    }))
}
