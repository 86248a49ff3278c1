//! C8, exact rates: at both ends of the range, exactly the scheduled units are admitted.

use std::time::Duration;

use flowgate::{Quota, QuotaError};

use super::{Contract, Finding, run};
use crate::promise::{Anchor, Kind};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, PrintedTime, Retry, Setup, Step, Trace};
use crate::subject::{BuildSubject, Subject};

const SECOND: u64 = 1_000_000_000;
const PERIODS: [u64; 4] = [SECOND, 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND];

pub(super) fn check(kind: Kind, build: BuildSubject<'_>) -> Result<(), Box<Finding>> {
    match kind {
        Kind::Bucket => buckets(build),
        Kind::Window(_) | Kind::Sliding => windows(kind, build),
        // What they owe and when is between a bound and another, not a number.
        Kind::Segmented { .. } | Kind::Approximate | Kind::NextPays | Kind::Decaying => Ok(()),
        // What comes through depends on the debt; what is in flight has no rate.
        Kind::PayAfter | Kind::InFlight => Ok(()),
    }
}

/// Drains windows repeatedly, each 1 ns too early and in time.
fn windows(kind: Kind, build: BuildSubject<'_>) -> Result<(), Box<Finding>> {
    for (limit, period_ns) in [1, 3, 7, 100, 80_000]
        .into_iter()
        .flat_map(|limit| PERIODS.into_iter().chain([1, 7]).map(move |p| (limit, p)))
    {
        let Ok(quota) = Quota::new(limit, Duration::from_nanos(period_ns)) else {
            continue;
        };
        let setup = Setup::of(kind, quota);
        let (trace, result) = run(build, &setup, |subject, trace| {
            if !subject.capabilities().costs && limit > 100 {
                return Ok(());
            }
            (0..100).try_for_each(|round| round_of_window(subject, trace, &setup, round))
        });
        result.map_err(|what| Box::new(found(what, setup, trace)))?;
    }
    Ok(())
}

/// Takes a window's whole limit at its first instant, and nothing more until it is over.
fn round_of_window(
    subject: &mut dyn Subject,
    trace: &mut Trace,
    setup: &Setup,
    round: u64,
) -> Result<(), String> {
    let quota = setup.quota;
    let period_ns = Rate::of(quota).period_ns;
    let first_ns = match setup.kind {
        Kind::Window(Anchor::Aligned(at_ns)) => at_ns % period_ns,
        _ => 0,
    };
    let from_ns = first_ns + round * period_ns;
    let (times, n) = if subject.capabilities().costs {
        (1, quota.count())
    } else {
        (quota.count(), 1)
    };
    let all = (0..times).map(|_| (from_ns, n, true));
    for (at_ns, n, due) in all.chain([(from_ns + period_ns - 1, 1, false)]) {
        let step = Step {
            at_ns,
            op: Op::Try { n },
        };
        let outcome = subject.step(&step);
        if (outcome == OperationOutcome::Admitted) != due {
            trace.push((step, outcome));
            let word = if due {
                "due and refused"
            } else {
                "too many and admitted"
            };
            return Err(format!(
                "in window {round} {n} are {word} at {}",
                PrintedTime(at_ns)
            ));
        }
    }
    Ok(())
}

fn found(what: String, setup: Setup, trace: Trace) -> Finding {
    Finding {
        contract: Contract::C8,
        what,
        setup,
        trace,
    }
}

/// Drains buckets at the ends of the range, and counts what they admit afterwards.
fn buckets(build: BuildSubject<'_>) -> Result<(), Box<Finding>> {
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
    for (count, period_ns) in counts
        .into_iter()
        .flat_map(|count| PERIODS.map(|p| (count, p)))
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
                result.map_err(|what| Box::new(found(what, setup, trace)))?;
            }
        }
    }
    Ok(())
}

fn refused(count: u64, period_ns: u64, error: &QuotaError) -> Box<Finding> {
    let what = format!("{count} per {} is refused: {error}", PrintedTime(period_ns));
    Box::new(found(what, Setup::new(Quota::per_second(1)), Trace::new()))
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
        if outcome != OperationOutcome::Admitted {
            trace.push((step, outcome));
            return Err("the burst is not there at the start".into());
        }
    }
    Ok(true)
}

/// One at each scheduled time, and none 1 ns earlier.
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
            if (outcome == OperationOutcome::Admitted) != due {
                trace.push((step, outcome));
                let word = if due {
                    "is due and refused"
                } else {
                    "is early and admitted"
                };
                return Err(format!(
                    "number {k} after the burst {word} at {}",
                    PrintedTime(at_ns)
                ));
            }
        }
    }
    Ok(())
}

/// Polling ten times as often as tokens flow in, and setting the same quota again, must cost nothing.
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
        while subject.step(&step) == OperationOutcome::Admitted {
            admitted += 1;
        }
        if poll == POLLS {
            trace.push((step, OperationOutcome::Refused(Retry::Untold)));
        }
    }
    let last_ns = POLLS * step_ns;
    match rate.accrual * i128::from(last_ns) / rate.price {
        due if due == admitted => Ok(()),
        due => Err(format!(
            "polled every {} for {}, {admitted} came through and {due} were due",
            PrintedTime(step_ns),
            PrintedTime(last_ns),
        )),
    }
}
