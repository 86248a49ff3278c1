use std::time::Duration;

use fastrand::Rng;

use crate::allowance::{Allowance, envelope};
use crate::conclusion::{
    FAILURES, allowance, by_expected, retain_certain, seen, verdict, verdict_despite_failures,
};
use crate::detect::{both, detect};
use crate::evidence::Evidence;
use crate::forecast::{Forecast, forecast};
use crate::identify::identify;
use crate::inquiry::{AnySubject, Inquiry, Unreachable, count};
use crate::phases::{headers, keys, keys_of_queue, nodes, race, tell};
use crate::slots::slots;
use crate::unresolved::{Known, unresolved};
use crate::{
    AdvertisedQuota, Budget, DetectedKind, ExpectedLimit, Findings, HeaderAccuracy, Judgement,
    ProbeOutcome, ProbeProgress, ProbeSubject,
};

/// Plan of an investigation: what to find out, at what cost.
///
/// ```
/// use flowgate::{Timestamp, TokenBucket};
/// use flowgate_verify::{Budget, ExpectedLimit, Investigation, DetectedKind, Question, Simulated, ExpectedVerdict};
/// use std::time::Duration;
///
/// let limiter = TokenBucket::new("100/s burst 20".parse()?);
/// let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
/// let mut subject = Simulated::new(|asked| decide(asked).into());
///
/// let budget = Budget { requests: 10_000, time: Duration::from_secs(30) };
/// let investigation = Investigation::new()
///     .expected("200/s burst 20".parse::<ExpectedLimit>()?)
///     .keys(1)
///     .connections(8)
///     .budget(budget)
///     .seed(7);
/// let forecast = investigation.forecast().ok_or("no expected limit")?;
/// assert!(forecast.requests <= budget.requests && forecast.time <= budget.time);
///
/// let Ok(findings) = investigation.run(&mut subject, &mut |_| ());
/// assert_eq!(findings.detected.kind, DetectedKind::TokenBucket);
/// let judgement = findings.expected.ok_or("no expected limit")?;
/// assert!(matches!(judgement.verdict, ExpectedVerdict::Differs(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Investigation {
    expected: Option<ExpectedLimit>,
    keys: u32,
    connections: u32,
    budget: Budget,
    tolerance: Duration,
    seed: u64,
}

impl Default for Investigation {
    fn default() -> Self {
        Self::new()
    }
}

impl Investigation {
    /// Creates an investigation with the defaults.
    ///
    /// There is no expected limit, one key, 32 connections and the default [`Budget`].
    pub fn new() -> Self {
        Self {
            expected: None,
            keys: 1,
            connections: 32,
            budget: Budget::default(),
            tolerance: Duration::ZERO,
            seed: 0,
        }
    }

    /// Sets the limit that the limiter should have (default: none).
    #[must_use]
    pub fn expected(mut self, expected: impl Into<ExpectedLimit>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Sets the number of keys that the subject can use, at least 1 (default: 1).
    #[must_use]
    pub fn keys(mut self, keys: u32) -> Self {
        self.keys = keys.max(1);
        self
    }

    /// Sets the number of connections that the subject may open, at least 1 (default: 32).
    #[must_use]
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Sets the maximum cost (default: 20,000 requests, 60 s).
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets by how much the limiter's clock may be off the expected limit (default: 0).
    ///
    /// A limiter that counts in milliseconds needs 1 ms. Only over-admission beyond this tolerance is a defect.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    fn tolerance_ns(&self) -> f64 {
        self.tolerance.as_nanos() as f64
    }

    /// Sets the seed of random streams (default: 0).
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

    /// Returns the cost if the limiter matches the expected limit; `None` without an expected limit.
    pub fn forecast(&self) -> Option<Forecast> {
        self.expected.map(|expected| forecast(self, expected))
    }

    /// Sends requests to `subject`, and draws conclusions from the responses.
    ///
    /// `progress` is called before each batch.
    ///
    /// # Errors
    ///
    /// Returns the subject's error if it can no longer be reached.
    pub fn run<S: ProbeSubject>(
        &self,
        subject: &mut S,
        progress: &mut dyn FnMut(ProbeProgress<'_>),
    ) -> Result<Findings, S::Error> {
        let mut subject = AnySubject::new(subject);
        let mut inquiry = Inquiry::new(&mut subject, self.budget, self.connections, progress);
        let result = self.findings(&mut inquiry);
        subject.end(result)
    }

    fn findings(&self, inquiry: &mut Inquiry<'_>) -> Result<Findings, Unreachable> {
        let mut rng = Rng::with_seed(self.seed);
        let found = identify(inquiry, self.expected, &mut rng)?;
        let detected = match (&found.two, found.shown) {
            (Some(two), _) => both(two),
            (None, Some(shown)) => shown,
            (None, None) => detect(&found.fits, found.clock, inquiry),
        };
        let best = found.fits.first();
        let mut defects = found.defects;
        let (mut isolation, mut truth) = (None, HeaderAccuracy::default());
        let is_single = detected.kind != DetectedKind::Unknown && !detected.kind.is_of_two();
        // Parameters that are inconsistent with the responses prove no violation.
        let single = best.filter(|_| is_single);
        if let Some(best) = single.filter(|_| detected.kind != DetectedKind::LeakyQueue) {
            // Over-admission of sequential requests is not a race.
            let evidence = Evidence::on(found.clock, inquiry.record());
            let is_exact = best.at_most().over(&evidence) == 0;
            if is_exact {
                defects.extend(race(inquiry, best, found.clock)?);
                defects.extend(nodes(inquiry, best, found.clock)?);
            }
            isolation = keys(inquiry, best, self.keys)?;
            truth = headers(inquiry, best)?;
        }
        if let Some(queue) = best.filter(|_| detected.kind == DetectedKind::LeakyQueue) {
            isolation = keys_of_queue(inquiry, queue, self.keys)?;
        }
        let record = inquiry.record();
        tell(&mut truth, record);
        truth.advertised = AdvertisedQuota::of(record, &detected);
        let failed = count(record, ProbeOutcome::Failed);
        let evidence = Evidence::of(record.iter().filter(|seen| seen.key == 0));
        let worst = allowance(self.expected, single).and_then(|allowed| allowed.worst(&evidence));
        let tolerated = |expected| Allowance::of_expected(expected).tolerating(self.tolerance_ns());
        let beyond = self
            .expected
            .and_then(|expected| tolerated(expected).worst(&evidence));
        defects.extend(seen(&truth, failed, record.len() as u64));
        let is_failing = failed as f64 > FAILURES * record.len() as f64;
        if is_failing {
            retain_certain(&mut defects);
        }
        let expected = self.expected.map(|expected| {
            defects.extend(by_expected(expected, &detected, beyond));
            let verdict = if is_failing {
                retain_certain(&mut defects);
                let trouble = format!("{failed} of {} requests failed", record.len());
                verdict_despite_failures(&defects, trouble)
            } else {
                verdict(expected, &detected, &defects, found.trouble.as_deref())
            };
            Judgement {
                limit: expected,
                verdict,
            }
        });
        let unresolved = match detected.kind {
            DetectedKind::Unknown => unresolved(
                self,
                &Known {
                    record,
                    best,
                    trouble: found.trouble.as_deref(),
                    is_at_its_end: inquiry.is_at_its_end(),
                },
            ),
            _ => None,
        };
        Ok(Findings {
            detected,
            unresolved,
            slots: slots(record, inquiry.began_ns(), inquiry.now_ns()),
            envelope: envelope(&evidence),
            worst,
            steady: found.steady,
            keys: isolation,
            headers: truth,
            defects,
            expected,
            requests: record.len() as u64,
            admitted: count(record, ProbeOutcome::Admitted),
            failed,
            seconds: inquiry.now_ns().saturating_sub(inquiry.began_ns()) as f64 / 1e9,
        })
    }
}
