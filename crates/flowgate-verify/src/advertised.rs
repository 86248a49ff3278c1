//! The limit that responses advertise, compared with the detected one.

use crate::conclusion::{BURST_OFF, RATE_OFF, agrees};
use crate::{Advertised, AdvertisedQuota, DetectedAlgorithm, DetectedKind, Observation};

/// The limit that most responses advertise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) limit: u64,
    /// In seconds.
    pub(crate) window: Option<f64>,
    /// Number of responses that advertise it.
    pub(crate) answers: u64,
}

impl Told {
    /// `None` if no response advertises a limit.
    pub(crate) fn of(record: &[Observation]) -> Option<Self> {
        let mut said: Vec<(u64, Advertised)> = Vec::new();
        for advertised in record.iter().map(|seen| seen.advertised) {
            if advertised.limit.is_none() {
                continue;
            }
            let is_same = |other: &Advertised| {
                other.limit == advertised.limit && other.window == advertised.window
            };
            match said.iter().position(|(_, other)| is_same(other)) {
                Some(index) => said[index].0 += 1,
                // Ignore servers that advertise a different limit each time.
                None if said.len() < MOST => said.push((1, advertised)),
                None => {}
            }
        }
        let (answers, advertised) = said.into_iter().max_by_key(|(answers, _)| *answers)?;
        Some(Self {
            limit: advertised.limit?,
            window: advertised.window.map(|window| window.as_secs_f64()),
            answers,
        })
    }

    /// Returns the limit that most responses advertise.
    pub(crate) fn limit(&self) -> f64 {
        self.limit as f64
    }

    /// Returns the burst and the rate per nanosecond, if the responses advertise both.
    pub(crate) fn numbers(&self) -> Option<(f64, f64)> {
        let (limit, window) = (self.limit as f64, self.window? * 1e9);
        (limit >= 1.0 && window > 0.0).then_some((limit, limit / window))
    }
}

impl AdvertisedQuota {
    /// Returns the limit that most responses advertise; `None` if none advertises one.
    pub(crate) fn of(record: &[Observation], detected: &DetectedAlgorithm) -> Option<Self> {
        let Told {
            limit,
            window,
            answers,
        } = Told::of(record)?;
        Some(Self {
            limit,
            window,
            answers,
            agrees: agree(limit as f64, window, detected),
        })
    }
}

/// Maximum number of different quotas that are counted.
const MOST: usize = 16;

/// Returns whether `limit` is the burst, and refills in about `window` seconds.
///
/// A larger `limit` also agrees if it is what refills in `window` seconds: headers have whole seconds, so servers
/// advertise a burst that refills within a fraction of a second that way. `None` if nothing comparable was detected, or
/// for a queue: there, requests wait that other limiters would refuse.
fn agree(limit: f64, window: Option<f64>, detected: &DetectedAlgorithm) -> Option<bool> {
    if matches!(
        detected.kind,
        DetectedKind::Unknown | DetectedKind::LeakyQueue
    ) {
        return None;
    }
    // If no limit was reached, the advertised one may not have been reached either.
    let (burst, rate) = (detected.burst?, detected.rate?);
    let is_limit = agrees(burst, limit, BURST_OFF * limit + 1.0);
    let is_window = window.is_none_or(|window| {
        // Headers hold whole seconds, which may be rounded either way.
        let takes = limit / rate.value;
        let off = RATE_OFF * takes + takes * rate.plus_minus / rate.value;
        (takes - window).abs() < off.max(1.0)
    });
    let is_rate = window.is_some_and(|window| {
        let takes = limit / rate.value;
        let off = RATE_OFF * takes + takes * rate.plus_minus / rate.value;
        limit > burst.value && window <= MOST_SCALED && (takes - window).abs() < off
    });
    Some(is_rate || (is_limit && is_window))
}

/// Longest window, in seconds, in which more than the burst is accepted. Without a bound, any burst would agree with a
/// daily quota.
const MOST_SCALED: f64 = 200.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Estimate, ProbeOutcome};

    fn found(burst: f64, rate: f64) -> DetectedAlgorithm {
        let estimate = |value| {
            Some(Estimate {
                value,
                plus_minus: 0.0,
            })
        };
        DetectedAlgorithm {
            kind: DetectedKind::TokenBucket,
            alternatives: Vec::new(),
            rate: estimate(rate),
            burst: estimate(burst),
            window: None,
            clock_tick: None,
            limits: Vec::new(),
            delays: None,
            block: None,
            consistent: 9,
            answers: 9,
        }
    }

    fn answer(limit: Option<u64>, seconds: Option<u64>) -> Observation {
        Observation {
            sent_ns: 0,
            answered_ns: 1,
            connection: 0,
            key: 0,
            outcome: ProbeOutcome::Admitted,
            advertised: Advertised {
                limit,
                window: seconds.map(Duration::from_secs),
                ..Advertised::default()
            },
        }
    }

    #[test]
    fn the_most_at_once_and_the_time_in_which_it_comes_back_are_compared() {
        for (limit, seconds, burst, rate, expected) in [
            (20, None, 20.0, 100.0, true),
            (100, None, 20.0, 100.0, false),
            (20, Some(1), 20.0, 100.0, true),
            (20, Some(10), 20.0, 100.0, false),
            (60, Some(60), 60.0, 1.0, true),
            (60, Some(60), 60.0, 2.0, false),
            (60, Some(60), 60.0, 0.97, false),
            (100, Some(1), 1.0, 100.0, true),
            (100, Some(1), 20.0, 100.0, true),
            (100, Some(1), 20.0, 110.0, false),
            (12, Some(4), 10.0, 3.0, true),
            (1000, Some(1000), 10.0, 1.0, false),
        ] {
            let advertised =
                AdvertisedQuota::of(&[answer(Some(limit), seconds)], &found(burst, rate)).unwrap();
            assert_eq!(
                advertised.agrees,
                Some(expected),
                "{limit} {seconds:?} {burst} {rate}"
            );
        }
    }

    #[test]
    fn the_majority_says_what_is_told_and_silence_says_nothing() {
        let seen = [
            answer(Some(5), None),
            answer(None, Some(9)),
            answer(Some(20), None),
            answer(Some(20), None),
        ];
        let advertised = AdvertisedQuota::of(&seen, &found(20.0, 1.0)).unwrap();
        assert_eq!((advertised.limit, advertised.answers), (20, 2));
        assert_eq!(AdvertisedQuota::of(&seen[1..2], &found(20.0, 1.0)), None);
        let nothing_met = DetectedAlgorithm {
            kind: DetectedKind::Unlimited,
            rate: None,
            burst: None,
            ..found(20.0, 1.0)
        };
        assert_eq!(
            AdvertisedQuota::of(&seen, &nothing_met).unwrap().agrees,
            None
        );
        for kind in [DetectedKind::Unknown, DetectedKind::LeakyQueue] {
            let found = DetectedAlgorithm {
                kind,
                ..found(5.0, 1.0)
            };
            assert_eq!(AdvertisedQuota::of(&seen, &found).unwrap().agrees, None);
        }
    }
}
