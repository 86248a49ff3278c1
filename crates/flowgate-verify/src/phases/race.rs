//! Are concurrent requests admitted beyond the limit?

use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::fit::Fit;
use crate::inquiry::{Inquiry, Unreachable, count};
use crate::{Defect, Phase, ProbeOutcome};

/// Number of batches. Whether two requests collide is a matter of chance.
const TIMES: u32 = 5;

/// Share of the remaining time that a batch and the rest before it may use.
const SHARE: f64 = 0.08;

/// Sends more than the burst over all connections concurrently, several times, each after a rest.
pub(crate) fn race(
    inquiry: &mut Inquiry<'_>,
    fit: &Fit,
    clock: Clock,
) -> Result<Option<Defect>, Unreachable> {
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
        let over = fit.certainly_over(&Evidence::on(clock, answers));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{Model, Segments};
    use crate::{Advertised, Observation};

    /// The admissions of 52 concurrent requests, of which `first` were before the window's end.
    fn concurrent(first: u64, second: u64) -> Vec<Observation> {
        let end_ns = 10_000_000_000;
        let admitted = |n: u64, at_ns: u64| {
            (0..n).map(move |k| Observation {
                sent_ns: at_ns + k * 1_000,
                answered_ns: at_ns + k * 1_000 + 500_000,
                connection: k as u32,
                key: 0,
                outcome: ProbeOutcome::Admitted,
                advertised: Advertised::default(),
            })
        };
        let before = admitted(first, end_ns - 2_000_000);
        before.chain(admitted(second, end_ns + 1_000_000)).collect()
    }

    #[test]
    fn a_window_that_ends_while_requests_are_sent_admits_more_without_a_race() {
        let window = |phase| {
            Fit::exactly(Model::Segments(Segments {
                limit: 20.0,
                window: 1e9,
                phase,
                count: 1,
            }))
        };
        let over = |phase: f64, seen: &[Observation]| {
            window(phase).certainly_over(&Evidence::on(Clock::EXACT, seen))
        };
        let seen = concurrent(20, 14);
        assert_eq!(over(0.0, &seen), 0);
        assert_eq!(over(20e6, &seen), 0, "its beginning is known only about");
        assert_eq!(over(500e6, &seen), 14, "it ended long before");
        assert_eq!(over(0.0, &concurrent(25, 21)), 6);
    }
}
