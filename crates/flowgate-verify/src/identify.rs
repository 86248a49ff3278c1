//! From the first question to a kind with its numbers.

use std::ops::Range;

use fastrand::Rng;

use crate::clock::{Clock, clocks};
use crate::conclusion::Claimed;
use crate::evidence::Evidence;
use crate::fit::{Fit, Hints, fits};
use crate::hints::{BLURRED, at_once, hints};
use crate::inquiry::{Inquiry, count};
use crate::likeness::{contenders, likeness};
use crate::phases::{
    Comeback, Found, burst, burst_again, comeback, queue, refill, rest, saturate, shape, steady,
};
use crate::{Claim, Fault, Kind, Observation, Outcome, Phase, Steady, Subject};

/// Probes that are sent at most to tell kinds apart.
const PROBES: usize = 8;

/// If a clock stands still, that explains all answers that are unexplained otherwise, but for one in so many.
const BETTER: u64 = 4;

/// Questions to one who does not answer them.
const HELLOS: u64 = 3;

/// What there is.
#[derive(Debug)]
pub(crate) struct Identified {
    /// The best of each kind that is left, best first.
    pub(crate) fits: Vec<Fit>,
    /// The clock on which they are.
    pub(crate) clock: Clock,
    pub(crate) steady: Vec<Steady>,
    pub(crate) faults: Vec<Fault>,
    /// Why there is nothing, if there is nothing.
    pub(crate) trouble: Option<String>,
}

/// Asks until the kinds that are left can no longer be told apart, or the budget is used up.
///
/// What is claimed is one more guess to begin with, and says how long something should take to come back at most.
pub(crate) fn identify<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    claim: Option<Claim>,
    rng: &mut Rng,
) -> Result<Identified, S::Error> {
    let mut found = Identified {
        fits: Vec::new(),
        clock: Clock::EXACT,
        steady: Vec::new(),
        faults: Vec::new(),
        trouble: None,
    };
    for _ in 0..HELLOS {
        let answer = inquiry.ask_at_once(Phase::Hello, 1, 1, 0)?;
        if count(answer, Outcome::Failed) == 0 {
            break;
        }
    }
    if count(inquiry.record(), Outcome::Failed) == HELLOS {
        found.trouble = Some("it does not answer with yes or no".to_owned());
        return Ok(found);
    }
    match burst(inquiry)? {
        Found::NoLimit => return Ok(found),
        Found::Queue(volley) => {
            found.fits.extend(queue(inquiry, &volley)?);
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
            let patience = claim.map(|claim| Claimed::of(claim).patience());
            if patience.is_some_and(|patience| seconds > 3.0 * patience) {
                found.faults.push(ban(inquiry.record()));
            }
            return Ok(found);
        }
    };
    let (burst, took) = at_once(&inquiry.record()[first.clone()]);
    let stream = saturate(inquiry, rate, burst, rng)?;
    if stream.dried_up {
        found.faults.extend(dried_up(inquiry, burst, rate)?);
        found.trouble = Some("under load it stopped to admit anything".to_owned());
        return Ok(found);
    }
    let mut course = Course {
        volleys: 0,
        stream: stream.from..inquiry.record().len(),
        first,
        rough: rate,
        claimed: claim.map(|claim| {
            let claimed = Claimed::of(claim);
            (claimed.burst, claimed.rate / 1e9)
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
        course.volleys = from;
    }
    rest(inquiry, &best, rng)?;
    found.fits = course.fit_on_any_clock(inquiry);
    for _ in 0..PROBES {
        let left = contenders(&found.fits);
        if !shape(inquiry, left, rng)? {
            break;
        }
        found.fits = course.fit_again(inquiry, &found.fits);
    }
    if is_unknown(inquiry) {
        // Perhaps one that is out by now only began with the wrong numbers.
        found.fits = course.fit_on_any_clock(inquiry);
    }
    found.clock = course.clock;
    Ok(found)
}

fn is_unknown<S: Subject>(inquiry: &Inquiry<'_, S>) -> bool {
    let guess = inquiry.guess.as_ref();
    guess.is_some_and(|guess| guess.kind == Kind::Unknown)
}

/// Where in the record is what the search begins with.
struct Course {
    /// How much there is at once.
    first: Range<usize>,
    /// More than the rate.
    stream: Range<usize>,
    /// From here on as much at once, after a rest in which everything came back; 0 if there was no time for one.
    volleys: usize,
    /// Per nanosecond, to a factor of two.
    rough: f64,
    /// Burst, and rate per nanosecond, as somebody says.
    claimed: Option<(f64, f64)>,
    /// What the limiter reads.
    clock: Clock,
}

impl Course {
    fn hints(&self, record: &[Observation]) -> Hints {
        let hints = hints(
            &record[self.first.clone()],
            &record[self.stream.clone()],
            record,
            self.volleys,
            self.rough,
            self.clock,
        );
        Hints {
            claimed: self.claimed,
            ..hints
        }
    }

    fn fit<S: Subject>(
        &self,
        inquiry: &mut Inquiry<'_, S>,
        wanted: impl Fn(Kind) -> bool,
    ) -> Vec<Fit> {
        let record = inquiry.record();
        let hints = self.hints(record);
        let stands_still = self.clock.tick().is_some();
        let wanted = |kind: Kind| wanted(kind) && !(stands_still && kind.is_on_clock());
        let fits = fits(&Evidence::on(self.clock, record), &hints, wanted);
        inquiry.guess = Some(likeness(&fits, self.clock, inquiry));
        fits
    }

    /// Those of `known` that are left.
    fn fit_again<S: Subject>(&self, inquiry: &mut Inquiry<'_, S>, known: &[Fit]) -> Vec<Fit> {
        let left = contenders(known);
        self.fit(inquiry, |kind| {
            left.iter().any(|fit| fit.kind().is_of_a_sort_with(kind))
        })
    }

    /// All kinds; and if none of them explains all that was seen, those that explain far more on a clock that stands still.
    fn fit_on_any_clock<S: Subject>(&mut self, inquiry: &mut Inquiry<'_, S>) -> Vec<Fit> {
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

/// After a rest in which everything should be there again: if there is something, it was the load that it could not
/// bear. None if there is no time for that.
fn dried_up<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    burst: f64,
    rate: f64,
) -> Result<Option<Fault>, S::Error> {
    let offered = 3.0 * rate * 1e9;
    let at = inquiry.now_ns() as f64 + (2.2 * burst / rate).max(1e9);
    let answers = inquiry.ask_at(Phase::Saturate, &[at], 1, 0)?;
    let outcome = answers.first().map(|seen| seen.outcome);
    Ok(outcome.map(|outcome| match outcome {
        Outcome::Admitted => Fault::Collapse {
            offered,
            admitted: 0.0,
            of: rate * 1e9,
        },
        _ => ban(inquiry.record()),
    }))
}

/// Nothing was admitted after so many refusals.
fn ban(record: &[Observation]) -> Fault {
    let last = record
        .iter()
        .rposition(|seen| seen.outcome == Outcome::Admitted);
    Fault::Ban {
        after_refusals: count(&record[..last.unwrap_or(0)], Outcome::Refused),
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
            let mut silent = |_: crate::Progress<'_>| ();
            let mut inquiry = Inquiry::new(&mut subject, budget, 32, &mut silent);
            // 5 per second, 40 at once: back in 8 s.
            let Ok(fault) = dried_up(&mut inquiry, 40.0, 5e-9);
            fault
        };
        assert_eq!(found(10), None);
        assert!(matches!(found(30), Some(Fault::Ban { .. })));
    }
}
