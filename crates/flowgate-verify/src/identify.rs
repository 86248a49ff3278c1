//! From the first request to an algorithm with its parameters.

use std::ops::Range;

use fastrand::Rng;

use crate::clock::{Clock, clocks};
use crate::conclusion::ExpectedNumbers;
use crate::detect::{contenders, detect};
use crate::evidence::Evidence;
use crate::fit::{Fit, Hints, fits};
use crate::hints::{BLURRED, at_once, hints};
use crate::inquiry::{Inquiry, count};
use crate::phases::{
    Comeback, Found, burst, burst_again, comeback, queue, refill, rest, saturate, shape, steady,
};
use crate::{
    Defect, DetectedKind, ExpectedLimit, Observation, Phase, ProbeOutcome, ProbeSubject, Steady,
};

/// Maximum number of trials that distinguish algorithms.
const TRIALS: usize = 8;

/// A clock with ticks must reduce the inconsistent responses to at most one in this many.
const BETTER: u64 = 4;

/// Number of requests to a server that does not respond.
const HELLOS: u64 = 3;

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
}

/// Sends requests until the remaining algorithms cannot be distinguished further, or the budget is used up.
///
/// The expected limit is an additional first estimate. It also bounds how long a refill may take.
pub(crate) fn identify<S: ProbeSubject>(
    inquiry: &mut Inquiry<'_, S>,
    expected: Option<ExpectedLimit>,
    rng: &mut Rng,
) -> Result<Identified, S::Error> {
    let mut found = Identified {
        fits: Vec::new(),
        clock: Clock::EXACT,
        steady: Vec::new(),
        defects: Vec::new(),
        trouble: None,
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
    match burst(inquiry)? {
        Found::NoLimit => return Ok(found),
        Found::Queue(batch) => {
            found.fits.extend(queue(inquiry, &batch)?);
            return Ok(found);
        }
        Found::Refusals => {}
    }
    let first = 0..inquiry.record().len();
    let rate = match comeback(inquiry)? {
        Comeback::Rate(rate) => rate,
        Comeback::Nothing(waited_ns) => {
            let seconds = waited_ns as f64 / 1e9;
            found.trouble = Some(format!("nothing came back within {seconds:.1} s"));
            let recovery = expected.map(|expected| ExpectedNumbers::of(expected).recovery());
            if recovery.is_some_and(|recovery| seconds > 3.0 * recovery) {
                found.defects.push(ban(inquiry.record()));
            }
            return Ok(found);
        }
    };
    let (burst, took) = at_once(&inquiry.record()[first.clone()]);
    let stream = saturate(inquiry, rate, burst, rng)?;
    if stream.dried_up {
        found.defects.extend(dried_up(inquiry, burst, rate)?);
        found.trouble = Some("under load it stopped to admit anything".to_owned());
        return Ok(found);
    }
    let mut course = Course {
        batches: 0,
        stream: stream.from..inquiry.record().len(),
        first,
        rough: rate,
        numbers: expected.map(|expected| {
            let numbers = ExpectedNumbers::of(expected);
            (numbers.burst, numbers.rate / 1e9)
        }),
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
    Ok(found)
}

fn is_unknown<S: ProbeSubject>(inquiry: &Inquiry<'_, S>) -> bool {
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
    /// Expected burst and rate per nanosecond.
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

    fn fit<S: ProbeSubject>(
        &self,
        inquiry: &mut Inquiry<'_, S>,
        wanted: impl Fn(DetectedKind) -> bool,
    ) -> Vec<Fit> {
        let record = inquiry.record();
        let hints = self.hints(record);
        let stands_still = self.clock.tick().is_some();
        let wanted = |kind: DetectedKind| wanted(kind) && !(stands_still && kind.is_on_clock());
        let fits = fits(&Evidence::on(self.clock, record), &hints, wanted);
        inquiry.guess = Some(detect(&fits, self.clock, inquiry));
        fits
    }

    /// Fits the algorithms of `known` again.
    fn fit_again<S: ProbeSubject>(&self, inquiry: &mut Inquiry<'_, S>, known: &[Fit]) -> Vec<Fit> {
        let left = contenders(known);
        self.fit(inquiry, |kind| {
            left.iter().any(|fit| fit.kind().is_of_a_sort_with(kind))
        })
    }

    /// Fits all algorithms. If none is consistent with all responses, also tries clocks with ticks.
    fn fit_on_any_clock<S: ProbeSubject>(&mut self, inquiry: &mut Inquiry<'_, S>) -> Vec<Fit> {
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

/// Rests until everything should have refilled. If something is then admitted, the load caused a collapse. `None` if
/// there is no time for that.
fn dried_up<S: ProbeSubject>(
    inquiry: &mut Inquiry<'_, S>,
    burst: f64,
    rate: f64,
) -> Result<Option<Defect>, S::Error> {
    let offered = 3.0 * rate * 1e9;
    let at = inquiry.now_ns() as f64 + (2.2 * burst / rate).max(1e9);
    let answers = inquiry.ask_at(Phase::Saturate, &[at], 1, 0)?;
    let outcome = answers.first().map(|seen| seen.outcome);
    Ok(outcome.map(|outcome| match outcome {
        ProbeOutcome::Admitted => Defect::Collapse {
            offered,
            admitted: 0.0,
            of: rate * 1e9,
        },
        _ => ban(inquiry.record()),
    }))
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
    use std::time::Duration;

    use super::*;
    use crate::{Answer, Budget, Question, Simulated};

    #[test]
    fn nobody_is_said_to_ban_who_was_not_asked_again() {
        let found = |seconds| {
            let refuse = |_: Question| Answer::from(false);
            let mut subject = Simulated::new(refuse);
            let budget = Budget {
                time: Duration::from_secs(seconds),
                ..Budget::default()
            };
            let mut silent = |_: crate::ProbeProgress<'_>| ();
            let mut inquiry = Inquiry::new(&mut subject, budget, 32, &mut silent);
            // 5 per second, burst 40: refilled in 8 s.
            let Ok(defect) = dried_up(&mut inquiry, 40.0, 5e-9);
            defect
        };
        assert_eq!(found(10), None);
        assert!(matches!(found(30), Some(Defect::Ban { .. })));
    }
}
