//! A known-broken limiter with its description, and the checker that detects it.

use core::fmt;

use flowgate::Refill;

use crate::conformance::{self, Contract};
use crate::differential;
use crate::interleave::Race;
use crate::promise::Kind;
use crate::script::Setup;
use crate::subject::Subject;

/// Number of random histories in which a limiter can fail.
const HISTORIES: u64 = 500;

/// Builds a known-broken limiter and lends it; see [`BuildSubject`](crate::subject::BuildSubject).
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
/// use flowgate_testkit::broken::BuildBroken;
/// use flowgate_testkit::broken::starts_empty::StartsEmpty;
///
/// let build: BuildBroken = |setup, test| test(&mut StartsEmpty::new(setup.quota));
/// build(&Setup::new(Quota::per_second(1)), &mut |subject| {
///     let first = Step { at_ns: 0, op: Op::Try { n: 1 } };
///     assert_ne!(subject.step(&first), OperationOutcome::Admitted);
/// });
/// ```
pub type BuildBroken = fn(&Setup, &mut dyn FnMut(&mut dyn Subject));

/// Checker that detects a known-broken limiter.
///
/// ```
/// use flowgate_testkit::broken::{Checker, broken_limiters};
///
/// let broken_limiters = broken_limiters();
/// let races = broken_limiters.iter().filter(|limiter| matches!(limiter.checker, Checker::Schedules(..)));
/// assert!(races.clone().any(|limiter| limiter.name == "single_writer"));
/// let single_writer = races.clone().find(|limiter| limiter.name == "single_writer");
/// let checker = single_writer.map(|limiter| limiter.checker.to_string());
/// assert_eq!(checker.as_deref(), Some("schedules, C1 never over-admits"));
/// ```
#[derive(Clone, Copy)]
pub enum Checker {
    /// The conformance suite: this contract, for a bound of this kind.
    Conformance(Kind, Contract, BuildBroken),
    /// Every schedule of threads, shortest first; the contract that a schedule violates.
    Schedules(Contract, fn() -> Result<u64, Box<Race>>),
    /// The exact bucket with the same refill, answer by answer.
    Oracle(Refill, BuildBroken),
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conformance(_, contract, _) => {
                write!(f, "conformance, {contract:?} {}", contract.title())
            }
            Self::Schedules(contract, _) => {
                write!(f, "schedules, {contract:?} {}", contract.title())
            }
            Self::Oracle(..) => write!(f, "oracle"),
        }
    }
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Description of a known-broken limiter.
///
/// ```
/// use flowgate_testkit::broken::broken_limiters;
///
/// let broken_limiters = broken_limiters();
/// let limiter = broken_limiters.iter().find(|limiter| limiter.name == "starts_empty").expect("there is one");
/// println!("{}; use {} instead", limiter.defect, limiter.instead);
/// let detection = limiter.detect()?;
/// assert!(detection.what.contains(limiter.finding));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BrokenLimiter {
    /// Name of its module.
    pub name: &'static str,
    /// Kind and purpose of the original limiter.
    pub origin: &'static str,
    /// Its defect.
    pub defect: &'static str,
    /// Checker that detects the defect.
    pub checker: Checker,
    /// Part of the checker's message.
    pub finding: &'static str,
    /// What to use instead.
    pub instead: &'static str,
}

/// Result of a checker.
///
/// ```
/// use flowgate_testkit::broken::broken_limiters;
///
/// let broken_limiters = broken_limiters();
/// let limiter = broken_limiters.iter().find(|limiter| limiter.name == "single_writer").expect("there is one");
/// let detection = limiter.detect()?;
/// assert_eq!(detection.what, "at 0s 2 were admitted, 1 allowed");
/// assert_eq!(detection.history[0], "thread 0: sees room at place 0");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Detection {
    /// The message, in one line.
    pub what: String,
    /// The shortest history that shows the defect, line by line.
    pub history: Vec<String>,
}

impl BrokenLimiter {
    /// Runs the checker.
    ///
    /// ```
    /// use flowgate_testkit::broken::broken_limiters;
    ///
    /// let broken_limiters = broken_limiters();
    /// let limiter = broken_limiters.iter().find(|limiter| limiter.name == "rising_remaining").expect("there is one");
    /// assert!(limiter.detect().is_ok());
    ///
    /// let mislabelled = flowgate_testkit::broken::BrokenLimiter { finding: "it panics", ..*limiter };
    /// assert!(mislabelled.detect().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the checker finds nothing, or something else.
    pub fn detect(&self) -> Result<Detection, String> {
        let found = match self.checker {
            Checker::Conformance(kind, contract, build) => {
                conformance::check_contract(kind, &build, contract, HISTORIES)
                    .err()
                    .map(|finding| finding.to_string())
            }
            Checker::Schedules(_, explore) => explore().err().map(|race| race.to_string()),
            Checker::Oracle(refill, build) => {
                differential::against_oracle(&build, refill, HISTORIES)
                    .err()
                    .map(|deviation| deviation.to_string())
            }
        };
        let found = found.ok_or_else(|| format!("{} does not detect it", self.checker))?;
        let mut lines = found.lines().map(str::to_owned);
        let what = lines.next().unwrap_or_default();
        if !what.contains(self.finding) {
            let (checker, finding) = (self.checker, self.finding);
            return Err(format!("{checker} reports '{what}', not '{finding}'"));
        }
        Ok(Detection {
            what,
            history: lines.map(|line| line.trim().to_owned()).collect(),
        })
    }
}
