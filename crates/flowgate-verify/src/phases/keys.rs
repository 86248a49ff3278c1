//! Do keys share a limit, and are they admitted alike?

use crate::fit::Fit;
use crate::inquiry::{Inquiry, Unreachable, count};
use crate::{KeyIsolation, Phase, Probe, ProbeOutcome};

/// Number of requests of each key under overload.
const EACH: u64 = 60;

/// Number of requests of each key that show whether two keys share a queue.
const FEWEST: u32 = 4;

/// Uses up the limit as one key, immediately sends as the next, and then as all of them.
pub(crate) fn keys(
    inquiry: &mut Inquiry<'_>,
    fit: &Fit,
    keys: u32,
) -> Result<Option<KeyIsolation>, Unreachable> {
    let model = fit.at_most();
    let rate = model.rate() / 1e9;
    let n = model.burst().ceil() as u64;
    if keys < 2 || 3 * n > inquiry.requests_left() {
        return Ok(None);
    }
    let connections = inquiry.connections_for(4.0 * rate);
    let from_ns = inquiry.now_ns();
    let used_up = inquiry.ask_in_burst(Phase::Keys, n + n / 4 + 2, connections, 0)?;
    if count(used_up, ProbeOutcome::Refused) == 0 {
        return Ok(None);
    }
    let answers = inquiry.ask_in_burst(Phase::Keys, n, connections, 1)?;
    if (answers.len() as u64) < n {
        // The rest might have been admitted.
        return Ok(None);
    }
    let admitted = count(answers, ProbeOutcome::Admitted) as f64;
    let came_back = rate * (inquiry.now_ns() - from_ns) as f64;
    let are_shared = admitted < 0.5 * n as f64 || admitted <= came_back;

    let each = EACH.min(inquiry.requests_left() / u64::from(keys));
    let gap = (1.0 / (3.0 * rate)).min(inquiry.time_left_ns() as f64 * 0.1 / each.max(1) as f64);
    let from = inquiry.now_ns() as f64 + 1.05 * model.memory();
    let connections = inquiry.connections_for(f64::from(keys) / gap);
    let probes = (0..each).flat_map(|turn| (0..keys).map(move |key| (turn, key)));
    let probes = probes
        .zip((0..connections).cycle())
        .map(|((turn, key), connection)| Probe {
            at_ns: (from + turn as f64 * gap) as u64,
            connection,
            key,
        });
    let answers = inquiry.ask(Phase::Keys, probes.collect())?;
    let is_whole = each > 0 && answers.len() as u64 == each * u64::from(keys);
    let mut got = vec![0.0; keys as usize];
    for seen in answers
        .iter()
        .filter(|seen| seen.outcome == ProbeOutcome::Admitted)
    {
        got[seen.key as usize] += 1.0;
    }
    Ok(Some(KeyIsolation {
        keys,
        are_shared,
        jain: is_whole.then(|| jain(&got)),
    }))
}

/// The same for a queue: two keys send concurrently. Separate queues move in parallel; a shared one takes twice as
/// long.
pub(crate) fn keys_of_queue(
    inquiry: &mut Inquiry<'_>,
    fit: &Fit,
    keys: u32,
) -> Result<Option<KeyIsolation>, Unreachable> {
    let interval = 1e9 / fit.model.rate();
    let each = (inquiry.connections() / 2).min(fit.model.burst() as u32);
    let alone = f64::from(each) * interval;
    let is_affordable = u64::from(2 * each) <= inquiry.requests_left()
        && 5.0 * alone < inquiry.time_left_ns() as f64;
    if keys < 2 || each < FEWEST || !is_affordable {
        return Ok(None);
    }
    let at = inquiry.now_ns() as f64 + 2.0 * alone;
    let probes = (0..2 * each).map(|connection| Probe {
        at_ns: at as u64,
        connection,
        key: connection % 2,
    });
    let answers = inquiry.ask(Phase::Keys, probes.collect())?;
    if answers.len() < 2 * each as usize {
        return Ok(None);
    }
    let admitted = answers
        .iter()
        .filter(|seen| seen.outcome == ProbeOutcome::Admitted);
    let mut got = [0.0; 2];
    let mut last_ns = 0;
    for seen in admitted {
        got[seen.key as usize] += 1.0;
        last_ns = last_ns.max(seen.answered_ns);
    }
    let is_full = count(answers, ProbeOutcome::Refused) > 0;
    Ok(Some(KeyIsolation {
        keys: 2,
        are_shared: is_full || last_ns as f64 - at > 1.5 * alone,
        jain: Some(jain(&got)),
    }))
}

/// Returns (Σx)² / n Σx²: 1 if all keys are equal or nothing was admitted, 1/n if one key got everything.
fn jain(got: &[f64]) -> f64 {
    let sum: f64 = got.iter().sum();
    let squares: f64 = got.iter().map(|x| x * x).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (got.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::inquiry::AnySubject;
    use crate::models::{Bucket, Model};
    use crate::{Budget, Question, Simulated};

    const RATE: f64 = 5.0;
    const BURST: f64 = 40.0;

    /// Returns the result for two keys with a bucket each, within this time.
    fn two_keys(time: Duration) -> Option<KeyIsolation> {
        let model = Model::Bucket(Bucket {
            interval: 1e9 / RATE,
            burst: BURST,
        });
        let fit = Fit::exactly(model);
        let mut buckets = [model.start(), model.start()];
        let decide = |asked: Question| buckets[asked.key as usize](asked.at_ns as f64).into();
        let mut subject = Simulated::new(decide).service(Duration::from_millis(50), 1);
        let budget = Budget {
            time,
            ..Budget::default()
        };
        let mut silent = |_: crate::ProbeProgress<'_>| ();
        let mut subject = AnySubject::new(&mut subject);
        let mut inquiry = Inquiry::new(&mut subject, budget, 32, &mut silent);
        keys(&mut inquiry, &fit, 2).expect("a simulated subject is reachable")
    }

    #[test]
    fn keys_that_are_apart_are_never_said_to_share_however_early_the_time_ends() {
        let found: Vec<_> = (1..=200)
            .map(|tenths| two_keys(Duration::from_millis(100 * tenths)))
            .collect();
        assert!(found.iter().flatten().all(|keys| !keys.are_shared));
        let jains: Vec<_> = found.iter().flatten().map(|keys| keys.jain).collect();
        let cut = jains.iter().take_while(|jain| jain.is_none()).count();
        assert!((50..150).contains(&cut), "the rest takes 8.4 s: {cut}");
        let is_alike = |jain: &Option<f64>| jain.is_some_and(|jain| jain > 0.95);
        assert!(jains[cut..].iter().all(is_alike), "{jains:?}");
    }

    #[test]
    fn alike_is_one_and_all_for_one_is_one_of_so_many() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[0.0, 9.0, 0.0]) - 1.0 / 3.0).abs() < 1e-12);
        assert!((jain(&[0.0, 0.0]) - 1.0).abs() < 1e-12);
    }
}
