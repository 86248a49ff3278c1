//! From the first question to a kind with its numbers.

use std::ops::Range;

use fastrand::Rng;

use crate::conclusion::Claimed;
use crate::evidence::Evidence;
use crate::fit::{Fit, Hints, fits};
use crate::hints::{BLURRED, at_once, hints};
use crate::inquiry::{Inquiry, count};
use crate::likeness::{contenders, likeness};
use crate::phases::{
    Comeback, Found, burst, burst_again, comeback, queue, refill, saturate, shape, steady,
};
use crate::{Claim, Fault, Kind, Observation, Outcome, Phase, Steady, Subject};

/// Probes that are sent at most to tell kinds apart.
const PROBES: usize = 8;

/// Questions to one who does not answer them.
const HELLOS: u64 = 3;

/// What there is.
#[derive(Debug, Default)]
pub(crate) struct Identified {
    /// The best of each kind that is left, best first.
    pub(crate) fits: Vec<Fit>,
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
    let mut found = Identified::default();
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
        found.faults.push(dried_up(inquiry, burst, rate)?);
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
    refill(inquiry, &best)?;
    if inquiry.record().len() > from {
        course.volleys = from;
    }
    found.fits = course.fit(inquiry, |_| true);
    for _ in 0..PROBES {
        let left = contenders(&found.fits);
        if !shape(inquiry, left, rng)? {
            break;
        }
        let kinds: Vec<Kind> = left.iter().map(Fit::kind).collect();
        let is_left = |kind: Kind| kinds.iter().any(|left| left.is_of_a_sort_with(kind));
        found.fits = course.fit(inquiry, is_left);
    }
    if inquiry
        .guess
        .as_ref()
        .is_some_and(|guess| guess.kind == Kind::Unknown)
    {
        // Perhaps one that is out by now only began with the wrong numbers.
        found.fits = course.fit(inquiry, |_| true);
    }
    Ok(found)
}

/// Where in the record is what the search begins with.
struct Course {
    /// How much there is at once.
    first: Range<usize>,
    /// More than the rate.
    stream: Range<usize>,
    /// From here on as much at once, after a rest.
    volleys: usize,
    /// Per nanosecond, to a factor of two.
    rough: f64,
    /// Burst, and rate per nanosecond, as somebody says.
    claimed: Option<(f64, f64)>,
}

impl Course {
    fn hints(&self, record: &[Observation]) -> Hints {
        let hints = hints(
            &record[self.first.clone()],
            &record[self.stream.clone()],
            record,
            self.volleys,
            self.rough,
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
        let fits = fits(&Evidence::of(record), &hints, wanted);
        inquiry.guess = Some(likeness(&fits, record));
        fits
    }
}

/// After a rest in which everything should be there again: if there is something, it was the load that it could not
/// bear.
fn dried_up<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    burst: f64,
    rate: f64,
) -> Result<Fault, S::Error> {
    let offered = 3.0 * rate * 1e9;
    let at = inquiry.now_ns() as f64 + (2.2 * burst / rate).max(1e9);
    let answers = inquiry.ask_at(Phase::Saturate, &[at], 1, 0)?;
    Ok(if count(answers, Outcome::Admitted) > 0 {
        Fault::Collapse {
            offered,
            admitted: 0.0,
            of: rate * 1e9,
        }
    } else {
        ban(inquiry.record())
    })
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
