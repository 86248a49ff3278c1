use fastrand::Rng;

use crate::allowance::envelope;
use crate::conclusion::{FAILURES, allowance, by_claim, seen, verdict};
use crate::evidence::Evidence;
use crate::forecast::{Forecast, forecast};
use crate::identify::identify;
use crate::inquiry::{Inquiry, count};
use crate::likeness::likeness;
use crate::phases::{honesty, keys, keys_of_queue, nodes, race, tell};
use crate::{
    Budget, Claim, Findings, Honesty, Judgement, Kind, Outcome, Progress, Subject, ToldQuota,
};

/// What is to be found out, and at what cost.
///
/// ```
/// use flowgate::{Timestamp, TokenBucket};
/// use flowgate_verify::{Budget, Claim, Investigation, Kind, Question, Simulated, Verdict};
/// use std::time::Duration;
///
/// let limiter = TokenBucket::new("100/s burst 20".parse()?);
/// let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
/// let mut subject = Simulated::new(|asked| decide(asked).into());
///
/// let budget = Budget { requests: 10_000, time: Duration::from_secs(30) };
/// let investigation = Investigation::new()
///     .claim("200/s burst 20".parse::<Claim>()?)
///     .keys(1)
///     .lanes(8)
///     .budget(budget)
///     .seed(7);
/// let forecast = investigation.forecast().ok_or("there is a claim")?;
/// assert!(forecast.requests <= budget.requests && forecast.time <= budget.time);
///
/// let Ok(findings) = investigation.run(&mut subject, &mut |_| ());
/// assert_eq!(findings.likeness.kind, Kind::TokenBucket);
/// let judgement = findings.claim.ok_or("it is judged")?;
/// assert!(matches!(judgement.verdict, Verdict::Differs(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Investigation {
    claim: Option<Claim>,
    keys: u32,
    lanes: u32,
    budget: Budget,
    seed: u64,
}

impl Default for Investigation {
    fn default() -> Self {
        Self::new()
    }
}

impl Investigation {
    /// Without a claim, with one key, 32 lanes and the default [`Budget`].
    pub fn new() -> Self {
        Self {
            claim: None,
            keys: 1,
            lanes: 32,
            budget: Budget::default(),
            seed: 0,
        }
    }

    /// What somebody says of the limiter.
    #[must_use]
    pub fn claim(mut self, claim: impl Into<Claim>) -> Self {
        self.claim = Some(claim.into());
        self
    }

    /// How many keys the subject can ask with; at least one.
    #[must_use]
    pub fn keys(mut self, keys: u32) -> Self {
        self.keys = keys.max(1);
        self
    }

    /// How many connections the subject may open; at least one.
    #[must_use]
    pub fn lanes(mut self, lanes: u32) -> Self {
        self.lanes = lanes.max(1);
        self
    }

    /// What it may cost at most.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// What the random streams are drawn from; 0 unless told.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    pub(crate) fn keys_asked(&self) -> u32 {
        self.keys
    }

    pub(crate) fn budget_allowed(&self) -> Budget {
        self.budget
    }

    /// What it will take if the claim is right; without a claim nobody knows, and the budget bounds it.
    pub fn forecast(&self) -> Option<Forecast> {
        self.claim.map(|claim| forecast(self, claim))
    }

    /// Asks, and concludes.
    ///
    /// # Errors
    ///
    /// The subject's, if it could not be asked any longer.
    pub fn run<S: Subject>(
        &self,
        subject: &mut S,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Findings, S::Error> {
        let mut inquiry = Inquiry::new(subject, self.budget, self.lanes, progress);
        let mut rng = Rng::with_seed(self.seed);
        let found = identify(&mut inquiry, self.claim, &mut rng)?;
        let likeness = likeness(&found.fits, found.clock, &inquiry);
        let best = found.fits.first();
        let mut faults = found.faults;
        let (mut isolation, mut truth) = (None, Honesty::default());
        if let Some(best) =
            best.filter(|_| !matches!(likeness.kind, Kind::Unknown | Kind::LeakyQueue))
        {
            // What was admitted beyond this model before, one after the other, is no matter of many at once.
            let evidence = Evidence::on(found.clock, inquiry.record());
            let is_exact = best.at_most().over(&evidence) == 0;
            if is_exact {
                faults.extend(race(&mut inquiry, best, found.clock)?);
                faults.extend(nodes(&mut inquiry, best, found.clock)?);
            }
            isolation = keys(&mut inquiry, best, self.keys)?;
            truth = honesty(&mut inquiry, best)?;
        }
        if let Some(queue) = best.filter(|_| likeness.kind == Kind::LeakyQueue) {
            isolation = keys_of_queue(&mut inquiry, queue, self.keys)?;
        }
        let record = inquiry.record();
        tell(&mut truth, record);
        truth.quota = ToldQuota::of(record, &likeness);
        let failed = count(record, Outcome::Failed);
        let evidence = Evidence::of(record.iter().filter(|seen| seen.key == 0));
        // Numbers that do not explain the answers accuse nobody.
        let known = best.filter(|_| likeness.kind != Kind::Unknown);
        let worst = allowance(self.claim, known).and_then(|allowed| allowed.worst(&evidence));
        faults.extend(seen(&truth, &found.steady, failed, record.len() as u64));
        let claim = self.claim.map(|claim| {
            faults.extend(by_claim(claim, &likeness, worst));
            let failing = failed as f64 > FAILURES * record.len() as f64;
            let trouble = failing.then(|| format!("{failed} of {} failed", record.len()));
            let trouble = trouble.or(found.trouble);
            let verdict = verdict(claim, &likeness, &faults, trouble.as_deref());
            Judgement { claim, verdict }
        });
        Ok(Findings {
            likeness,
            envelope: envelope(&evidence),
            worst,
            steady: found.steady,
            keys: isolation,
            honesty: truth,
            faults,
            claim,
            requests: record.len() as u64,
            admitted: count(record, Outcome::Admitted),
            failed,
            seconds: inquiry.now_ns().saturating_sub(inquiry.began_ns()) as f64 / 1e9,
        })
    }
}
