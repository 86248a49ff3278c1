//! Compares a bucket with the [oracle](crate::oracle), answer by answer.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use flowgate::Refill;

use crate::draw::{self, Steps, Time};
use crate::oracle::Oracle;
use crate::script::{Op, OperationOutcome, Retry, Setup, Step, Trace, write_trace};
use crate::shrink;
use crate::subject::{BucketSubject, BuildSubject, Capabilities};

/// Steps in one history; then a new bucket is drawn.
const HISTORY_LEN: usize = 100;

/// Number of additional deviations that are examined in search of a shorter history.
const SEARCH: usize = 50;

/// Two different answers, with the shortest history that shows them.
///
/// ```
/// use flowgate_testkit::differential::{Disagreement, history};
///
/// /// Text for a failed run.
/// fn report(disagreement: &Disagreement) -> String {
///     let Disagreement { seed, steps, .. } = disagreement;
///     format!("history {seed}, in {} steps:\n{disagreement}", steps.len())
/// }
///
/// for seed in 0..10 {
///     assert!(history(seed).is_ok_and(|ops| ops == 100)); // else: report(&disagreement)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// The bucket.
    pub setup: Setup,
    /// The steps. Only the answers to the last one differ.
    pub steps: Vec<Step>,
    /// Seed of the whole history, for [`history`].
    pub seed: u64,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "flowgate and the oracle disagree (history seed {}); {}",
            self.seed, self.setup
        )?;
        let mut oracle = Oracle::new(&self.setup);
        let Ok(bucket) = self.setup.token_bucket() else {
            return writeln!(f, "  the bucket cannot be built");
        };
        let mut subject = BucketSubject::new(&bucket);
        for step in &self.steps {
            let right = oracle.step(step);
            match catch_unwind(AssertUnwindSafe(|| subject.step(step))) {
                Ok(got) if got == right => writeln!(f, "  {step} -> {got}")?,
                Ok(got) => return writeln!(f, "  {step} -> flowgate: {got}; oracle: {right}"),
                Err(_) => return writeln!(f, "  {step} -> flowgate: panic; oracle: {right}"),
            }
        }
        Ok(())
    }
}

/// Runs random histories until `ops` operations are done or two answers differ. Returns the number of operations.
///
/// The histories are numbered from `seed`, and each is drawn from its number, so a run is reproducible.
///
/// ```
/// use flowgate_testkit::differential::run;
///
/// match run(0, 1000) {
///     Ok(ops) => assert!(ops >= 1000),
///     Err(disagreement) => panic!("{disagreement}"),
/// }
/// ```
///
/// # Errors
///
/// Returns the first disagreement, with a shortened history.
pub fn run(seed: u64, ops: u64) -> Result<u64, Box<Disagreement>> {
    let mut done = 0;
    let mut number = seed;
    while done < ops {
        done += history(number)?;
        number = number.wrapping_add(1);
    }
    Ok(done)
}

/// Runs the history with this number. Returns its number of operations.
///
/// ```
/// use flowgate_testkit::differential::history;
///
/// // Each history has the same number of operations. The seed of a disagreement reproduces it.
/// assert!(history(17).is_ok_and(|ops| ops == 100));
/// ```
///
/// # Errors
///
/// Returns the disagreement, with a shortened history.
pub fn history(seed: u64) -> Result<u64, Box<Disagreement>> {
    let mut rng = Rng::with_seed(seed);
    let setup = draw::setup(&mut rng);
    let mut steps = Vec::with_capacity(HISTORY_LEN);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let bucket = setup
            .token_bucket()
            .expect("a setup is drawn from the accepted range");
        let mut subject = BucketSubject::new(&bucket);
        let mut oracle = Oracle::new(&setup);
        let mut draw = Steps::new(
            &mut rng,
            Capabilities::BUCKET,
            Time::Any,
            false,
            setup.built_ns,
        );
        for _ in 0..HISTORY_LEN {
            let step = draw.next(&oracle);
            steps.push(step);
            let right = oracle.step(&step);
            let got = subject.step(&step);
            if got != right {
                return false;
            }
            draw.note(&right);
        }
        true
    }));
    if let Ok(true) = panicked {
        return Ok(steps.len() as u64);
    }
    let steps = shrink::shortest(&steps, |steps| differs(&setup, steps));
    Err(Box::new(Disagreement { setup, steps, seed }))
}

/// Returns whether only the answers to the *last* step differ.
fn differs(setup: &Setup, steps: &[Step]) -> bool {
    let answers = catch_unwind(AssertUnwindSafe(|| {
        let bucket = setup.token_bucket().ok()?;
        let mut subject = BucketSubject::new(&bucket);
        let mut oracle = Oracle::new(setup);
        steps.iter().position(|step| {
            let (right, got): (OperationOutcome, OperationOutcome) =
                (oracle.step(step), subject.step(step));
            right != got
        })
    }));
    match answers {
        Ok(first) => first.is_some(),
        Err(_) => true,
    }
}

/// Answer of another bucket that differs from the oracle's, with the shortest history.
///
/// ```
/// use flowgate::Refill;
/// use flowgate_testkit::differential::against_oracle;
/// use flowgate_testkit::broken::rising_remaining::RisingRemaining;
/// use flowgate_testkit::subject::{self, BuildSubject};
///
/// assert!(against_oracle(&subject::token_bucket, Refill::Continuous, 100).is_ok());
/// let wrong: BuildSubject<'_> = &|setup, test| test(&mut RisingRemaining::new(setup.quota));
/// println!("{}", against_oracle(wrong, Refill::Continuous, 100).unwrap_err());
/// ```
#[derive(Clone, Debug)]
pub struct Deviation {
    /// The bucket.
    pub setup: Setup,
    /// Steps and answers; the last answer is wrong.
    pub trace: Trace,
    /// The correct last answer.
    pub right: OperationOutcome,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the oracle says: {}; {}", self.right, self.setup)?;
        write_trace(f, &self.trace)
    }
}

/// Runs random histories on small buckets with this refill, with a clock that goes forward.
///
/// The histories contain what the subject can do, except changes of quota and cancellations. These have more than one
/// correct answer.
///
/// ```
/// use flowgate::Refill;
/// use flowgate_testkit::differential::against_oracle;
/// use flowgate_testkit::broken::timeout_keeps_slot::TimeoutKeepsSlot;
/// use flowgate_testkit::subject::BuildSubject;
///
/// let build: BuildSubject<'_> = &|setup, test| test(&mut TimeoutKeepsSlot::new(setup.quota));
/// let deviation = against_oracle(build, Refill::Continuous, 500).unwrap_err();
/// let (_, wrong) = deviation.trace.last().expect("it has an answer that is wrong");
/// assert_ne!(*wrong, deviation.right);
/// ```
///
/// # Errors
///
/// Returns a deviation, with a shortened history.
pub fn against_oracle(
    build: BuildSubject<'_>,
    refill: Refill,
    histories: u64,
) -> Result<(), Box<Deviation>> {
    let mut found = (0..histories).filter_map(|seed| small_history(build, refill, seed));
    let Some(first) = found.next() else {
        return Ok(());
    };
    let size = |deviation: &Deviation| (deviation.trace.len(), deviation.to_string().len());
    let least = found.take(SEARCH).chain([first]).min_by_key(size);
    least.map_or(Ok(()), |deviation| Err(Box::new(deviation)))
}

/// Returns a deviation in the history with this number, shortened.
fn small_history(build: BuildSubject<'_>, refill: Refill, seed: u64) -> Option<Deviation> {
    let mut rng = Rng::with_seed(seed);
    let setup = Setup {
        refill,
        ..Setup::new(draw::small_quota(&mut rng))
    };
    let mut steps = Vec::new();
    build(&setup, &mut |subject| {
        let able = Capabilities {
            set_quota: false,
            set_refill: false,
            ..subject.capabilities()
        };
        let mut draw = Steps::new(&mut rng, able, Time::Forward, true, 0);
        let mut oracle = Oracle::new(&setup);
        while steps.len() < HISTORY_LEN {
            let step = draw.next(&oracle);
            if !matches!(step.op, Op::Cancel { .. }) {
                draw.note(&oracle.step(&step));
                steps.push(step);
            }
        }
    });
    let deviates = |steps: &[Step]| deviation(build, &setup, steps);
    deviates(&steps)?;
    let steps = shrink::shortest(&steps, |steps| deviates(steps).is_some());
    let steps = shrink::simplest(&steps, |steps| deviates(steps).is_some());
    deviates(&steps)
}

/// Returns the first answer that differs from the oracle's. An unreported wait cannot be wrong.
fn deviation(build: BuildSubject<'_>, setup: &Setup, steps: &[Step]) -> Option<Deviation> {
    let mut found = None;
    build(setup, &mut |subject| {
        let mut oracle = Oracle::new(setup);
        let mut trace = Trace::new();
        for step in steps {
            let (right, got) = (oracle.step(step), subject.step(step));
            trace.push((*step, got));
            let untold = got == OperationOutcome::Refused(Retry::Untold);
            if got != right && !(untold && matches!(right, OperationOutcome::Refused(_))) {
                found = Some(Deviation {
                    setup: *setup,
                    trace,
                    right,
                });
                return;
            }
        }
    });
    found
}
