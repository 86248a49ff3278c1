//! First estimates of rate and burst, from which the search starts.

use crate::Observation;
use crate::ProbeOutcome::{Admitted, Refused};
use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::fit::Hints;
use crate::inquiry::count;

/// If more than this share of the burst refills during the burst itself, the burst size is vague.
pub(crate) const BLURRED: f64 = 0.1;

/// Number of burst refill times that the first part of a record spans: enough to show where windows begin.
const FIRST_BURSTS: f64 = 4.0;

/// Minimum number of responses in a part.
const LEAST: usize = 60;

/// Parts of up to this many responses are short.
const SHORT: u64 = 1_500;

/// A stream stands still if the next request comes after this many times the mean distance.
const PAUSE: f64 = 8.0;

/// Fewer admissions than this without a pause show no rate.
const ENOUGH: f64 = 20.0;

/// Derives estimates from the batches that measured the burst, and from a stream of more than the rate.
///
/// `rest` is the index in `all` of a burst after a rest. `rough` is a rate per nanosecond, used if the stream is too
/// short to show a rate. `clock` is the clock that the limiter reads.
pub(crate) fn hints(
    first: &[Observation],
    stream: &[Observation],
    all: &[Observation],
    rest: usize,
    rough: f64,
    clock: Clock,
) -> Hints {
    let (at_once, took) = at_once(first);
    let (rate, with_pauses) = rates_of(stream, at_once).unwrap_or((rough, rough));
    let least = (at_once - rate * took).max(at_once / 4.0).max(1.0);
    let mut bursts = vec![at_once, least];
    // A request that was sent later may have been decided earlier.
    let all_of_it = count(first, Admitted) as f64;
    bursts.extend([0.5, 1.0].map(|part| (at_once + part * (all_of_it - at_once)).round()));
    if rate * took > BLURRED * at_once {
        // Windows may have started meanwhile.
        bursts.extend([0.5, 0.6, 0.7, 0.8, 0.9].map(|part| part * at_once));
    }
    bursts.extend(
        clumps(stream)
            .into_iter()
            .filter(|clump| (0.5 * least..at_once).contains(clump)),
    );
    // Two counters admit a smaller burst if the previous window still counts.
    bursts.extend((rest > 0).then(|| self::at_once(&all[rest..]).0));
    let first_ns = FIRST_BURSTS * at_once / rate;
    let all_parts = parts(clock, all, first_ns);
    let mut parts = parts(clock, &all[rest..], first_ns);
    let short = parts.iter().filter(|part| part.len() <= SHORT).count();
    if rest > 0 {
        parts.extend(all_parts.last().cloned());
    }
    Hints {
        rate,
        with_pauses: with_pauses.min(rate),
        bursts,
        numbers: None,
        parts,
        all_parts,
        short: short.max(1),
    }
}

/// Returns prefixes: the first of about this length, each next one twice as long.
fn parts(clock: Clock, seen: &[Observation], first_ns: f64) -> Vec<Evidence> {
    let until = seen
        .first()
        .map_or(0.0, |first| first.sent_ns as f64 + first_ns);
    let mut size = seen
        .partition_point(|seen| (seen.sent_ns as f64) < until)
        .max(LEAST);
    let mut parts = Vec::new();
    while size < seen.len() {
        parts.push(Evidence::on(clock, &seen[..size]));
        size *= 2;
    }
    parts.push(Evidence::on(clock, seen));
    parts
}

/// Returns the number of admissions before the first refusal, and how long they took.
pub(crate) fn at_once(first: &[Observation]) -> (f64, f64) {
    let refused = first.iter().position(|seen| seen.outcome == Refused);
    let until = &first[..refused.unwrap_or(first.len())];
    let took = match (until.first(), until.last()) {
        (Some(first), Some(last)) => last.answered_ns.saturating_sub(first.sent_ns) as f64,
        _ => 0.0,
    };
    (count(until, Admitted).max(1) as f64, took)
}

/// Returns the admissions per nanosecond between times at which the limiter began to admit again: without pauses of the
/// stream, and with them.
///
/// A pause is long enough to refill half of `burst`, and the limiter may have admitted less than its rate meanwhile.
/// Without pauses the rate may be too high, because what refilled is admitted after each.
fn rates_of(stream: &[Observation], burst: f64) -> Option<(f64, f64)> {
    let (admitted, took) = admitted_between_openings(stream)?;
    let requests_ns = took_to_send(stream) / stream.len() as f64;
    let half_ns = burst / 2.0 * took / admitted;
    let longest_ns = half_ns.max(PAUSE * requests_ns);
    let pieces = stream.chunk_by(|a, b| (b.sent_ns.saturating_sub(a.sent_ns) as f64) <= longest_ns);
    let measured = pieces.filter_map(admitted_between_openings);
    let (n, ns) = measured.fold((0.0, 0.0), |(n, ns), piece| (n + piece.0, ns + piece.1));
    let with_pauses = admitted / took;
    Some(if n >= ENOUGH {
        (n / ns, with_pauses)
    } else {
        (with_pauses, with_pauses)
    })
}

/// Returns the number of admissions from the first time at which the limiter began to admit again to the last, and the
/// time between.
fn admitted_between_openings(stream: &[Observation]) -> Option<(f64, f64)> {
    let openings: Vec<usize> = (1..stream.len())
        .filter(|index| stream[index - 1].outcome == Refused && stream[*index].outcome == Admitted)
        .collect();
    let between = &stream[*openings.first()?..=*openings.last()?];
    let admitted = count(&between[..between.len() - 1], Admitted) as f64;
    let took = took_to_send(between);
    (admitted > 0.0 && took > 0.0).then_some((admitted, took))
}

/// Returns the time from the first request to the last, in nanoseconds.
fn took_to_send(seen: &[Observation]) -> f64 {
    match seen {
        [first, .., last] => last.sent_ns.saturating_sub(first.sent_ns) as f64,
        _ => 0.0,
    }
}

/// Returns the median and the maximum length of the runs of admissions between refusals.
fn clumps(stream: &[Observation]) -> Vec<f64> {
    let runs = stream.split(|seen| seen.outcome == Refused).map(<[_]>::len);
    let mut runs: Vec<usize> = runs.filter(|run| *run > 0).collect();
    runs.sort_unstable();
    let chosen = [runs.get(runs.len() / 2), runs.last()];
    chosen
        .into_iter()
        .flatten()
        .map(|run| *run as f64)
        .collect()
}
