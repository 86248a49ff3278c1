//! From the first request to an algorithm with its parameters.

use std::ops::Range;

use fastrand::Rng;

use crate::advertised::Told;
use crate::blocks::{Blocks, block, open_block};
use crate::clock::{Clock, clocks};
use crate::conclusion::ExpectedNumbers;
use crate::counting::{counting, counting_any};
use crate::delays::{Late, Shown, shown};
use crate::detect::{contenders, detect, unknown};
use crate::evidence::Evidence;
use crate::fit::{Fit, Hints, fits};
use crate::hints::{BLURRED, at_once, hints};
use crate::inquiry::{Inquiry, Unreachable, count, took_ns};
use crate::phases::{
    Comeback, Ends, Found, blocks, burst, burst_again, collapse, comeback, delays, forgets, queue,
    refill, rest, saturate, shape, sharpen, steady,
};
use crate::plateau::as_good_as;
use crate::quantile::percentile_90;
use crate::second::{Places, Second, TwoFits, second, two_limits};
use crate::text::four_digits;
use crate::window_pairs::overflow;
use crate::{
    Defect, DetectedAlgorithm, DetectedKind, ExpectedLimit, Observation, Phase, ProbeOutcome,
    Steady,
};

/// Maximum number of trials that distinguish algorithms.
const TRIALS: usize = 8;

/// A clock with ticks must reduce the inconsistent responses to at most one in this many.
const BETTER: u64 = 4;

/// A window that counts all requests is used up until its length is known within this share, at most `SHARPER` times.
const CLOSE: f64 = 0.01;
const SHARPER: usize = 4;

/// A second limit is known after this many times as long as its first use and the silence so far.
const LONGER: f64 = 4.0;

/// What used up a second limit once may do so several times in this many times as long.
const AGAIN: f64 = 2.0;

/// After this many refusals in a row, nothing may be admitted for a time.
const SILENT: usize = 12;

/// The meaning of a limiter that admits a stream below the rate, and nothing of one above it.
const RETRIES: &str = "under load it stopped to admit anything, and at less than its rate it admits everything: \
    refused requests seem to count, so a client that keeps retrying may never get in";

/// What a silence may be.
const LONG_OR_BAN: &str = "a limit that takes long to refill, or a ban";
const SECOND_OR_BAN: &str = "a second, slower limit or a ban";

/// Requests that were late without a pattern.
const LATE: &str = "none was refused, but some were late, also alone after a rest";

/// Number of requests to a server that does not respond.
const HELLOS: u64 = 3;

/// A first answer that takes longer is slow, in nanoseconds; and how long a server then rests.
const SLOW_NS: u64 = 5_000_000;
const REST_NS: f64 = 250e6;

/// Result of the identification.
#[derive(Debug)]
pub(crate) struct Identified {
    /// Best fit of each remaining algorithm, best first.
    pub(crate) fits: Vec<Fit>,
    /// The clock of these fits.
    pub(crate) clock: Clock,
    pub(crate) steady: Vec<Steady>,
    pub(crate) defects: Vec<Defect>,
    /// Why there is no result, if there is none.
    pub(crate) trouble: Option<String>,
    /// What the responses show without a fit: a window in which refused requests count, or delays.
    pub(crate) shown: Option<DetectedAlgorithm>,
    /// Two limits, or a window and its pool, that together explain what no single limit does.
    pub(crate) two: Option<Box<TwoFits>>,
}

/// Sends requests until the remaining algorithms cannot be distinguished further, or the budget is used up.
///
/// The expected limit is an additional first estimate. It also bounds how long a refill may take.
pub(crate) fn identify(
    inquiry: &mut Inquiry<'_>,
    expected: Option<ExpectedLimit>,
    rng: &mut Rng,
) -> Result<Identified, Unreachable> {
    let mut found = Identified {
        fits: Vec::new(),
        clock: Clock::EXACT,
        steady: Vec::new(),
        defects: Vec::new(),
        trouble: None,
        shown: None,
        two: None,
    };
    for _ in 0..HELLOS {
        let answer = inquiry.ask_in_burst(Phase::Hello, 1, 1, 0)?;
        if count(answer, ProbeOutcome::Failed) == 0 {
            break;
        }
    }
    if count(inquiry.record(), ProbeOutcome::Failed) == HELLOS {
        found.trouble = Some("it does not answer with yes or no".to_owned());
        return Ok(found);
    }
    if inquiry.record().last().is_some_and(is_slow) {
        // A server may take long for its first answer only. How long it takes for others is known after a rest.
        let at = inquiry.now_ns() as f64 + REST_NS;
        inquiry.ask_at(Phase::Hello, &[at], 1, 0)?;
    }
    let mut began = 0;
    let mut ends = Ends {
        late: true,
        queued: true,
    };
    loop {
        match burst(inquiry, ends)? {
            Found::NoLimit => {
                if !ends.late {
                    found.shown = Some(unknown(inquiry.record()));
                    found.trouble = Some(LATE.to_owned());
                }
                return Ok(found);
            }
            Found::Refusals => break,
            Found::Late(late) => {
                delayed(inquiry, late, &mut found)?;
                if found.shown.is_some() {
                    return Ok(found);
                }
                ends.late = false;
            }
            Found::Queue(batch) => {
                found.fits.extend(queue(inquiry, &batch)?);
                if !found.fits.is_empty() {
                    return Ok(found);
                }
                ends.queued = false;
            }
        }
        began = inquiry.record().len();
    }
    let first = began..inquiry.record().len();
    let rate = match comeback(inquiry)? {
        Comeback::Rate(rate) => rate,
        Comeback::Nothing(waited_ns) => {
            let seconds = waited_ns as f64 / 1e9;
            found.trouble = Some(no_more(inquiry.record(), seconds, LONG_OR_BAN));
            let defect = no_recovery(inquiry.record(), seconds, expected);
            found.defects.extend(defect);
            return Ok(found);
        }
    };
    let (burst, took) = at_once(&inquiry.record()[first.clone()]);
    let stream = saturate(inquiry, rate, burst, rng)?;
    let places = Places {
        first: first.clone(),
        stream: stream.from,
        rough: rate,
        clock: Clock::EXACT,
    };
    let dry = inquiry.record().len();
    if stream.dried_up || stream.is_barren {
        if blocked(inquiry, &mut found)? {
            return Ok(found);
        }
        if counts_all_early(inquiry, burst, rate, &mut found)? {
            found.defects.push(collapse_at(rate));
            return Ok(found);
        }
    }
    if stream.dried_up {
        found.trouble = Some("under load it stopped to admit anything".to_owned());
        let second = second(inquiry, &places, burst, dry)?;
        let is_open = matches!(second, Second::Excluded { .. } | Second::Open);
        // One window that counts all requests has fewer numbers than two limits or a block.
        let may_count = is_open || matches!(second, Second::Two(_));
        if may_count && counts_all(inquiry, burst, rate, &mut found)? {
            found.defects.push(collapse_at(rate));
            return Ok(found);
        }
        if let Some(open) = open_block(inquiry.record()).filter(|_| is_open) {
            found.trouble = Some(open);
            return Ok(found);
        }
        match second {
            Second::Two(two) => {
                (found.two, found.trouble) = (Some(two), None);
            }
            Second::Nothing(silent_ns) => {
                let seconds = silent_ns as f64 / 1e9;
                let defect = no_recovery(inquiry.record(), seconds, expected);
                found.defects.extend(defect);
                found.trouble = Some(no_more(inquiry.record(), seconds, SECOND_OR_BAN));
            }
            Second::Excluded { soon: true } => {
                found.trouble = Some(RETRIES.to_owned());
                found.defects.push(collapse_at(rate));
            }
            Second::Excluded { soon: false } => found.defects.push(ban(&inquiry.record()[..dry])),
            Second::Open => {
                let seconds = inquiry.now_ns().saturating_sub(inquiry.began_ns()) as f64 / 1e9;
                found.trouble = Some(format!(
                    "it stopped to admit anything for a time: a second, slower limit, or a limit on refusals; allow more time \
                     than {:.0} s",
                    (AGAIN * seconds).ceil()
                ));
            }
        }
        return Ok(found);
    }
    let is_no_window = Blocks::of(inquiry.record()).is_some_and(|blocks| !blocks.may_be_a_window());
    if !stream.is_barren && is_no_window && blocked(inquiry, &mut found)? {
        return Ok(found);
    }
    let mut course = Course {
        batches: 0,
        stream: stream.from..inquiry.record().len(),
        first,
        rough: rate,
        numbers: expected
            .map(|expected| {
                let numbers = ExpectedNumbers::of(expected);
                (numbers.burst, numbers.rate / 1e9)
            })
            .or_else(|| Told::of(inquiry.record())?.numbers()),
        clock: Clock::EXACT,
    };
    if rate * took > BLURRED * burst {
        let from = inquiry.record().len();
        let rate = course.hints(inquiry.record()).rate;
        burst_again(inquiry, burst, rate)?;
        course.first = from..inquiry.record().len();
    }
    found.fits = course.fit(inquiry, |_| true);
    let Some(best) = found.fits.first().copied() else {
        return Ok(found);
    };
    found.steady = steady(inquiry, &best)?;
    let collapsed = collapse(inquiry, &best, &found.steady)?;
    let from = inquiry.record().len();
    if refill(inquiry, &best)? {
        course.batches = from;
    }
    rest(inquiry, &best, rng)?;
    found.fits = course.fit_on_any_clock(inquiry);
    for _ in 0..TRIALS {
        let left = contenders(&found.fits);
        if !shape(inquiry, left, rng)? {
            break;
        }
        found.fits = course.fit_again(inquiry, &found.fits);
    }
    if is_unknown(inquiry) {
        // An algorithm that is ruled out now may only have started with the wrong parameters.
        found.fits = course.fit_on_any_clock(inquiry);
    }
    found.clock = course.clock;
    if is_unknown(inquiry) {
        if blocked(inquiry, &mut found)? {
            return Ok(found);
        }
        later(inquiry, &places, burst, expected, &mut found)?;
        if found.two.is_none() && found.trouble.is_none() {
            found.trouble = open_block(inquiry.record());
        }
    }
    let unexplained = found.fits.first().map_or(0, |best| best.unexplained);
    if found.two.is_none() && found.shown.is_none() {
        // With few refusals, it looks like other windows.
        let shown = counting(inquiry.record(), burst, rate);
        let most = as_good_as(unexplained, inquiry.record().len() as u64);
        found.shown = shown.filter(|shown| shown.answers - shown.consistent <= most);
    }
    if found.shown.is_some() {
        found.fits.clear();
        found.trouble = None;
    }
    if let Some(why) = contradicts_advertised(inquiry.record(), &found) {
        (found.two, found.shown) = (None, Some(unknown(inquiry.record())));
        found.fits.clear();
        found.trouble = Some(why);
        return Ok(found);
    }
    if found.two.is_none() {
        found.defects.extend(collapsed);
    }
    Ok(found)
}

/// Returns why nothing is detected if two limits, or slow responses, show another limit than the responses advertise: a wrong
/// algorithm may explain them.
fn contradicts_advertised(record: &[Observation], found: &Identified) -> Option<String> {
    let told = Told::of(record)?;
    let fits: Vec<&Fit> = match &found.two {
        Some(two) => two.fast.iter().chain(&two.slow).collect(),
        None => found.fits.iter().take(1).collect(),
    };
    let is_told = |fit: &&Fit| fit.has_burst(told.limit()) || fit.has_rate(&told);
    if fits.is_empty() || fits.iter().any(is_told) {
        return None;
    }
    // If many responses are slow, those at the same time are, too.
    let mut took: Vec<f64> = record.iter().map(|seen| took_ns(seen) as f64).collect();
    let long = percentile_90(&mut took);
    let is_vague = fits.iter().any(|fit| fit.is_vague(long));
    if is_vague {
        return Some(format!(
            "the responses advertise a limit of {}, and take too long, {} ms, to show whether that is true",
            told.limit,
            four_digits(long / 1e6)
        ));
    }
    found.two.is_some().then(|| {
        format!(
            "the responses advertise a limit of {}, and two limits of other sizes explain them",
            told.limit
        )
    })
}

/// Finds out how requests are delayed that are late although they are alone.
fn delayed(
    inquiry: &mut Inquiry<'_>,
    late: Late,
    found: &mut Identified,
) -> Result<(), Unreachable> {
    delays(inquiry, late)?;
    match shown(inquiry.record(), late) {
        Shown::Delays(detected) => found.shown = Some(*detected),
        Shown::Open { free, by } => {
            let seconds = inquiry.now_ns().saturating_sub(inquiry.began_ns()) as f64 / 1e9;
            found.shown = Some(unknown(inquiry.record()));
            found.trouble = Some(format!(
                "after {free} requests each further one took {} s longer, also alone after a rest: delays, or a server that \
                 has become slow; allow more time than {:.0} s",
                four_digits(by / 1e9),
                (3.0 * seconds).ceil(),
            ));
        }
        Shown::Nothing => {}
    }
    Ok(())
}

/// Finds out whether the limiter admits nothing for a time once its limit is used up, if that explains the responses so
/// far. Returns whether it does.
fn blocked(inquiry: &mut Inquiry<'_>, found: &mut Identified) -> Result<bool, Unreachable> {
    let blocks_so_far = Blocks::of(inquiry.record());
    if !blocks_so_far.is_some_and(|blocks| blocks.have_ended()) {
        return Ok(false);
    }
    let from_ns = inquiry.now_ns();
    let steadily = blocks(inquiry)?;
    found.shown = block(inquiry.record(), from_ns, steadily);
    if found.shown.is_some() {
        found.fits.clear();
        found.trouble = None;
    }
    Ok(found.shown.is_some())
}

/// Looks for a second limit that showed only later.
fn later(
    inquiry: &mut Inquiry<'_>,
    places: &Places,
    burst: f64,
    expected: Option<ExpectedLimit>,
    found: &mut Identified,
) -> Result<(), Unreachable> {
    if counts_all(inquiry, burst, places.rough, found)? {
        return Ok(());
    }
    let last = inquiry.record().iter().rev().take(SILENT);
    let is_dry = last.clone().count() == SILENT
        && last
            .clone()
            .all(|seen| seen.outcome == ProbeOutcome::Refused);
    found.two = two_limits(inquiry.record(), places).map(Box::new);
    if found.two.is_none() {
        found.two = overflow(inquiry.record(), places, &found.fits).map(Box::new);
        if found.two.is_some() {
            return Ok(());
        }
    }
    if !is_dry && found.two.is_none() {
        return Ok(());
    }
    let dry = inquiry.record().len();
    match second(inquiry, places, burst, dry)? {
        Second::Two(two) => found.two = Some(two),
        Second::Nothing(silent_ns) if is_dry => {
            found.fits.clear();
            let seconds = silent_ns as f64 / 1e9;
            let defect = no_recovery(inquiry.record(), seconds, expected);
            found.defects.extend(defect);
            found.trouble = Some(no_more(inquiry.record(), seconds, SECOND_OR_BAN));
        }
        _ => {}
    }
    Ok(())
}

/// Looks for a window in which refused requests count. Returns whether it explains all responses.
fn counts_all(
    inquiry: &mut Inquiry<'_>,
    burst: f64,
    rate: f64,
    found: &mut Identified,
) -> Result<bool, Unreachable> {
    found.shown = counting_any(inquiry.record(), burst, rate);
    for _ in 0..SHARPER {
        let vague = found.shown.as_ref().filter(|shown| !is_close(shown));
        let Some(shown) = vague else { break };
        if !sharpen(inquiry, shown)? {
            break;
        }
        found.shown = counting_any(inquiry.record(), burst, rate);
    }
    while let Some(shown) = found
        .shown
        .as_ref()
        .filter(|it| !it.alternatives.is_empty())
    {
        if !forgets(inquiry, shown)? {
            break;
        }
        found.shown = counting_any(inquiry.record(), burst, rate);
    }
    found.trouble.take_if(|_| found.shown.is_some());
    Ok(found.shown.is_some())
}

/// The same after a stream of which nothing was admitted. Returns whether such a window explains all, and ended when it should: then,
/// neither a block nor a second limit does.
fn counts_all_early(
    inquiry: &mut Inquiry<'_>,
    burst: f64,
    rate: f64,
    found: &mut Identified,
) -> Result<bool, Unreachable> {
    let Some(likely) = counting(inquiry.record(), burst, rate) else {
        return Ok(false);
    };
    if sharpen(inquiry, &likely)? && counts_all(inquiry, burst, rate, found)? {
        let shown = found.shown.as_ref();
        let is_certain = |shown: &DetectedAlgorithm| shown.answers - shown.consistent <= 1;
        if shown.is_some_and(|shown| is_close(shown) && is_certain(shown)) {
            return Ok(true);
        }
    }
    found.shown = None;
    Ok(false)
}

/// Returns whether the length of the window is known well enough.
fn is_close(shown: &DetectedAlgorithm) -> bool {
    shown
        .window
        .is_some_and(|window| window.plus_minus <= CLOSE * window.value)
}

fn is_slow(seen: &Observation) -> bool {
    took_ns(seen) > SLOW_NS
}

fn is_unknown(inquiry: &Inquiry<'_>) -> bool {
    let guess = inquiry.guess.as_ref();
    guess.is_some_and(|guess| guess.kind == DetectedKind::Unknown)
}

/// Where in the record the search starts.
struct Course {
    /// The measurement of the burst.
    first: Range<usize>,
    /// A stream of more than the rate.
    stream: Range<usize>,
    /// Start of the batches after a rest in which everything refilled; 0 if there was no time for one.
    batches: usize,
    /// Rate per nanosecond, within a factor of two.
    rough: f64,
    /// Expected burst and rate per nanosecond, or those that the responses advertise.
    numbers: Option<(f64, f64)>,
    /// The clock that the limiter reads.
    clock: Clock,
}

impl Course {
    fn hints(&self, record: &[Observation]) -> Hints {
        let hints = hints(
            &record[self.first.clone()],
            &record[self.stream.clone()],
            record,
            self.batches,
            self.rough,
            self.clock,
        );
        Hints {
            numbers: self.numbers,
            ..hints
        }
    }

    fn fit(&self, inquiry: &mut Inquiry<'_>, wanted: impl Fn(DetectedKind) -> bool) -> Vec<Fit> {
        let record = inquiry.record();
        let hints = self.hints(record);
        let stands_still = self.clock.tick().is_some();
        let wanted = |kind: DetectedKind| wanted(kind) && !(stands_still && kind.is_on_clock());
        let fits = fits(&Evidence::on(self.clock, record), &hints, wanted);
        inquiry.guess = Some(detect(&fits, self.clock, inquiry));
        fits
    }

    /// Fits the algorithms of `known` again.
    fn fit_again(&self, inquiry: &mut Inquiry<'_>, known: &[Fit]) -> Vec<Fit> {
        let left = contenders(known);
        self.fit(inquiry, |kind| {
            left.iter().any(|fit| fit.kind().is_of_a_sort_with(kind))
        })
    }

    /// Fits all algorithms. If none is consistent with all responses, also tries clocks with ticks.
    fn fit_on_any_clock(&mut self, inquiry: &mut Inquiry<'_>) -> Vec<Fit> {
        self.clock = Clock::EXACT;
        let exactly = self.fit(inquiry, |_| true);
        let left = exactly.first().map_or(0, |best| best.unexplained);
        if left == 0 {
            return exactly;
        }
        let hints = self.hints(inquiry.record());
        let clocks = clocks(inquiry.record(), &hints, &exactly);
        let mut best = (left, Clock::EXACT, inquiry.guess.take(), exactly);
        for clock in clocks {
            self.clock = clock;
            let fits = self.fit(inquiry, |_| true);
            let unexplained = fits.first().map_or(u64::MAX, |fit| fit.unexplained);
            let is_better = unexplained < best.0 && unexplained.saturating_mul(BETTER) <= left;
            if is_better && !is_unknown(inquiry) {
                best = (unexplained, clock, inquiry.guess.take(), fits);
            }
        }
        let (_, clock, guess, fits) = best;
        self.clock = clock;
        inquiry.guess = guess;
        fits
    }
}

/// Nothing was admitted for several times as long as the expected limit takes to refill.
fn no_recovery(
    record: &[Observation],
    seconds: f64,
    expected: Option<ExpectedLimit>,
) -> Option<Defect> {
    let recovery = ExpectedNumbers::of(expected?).recovery();
    (seconds > 3.0 * recovery).then(|| Defect::NoRecovery {
        admitted: count(record, ProbeOutcome::Admitted),
        silent_seconds: seconds,
    })
}

/// Describes what was seen if nothing was admitted in the end.
fn no_more(record: &[Observation], seconds: f64, what: &str) -> String {
    let mut admitted = record
        .iter()
        .filter(|seen| seen.outcome == ProbeOutcome::Admitted);
    let n = admitted.clone().count();
    let last_ns = admitted.next_back().map_or(0, |seen| seen.answered_ns);
    let began_ns = record.first().map_or(0, |seen| seen.sent_ns);
    let took = last_ns.saturating_sub(began_ns) as f64 / 1e9;
    format!(
        "{n} requests were admitted in {} s, then none for {} s: {what}; allow more time than {:.0} s",
        four_digits(took),
        four_digits(seconds),
        (LONGER * (took + seconds)).ceil(),
    )
}

/// Nothing was admitted of a stream of more than `rate` per nanosecond.
fn collapse_at(rate: f64) -> Defect {
    Defect::Collapse {
        offered: 3.0 * rate * 1e9,
        admitted: 0.0,
        of: rate * 1e9,
    }
}

/// Nothing was admitted after this many refusals.
fn ban(record: &[Observation]) -> Defect {
    let last = record
        .iter()
        .rposition(|seen| seen.outcome == ProbeOutcome::Admitted);
    Defect::Ban {
        after_refusals: count(&record[..last.unwrap_or(0)], ProbeOutcome::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advertised;
    use crate::models::{Bucket, Model};

    /// Responses that take `took_ms` milliseconds and advertise a limit of 50.
    fn record(took_ms: u64) -> Vec<Observation> {
        let seen = |index: u64| Observation {
            sent_ns: index * 20_000_000,
            answered_ns: index * 20_000_000 + took_ms * 1_000_000,
            connection: 0,
            key: 0,
            outcome: ProbeOutcome::Admitted,
            advertised: Advertised {
                limit: Some(50),
                ..Advertised::default()
            },
        };
        (0..400).map(seen).collect()
    }

    fn found(burst: f64) -> Identified {
        let interval = 1e9 / 50.0;
        Identified {
            fits: vec![Fit::exactly(Model::Bucket(Bucket { interval, burst }))],
            clock: Clock::EXACT,
            steady: Vec::new(),
            defects: Vec::new(),
            trouble: None,
            shown: None,
            two: None,
        }
    }

    #[test]
    fn slow_responses_do_not_contradict_the_limit_that_they_advertise() {
        let why = contradicts_advertised(&record(16), &found(41.0)).expect("it is doubtful");
        assert!(
            why.contains("advertise a limit of 50") && why.contains("16.00 ms"),
            "{why}"
        );
        assert_eq!(contradicts_advertised(&record(16), &found(50.0)), None);
        assert_eq!(contradicts_advertised(&record(1), &found(41.0)), None);
        // Most are prompt.
        let some = record(1).into_iter().zip(record(45)).enumerate();
        let some = some.map(|(index, (prompt, late))| if index % 5 == 0 { late } else { prompt });
        let some: Vec<Observation> = some.collect();
        let why = contradicts_advertised(&some, &found(41.0)).expect("it is doubtful");
        assert!(why.contains("45.00 ms"), "{why}");
    }

    #[test]
    fn c1_two_limits_have_the_one_that_the_responses_advertise() {
        let two = |fast: f64, slow: f64| {
            let fits = |burst| found(burst).fits;
            let two = TwoFits {
                fast: fits(fast),
                slow: fits(slow),
                together: None,
                unexplained: 0,
                of: 400,
            };
            Identified {
                fits: Vec::new(),
                two: Some(Box::new(two)),
                ..found(1.0)
            }
        };
        let why = contradicts_advertised(&record(1), &two(20.0, 90.0)).expect("it is doubtful");
        assert!(why.contains("advertise a limit of 50"), "{why}");
        for known in [two(50.0, 90.0), two(20.0, 50.0)] {
            assert_eq!(contradicts_advertised(&record(1), &known), None);
        }
    }
}
