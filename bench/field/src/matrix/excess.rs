//! By how much a bucket differs from its promise: where it only rounds, that is next to nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use flowgate_testkit::Rate;
use flowgate_testkit::conformance::{Contract, Finding};
use flowgate_testkit::draw::{self, Steps, Time};
use flowgate_testkit::oracle::Oracle;
use flowgate_testkit::promise::{self, Kind, TimedGrant};
use flowgate_testkit::script::{self, Op, OperationOutcome, Retry, Setup, Step, Trace};
use flowgate_testkit::shrink;
use flowgate_testkit::subject::{BuildSubject, Capabilities, Subject};

/// Steps in a history, as the suite has them.
const HISTORY_LEN: usize = 40;

/// What may be admitted beyond the promise, or refused though it would fit.
#[derive(Clone, Copy)]
pub struct Slack {
    /// The refill of this many nanoseconds.
    pub ns: u64,
    /// Millionths of a token.
    pub millionths: u64,
}

/// Returns the first history, shortened, in which a bucket differs by more. A panic counts as more.
pub fn check(
    slack: Slack,
    build: BuildSubject<'_>,
    contract: Contract,
    histories: u64,
) -> Result<(), Box<Finding>> {
    for seed in 0..histories {
        let mut rng = Rng::with_seed(seed);
        let small = rng.bool();
        let setup = Setup::new(draw::quota_for(Kind::Bucket, &mut rng, small));
        let verdict = |trace: &Option<Trace>| match trace {
            Some(trace) => keeps(contract, &setup, slack, trace),
            None => Err("it panics".to_owned()),
        };
        let mut steps = Vec::new();
        let drawn = run(build, &setup, |subject, trace| {
            draw_and_act(contract, &mut rng, &setup, subject, trace, &mut steps);
        });
        if verdict(&drawn).is_ok() {
            continue;
        }
        let again = |steps: &[Step]| {
            run(build, &setup, |subject, trace| {
                steps
                    .iter()
                    .for_each(|step| trace.push((*step, subject.step(step))));
            })
        };
        let fails = |steps: &[Step]| verdict(&again(steps)).is_err();
        let steps = shrink::simplest(&shrink::shortest(&steps, fails), fails);
        let trace = again(&steps);
        let what = verdict(&trace).err().unwrap_or_default();
        return Err(Box::new(Finding {
            contract,
            what,
            setup,
            trace: trace.unwrap_or_default(),
        }));
    }
    Ok(())
}

/// What was done and answered; `None` if the limiter panics.
fn run(
    build: BuildSubject<'_>,
    setup: &Setup,
    mut act: impl FnMut(&mut dyn Subject, &mut Trace),
) -> Option<Trace> {
    let mut trace = Trace::new();
    let lived = catch_unwind(AssertUnwindSafe(|| {
        build(setup, &mut |subject| act(subject, &mut trace));
    }));
    lived.ok().map(|()| trace)
}

/// Draws a history as the suite does, but the quota stays.
fn draw_and_act(
    contract: Contract,
    rng: &mut Rng,
    setup: &Setup,
    subject: &mut dyn Subject,
    trace: &mut Trace,
    steps: &mut Vec<Step>,
) {
    let able = subject.capabilities();
    let can = Capabilities {
        set_quota: false,
        set_refill: false,
        overdraw: false,
        refund: able.refund && contract == Contract::C5,
        reserve: able.reserve && matches!(contract, Contract::C1 | Contract::C5),
        ..able
    };
    let time = match contract {
        Contract::C4 => Time::Any,
        _ => Time::Forward,
    };
    let mut draw = Steps::new(rng, can, time, true, 0);
    let mut oracle = Oracle::new(setup);
    for _ in 0..HISTORY_LEN {
        let mut step = draw.next(&oracle);
        if contract == Contract::C1 && matches!(step.op, Op::Cancel { .. }) {
            continue; // That is C5's.
        }
        if let Op::Refund { n } = &mut step.op {
            *n = (*n).min(promise::refundable(trace, step.at_ns));
        }
        steps.push(step);
        oracle.step(&step);
        let outcome = subject.step(&step);
        draw.note(&outcome);
        trace.push((step, outcome));
    }
}

/// # Errors
///
/// What differs by more.
fn keeps(
    contract: Contract,
    setup: &Setup,
    slack: Slack,
    trace: &[(Step, OperationOutcome)],
) -> Result<(), String> {
    let rate = Rate::of(setup.quota);
    let tokens = rate.cost(slack.millionths) / 1_000_000;
    let grains = tokens + rate.accrual * i128::from(slack.ns);
    let safe = |trace: &[(Step, OperationOutcome)]| {
        let grants = promise::grants(trace);
        match setup.promise().check(&grants) {
            Err(broken) if !fits(&rate, |earned| earned + grains, grants) => {
                Err(broken.to_string())
            }
            _ => Ok(()),
        }
    };
    match contract {
        Contract::C2 => (1..=trace.len()).try_for_each(|len| {
            let (
                Step {
                    at_ns,
                    op: Op::Try { n },
                },
                OperationOutcome::Refused(_),
            ) = trace[len - 1]
            else {
                return Ok(());
            };
            let mut grants = promise::grants(&trace[..len]);
            grants.push(TimedGrant::new(at_ns, n));
            if fits(&rate, |earned| (earned - grains).max(0), grants) {
                let at = script::PrintedTime(at_ns);
                return Err(format!("at {at} {n} more were refused and would fit"));
            }
            Ok(())
        }),
        // As in the suite: a stale caller must not do what one with the newest time could not, be that anybody's or
        // that of anybody who was granted something. Who asks for nothing, or for what never fits, need not
        // have looked at the clock.
        Contract::C4 => safe(&brought_up_to_date(trace, |_, _| true))
            .or_else(|what| safe(&brought_up_to_date(trace, needs_a_clock)).map_err(|_| what))
            .or_else(|what| {
                let granted = safe(&brought_up_to_date(trace, takes));
                granted.and_then(|()| safe(trace)).map_err(|_| what)
            })
            .map_err(|what| format!("with stale times brought up to date, {what}")),
        // Whoever gives back what was not taken, or one thing twice, is not promised anything.
        Contract::C5 if !promise::refunds_are_honest(trace) => Ok(()),
        _ => safe(trace),
    }
}

/// The history with each time raised to the newest of those before it that count.
fn brought_up_to_date(
    trace: &[(Step, OperationOutcome)],
    counts: fn(&Step, &OperationOutcome) -> bool,
) -> Trace {
    let mut newest_ns = 0;
    let up_to_date = trace.iter().map(|(step, outcome)| {
        if counts(step, outcome) {
            newest_ns = step.at_ns.max(newest_ns);
        }
        let at_ns = step.at_ns.max(newest_ns);
        (Step { at_ns, ..*step }, *outcome)
    });
    up_to_date.collect()
}

fn needs_a_clock(step: &Step, outcome: &OperationOutcome) -> bool {
    let nothing = matches!(step.op, Op::Try { n: 0 } | Op::TakeUpTo { n: 0 });
    let never = matches!(
        outcome,
        OperationOutcome::Refused(Retry::Never) | OperationOutcome::Skipped
    );
    !nothing && !never
}

fn takes(step: &Step, outcome: &OperationOutcome) -> bool {
    match (step.op, outcome) {
        (Op::Try { n }, OperationOutcome::Admitted) => n > 0,
        (_, OperationOutcome::Took(n)) => *n > 0,
        _ => false,
    }
}

/// Whether in every interval that begins and ends with a grant no more was granted than a burst and what is earned in
/// it, which `earned` makes more or less.
fn fits(rate: &Rate, earned: impl Fn(i128) -> i128, mut grants: Vec<TimedGrant>) -> bool {
    grants.sort_by_key(|grant| grant.at_ns);
    grants.iter().enumerate().all(|(first, from)| {
        // A time that was told is rounded up by less than a nanosecond.
        let rounded = if from.rounded { rate.accrual } else { 0 };
        let mut used = 0;
        grants[first..].iter().all(|grant| {
            used += rate.cost(grant.n);
            let span_ns = i128::from(grant.at_ns - from.at_ns);
            used <= rate.full + earned(rate.accrual * span_ns + rounded)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowgate_testkit::subject;

    const NOTHING: Slack = Slack {
        ns: 0,
        millionths: 0,
    };
    const A_TOKEN: Slack = Slack {
        ns: 0,
        millionths: 1_000_000,
    };

    /// The model, but with one unit more in its burst than it promises.
    fn one_too_many(setup: &Setup, test: &mut dyn FnMut(&mut dyn Subject)) {
        let quota = setup.quota;
        let more = quota.try_burst(quota.max_burst() + 1);
        if let (1, Ok(quota)) = (quota.scale(), more) {
            subject::oracle(&Setup::new(quota), test);
        }
    }

    #[test]
    fn an_exact_bucket_needs_no_slack() {
        for contract in [Contract::C1, Contract::C2, Contract::C4, Contract::C5] {
            let found = check(NOTHING, &subject::oracle, contract, 300);
            assert!(found.is_ok(), "{contract:?}: {found:?}");
        }
    }

    #[test]
    fn a_burst_of_one_more_is_a_token_and_not_a_millisecond() {
        let found = check(super::super::ROUNDED, &one_too_many, Contract::C1, 300);
        let found = found.expect_err("one too many is more than rounding");
        assert!(!found.trace.is_empty(), "{found}");
        assert!(check(A_TOKEN, &one_too_many, Contract::C1, 300).is_ok());
    }

    #[test]
    fn a_panic_is_more_than_any_slack() {
        struct Panics;
        impl Subject for Panics {
            fn capabilities(&self) -> Capabilities {
                Capabilities::NONE
            }

            fn step(&mut self, _: &Step) -> OperationOutcome {
                panic!("at every step")
            }
        }
        let found =
            crate::quiet::quietly(|| check(A_TOKEN, &|_, test| test(&mut Panics), Contract::C1, 1));
        assert_eq!(found.expect_err("it panics").what, "it panics");
    }
}
