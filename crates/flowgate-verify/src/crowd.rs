use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::fit::Fit;
use crate::{Kind, Observation};

/// Volleys are taken together until they are so many answers.
const TOGETHER: usize = 40;

/// So many of them unexplained, and so large a part, are no accident.
const CROWD: u64 = 4;
const CROWD_SHARE: f64 = 0.05;

/// Whether what `fit` leaves unexplained comes together. However little that is of all, the limiter then did something that
/// this kind does not: it had rested, or was asked for much less or much more. `ends` is where volleys end.
pub(crate) fn is_crowded(fit: &Fit, clock: Clock, record: &[Observation], ends: &[usize]) -> bool {
    if fit.unexplained < CROWD || fit.kind() == Kind::LeakyQueue {
        return false;
    }
    let (mut from, mut before) = (0, 0);
    for &end in ends {
        if end - from < TOGETHER && end < record.len() {
            continue;
        }
        let up_to_here = fit.model.unexplained(&Evidence::on(clock, &record[..end]));
        let here = up_to_here.saturating_sub(before);
        if here >= CROWD && here as f64 > CROWD_SHARE * (end - from) as f64 {
            return true;
        }
        (from, before) = (end, up_to_here);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{Bucket, Model};
    use crate::{Outcome, Told};

    #[test]
    fn the_same_number_is_a_crowd_in_one_volley_and_none_all_over() {
        let fit = Fit {
            unexplained: 6,
            of: 600,
            ..Fit::exactly(Model::Bucket(Bucket {
                interval: 100.0,
                burst: 1.0,
            }))
        };
        // The bucket is full whenever somebody comes.
        let record = |is_refused: fn(usize) -> bool| -> Vec<Observation> {
            let seen = (0..600).map(|index| Observation {
                sent_ns: index as u64 * 1_000,
                answered_ns: index as u64 * 1_000,
                lane: 0,
                key: 0,
                outcome: match is_refused(index) {
                    true => Outcome::Refused,
                    false => Outcome::Admitted,
                },
                told: Told::default(),
            });
            seen.collect()
        };
        let volleys: Vec<usize> = (1..=60).map(|volley| volley * 10).collect();
        let together = record(|index| (330..336).contains(&index));
        assert!(is_crowded(&fit, Clock::EXACT, &together, &volleys));
        let all_over = record(|index| index % 100 == 50);
        assert!(!is_crowded(&fit, Clock::EXACT, &all_over, &volleys));
    }
}
