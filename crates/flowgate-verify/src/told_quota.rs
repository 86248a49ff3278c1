//! What answers say the limit is, against what it is.

use crate::conclusion::{BURST_OFF, RATE_OFF, agrees};
use crate::{Kind, Likeness, Observation, Told, ToldQuota};

impl ToldQuota {
    /// What most of the answers that say something of the limit say. `None` if none does.
    pub(crate) fn of(record: &[Observation], likeness: &Likeness) -> Option<Self> {
        let mut said: Vec<(u64, Told)> = Vec::new();
        for told in record.iter().map(|seen| seen.told) {
            if told.limit.is_none() {
                continue;
            }
            let is_same = |other: &Told| other.limit == told.limit && other.window == told.window;
            match said.iter().position(|(_, other)| is_same(other)) {
                Some(index) => said[index].0 += 1,
                // A server that says something else each time says nothing.
                None if said.len() < MOST => said.push((1, told)),
                None => {}
            }
        }
        let (answers, told) = said.into_iter().max_by_key(|(answers, _)| *answers)?;
        let (limit, window) = (told.limit?, told.window.map(|window| window.as_secs_f64()));
        Some(Self {
            limit,
            window,
            answers,
            agrees: agree(limit as f64, window, likeness),
        })
    }
}

/// Different quotas that are counted.
const MOST: usize = 16;

/// Whether `limit` is the burst, and as much comes back in about `window` seconds. A larger `limit` agrees if it is what comes
/// back in `window` seconds: a burst that flows in within part of a second is written so, as fields have whole seconds.
/// `None` if that is not known, or for a queue, where requests wait that other limiters would refuse.
fn agree(limit: f64, window: Option<f64>, likeness: &Likeness) -> Option<bool> {
    if matches!(likeness.kind, Kind::Unknown | Kind::LeakyQueue) {
        return None;
    }
    // Where no limit was met, it may not have been reached.
    let (burst, rate) = (likeness.burst?, likeness.rate?);
    let is_limit = agrees(burst, limit, BURST_OFF * limit + 1.0);
    let is_window = window.is_none_or(|window| {
        // Told in whole seconds, which may be rounded either way.
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

/// The longest window, in seconds, in which more than the burst is expected. Without a bound, any burst would agree with
/// the quota of a day.
const MOST_SCALED: f64 = 200.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Estimate, Outcome};

    fn found(burst: f64, rate: f64) -> Likeness {
        let estimate = |value| {
            Some(Estimate {
                value,
                plus_minus: 0.0,
            })
        };
        Likeness {
            kind: Kind::TokenBucket,
            or: Vec::new(),
            rate: estimate(rate),
            burst: estimate(burst),
            window: None,
            clock_tick: None,
            explained: 9,
            of: 9,
        }
    }

    fn answer(limit: Option<u64>, seconds: Option<u64>) -> Observation {
        Observation {
            sent_ns: 0,
            answered_ns: 1,
            lane: 0,
            key: 0,
            outcome: Outcome::Admitted,
            told: Told {
                limit,
                window: seconds.map(Duration::from_secs),
                ..Told::default()
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
            let told = ToldQuota::of(&[answer(Some(limit), seconds)], &found(burst, rate)).unwrap();
            assert_eq!(
                told.agrees,
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
        let told = ToldQuota::of(&seen, &found(20.0, 1.0)).unwrap();
        assert_eq!((told.limit, told.answers), (20, 2));
        assert_eq!(ToldQuota::of(&seen[1..2], &found(20.0, 1.0)), None);
        let nothing_met = Likeness {
            kind: Kind::Unlimited,
            rate: None,
            burst: None,
            ..found(20.0, 1.0)
        };
        assert_eq!(ToldQuota::of(&seen, &nothing_met).unwrap().agrees, None);
        for kind in [Kind::Unknown, Kind::LeakyQueue] {
            let found = Likeness {
                kind,
                ..found(5.0, 1.0)
            };
            assert_eq!(ToldQuota::of(&seen, &found).unwrap().agrees, None);
        }
    }
}
