//! A specimen with its label, and the checker that has to convict it.

use core::fmt;

use flowgate::Refill;

use crate::conformance::{self, Contract};
use crate::differential;
use crate::interleave::Race;
use crate::promise::Kind;
use crate::script::Setup;
use crate::subject::Subject;

/// Random histories that a specimen is given the chance to fail in.
const HISTORIES: u64 = 500;

/// Builds a specimen and lends it; see [`Build`](crate::subject::Build).
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, Outcome, Setup, Step};
/// use flowgate_testkit::specimens::Builder;
/// use flowgate_testkit::specimens::starts_empty::StartsEmpty;
///
/// let build: Builder = |setup, test| test(&mut StartsEmpty::new(setup.quota));
/// build(&Setup::new(Quota::per_second(1)), &mut |subject| {
///     let first = Step { at_ns: 0, op: Op::Try { n: 1 } };
///     assert_ne!(subject.step(&first), Outcome::Admitted);
/// });
/// ```
pub type Builder = fn(&Setup, &mut dyn FnMut(&mut dyn Subject));

/// What convicts a specimen.
///
/// ```
/// use flowgate_testkit::specimens::{Checker, exhibits};
///
/// let exhibits = exhibits();
/// let races = exhibits.iter().filter(|exhibit| matches!(exhibit.checker, Checker::Schedules(..)));
/// assert!(races.clone().any(|exhibit| exhibit.name == "single_writer"));
/// let single_writer = races.clone().find(|exhibit| exhibit.name == "single_writer");
/// let checker = single_writer.map(|exhibit| exhibit.checker.to_string());
/// assert_eq!(checker.as_deref(), Some("schedules, C1 never over-admit"));
/// ```
#[derive(Clone, Copy)]
pub enum Checker {
    /// The conformance suite, by this contract, for a promise of this kind.
    Conformance(Kind, Contract, Builder),
    /// Every schedule of threads, shortest first; the contract that breaks on one.
    Schedules(Contract, fn() -> Result<u64, Box<Race>>),
    /// The exact bucket with the same refill, answer by answer.
    Oracle(Refill, Builder),
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

/// One page of the museum.
///
/// ```
/// use flowgate_testkit::specimens::exhibits;
///
/// let exhibits = exhibits();
/// let exhibit = exhibits.iter().find(|exhibit| exhibit.name == "starts_empty").expect("there is one");
/// println!("{}; take {} instead", exhibit.fault, exhibit.instead);
/// let conviction = exhibit.convict()?;
/// assert!(conviction.what.contains(exhibit.finding));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Exhibit {
    /// The specimen's module.
    pub name: &'static str,
    /// What kind of limiter it was, and for what.
    pub origin: &'static str,
    /// What is wrong with it.
    pub fault: &'static str,
    /// What finds that.
    pub checker: Checker,
    /// What the finding says, in part.
    pub finding: &'static str,
    /// What to use.
    pub instead: &'static str,
}

/// What a checker found.
///
/// ```
/// use flowgate_testkit::specimens::exhibits;
///
/// let exhibits = exhibits();
/// let exhibit = exhibits.iter().find(|exhibit| exhibit.name == "single_writer").expect("there is one");
/// let conviction = exhibit.convict()?;
/// assert_eq!(conviction.what, "at 0s 2 were admitted, 1 allowed");
/// assert_eq!(conviction.history[0], "thread 0: sees room at place 0");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conviction {
    /// In one line.
    pub what: String,
    /// The shortest history that shows it, line by line.
    pub history: Vec<String>,
}

impl Exhibit {
    /// Puts the specimen before its checker.
    ///
    /// ```
    /// use flowgate_testkit::specimens::exhibits;
    ///
    /// let exhibits = exhibits();
    /// let exhibit = exhibits.iter().find(|exhibit| exhibit.name == "rising_remaining").expect("there is one");
    /// assert!(exhibit.convict().is_ok());
    ///
    /// let mislabelled = flowgate_testkit::specimens::Exhibit { finding: "it panics", ..*exhibit };
    /// assert!(mislabelled.convict().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If nothing is found, or something other than what the label says.
    pub fn convict(&self) -> Result<Conviction, String> {
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
        let found = found.ok_or_else(|| format!("{} does not find it", self.checker))?;
        let mut lines = found.lines().map(str::to_owned);
        let what = lines.next().unwrap_or_default();
        if !what.contains(self.finding) {
            let (checker, finding) = (self.checker, self.finding);
            return Err(format!("{checker} finds '{what}', not '{finding}'"));
        }
        Ok(Conviction {
            what,
            history: lines.map(|line| line.trim().to_owned()).collect(),
        })
    }
}
