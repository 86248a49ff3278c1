//! One test suite for every limiter.
//!
//! A subject declares its [kind](Kind) of bound and its operations. The suite draws random histories of these
//! operations, and judges the answers by each contract. A finding names the contract, and shows the shortest history
//! that violates it. [flowgate's guide](flowgate::guide::guarantees) defines the contracts.
//!
//! | contract | judged by |
//! |---|---|
//! | C1 never over-admits | the list of grants in every interval or window, including changes of quota, resets and handovers (export and import) |
//! | C2 never refuses needlessly | the same list with each refusal added ([`Promise::must_grant`]); reads, changes to the same quota and handovers cost nothing |
//! | C3 exact retry-after | the same request at that time, and 1 ns earlier; also at times before a change or a handover; the maximum wait is respected |
//! | C4 safe under clock anomalies | stalls, jumps to the end of time, and backward clocks: C1 holds, and nothing panics |
//! | C5 sound refunds | C1 without what was cancelled or refunded, and without waits that were dropped |
//! | C8 exact rates | at both ends of the range, exactly the scheduled units are admitted |
//!
//! ```
//! use flowgate_testkit::promise::Kind;
//! use flowgate_testkit::{conformance, subject};
//!
//! let report = conformance::check(Kind::Bucket, &subject::token_bucket, 100);
//! assert!(report.findings.is_empty(), "{report}");
//! ```
//!
//! [`Promise::must_grant`]: crate::promise::Promise::must_grant

mod exact_rates;

use core::fmt;
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use flowgate::Carry;

use crate::draw::{self, Guide, Recent, Steps, Theme, Time};
use crate::oracle::Oracle;
use crate::promise::{self, Kind, TimedGrant};
use crate::script::{self, Op, OperationOutcome, Retry, Setup, Step, Trace, write_trace};
use crate::shrink;
use crate::subject::{BuildSubject, Capabilities, Subject};

/// Steps in a random history.
const HISTORY_LEN: usize = 40;

/// Number of additional histories after a failure, in search of a shorter one.
const SEARCH: u64 = 100;

/// Contract that [`check_contract`] can judge, one of [flowgate's guarantees](flowgate::guide::guarantees).
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject;
///
/// for contract in Contract::ALL {
///     let judged = check_contract(Kind::Bucket, &subject::token_bucket, contract, 20);
///     assert!(judged.is_ok(), "{}", contract.title());
/// }
/// assert_eq!(Contract::C3.title(), "exact retry-after");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Contract {
    /// Never over-admits.
    C1,
    /// Never refuses needlessly: a refusal would have violated C1.
    C2,
    /// Exact retry-after: the reported wait is the shortest one.
    C3,
    /// Safe under clock anomalies: a stale or backward clock adds no credit.
    C4,
    /// Sound refunds: a refund returns units, and never violates C1.
    C5,
    /// Exact rates: no drift.
    C8,
}

impl Contract {
    /// All contracts in order.
    pub const ALL: [Self; 6] = [Self::C1, Self::C2, Self::C3, Self::C4, Self::C5, Self::C8];

    /// Returns a title of a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::C1 => "never over-admits",
            Self::C2 => "never refuses needlessly",
            Self::C3 => "exact retry-after",
            Self::C4 => "safe under clock anomalies",
            Self::C5 => "sound refunds",
            Self::C8 => "exact rates",
        }
    }
}

/// Violation of a contract.
///
/// ```
/// use flowgate_testkit::conformance::{self, Contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::broken::minting_clock::MintingClock;
/// use flowgate_testkit::subject::BuildSubject;
///
/// let build: BuildSubject<'_> = &|setup, test| test(&mut MintingClock::new(setup.quota));
/// let found = conformance::check_contract(Kind::Bucket, build, Contract::C4, 100);
/// let finding = found.unwrap_err();
/// assert_eq!(finding.contract.title(), "safe under clock anomalies");
/// println!("{finding}"); // the contract, the violation, and the shortest history
/// ```
#[derive(Clone, Debug)]
pub struct Finding {
    /// The violated contract.
    pub contract: Contract,
    /// The violation, in one line.
    pub what: String,
    /// How the limiter was built.
    pub setup: Setup,
    /// The shortest history that shows the violation.
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

/// Findings of a check.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::broken::late_retry::LateRetry;
/// use flowgate_testkit::subject::BuildSubject;
///
/// let build: BuildSubject<'_> = &|setup, test| test(&mut LateRetry::new(setup.quota));
/// let report = check(Kind::Bucket, build, 100);
/// assert_eq!(report.broken(), [Contract::C3]);
/// println!("{report}"); // with the shortest history of each finding
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConformanceReport {
    /// At most one finding per contract.
    pub findings: Vec<Finding>,
}

impl ConformanceReport {
    /// Returns the violated contracts in order.
    pub fn broken(&self) -> Vec<Contract> {
        self.findings
            .iter()
            .map(|finding| finding.contract)
            .collect()
    }
}

impl fmt::Display for ConformanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings
            .iter()
            .try_for_each(|finding| write!(f, "{finding}"))
    }
}

/// Judges every contract of a limiter of this kind, by `histories` random histories each.
///
/// ```
/// use flowgate_testkit::conformance::check;
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject;
///
/// let report = check(Kind::Sliding, &subject::sliding_window, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn check(kind: Kind, build: BuildSubject<'_>, histories: u64) -> ConformanceReport {
    let findings = Contract::ALL
        .into_iter()
        .filter_map(|contract| check_contract(kind, build, contract, histories).err());
    ConformanceReport {
        findings: findings.map(|finding| *finding).collect(),
    }
}

/// Judges one contract by `histories` random histories, which are the same in each call.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::broken::starts_empty::StartsEmpty;
/// use flowgate_testkit::subject::BuildSubject;
///
/// let build: BuildSubject<'_> = &|setup, test| test(&mut StartsEmpty::new(setup.quota));
/// assert!(check_contract(Kind::Bucket, build, Contract::C1, 100).is_ok());
/// let finding = check_contract(Kind::Bucket, build, Contract::C2, 100).unwrap_err();
/// assert_eq!(finding.trace.len(), 1); // the first call shows it
/// ```
///
/// # Errors
///
/// Returns a finding with a shortened history.
pub fn check_contract(
    kind: Kind,
    build: BuildSubject<'_>,
    contract: Contract,
    histories: u64,
) -> Result<(), Box<Finding>> {
    if contract == Contract::C8 {
        return exact_rates::check(kind, build);
    }
    for seed in 0..histories {
        let Err(found) = history(kind, build, contract, seed) else {
            continue;
        };
        let more = (seed + 1..(seed + SEARCH).min(histories))
            .filter_map(|seed| history(kind, build, contract, seed).err());
        let size = |finding: &Finding| {
            let per_second = finding.setup.quota.period() == Duration::from_secs(1);
            (finding.trace.len(), !per_second, finding.to_string().len())
        };
        return Err(more.fold(found, |least, found| {
            if size(&found) < size(&least) {
                found
            } else {
                least
            }
        }));
    }
    Ok(())
}

/// Judges one contract by the history with this number. Returns its number of operations.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, history};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject;
///
/// let operations = history(Kind::Sliding, &subject::sliding_window, Contract::C2, 17);
/// assert!(operations.is_ok_and(|operations| operations == 40));
/// ```
///
/// # Errors
///
/// Returns a finding with a shortened history.
pub fn history(
    kind: Kind,
    build: BuildSubject<'_>,
    contract: Contract,
    seed: u64,
) -> Result<u64, Box<Finding>> {
    let mut rng = Rng::with_seed(seed);
    let small = rng.bool();
    let setup = Setup::of(kind, draw::quota_for(kind, &mut rng, small));
    let mut steps = Vec::new();
    let mut allowance = Allowance::default();
    let first = run(build, &setup, |subject, trace| {
        allowance = Allowance {
            withheld: subject.may_withhold(),
            undated: subject.most_undated(),
        };
        let plan = Plan::of(contract, &setup, subject.capabilities(), seed);
        let mut draw = Steps::new(&mut rng, plan.capabilities, plan.time, true, 0);
        (draw.kind, draw.theme) = (kind, plan.theme);
        let mut oracle = Oracle::new(&setup);
        let mut recent = Recent::new(setup.quota);
        for _ in 0..HISTORY_LEN {
            let guide: &dyn Guide = if kind.has_burst() { &oracle } else { &recent };
            // The other carries grant something beyond the promise, and say so.
            let resets = matches!(plan.theme, Theme::Debts(_)) && draw.rng.u8(..4) > 0;
            draw.carry = Some(if resets { Carry::Reset } else { Carry::Kept });
            let mut step = draw.next(guide);
            let cancels = matches!(step.op, Op::Cancel { .. });
            if contract == Contract::C1 && cancels && !plan.capabilities.hold {
                continue; // That is C5's.
            }
            if let Some(quota) = step.op.new_quota() {
                // What is admitted is counted in units, which have to stay the same.
                if quota.scale() != setup.quota.scale() {
                    continue;
                }
                let asked_ns = trace.iter().map(|(step, _)| step.at_ns);
                if plan.time == Time::Behind {
                    step.at_ns = asked_ns.fold(step.at_ns, u64::max);
                }
            }
            if let Op::Refund { n } = &mut step.op {
                *n = (*n).min(promise::refundable(trace, step.at_ns));
            }
            steps.push(step);
            oracle.step(&Step {
                op: as_a_bucket(kind, step.op),
                ..step
            });
            let outcome = subject.step(&step);
            draw.note(&outcome);
            trace.push((step, outcome));
            probe(contract, subject, trace)?;
            recent.note(trace);
        }
        Ok(())
    });
    let verdict = |(trace, run): (Trace, Result<(), String>)| {
        run.and_then(|()| judge(contract, &setup, allowance, &trace))
            .map_err(|what| (what, trace))
    };
    let operations = first.0.len() as u64;
    if verdict(first).is_ok() {
        return Ok(operations);
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
    let steps = shrink::simplest(&steps, |steps| again(steps).is_err());
    match again(&steps) {
        Ok(()) => Ok(operations),
        Err((what, trace)) => Err(Box::new(Finding {
            contract,
            what,
            setup,
            trace,
        })),
    }
}

/// Returns what the oracle has to do to stay in the same state.
fn as_a_bucket(kind: Kind, op: Op) -> Op {
    match op {
        Op::Try { n } if kind == Kind::PayAfter => Op::Overdraw { n },
        op => op,
    }
}

/// What a contract's histories ask of a subject, and at which times.
struct Plan {
    capabilities: Capabilities,
    time: Time,
    theme: Theme,
}

impl Plan {
    fn of(contract: Contract, setup: &Setup, able: Capabilities, seed: u64) -> Self {
        let plain = Capabilities {
            refund: false,
            reserve: false,
            set_quota: false,
            set_refill: false,
            wait: false,
            hand_over: false,
            ..able
        };
        let changing = Capabilities {
            set_quota: able.set_quota,
            ..plain
        };
        let giving_back = Capabilities {
            reserve: able.reserve,
            refund: able.refund,
            ..plain
        };
        let frugal = Capabilities {
            overdraw: false,
            ..plain
        };
        let about = |theme, capabilities, time| Self {
            capabilities,
            time,
            theme,
        };
        let usual = |capabilities, time| about(Theme::Usual, capabilities, time);
        let handovers = |capabilities, time| {
            let capabilities = Capabilities {
                hand_over: true,
                ..capabilities
            };
            about(Theme::Handovers, capabilities, time)
        };
        let odd = !seed.is_multiple_of(2);
        let fourth = seed.is_multiple_of(4);
        match contract {
            Contract::C1 if fourth && able.hand_over => handovers(changing, Time::Forward),
            Contract::C2 if fourth && able.hand_over => handovers(frugal, Time::Forward),
            Contract::C3 | Contract::C5 if fourth && able.hand_over => {
                handovers(giving_back, Time::Forward)
            }
            Contract::C4 if fourth && able.hand_over => handovers(plain, Time::Any),
            Contract::C3 | Contract::C4 if seed % 4 == 1 && able.hand_over => {
                handovers(changing, Time::Behind)
            }
            // A time that was told does not move with the rate, so it is one or the other.
            Contract::C1 if odd => usual(
                Capabilities {
                    reserve: able.reserve,
                    ..plain
                },
                Time::Forward,
            ),
            Contract::C1 if able.set_quota && able.overdraw && fourth => {
                about(Theme::Debts(setup.quota), changing, Time::Forward)
            }
            Contract::C1 => usual(changing, Time::Forward),
            Contract::C2 if odd && able.own_clock && able.set_quota => about(
                Theme::FarAhead(setup.quota),
                Capabilities {
                    set_quota: true,
                    hand_over: able.hand_over,
                    ..frugal
                },
                Time::Forward,
            ),
            Contract::C2 => usual(frugal, Time::Forward),
            Contract::C3 | Contract::C4 if odd && able.set_quota => {
                about(Theme::Changes, changing, Time::Behind)
            }
            Contract::C4 => usual(plain, Time::Any),
            Contract::C5 if odd && able.wait => about(
                Theme::Waits,
                Capabilities {
                    wait: true,
                    ..plain
                },
                Time::Forward,
            ),
            Contract::C3 | Contract::C5 => usual(giving_back, Time::Forward),
            Contract::C8 => usual(plain, Time::Forward),
        }
    }
}

/// Builds a subject and runs the steps; a panic is a failure.
fn run(
    build: BuildSubject<'_>,
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

/// C3: tries every reported wait.
fn probe(contract: Contract, subject: &mut dyn Subject, trace: &mut Trace) -> Result<(), String> {
    let (Contract::C3, Some((step, outcome))) = (contract, trace.last().copied()) else {
        return Ok(());
    };
    match (step.op, outcome) {
        (Op::Try { n }, OperationOutcome::Refused(Retry::After(wait)))
            if subject.capabilities().retry_after =>
        {
            match u64::try_from(wait.as_nanos()) {
                Ok(wait_ns) => comes_back(subject, trace, step.at_ns, n, wait_ns),
                // Due after the clock's end.
                Err(_) => Ok(()),
            }
        }
        (
            Op::Reserve {
                within_ns: Some(most_ns),
                ..
            },
            OperationOutcome::Promised { at_ns },
        ) if at_ns.saturating_sub(step.at_ns) > most_ns => Err(format!(
            "a wait of {} was told where {} was the longest that is accepted",
            script::PrintedTime(at_ns - step.at_ns),
            script::PrintedTime(most_ns),
        )),
        (
            Op::Reserve {
                n,
                within_ns: Some(most_ns),
            },
            OperationOutcome::Refused(_),
        ) => waits_too_long(subject, trace, step.at_ns, n, most_ns),
        _ => Ok(()),
    }
}

/// After a refusal, retries 1 ns too early and then in time.
fn comes_back(
    subject: &mut dyn Subject,
    trace: &mut Trace,
    at_ns: u64,
    n: u64,
    wait_ns: u64,
) -> Result<(), String> {
    if wait_ns == 0 {
        return Err("it says to retry after nothing".into());
    }
    let Some(due_ns) = at_ns.checked_add(wait_ns) else {
        return Ok(());
    };
    for (at_ns, granted) in [(due_ns - 1, false), (due_ns, true)] {
        let step = Step {
            at_ns,
            op: Op::Try { n },
        };
        let outcome = subject.step(&step);
        trace.push((step, outcome));
        if (outcome == OperationOutcome::Admitted) != granted {
            let when = if granted {
                "in time it is refused"
            } else {
                "a nanosecond earlier it is admitted"
            };
            let wait = script::PrintedTime(wait_ns);
            return Err(format!("it says to retry after {wait}, but {when}"));
        }
    }
    Ok(())
}

/// A refusal because of the maximum wait requires a longer wait without that maximum.
fn waits_too_long(
    subject: &mut dyn Subject,
    trace: &mut Trace,
    at_ns: u64,
    n: u64,
    most_ns: u64,
) -> Result<(), String> {
    let step = Step {
        at_ns,
        op: Op::Reserve { n, within_ns: None },
    };
    let outcome = subject.step(&step);
    trace.push((step, outcome));
    match outcome {
        OperationOutcome::Promised { at_ns: told_ns }
            if told_ns.saturating_sub(at_ns) <= most_ns =>
        {
            Err(format!(
                "it refuses to wait for up to {}, and the wait is {}",
                script::PrintedTime(most_ns),
                script::PrintedTime(told_ns.saturating_sub(at_ns)),
            ))
        }
        _ => Ok(()),
    }
}

/// What a subject's documentation allows it.
#[derive(Clone, Copy, Default)]
struct Allowance {
    /// [`Subject::may_withhold`].
    withheld: u64,
    /// [`Subject::most_undated`].
    undated: u64,
}

fn judge(
    contract: Contract,
    setup: &Setup,
    allowance: Allowance,
    trace: &[(Step, OperationOutcome)],
) -> Result<(), String> {
    let safe =
        |trace: &[_]| promise::check_trace(setup, trace).map_err(|broken| broken.to_string());
    match contract {
        Contract::C1 => safe(trace),
        // Whoever gives back what was not taken, or one thing twice, is not promised anything.
        Contract::C5 if !promise::refunds_are_honest(trace) => Ok(()),
        Contract::C5 => safe(trace),
        Contract::C2 => nothing_wasted(setup, allowance.withheld, trace),
        Contract::C4 if trace.iter().any(changes) => {
            behind_a_change(setup, allowance.undated, trace)
        }
        Contract::C4 => {
            // A stale caller must not do what one with the newest time could not, whether that is
            // the newest time of anybody, or (where a refusal leaves no trace) of anybody who was
            // granted something, or of a handover. For a bucket, in the latter case, the callers' own times have to
            // do as well; a window decides a stale call at the newest time.
            let newest = brought_up_to_date(trace, |_| true);
            let all = safe(&newest);
            let granted = || safe(&brought_up_to_date(trace, is_remembered));
            let own = || match setup.kind {
                Kind::Bucket | Kind::PayAfter => by_own_times(setup, allowance.undated, trace),
                _ => Ok(()),
            };
            // What stripes hold is settled by the newest time of anybody, from some operation on.
            let settled = || {
                allowance.undated > 0
                    && (1..trace.len()).any(|from| {
                        let mut switched = brought_up_to_date(&trace[..from], is_remembered);
                        switched.extend_from_slice(&newest[from..]);
                        safe(&switched).is_ok()
                    })
            };
            match all {
                Err(_) if granted().and_then(|()| own()).is_ok() || settled() => Ok(()),
                Err(what) => Err(format!("with stale times brought up to date, {what}")),
                Ok(()) => Ok(()),
            }
        }
        Contract::C3 | Contract::C8 => Ok(()),
    }
}

/// C4 with changes of quota: C1 by the time at which a limiter's documentation counts a stale call.
fn behind_a_change(
    setup: &Setup,
    most_undated: u64,
    trace: &[(Step, OperationOutcome)],
) -> Result<(), String> {
    let safe =
        |trace: &[_]| promise::check_trace(setup, trace).map_err(|broken| broken.to_string());
    let as_the_last_grant = || safe(&brought_up_to_date(trace, is_remembered));
    match setup.kind {
        Kind::Bucket | Kind::PayAfter | Kind::NextPays | Kind::InFlight => {
            by_own_times(setup, most_undated, trace)
        }
        // Of all, or of those before the change.
        Kind::Window(_) | Kind::Sliding | Kind::Segmented { .. } | Kind::Decaying => {
            as_the_last_grant()
                .or_else(|what| safe(&brought_up_in_its_era(trace)).map_err(|_| what))
        }
        // As the beginning of the current window, which a change may be.
        Kind::Approximate => as_the_last_grant().or_else(|what| {
            let either = |did: &(Step, OperationOutcome)| is_remembered(did) || changes(did);
            safe(&brought_up_to_date(trace, either)).map_err(|_| what)
        }),
    }
}

/// C1 by the times of the callers. Calls that may not have read the clock count at the newest time so far.
fn by_own_times(
    setup: &Setup,
    most_undated: u64,
    trace: &[(Step, OperationOutcome)],
) -> Result<(), String> {
    let safe =
        |trace: &[_]| promise::check_trace(setup, trace).map_err(|broken| broken.to_string());
    safe(trace).or_else(|what| match most_undated {
        0 => Err(what),
        most => safe(&undated_brought_up(trace, most, |_| true))
            .or_else(|_| safe(&undated_brought_up(trace, most, takes)))
            .map_err(|_| what),
    })
}

/// Returns the history with each time raised to the newest of those before it that `counts`.
fn brought_up_to_date(
    trace: &[(Step, OperationOutcome)],
    counts: impl Fn(&(Step, OperationOutcome)) -> bool,
) -> Trace {
    let mut newest_ns = 0;
    let up_to_date = trace.iter().map(|did| {
        let (step, outcome) = did;
        if counts(did) {
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

/// Returns the history with each time raised to that of the newest grant or handover before it, until the next change
/// of quota.
fn brought_up_in_its_era(trace: &[(Step, OperationOutcome)]) -> Trace {
    let mut newest_ns = 0;
    // Since when each quota has been in force, and the newest grant until the next one.
    let mut eras = vec![(0, 0)];
    let brought_up = trace.iter().map(|did| {
        let (step, outcome) = did;
        newest_ns = newest_ns.max(step.at_ns);
        if changes(did) {
            eras.push((newest_ns, 0));
        }
        let era = eras.partition_point(|(since_ns, _)| *since_ns <= step.at_ns);
        let granted = eras[..era].iter().map(|(_, granted_ns)| *granted_ns);
        let at_ns = granted.fold(step.at_ns, u64::max);
        if is_remembered(did) {
            eras[era - 1].1 = at_ns;
        }
        (Step { at_ns, ..*step }, *outcome)
    });
    brought_up.collect()
}

/// Returns the history with raised times of grants of up to `most` units before the first change of quota. These grants
/// may not have read the clock.
fn undated_brought_up(
    trace: &[(Step, OperationOutcome)],
    most: u64,
    counts: impl Fn(&(Step, OperationOutcome)) -> bool,
) -> Trace {
    let mut newest_ns = 0;
    let mut has_changed = false;
    let brought_up = trace.iter().map(|did| {
        let (step, outcome) = did;
        if counts(did) {
            newest_ns = newest_ns.max(step.at_ns);
        }
        has_changed |= changes(did);
        let n = match (step.op, *outcome) {
            (Op::Try { n }, OperationOutcome::Admitted) | (_, OperationOutcome::Took(n)) => n,
            _ => u64::MAX,
        };
        let at_ns = match n <= most && !has_changed {
            true => newest_ns.max(step.at_ns),
            false => step.at_ns,
        };
        (Step { at_ns, ..*step }, *outcome)
    });
    brought_up.collect()
}

fn changes((step, outcome): &(Step, OperationOutcome)) -> bool {
    match outcome {
        OperationOutcome::Changed => true,
        OperationOutcome::HandedOver => step.op.new_quota().is_some(),
        _ => false,
    }
}

/// Returns whether the limiter remembers the time of the step. An import carries windows to its own time.
fn is_remembered(did: &(Step, OperationOutcome)) -> bool {
    takes(did) || did.1 == OperationOutcome::HandedOver
}

fn takes((step, outcome): &(Step, OperationOutcome)) -> bool {
    match (step.op, outcome) {
        (Op::Try { n } | Op::Overdraw { n }, OperationOutcome::Admitted) => n > 0,
        (_, OperationOutcome::Took(n)) => *n > 0,
        _ => false,
    }
}

/// C2: the refused units would not have fitted, even with what the subject may withhold.
fn nothing_wasted(
    setup: &Setup,
    may_withhold: u64,
    trace: &[(Step, OperationOutcome)],
) -> Result<(), String> {
    let promise = setup.promise();
    for (index, (step, outcome)) in trace.iter().enumerate() {
        let refused = match (step.op, outcome) {
            (Op::Try { n }, OperationOutcome::Refused(_)) => n,
            (Op::TakeUpTo { n }, OperationOutcome::Took(took)) if *took < n => 1,
            _ => continue,
        };
        let n = refused.saturating_add(may_withhold);
        let fits = match setup.kind {
            Kind::InFlight => u128::from(n) <= promise::in_flight::room(setup, &trace[..=index]),
            _ => {
                let mut grants = promise::grants(&trace[..=index]);
                grants.push(TimedGrant::new(step.at_ns, n));
                promise.must_grant(&grants) == Some(true)
            }
        };
        if fits {
            let at = script::PrintedTime(step.at_ns);
            return Err(format!("at {at} {refused} more were refused and would fit"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowgate::Quota;

    /// A burst is taken, the bucket refills, a stripe is filled, and the clock is set back to 300 ns.
    fn set_back(took: u64) -> Trace {
        let second = 1_000_000_000;
        let at = |at_ns, n| {
            (
                Step {
                    at_ns,
                    op: Op::Try { n },
                },
                OperationOutcome::Admitted,
            )
        };
        let quota = Quota::per_second(8).burst(7);
        let carry = Carry::Kept;
        let change = Step {
            at_ns: 90_000 * second,
            op: Op::SetQuota { quota, carry },
        };
        vec![
            at(0, 7_999_999),
            at(80_000 * second, 1),
            at(300, took),
            (change, OperationOutcome::Changed),
        ]
    }

    /// A grant from a stripe counts at the latest time of the clock; a grant that reads the clock does not.
    #[test]
    fn c4_a_grant_from_a_stripe_counts_at_the_latest_time_of_the_clock() {
        let setup = Setup::new(Quota::per_hour(8_000_000).burst(8_000_000));
        let judged = |undated, took| {
            let allowance = Allowance {
                withheld: undated,
                undated,
            };
            judge(Contract::C4, &setup, allowance, &set_back(took))
        };
        assert_eq!(judged(1_000_000, 2), Ok(()));
        assert!(judged(1_000_000, 1_000_001).is_err(), "over an eighth");
        assert!(judged(0, 2).is_err(), "not striped");
    }
}
