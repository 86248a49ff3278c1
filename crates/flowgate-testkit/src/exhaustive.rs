//! Tries every short history of reservations and cancellations.
//!
//! How much a cancelled reservation may return while later ones exist is the one part of a token bucket that needs an
//! argument besides arithmetic. So this module tries every history within small bounds: some reservations and
//! cancellations, then a pause, and then a new caller that takes all available tokens. All remaining grants, each at
//! its time, must keep the bound.

use core::fmt;

use crate::promise::{self, Broken};
use crate::script::{Op, OperationOutcome, Setup, Step, Trace, write_trace};
use crate::subject::{BuildSubject, Subject};

/// Bounds of the histories.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::exhaustive::{Bounds, cancellations};
/// use flowgate_testkit::script::Setup;
/// use flowgate_testkit::subject;
///
/// let setup = Setup::new(Quota::per_second(1_000_000_000).burst(2)); // one per ns
/// let bounds = Bounds { steps: 3, last_ns: 2, end_ns: 10, backward: false };
/// let tried = cancellations(&subject::token_bucket, &setup, &bounds);
/// assert!(tried.is_ok_and(|histories| histories > 500)); // and none gives back more than it may
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of reservations and cancellations together.
    pub steps: usize,
    /// They happen at 0 to this many nanoseconds. Choose a rate of about 1 per ns.
    pub last_ns: u64,
    /// The new caller takes tokens until this time, in nanoseconds.
    pub end_ns: u64,
    /// Whether times may also run backward.
    pub backward: bool,
}

/// History that violates the bound.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::exhaustive::{Bounds, cancellations};
/// use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
/// use flowgate_testkit::subject::{BucketSubject, BuildSubject, Capabilities, Subject};
///
/// /// Returns one unit more than it reports.
/// struct Generous<'a>(BucketSubject<'a>);
///
/// impl Subject for Generous<'_> {
///     fn capabilities(&self) -> Capabilities {
///         Capabilities::ALL
///     }
///
///     fn step(&mut self, step: &Step) -> OperationOutcome {
///         if let Op::Cancel { .. } = step.op {
///             self.0.step(&Step { op: Op::Refund { n: 1 }, ..*step });
///         }
///         self.0.step(step)
///     }
/// }
///
/// let build: BuildSubject<'_> = &|setup, test| {
///     let bucket = setup.token_bucket().expect("the setup is in range");
///     test(&mut Generous(BucketSubject::new(&bucket)));
/// };
/// let setup = Setup::new(Quota::per_second(1_000_000_000).burst(2)); // one per ns
/// let bounds = Bounds { steps: 3, last_ns: 2, end_ns: 10, backward: false };
/// let found = cancellations(build, &setup, &bounds).unwrap_err();
/// assert!(found.broken.admitted > found.broken.allowed);
/// println!("{found}"); // the history, and the violation
/// ```
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The bucket.
    pub setup: Setup,
    /// The history.
    pub trace: Trace,
    /// The violated interval.
    pub broken: Broken,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.setup, self.broken)?;
        write_trace(f, &self.trace)
    }
}

/// Tries every history within `bounds`, shorter ones first. Returns their number.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::exhaustive::{Bounds, cancellations};
/// use flowgate_testkit::script::Setup;
/// use flowgate_testkit::subject;
///
/// let setup = Setup::new(Quota::per_second(1_000_000_000).burst(1));
/// let bounds = Bounds { steps: 2, last_ns: 1, end_ns: 4, backward: true };
/// let tried = cancellations(&subject::oracle, &setup, &bounds);
/// assert!(tried.is_ok_and(|histories| histories > 0)); // all of them, and none breaks the promise
/// ```
///
/// # Errors
///
/// Returns a shortest history that violates the bound.
pub fn cancellations(
    build: BuildSubject<'_>,
    setup: &Setup,
    bounds: &Bounds,
) -> Result<u64, Box<Counterexample>> {
    let mut histories = 0;
    for steps in 1..=bounds.steps {
        let mut search = Search {
            build,
            setup,
            bounds,
            steps: Vec::new(),
            held: 0,
            histories: 0,
        };
        search.extend(steps)?;
        histories += search.histories;
    }
    Ok(histories)
}

struct Search<'a> {
    build: BuildSubject<'a>,
    setup: &'a Setup,
    bounds: &'a Bounds,
    steps: Vec<Step>,
    held: usize,
    histories: u64,
}

impl Search<'_> {
    fn extend(&mut self, left: usize) -> Result<(), Box<Counterexample>> {
        if left == 0 {
            // Without a cancellation at the end it is a longer history's beginning.
            return match self.steps.last() {
                Some(Step {
                    op: Op::Cancel { .. },
                    ..
                }) => self.finish(),
                _ => Ok(()),
            };
        }
        let earliest = match self.steps.last() {
            Some(step) if !self.bounds.backward => step.at_ns,
            _ => 0,
        };
        let burst = self.setup.quota.max_burst();
        for at_ns in earliest..=self.bounds.last_ns {
            for n in 1..=burst {
                self.steps.push(Step {
                    at_ns,
                    op: Op::Reserve { n, within_ns: None },
                });
                self.held += 1;
                self.extend(left - 1)?;
                self.held -= 1;
                self.steps.pop();
            }
            for pick in 0..self.held {
                self.steps.push(Step {
                    at_ns,
                    op: Op::Cancel { pick },
                });
                self.held -= 1;
                self.extend(left - 1)?;
                self.held += 1;
                self.steps.pop();
            }
        }
        Ok(())
    }

    /// Lets a new caller take everything from each possible time on.
    fn finish(&mut self) -> Result<(), Box<Counterexample>> {
        let now_ns = self.steps.iter().map(|step| step.at_ns).max().unwrap_or(0);
        for from_ns in now_ns..=self.bounds.end_ns {
            self.histories += 1;
            let mut trace = Trace::new();
            let mut broken = None;
            (self.build)(self.setup, &mut |subject: &mut dyn Subject| {
                let taken = (from_ns..=self.bounds.end_ns).map(|at_ns| Step {
                    at_ns,
                    op: Op::TakeUpTo { n: u64::MAX },
                });
                for step in self.steps.iter().copied().chain(taken) {
                    let outcome = subject.step(&step);
                    if outcome != OperationOutcome::Took(0) {
                        trace.push((step, outcome));
                    }
                }
                broken = promise::check_trace(self.setup, &trace).err();
            });
            if let Some(broken) = broken {
                // What came after shows nothing more.
                trace.retain(|(step, _)| step.at_ns <= broken.to_ns);
                return Err(Box::new(Counterexample {
                    setup: *self.setup,
                    trace,
                    broken,
                }));
            }
        }
        Ok(())
    }
}
