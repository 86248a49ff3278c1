//! Is there a second, slower limit? Waits until something is admitted again, then sends less than the first limit admits.

use crate::inquiry::{Inquiry, Unreachable, count};
use crate::window_pairs::Usual;
use crate::{Observation, Phase, ProbeOutcome};

/// Number of parts of a gentle stream.
const PARTS: u64 = 6;

/// A second limit that admitted `n` requests before would refuse some of this many times as many.
const MORE: f64 = 1.3;

/// A part of a gentle stream of which less than this share is admitted is refused by something else.
const ADMITTED: f64 = 0.7;

/// The length of the first window is known this many times better after each row of requests that use it up, and the maximum number of
/// these.
const LOOKS: u32 = 6;
const ROWS: u32 = 3;

/// More refusals of a gentle stream than this do not come from the first limit.
const FEW: u64 = 2;

/// Sends requests at ever longer distances, the first after `first_ns`, until one is admitted. The distance is the share
/// `rarer` of the time so far. Returns whether one was admitted.
pub(crate) fn wait_for_admission(
    inquiry: &mut Inquiry<'_>,
    first_ns: f64,
    rarer: f64,
    until_ns: u64,
) -> Result<bool, Unreachable> {
    let from_ns = inquiry.now_ns();
    let mut at = from_ns as f64 + first_ns;
    while at < until_ns as f64 {
        let answers = inquiry.ask_at(Phase::Saturate, &[at], 1, 0)?;
        let Some(answer) = answers.first() else { break };
        if answer.outcome == ProbeOutcome::Admitted {
            return Ok(true);
        }
        let now_ns = inquiry.now_ns();
        at = now_ns as f64 + (now_ns - from_ns) as f64 * rarer;
    }
    Ok(false)
}

/// Uses the first limit up while the second one is not, and looks when it admits again: several times, if its length is known only
/// about. `usual` is what the record shows of it.
pub(crate) fn first_again(
    inquiry: &mut Inquiry<'_>,
    burst: f64,
    usual: impl Fn(&[Observation]) -> Option<Usual>,
) -> Result<(), Unreachable> {
    let n = burst as usize + 2;
    for row in 0..ROWS {
        let usual = usual(inquiry.record());
        let vague = usual.filter(|usual| usual.is_vague());
        if row > 0 && vague.is_none() {
            break;
        }
        // A refused request may have opened a window.
        let longest = usual.map_or(0.0, |usual| usual.lengths().1);
        let began_ns = inquiry.now_ns() as f64 + longest;
        inquiry.ask_at(Phase::Refill, &vec![began_ns; n], 1, 0)?;
        let Some((least, most)) = vague.map(Usual::lengths) else {
            break;
        };
        for look in 1..LOOKS {
            let at = began_ns + least + (most - least) * f64::from(look) / f64::from(LOOKS);
            let answers = inquiry.ask_at(Phase::Refill, &[at], 1, 0)?;
            if count(answers, ProbeOutcome::Admitted) > 0 {
                break;
            }
        }
    }
    Ok(())
}

/// What a stream below the rate of the first limit showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gentle {
    /// All was admitted, and more than a second limit would have admitted.
    Admitted,
    /// Something else refused.
    Refused,
    /// There was too little time.
    Cut,
}

/// Sends `rate` per nanosecond, until it is refused or more than `n` requests were admitted.
pub(crate) fn gently(
    inquiry: &mut Inquiry<'_>,
    rate: f64,
    n: u64,
    until_ns: u64,
) -> Result<Gentle, Unreachable> {
    let part = (n / PARTS).clamp(5, 60);
    let enough = (n as f64 * MORE) as u64 + 5;
    let connections = inquiry.connections_for(2.0 * rate);
    let (mut admitted, mut refused, mut slowed) = (0, 0, 0);
    while admitted <= enough {
        let at = inquiry.now_ns() as f64;
        let times: Vec<f64> = (1..=part).map(|k| at + k as f64 / rate).collect();
        if times.last().is_some_and(|last| *last >= until_ns as f64) {
            return Ok(Gentle::Cut);
        }
        let answers = inquiry.ask_at(Phase::Steady, &times, connections, 0)?;
        if (answers.len() as u64) < part {
            return Ok(Gentle::Cut);
        }
        let fits = count(answers, ProbeOutcome::Admitted);
        admitted += fits;
        refused += count(answers, ProbeOutcome::Refused);
        slowed += u32::from((fits as f64) < ADMITTED * part as f64);
        // Twice, so that the second limit is seen for a while.
        if fits == 0 || slowed == 2 {
            return Ok(Gentle::Refused);
        }
    }
    Ok(if slowed == 0 && refused <= FEW {
        Gentle::Admitted
    } else {
        Gentle::Refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inquiry::AnySubject;
    use crate::{Answer, Budget, ProbeProgress, Question, Simulated};

    /// Sends 50 at 100/s, of which those that `outcome` names by their number are answered otherwise than with an admission.
    fn stream(outcome: impl Fn(u64) -> ProbeOutcome) -> Gentle {
        let mut asked = 0;
        let mut subject = Simulated::new(|_: Question| {
            asked += 1;
            Answer {
                outcome: outcome(asked),
                ..true.into()
            }
        });
        let mut silent = |_: ProbeProgress<'_>| ();
        let mut subject = AnySubject::new(&mut subject);
        let mut inquiry = Inquiry::new(&mut subject, Budget::default(), 32, &mut silent);
        let until_ns = inquiry.end_ns();
        gently(&mut inquiry, 100.0 / 1e9, 50, until_ns).expect("a simulated subject is reachable")
    }

    #[test]
    fn failed_requests_of_a_gentle_stream_are_not_refusals() {
        let each_sixth = |other: ProbeOutcome| {
            stream(|number| match number % 6 {
                0 => other,
                _ => ProbeOutcome::Admitted,
            })
        };
        assert_eq!(each_sixth(ProbeOutcome::Failed), Gentle::Admitted);
        assert_eq!(each_sixth(ProbeOutcome::Refused), Gentle::Refused);
    }
}
