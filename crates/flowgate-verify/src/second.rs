//! Is there a second, slower limit? Or does the limiter ban, or collapse under load?

use std::ops::Range;

use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::fit::{Fit, Hints, fits};
use crate::hints::hints;
use crate::inquiry::{Inquiry, Unreachable, count};
use crate::models::{Together, TwoLimits, left_by};
use crate::phases::{Gentle, first_again, gently, wait_for_admission};
use crate::window_pairs::{counting_refused, usual};
use crate::{Alignment, DetectedKind, Observation, ProbeOutcome};

/// Share of the remaining time in which the second limit is looked for.
const SHARE: f64 = 0.9;

/// Share of the first limit's rate that a gentle stream offers: if that rate is known, and if it is a guess.
const GENTLE: f64 = 0.8;
const GENTLE_GUESS: f64 = 0.4;

/// Share of it that a gentle stream offers at most.
const NEARLY: f64 = 0.95;

/// A stream that excludes a second limit offers this many times its highest rate.
const FASTER: f64 = 1.2;

/// Number of times that the second limit is used up.
const CYCLES: u32 = 3;

/// Number and share of the responses that two limits may leave unexplained.
const MARGIN: u64 = 2;
const MARGIN_SHARE: f64 = 0.002;

/// Number of responses that two limits must explain, as they have four numbers.
const FEWEST: u64 = 100;

/// Number of refusals that the second limit alone must explain.
const REFUSALS: u64 = 5;

/// The second limit has less than this share of the first one's rate.
pub(crate) const SLOWER: f64 = 0.9;

/// Number of estimates of the second rate that are tried, and the smallest factor between two.
const RATES: usize = 5;
const RATES_APART: f64 = 1.04;

/// Number of these that are tried for windows on the clock, which take longer.
const ON_CLOCK_RATES: usize = 3;

/// While nothing is admitted, the next request follows after this share of the time without admissions: the first time, and
/// once it is known that the silence ends.
const RARER: f64 = 0.1;
const RARER_AGAIN: f64 = 0.03;

/// Two limits with their parameters.
#[derive(Clone, Debug)]
pub(crate) struct TwoFits {
    /// Each kind of the first limit that explains about as much, best first.
    pub(crate) fast: Vec<Fit>,
    /// The same of the second limit.
    pub(crate) slow: Vec<Fit>,
    /// How two windows decide. `None` of two limits of which each counts what both admit.
    pub(crate) together: Option<Together>,
    pub(crate) unexplained: u64,
    /// Number of conclusive responses.
    pub(crate) of: u64,
}

/// What the limiter did after it had stopped to admit anything.
#[derive(Clone, Debug)]
pub(crate) enum Second {
    /// A second limit explains it.
    Two(Box<TwoFits>),
    /// Nothing was admitted for this many nanoseconds.
    Nothing(u64),
    /// It admits again after a rest, and more than a second limit would. `soon`: after the first rest.
    Excluded { soon: bool },
    /// A second limit is neither certain nor excluded.
    Open,
}

/// Where the record shows what.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The measurement of the burst.
    pub(crate) first: Range<usize>,
    /// Start of the stream of more than the rate.
    pub(crate) stream: usize,
    /// Rate per nanosecond, within a factor of two.
    pub(crate) rough: f64,
    pub(crate) clock: Clock,
}

impl Places {
    fn in_whole_milliseconds(&self) -> Self {
        Self {
            clock: Clock::WHOLE_MILLISECONDS,
            ..self.clone()
        }
    }
}

/// Waits until an exhausted limiter admits again, and finds out why it had stopped. It stopped before the response `dry`.
pub(crate) fn second(
    inquiry: &mut Inquiry<'_>,
    places: &Places,
    burst: f64,
    dry: usize,
) -> Result<Second, Unreachable> {
    let asked = inquiry.record().len();
    let until_ns = inquiry.now_ns() + (inquiry.time_left_ns() as f64 * SHARE) as u64;
    let n = until_silence(&inquiry.record()[..dry]);
    let first_ns = first_wait_ns(burst, places);
    let since_ns = inquiry.record().iter().rev();
    let mut since_ns = since_ns.filter(|seen| seen.outcome == ProbeOutcome::Admitted);
    let since_ns = since_ns.next().map_or(0, |seen| seen.answered_ns);
    if !wait_for_admission(inquiry, first_ns, RARER, until_ns)? {
        let asked_ns = inquiry.record().last().map_or(0, |seen| seen.sent_ns);
        return Ok(Second::Nothing(asked_ns.saturating_sub(since_ns)));
    }
    let soon = inquiry.record().len() == asked + 1;
    let silent = &inquiry.record()[..inquiry.record().len() - 1];
    let refill_ns = burst / places.rough;
    let most = most_of_a_second_limit(&silent[..dry], silent, refill_ns);
    let alone = &inquiry.record()[..dry];
    let first = single(alone, places);
    let first = first.or_else(|| single(alone, &places.in_whole_milliseconds()));
    let first = first.map(|fit| fit.model.rate() / 1e9);
    let usual = || usual(inquiry.record(), places, Some(burst)).map(|usual| usual.rate());
    let first = first.or_else(usual);
    let mut rate = 0.0;
    for most in most {
        if rate >= FASTER * most {
            continue;
        }
        rate = match first {
            Some(first) => (FASTER * most).clamp(GENTLE * first, NEARLY * first),
            None => (GENTLE_GUESS * places.rough).max(FASTER * most),
        };
        match gently(inquiry, rate, n, until_ns)? {
            Gentle::Admitted if rate >= FASTER * most => {}
            Gentle::Admitted | Gentle::Cut => return Ok(Second::Open),
            Gentle::Refused => return used_up_again(inquiry, places, burst, (rate, n), until_ns),
        }
    }
    Ok(Second::Excluded { soon })
}

/// Uses the second limit up again, with `n` requests or more at `rate`, and returns what explains the record then.
fn used_up_again(
    inquiry: &mut Inquiry<'_>,
    places: &Places,
    burst: f64,
    (rate, n): (f64, u64),
    until_ns: u64,
) -> Result<Second, Unreachable> {
    let first_ns = first_wait_ns(burst, places);
    for _ in 1..CYCLES {
        if !wait_for_admission(inquiry, first_ns, RARER_AGAIN, until_ns)? {
            break;
        }
        // Meanwhile the first limit has recovered: another look at it.
        first_again(inquiry, burst, |record| usual(record, places, Some(burst)))?;
        if gently(inquiry, rate, n, until_ns)? != Gentle::Refused {
            break;
        }
    }
    let two = two_limits(inquiry.record(), places);
    let two = two.or_else(|| counting_refused(inquiry.record(), places, burst));
    Ok(two.map_or(Second::Open, |two| Second::Two(Box::new(two))))
}

/// Returns the number of requests until nothing was admitted any more. A second limit may count those that were refused, too.
fn until_silence(record: &[Observation]) -> u64 {
    let is_admitted = |seen: &Observation| seen.outcome == ProbeOutcome::Admitted;
    let last = record.iter().rposition(is_admitted);
    last.map_or(0, |last| last as u64 + 1)
}

/// Returns how long nothing may be admitted before it is asked again, in nanoseconds.
fn first_wait_ns(burst: f64, places: &Places) -> f64 {
    (2.2 * burst / places.rough).max(1e9)
}

/// Returns the highest rates per nanosecond of a second limit that explains why nothing is admitted any more: the last requests that it
/// counts, whatever their number, and the silence after them.
///
/// The first rate is that of a limit that counts what it admits, until the end of `dry`. The second one is that of a limit that counts
/// everything, until the end of `silent`. Until it was used up, the first limit admitted something within `refill_ns`.
fn most_of_a_second_limit(dry: &[Observation], silent: &[Observation], refill_ns: f64) -> [f64; 2] {
    let is_admitted = |seen: &&Observation| seen.outcome == ProbeOutcome::Admitted;
    let last_ns = dry
        .iter()
        .rev()
        .find(is_admitted)
        .map_or(0, |seen| seen.sent_ns);
    let until_ns = last_ns + refill_ns as u64;
    let all = silent.iter().rev().filter(|seen| seen.sent_ns <= until_ns);
    [
        most_until(dry.iter().rev().filter(is_admitted), dry.last()),
        most_until(all, silent.last()),
    ]
}

/// Returns the highest rate of the last n requests until the silence ends, whatever n is.
fn most_until<'a>(
    counted: impl Iterator<Item = &'a Observation>,
    last: Option<&Observation>,
) -> f64 {
    let last_ns = last.map_or(0, |seen| seen.sent_ns);
    let rates = counted
        .zip(1_u32..)
        .map(|(first, n)| f64::from(n) / last_ns.saturating_sub(first.answered_ns).max(1) as f64);
    rates.fold(0.0, f64::max)
}

/// Returns two limits that explain all responses together, if one limit explains those up to a time. Their clock may have whole
/// milliseconds.
pub(crate) fn two_limits(record: &[Observation], places: &Places) -> Option<TwoFits> {
    let exactly = two_limits_on_clock(record, places);
    exactly.or_else(|| two_limits_on_clock(record, &places.in_whole_milliseconds()))
}

fn two_limits_on_clock(record: &[Observation], places: &Places) -> Option<TwoFits> {
    let evidence = Evidence::on(places.clock, record);
    let mut best: Option<TwoFits> = None;
    for mut fast in alone(record, places) {
        // The first limit, the second one by what the first one leaves, and the first one again by all the rest.
        for _ in 0..2 {
            let slow = slow_fits(record, places, &fast);
            let Some(second) = slow.first().copied() else {
                break;
            };
            let rest = left_by(&second.model, places.clock, record);
            let first = refit(&rest, places, &fast);
            let (_, first) = best_with(first, &second, &evidence);
            fast = first.first().copied().unwrap_or(fast);
            let (unexplained, slow) = best_with(slow, &fast, &evidence);
            if best
                .as_ref()
                .is_none_or(|best| unexplained < best.unexplained)
            {
                best = Some(TwoFits {
                    fast: if first.is_empty() { vec![fast] } else { first },
                    slow,
                    together: None,
                    unexplained,
                    of: evidence.len(),
                });
            }
            if unexplained == 0 {
                break;
            }
        }
        if best.as_ref().is_some_and(|best| best.unexplained == 0) {
            break;
        }
    }
    let mut two = best.filter(|two| is_certain(two, record, places))?;
    add_windows_on_the_clock(&mut two, record, places, &evidence);
    Some(two)
}

/// Adds windows on the clock that explain as much as simpler kinds do.
fn add_windows_on_the_clock(
    two: &mut TwoFits,
    record: &[Observation],
    places: &Places,
    evidence: &Evidence,
) {
    let most = two.unexplained + MARGIN;
    let is_missing = |fits: &[Fit]| fits.iter().all(|fit| !is_on_clock(fit.kind()));
    let (Some(fast), Some(slow)) = (two.fast.first().copied(), two.slow.first().copied()) else {
        return;
    };
    if is_missing(&two.slow) && slow.window.is_some() {
        let left = left_by(&fast.model, places.clock, record);
        let spells = spells(&left);
        let rates = rates(&spells, &left).into_iter().take(ON_CLOCK_RATES);
        let found = rates.filter_map(|rate| {
            let hints = about(&left, places, rate, vec![slow.burst.value]);
            let found = fits(&Evidence::on(places.clock, &left), &hints, is_on_clock);
            found.into_iter().next()
        });
        let (score, found) = best_with(found.collect(), &fast, evidence);
        two.slow
            .extend(found.into_iter().take(1).filter(|_| score <= most));
    }
    if is_missing(&two.fast) && fast.window.is_some() {
        let rest = left_by(&slow.model, places.clock, record);
        let hints = about(&rest, places, fast.rate.value / 1e9, vec![fast.burst.value]);
        let found = fits(&Evidence::on(places.clock, &rest), &hints, is_on_clock);
        let (score, found) = best_with(found, &slow, evidence);
        two.fast
            .extend(found.into_iter().take(1).filter(|_| score <= most));
    }
}

/// Returns the fewest unexplained responses of one of `fits` and another limit, and the fits that leave about as few.
fn best_with(fits: Vec<Fit>, other: &Fit, evidence: &Evidence) -> (u64, Vec<Fit>) {
    let scored = fits.into_iter().map(|fit| {
        let both = TwoLimits {
            one: fit.model,
            other: other.model,
        };
        (both.unexplained(evidence), fit)
    });
    let mut scored: Vec<(u64, Fit)> = scored.collect();
    scored.sort_by_key(|(unexplained, _)| *unexplained);
    let least = scored.first().map_or(u64::MAX, |(least, _)| *least);
    let is_as_good = |scored: &(u64, Fit)| scored.0 <= least + MARGIN;
    let as_good = scored.into_iter().filter(is_as_good);
    (least, as_good.map(|(_, fit)| fit).collect())
}

/// Returns whether two limits explain nearly everything, and the second one enough on its own.
fn is_certain(two: &TwoFits, record: &[Observation], places: &Places) -> bool {
    let (Some(fast), Some(slow)) = (two.fast.first(), two.slow.first()) else {
        return false;
    };
    let left = left_by(&fast.model, places.clock, record);
    let is_explained = two.unexplained <= margin(two.of) && is_enough(two.of);
    let is_seen = count(&left, ProbeOutcome::Refused) >= REFUSALS + two.unexplained;
    let is_slower =
        slow.rate.value < SLOWER * fast.rate.value && slow.burst.value >= fast.burst.value;
    is_explained && is_seen && is_slower
}

/// Returns how many of `of` responses two limits may leave unexplained.
pub(crate) fn margin(of: u64) -> u64 {
    MARGIN.max((of as f64 * MARGIN_SHARE) as u64)
}

/// Returns whether the number of responses suffices for two limits.
pub(crate) fn is_enough(of: u64) -> bool {
    of > FEWEST
}

/// Returns limits that alone explain a prefix of the record. The second limit shows later than the first; where is not known.
fn alone(record: &[Observation], places: &Places) -> impl Iterator<Item = Fit> {
    let parts = [1.0, 0.75, 0.5, 0.35, 0.25, 0.17, 0.12];
    parts.into_iter().filter_map(|part| {
        let size = ((record.len() as f64 * part) as usize).max(places.first.end);
        single(&record[..size], places)
    })
}

/// Returns the limit that alone explains a prefix of the record, if one does.
fn single(prefix: &[Observation], places: &Places) -> Option<Fit> {
    let stream = &prefix[places.stream.min(prefix.len())..];
    let first = &prefix[places.first.clone()];
    let found = hints(first, stream, prefix, 0, places.rough, places.clock);
    let rate = found.rate.max(places.rough);
    let with_pauses = found.with_pauses.min(places.rough / 2.0);
    let wide = Hints {
        rate,
        with_pauses,
        ..found.clone()
    };
    let evidence = Evidence::on(places.clock, prefix);
    let best = |hints: &Hints, wanted: fn(DetectedKind) -> bool| {
        let found = fits(&evidence, hints, wanted).into_iter().next();
        found.filter(|fit| fit.explains_all())
    };
    best(&found, is_simple)
        .or_else(|| best(&wide, is_simple))
        .or_else(|| best(&found, is_on_clock))
}

fn is_simple(kind: DetectedKind) -> bool {
    matches!(
        kind,
        DetectedKind::TokenBucket
            | DetectedKind::FixedWindow(Alignment::FirstRequest)
            | DetectedKind::SlidingLog
    )
}

fn is_on_clock(kind: DetectedKind) -> bool {
    kind == DetectedKind::FixedWindow(Alignment::Clock)
}

/// Fits first limits to the refusals that the second one does not explain, best first.
fn refit(rest: &[Observation], places: &Places, known: &Fit) -> Vec<Fit> {
    let hints = about(
        rest,
        places,
        known.rate.value / 1e9,
        vec![known.burst.value],
    );
    let evidence = Evidence::on(places.clock, rest);
    let mut found = fits(&evidence, &hints, is_simple);
    if !found.first().is_some_and(Fit::explains_all) {
        found.extend(fits(&evidence, &hints, is_on_clock));
        found.sort_by_key(|fit| fit.unexplained);
    }
    found
}

/// Fits second limits to the refusals that the first one does not explain, best first.
fn slow_fits(record: &[Observation], places: &Places, fast: &Fit) -> Vec<Fit> {
    let left = left_by(&fast.model, places.clock, record);
    let spells = spells(&left);
    let evidence = Evidence::on(places.clock, &left);
    let mut found: Vec<Fit> = Vec::new();
    for rate in rates(&spells, &left) {
        let hints = about(&left, places, rate, bursts(&spells, rate));
        for wanted in [is_simple, is_on_clock] {
            found.extend(fits(&evidence, &hints, wanted));
            if found.iter().any(|fit| fit.unexplained == 0) {
                break;
            }
        }
    }
    found.retain(|fit| fit.rate.value < fast.rate.value);
    found.sort_by_key(|fit| fit.unexplained);
    // The best of each kind.
    let mut kinds = Vec::new();
    found.retain(|fit| {
        let is_new = !kinds.contains(&fit.kind());
        kinds.push(fit.kind());
        is_new
    });
    found
}

/// Admissions until one is refused, until one is admitted again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spell {
    pub(crate) began_ns: u64,
    pub(crate) admitted: u64,
    pub(crate) refused_ns: Option<u64>,
    /// When a request was admitted again.
    pub(crate) back_ns: Option<u64>,
}

pub(crate) fn spells(left: &[Observation]) -> Vec<Spell> {
    let mut spells: Vec<Spell> = Vec::new();
    let mut is_dry = true;
    for seen in left {
        match seen.outcome {
            ProbeOutcome::Admitted if is_dry => {
                if let Some(last) = spells.last_mut() {
                    last.back_ns = Some(seen.sent_ns);
                }
                spells.push(Spell {
                    began_ns: seen.sent_ns,
                    admitted: 1,
                    refused_ns: None,
                    back_ns: None,
                });
                is_dry = false;
            }
            ProbeOutcome::Admitted => {
                if let Some(last) = spells.last_mut() {
                    last.admitted += 1;
                }
            }
            ProbeOutcome::Refused => {
                is_dry = true;
                if let Some(last) = spells.last_mut() {
                    last.refused_ns.get_or_insert(seen.sent_ns);
                }
            }
            ProbeOutcome::Failed => {}
        }
    }
    spells
}

/// Returns the numbers that the second limit of this rate per nanosecond may admit in a burst.
fn bursts(spells: &[Spell], rate: f64) -> Vec<f64> {
    let first = spells.first().map(|first| first.admitted);
    let most = spells.iter().map(|spell| spell.admitted).max();
    let later = spells.iter().skip(1).map(|spell| spell.admitted).max();
    let all = [first, most, later];
    let all = all.into_iter().flatten().map(|n| n as f64);
    // A bucket is refilled meanwhile.
    let refilled = spells.iter().take(1).filter_map(|first| {
        let took_ns = first.refused_ns?.saturating_sub(first.began_ns);
        Some(first.admitted as f64 - rate * took_ns as f64)
    });
    all.chain(refilled.filter(|burst| *burst >= 1.0)).collect()
}

/// Returns estimates of the second rate, per nanosecond.
fn rates(spells: &[Spell], left: &[Observation]) -> Vec<f64> {
    let most = spells.iter().map(|spell| spell.admitted).max().unwrap_or(0);
    let mut rates = Vec::new();
    let large = spells.iter().filter(|spell| 2 * spell.admitted > most);
    let backs: Vec<(u64, u64)> = large
        .clone()
        .filter_map(|spell| Some((spell.began_ns, spell.back_ns?)))
        .collect();
    // From one end to the next, and from the first admission to the end.
    let ends = backs
        .windows(2)
        .map(|pair| pair[1].1.saturating_sub(pair[0].1));
    let whole = backs
        .iter()
        .map(|(began, back)| back.saturating_sub(*began));
    rates.extend(
        ends.chain(whole)
            .map(|took| most as f64 / took.max(1) as f64),
    );
    // A bucket: everything after the first refusal.
    let refused = left
        .iter()
        .position(|seen| seen.outcome == ProbeOutcome::Refused);
    if let (Some(refused), Some(last)) = (refused, left.last()) {
        let later = count(&left[refused..], ProbeOutcome::Admitted) as f64;
        let took = last.sent_ns.saturating_sub(left[refused].sent_ns).max(1);
        rates.push(later / took as f64);
    }
    let mut kept: Vec<f64> = Vec::new();
    for rate in rates.into_iter().filter(|rate| *rate > 0.0) {
        let is_near = |other: &f64| (rate / other).max(other / rate) < RATES_APART;
        if !kept.iter().any(is_near) {
            kept.push(rate);
        }
    }
    kept.truncate(RATES);
    kept
}

/// Returns hints for a rate per nanosecond that is known within a third.
fn about(seen: &[Observation], places: &Places, rate: f64, bursts: Vec<f64>) -> Hints {
    let first = &seen[..places.first.end.min(seen.len())];
    let found = hints(first, &[], seen, 0, rate, places.clock);
    Hints {
        rate: rate * 1.1,
        with_pauses: rate / 1.3,
        bursts,
        ..found
    }
}
