use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::fit::Fit;
use crate::{DetectedKind, Observation};

/// Batches are joined until they have at least this many responses.
const TOGETHER: usize = 40;

/// Inconsistent responses in one group beyond this number and share are no coincidence.
const GROUP: u64 = 4;
const CROWD_SHARE: f64 = 0.05;

/// Returns whether the responses that are inconsistent with `fit` occur in a group. The limiter then did something that
/// this algorithm does not do: after a rest, or when offered much less or much more. `ends` holds the ends of batches.
pub(crate) fn is_grouped(fit: &Fit, clock: Clock, record: &[Observation], ends: &[usize]) -> bool {
    if fit.unexplained < GROUP || fit.kind() == DetectedKind::LeakyQueue {
        return false;
    }
    let (mut from, mut before) = (0, 0);
    for &end in ends {
        if end - from < TOGETHER && end < record.len() {
            continue;
        }
        let up_to_here = fit.model.unexplained(&Evidence::on(clock, &record[..end]));
        let here = up_to_here.saturating_sub(before);
        if here >= GROUP && here as f64 > CROWD_SHARE * (end - from) as f64 {
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
    use crate::{Advertised, ProbeOutcome};

    #[test]
    fn the_same_number_is_a_group_in_one_batch_and_none_when_spread() {
        let fit = Fit {
            unexplained: 6,
            of: 600,
            ..Fit::exactly(Model::Bucket(Bucket {
                interval: 100.0,
                burst: 1.0,
            }))
        };
        // The bucket is full at every request.
        let record = |is_refused: fn(usize) -> bool| -> Vec<Observation> {
            let seen = (0..600).map(|index| Observation {
                sent_ns: index as u64 * 1_000,
                answered_ns: index as u64 * 1_000,
                connection: 0,
                key: 0,
                outcome: match is_refused(index) {
                    true => ProbeOutcome::Refused,
                    false => ProbeOutcome::Admitted,
                },
                advertised: Advertised::default(),
            });
            seen.collect()
        };
        let batches: Vec<usize> = (1..=60).map(|batch| batch * 10).collect();
        let together = record(|index| (330..336).contains(&index));
        assert!(is_grouped(&fit, Clock::EXACT, &together, &batches));
        let all_over = record(|index| index % 100 == 50);
        assert!(!is_grouped(&fit, Clock::EXACT, &all_over, &batches));
    }
}
