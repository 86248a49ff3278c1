//! How much of a steady stream is admitted below, at and above the rate?

use crate::fit::Fit;
use crate::inquiry::{Inquiry, Unreachable, count};
use crate::{Defect, Observation, Phase, ProbeOutcome, Steady};

const FACTORS: [f64; 4] = [0.9, 1.0, 1.1, 2.0];

/// Number of requests in a stream, if time and budget allow it.
const REQUESTS: f64 = 150.0;

/// Share of the remaining time that a stream may use.
const SHARE: f64 = 0.08;

/// A request that is sent this many distances late is not part of a steady stream: the machine or a response was late,
/// and several requests follow it in a burst.
const LATE: f64 = 3.0;

/// Returns the responses to requests that were sent less than `late_ns` after their time.
fn on_time(answers: &[Observation], times: &[f64], late_ns: f64) -> Vec<Observation> {
    let planned = answers.iter().zip(times);
    let on_time = planned.filter(|(seen, at)| seen.sent_ns as f64 <= **at + late_ns);
    on_time.map(|(seen, _)| seen.clone()).collect()
}

/// Offered twice the rate, admitting less than this share of what was admitted at the rate is a collapse.
const COLLAPSE: f64 = 0.8;

/// Fewer admissions than this show no collapse.
const FEW: f64 = 10.0;

/// Returns whether less is admitted at twice the rate than at the rate. Sends both again: a second, slower limit that is
/// used up refuses both.
pub(crate) fn collapse(
    inquiry: &mut Inquiry<'_>,
    fit: &Fit,
    streams: &[Steady],
) -> Result<Option<Defect>, Unreachable> {
    let is_less = |at: &Steady, twice: &Steady| {
        let admitted = at.admitted * at.requests as f64 / at.offered;
        admitted >= FEW && twice.admitted < COLLAPSE * at.admitted
    };
    let [_, at, _, twice] = streams else {
        return Ok(None);
    };
    if !is_less(at, twice) {
        return Ok(None);
    }
    Ok(match streams_at(inquiry, fit, &[1.0, 2.0])?[..] {
        [at, twice] if is_less(&at, &twice) => Some(Defect::Collapse {
            offered: twice.offered,
            admitted: twice.admitted,
            of: at.admitted,
        }),
        _ => None,
    })
}

/// Sends steady streams at 0.9 to 2 times the rate, each after a rest in which everything refills. Skips them if there
/// is too little time.
pub(crate) fn steady(inquiry: &mut Inquiry<'_>, fit: &Fit) -> Result<Vec<Steady>, Unreachable> {
    streams_at(inquiry, fit, &FACTORS)
}

fn streams_at(
    inquiry: &mut Inquiry<'_>,
    fit: &Fit,
    factors: &[f64],
) -> Result<Vec<Steady>, Unreachable> {
    let rate = fit.model.rate() / 1e9;
    let longest = inquiry.time_left_ns() as f64 * SHARE;
    let rest = fit.model.memory();
    let mut streams = Vec::new();
    if rest > longest {
        return Ok(streams);
    }
    let mut at = inquiry.now_ns() as f64 + rest;
    for factor in factors {
        let offered = factor * rate;
        let wanted = (REQUESTS * factor).max(offered * fit.model.window().unwrap_or(0.0) * 1.2);
        let n = wanted
            .min(offered * longest)
            .min(inquiry.requests_left() as f64 / 8.0);
        let times: Vec<f64> = (0..n as u64).map(|k| at + k as f64 / offered).collect();
        let connections = inquiry.connections_for(offered);
        let answers = inquiry.ask_at(Phase::Steady, &times, connections, 0)?;
        let steadily = on_time(answers, &times, LATE / offered);
        let requests = steadily.len() as u64;
        if requests < 3 || 2 * steadily.len() < answers.len() {
            break;
        }
        let admitted = count(&steadily, ProbeOutcome::Admitted);
        streams.push(Steady {
            offered: offered * 1e9,
            admitted: admitted as f64 * offered * 1e9 / requests as f64,
            requests,
        });
        at = (at + n / offered).max(inquiry.now_ns() as f64);
    }
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inquiry::AnySubject;
    use crate::models::{Model, OnRequest};
    use crate::{Budget, Simulated};

    /// Returns the streams through a window of `seconds` that is full at the start, within one minute.
    fn streams(seconds: f64) -> Vec<Steady> {
        let model = Model::OnRequest(OnRequest {
            limit: 45.0,
            window: seconds * 1e9,
        });
        let fit = Fit::exactly(model);
        let mut decide = model.start();
        let mut subject = Simulated::new(|asked| decide(asked.at_ns as f64).into());
        let mut silent = |_: crate::ProbeProgress<'_>| ();
        let mut subject = AnySubject::new(&mut subject);
        let mut inquiry = Inquiry::new(&mut subject, Budget::default(), 32, &mut silent);
        let asked = inquiry.ask_in_burst(Phase::Burst, 46, 1, 0);
        asked.expect("a simulated subject is reachable");
        steady(&mut inquiry, &fit).expect("a simulated subject is reachable")
    }

    #[test]
    fn no_stream_is_sent_to_one_that_has_no_time_to_be_whole_again() {
        assert_eq!(streams(10.0), []);
        let in_time = streams(4.0);
        assert_eq!(in_time.len(), FACTORS.len());
        let below = in_time[0];
        assert!(below.admitted > 0.99 * below.offered, "{below:?}");
    }
}
