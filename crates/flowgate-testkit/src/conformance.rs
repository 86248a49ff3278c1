//! One suite for every limiter that promises burst + rate · t.
//!
//! A subject declares what it can do, random histories are drawn from that, and the answers are
//! judged contract by contract. A finding names the contract, and shows the shortest history that
//! breaks it.
//!
//! | contract | judged by |
//! |---|---|
//! | C1 safety | the list of grants, every interval; changes of quota included |
//! | C2 no waste | the same list, with what was refused added to it |
//! | C3 honest waiting | the same request, 1 ns before it is due and when it is due |
//! | C4 any clock | stalls, jumps to the end of time, and runs backward: C1 still, and no panic |
//! | C5 refunds | C1 with what was cancelled and refunded taken off the list |
//! | C8 exact rates | at both ends of the range, what is due comes through, to the unit |
//!
//! ```
//! use flowgate_testkit::{conformance, subject};
//!
//! let report = conformance::check(&subject::token_bucket, 100);
//! assert!(report.findings.is_empty(), "{report}");
//! ```

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use fastrand::Rng;
use flowgate::{Carry, Quota, QuotaError};

use crate::draw::{self, Steps, Time};
use crate::oracle::Oracle;
use crate::promise::{self, Grant, Promise};
use crate::rate::Rate;
use crate::script::{Op, Outcome, Retry, Setup, Step, Trace, write_trace};
use crate::shrink;
use crate::subject::{Build, Capabilities, Subject};

/// Steps in a drawn history.
const HISTORY_LEN: usize = 40;

/// A contract that [`check_contract`] can judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Contract {
    /// Never over-admit.
    C1,
    /// Refuse only what would break C1.
    C2,
    /// `retry_after` is the least wait.
    C3,
    /// A stale or backward clock adds no credit.
    C4,
    /// Refunds give back, and never break C1.
    C5,
    /// Rates do not drift.
    C8,
}

impl Contract {
    /// All of them, in order.
    pub const ALL: [Self; 6] = [Self::C1, Self::C2, Self::C3, Self::C4, Self::C5, Self::C8];

    /// What it says, in three words.
    pub fn title(self) -> &'static str {
        match self {
            Self::C1 => "never over-admit",
            Self::C2 => "no waste",
            Self::C3 => "honest waiting",
            Self::C4 => "any clock",
            Self::C5 => "refunds",
            Self::C8 => "exact rates",
        }
    }
}

/// A contract that a subject breaks.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which.
    pub contract: Contract,
    /// What is wrong, in one line.
    pub what: String,
    /// How the limiter was built.
    pub setup: Setup,
    /// The shortest history that shows it.
    pub trace: Trace,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            contract,
            what,
            setup,
            trace,
        } = self;
        writeln!(f, "{contract:?} ({}): {what}; {setup}", contract.title())?;
        write_trace(f, trace)
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// At most one for each contract.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The contracts that are broken, in order.
    pub fn broken(&self) -> Vec<Contract> {
        self.findings
            .iter()
            .map(|finding| finding.contract)
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings
            .iter()
            .try_for_each(|finding| write!(f, "{finding}"))
    }
}

/// Judges every contract by `histories` random histories each.
pub fn check(build: Build<'_>, histories: u64) -> Report {
    let findings = Contract::ALL
        .into_iter()
        .filter_map(|contract| check_contract(build, contract, histories).err());
    Report {
        findings: findings.map(|finding| *finding).collect(),
    }
}

/// Judges one contract by `histories` random histories, the same at each call.
///
/// # Errors
///
/// The first finding, shortened.
pub fn check_contract(
    build: Build<'_>,
    contract: Contract,
    histories: u64,
) -> Result<(), Box<Finding>> {
    if contract == Contract::C8 {
        return exact_rates(build);
    }
    for seed in 0..histories {
        history(build, contract, seed)?;
    }
    Ok(())
}

fn history(build: Build<'_>, contract: Contract, seed: u64) -> Result<(), Box<Finding>> {
    let mut rng = Rng::with_seed(seed);
    let setup = Setup::new(if rng.bool() {
        draw::small_quota(&mut rng)
    } else {
        draw::quota(&mut rng)
    });
    let mut steps = Vec::new();
    let first = run(build, &setup, |subject, trace| {
        let capabilities = asked_of(contract, subject.capabilities(), seed);
        let time = if contract == Contract::C4 {
            Time::Any
        } else {
            Time::Forward
        };
        let mut draw = Steps::new(&mut rng, capabilities, time, true, 0);
        // The other carries grant something beyond the promise, and say so.
        draw.carry = Some(Carry::Kept);
        let mut guide = Oracle::new(&setup);
        for _ in 0..HISTORY_LEN {
            let mut step = draw.next(&guide);
            if contract == Contract::C1 && matches!(step.op, Op::Cancel { .. }) {
                continue; // That is C5's.
            }
            if let Op::Refund { n } = &mut step.op {
                *n = (*n).min(promise::refundable(trace, step.at_ns));
            }
            steps.push(step);
            guide.step(&step);
            let outcome = subject.step(&step);
            draw.note(&outcome);
            trace.push((step, outcome));
            probe(contract, subject, trace)?;
        }
        Ok(())
    });
    let verdict = |(trace, run): (Trace, Result<(), String>)| {
        run.and_then(|()| judge(contract, &setup, &trace))
            .map_err(|what| (what, trace))
    };
    if verdict(first).is_ok() {
        return Ok(());
    }
    let again = |steps: &[Step]| {
        verdict(run(build, &setup, |subject, trace| {
            for step in steps {
                let outcome = subject.step(step);
                trace.push((*step, outcome));
                probe(contract, subject, trace)?;
            }
            Ok(())
        }))
    };
    let steps = shrink::shortest(&steps, |steps| again(steps).is_err());
    match again(&steps) {
        Ok(()) => Ok(()),
        Err((what, trace)) => Err(Box::new(Finding {
            contract,
            what,
            setup,
            trace,
        })),
    }
}

/// What is asked of a subject where this contract is judged.
fn asked_of(contract: Contract, able: Capabilities, seed: u64) -> Capabilities {
    let plain = Capabilities {
        refund: false,
        reserve: false,
        set_quota: false,
        ..able
    };
    match contract {
        // A time that was told does not move with the rate, so it is one or the other.
        Contract::C1 if seed.is_multiple_of(2) => Capabilities {
            set_quota: able.set_quota,
            ..plain
        },
        Contract::C1 => Capabilities {
            reserve: able.reserve,
            ..plain
        },
        Contract::C2 => Capabilities {
            overdraw: false,
            ..plain
        },
        Contract::C3 => Capabilities {
            reserve: able.reserve,
            refund: able.refund,
            ..plain
        },
        Contract::C4 | Contract::C8 => plain,
        Contract::C5 => Capabilities {
            reserve: able.reserve,
            refund: able.refund,
            ..plain
        },
    }
}

/// Builds a subject and acts on it; a panic is a failure.
fn run(
    build: Build<'_>,
    setup: &Setup,
    mut act: impl FnMut(&mut dyn Subject, &mut Trace) -> Result<(), String>,
) -> (Trace, Result<(), String>) {
    let mut trace = Trace::new();
    let acted = catch_unwind(AssertUnwindSafe(|| {
        let mut result = Ok(());
        build(setup, &mut |subject| result = act(subject, &mut trace));
        result
    }));
    (trace, acted.unwrap_or_else(|_| Err("it panics".into())))
}

/// C3: after a refusal, comes back 1 ns early and then in time.
fn probe(contract: Contract, subject: &mut dyn Subject, trace: &mut Trace) -> Result<(), String> {
    let Some((
        Step {
            at_ns,
            op: Op::Try { n },
        },
        Outcome::Refused(retry),
    )) = trace.last().copied()
    else {
        return Ok(());
    };
    if contract != Contract::C3 || !subject.capabilities().retry_after {
        return Ok(());
    }
    let Retry::After(wait) = retry else {
        return Ok(());
    };
    let due_ns = u64::try_from(wait.as_nanos())
        .ok()
        .and_then(|wait| at_ns.checked_add(wait));
    let Some(due_ns) = due_ns.filter(|due_ns| *due_ns > at_ns) else {
        return if wait.is_zero() {
            Err("it says to retry after nothing".into())
        } else {
            Ok(())
        };
    };
    for (at_ns, granted) in [(due_ns - 1, false), (due_ns, true)] {
        let step = Step {
            at_ns,
            op: Op::Try { n },
        };
        let outcome = subject.step(&step);
        trace.push((step, outcome));
        if (outcome == Outcome::Admitted) != granted {
            let when = if granted {
                "in time it is refused"
            } else {
                "a nanosecond earlier it is admitted"
            };
            return Err(format!(
                "it says to retry after {} ns, but {when}",
                wait.as_nanos()
            ));
        }
    }
    Ok(())
}

fn judge(contract: Contract, setup: &Setup, trace: &[(Step, Outcome)]) -> Result<(), String> {
    let safe =
        |trace: &[_]| promise::check_trace(setup, trace).map_err(|broken| broken.to_string());
    match contract {
        Contract::C1 => safe(trace),
        // Whoever gives back what was not taken, or one thing twice, is not promised anything.
        Contract::C5 if !promise::refunds_are_honest(trace) => Ok(()),
        Contract::C5 => safe(trace),
        Contract::C2 => nothing_wasted(setup, trace),
        Contract::C4 => {
            // A stale caller must not do what one with the newest time could not, whether that is
            // the newest time of anybody, or (where a refusal leaves no trace) of anybody who was
            // granted something. In the latter case the callers' own times have to do as well.
            let all = safe(&brought_up_to_date(trace, |_, _| true));
            let granted = || safe(&brought_up_to_date(trace, takes));
            all.or_else(|what| {
                granted()
                    .and_then(|()| safe(trace))
                    .map_err(|_| format!("with stale times brought up to date, {what}"))
            })
        }
        Contract::C3 | Contract::C8 => Ok(()),
    }
}

/// The history with each time raised to the newest of those before it that `counts`.
fn brought_up_to_date(trace: &[(Step, Outcome)], counts: fn(&Step, &Outcome) -> bool) -> Trace {
    let mut newest_ns = 0;
    let up_to_date = trace.iter().map(|(step, outcome)| {
        if counts(step, outcome) {
            newest_ns = newest_ns.max(step.at_ns);
        }
        (
            Step {
                at_ns: step.at_ns.max(newest_ns),
                ..*step
            },
            *outcome,
        )
    });
    up_to_date.collect()
}

fn takes(step: &Step, outcome: &Outcome) -> bool {
    match (step.op, outcome) {
        (Op::Try { n } | Op::Overdraw { n }, Outcome::Admitted) => n > 0,
        (_, Outcome::Took(n)) => *n > 0,
        _ => false,
    }
}

/// C2: what was refused would not have fitted.
fn nothing_wasted(setup: &Setup, trace: &[(Step, Outcome)]) -> Result<(), String> {
    let promise = Promise::bucket(setup.quota);
    for (index, (step, outcome)) in trace.iter().enumerate() {
        let refused = match (step.op, outcome) {
            (Op::Try { n }, Outcome::Refused(_)) => n,
            (Op::TakeUpTo { n }, Outcome::Took(took)) if *took < n => 1,
            _ => continue,
        };
        let mut grants = promise::grants(&trace[..=index]);
        grants.push(Grant::new(step.at_ns, refused));
        if promise.check(&grants).is_ok() {
            return Err(format!(
                "at {} ns {refused} more were refused and would fit",
                step.at_ns
            ));
        }
    }
    Ok(())
}

/// C8: drains buckets at the ends of the range, and counts what then comes through.
fn exact_rates(build: Build<'_>) -> Result<(), Box<Finding>> {
    const SECOND: u64 = 1_000_000_000;
    let counts = [
        1,
        3,
        7,
        80_000,
        300_000_000,
        600_000_000,
        999_999_937,
        1_000_000_000,
    ];
    let periods = [SECOND, 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND];
    for (count, period_ns) in counts
        .into_iter()
        .flat_map(|count| periods.map(|p| (count, p)))
    {
        for burst in [100, 1_000_000, 1_000_000_000] {
            let quota = Quota::new(count, Duration::from_nanos(period_ns))
                .and_then(|quota| quota.try_burst(burst));
            let setup = Setup::new(quota.map_err(|error| refused(count, period_ns, &error))?);
            for pace in [due_instants, polled_too_often] {
                let (trace, result) = run(build, &setup, |subject, trace| {
                    if !drain(subject, trace, burst)? {
                        return Ok(());
                    }
                    pace(subject, trace, &Rate::of(setup.quota))
                });
                result.map_err(|what| {
                    Box::new(Finding {
                        contract: Contract::C8,
                        what,
                        setup,
                        trace,
                    })
                })?;
            }
        }
    }
    Ok(())
}

fn refused(count: u64, period_ns: u64, error: &QuotaError) -> Box<Finding> {
    Box::new(Finding {
        contract: Contract::C8,
        what: format!("{count} per {period_ns} ns is refused: {error}"),
        setup: Setup::new(Quota::per_second(1)),
        trace: Trace::new(),
    })
}

/// Takes the burst at time zero; `false` if the subject cannot do so in reasonable time.
fn drain(subject: &mut dyn Subject, trace: &mut Trace, burst: u64) -> Result<bool, String> {
    let (times, n) = match (subject.capabilities().costs, burst) {
        (true, n) => (1, n),
        (false, 100) => (100, 1),
        (false, _) => return Ok(false),
    };
    for _ in 0..times {
        let step = Step {
            at_ns: 0,
            op: Op::Try { n },
        };
        let outcome = subject.step(&step);
        if outcome != Outcome::Admitted {
            trace.push((step, outcome));
            return Err("the burst is not there at the start".into());
        }
    }
    Ok(true)
}

/// One at each instant at which one is due, and none a nanosecond earlier.
fn due_instants(subject: &mut dyn Subject, trace: &mut Trace, rate: &Rate) -> Result<(), String> {
    let due_ns = |k: i128| u64::try_from(rate.wait_ns(k * rate.price)).unwrap_or(u64::MAX);
    for k in 1..=200 {
        // Before the first instant at which this one is due, if that is after the one before it.
        let early = due_ns(k)
            .checked_sub(1)
            .filter(|early_ns| *early_ns > due_ns(k - 1));
        let tries = early
            .map(|at_ns| (at_ns, false))
            .into_iter()
            .chain([(due_ns(k), true)]);
        for (at_ns, due) in tries {
            let step = Step {
                at_ns,
                op: Op::Try { n: 1 },
            };
            let outcome = subject.step(&step);
            if (outcome == Outcome::Admitted) != due {
                trace.push((step, outcome));
                let word = if due {
                    "is due and refused"
                } else {
                    "is early and admitted"
                };
                return Err(format!("number {k} after the burst {word} at {at_ns} ns"));
            }
        }
    }
    Ok(())
}

/// Polling ten times as often as tokens come, and setting the same quota again, may cost nothing.
fn polled_too_often(
    subject: &mut dyn Subject,
    trace: &mut Trace,
    rate: &Rate,
) -> Result<(), String> {
    const POLLS: u64 = 2_000;
    // A poll less than a tenth of the time of a hundred tokens, so the bucket is never full.
    let step_ns = u64::try_from(rate.price / rate.accrual / 10)
        .unwrap_or(u64::MAX)
        .max(1);
    let mut admitted = 0;
    for poll in 1..=POLLS {
        let step = Step {
            at_ns: poll * step_ns,
            op: Op::Try { n: 1 },
        };
        while subject.step(&step) == Outcome::Admitted {
            admitted += 1;
        }
        if poll == POLLS {
            trace.push((step, Outcome::Refused(Retry::Untold)));
        }
    }
    let last_ns = POLLS * step_ns;
    match rate.accrual * i128::from(last_ns) / rate.price {
        due if due == admitted => Ok(()),
        due => Err(format!(
            "polled every {step_ns} ns for {last_ns} ns, {admitted} came through and {due} were due"
        )),
    }
}
