//! Every known-broken limiter is detected by its checker, in a readable history.
//!
//! `cargo run -p flowgate-testkit --example broken_limiters` shows them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use flowgate::Quota;
use flowgate_testkit::broken::next_window::NextWindow;
use flowgate_testkit::broken::subtract_below_zero::SubtractBelowZero;
use flowgate_testkit::broken::two_atomics::{Stage, TwoAtomics};
use flowgate_testkit::broken::{Checker, blind_cancel, broken_limiters, interval_bucket};
use flowgate_testkit::conformance::{Contract, check, check_contract};
use flowgate_testkit::differential;
use flowgate_testkit::exhaustive::{self, Bounds};
use flowgate_testkit::history::{self, Event};
use flowgate_testkit::interleave::{Machine, explore};
use flowgate_testkit::promise::{Anchor, Kind, Promise};
use flowgate_testkit::script::{Op, Setup};
use flowgate_testkit::subject;

/// Maximum length of a readable history.
const READABLE: usize = 10;

#[test]
fn every_broken_limiter_is_detected_in_a_short_history() {
    for limiter in broken_limiters() {
        let detection = limiter
            .detect()
            .unwrap_or_else(|error| panic!("{}: {error}", limiter.name));
        let len = detection.history.len();
        assert!(
            (1..=READABLE).contains(&len),
            "{}: {len} lines",
            limiter.name
        );
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = broken_limiters()
        .iter()
        .map(|limiter| limiter.name)
        .collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// A label with the wrong finding, or a checker that sees nothing, is not a detection.
#[test]
fn a_finding_with_another_message_is_no_detection() {
    let mut limiter = broken_limiters()[0];
    limiter.finding = "something else";
    let error = limiter.detect().unwrap_err();
    assert!(error.contains("not 'something else'"), "{error}");
    limiter.checker = Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
        subject::token_bucket(setup, test);
    });
    let error = limiter.detect().unwrap_err();
    assert!(error.ends_with("does not detect it"), "{error}");
}

/// All contracts that the suite finds broken, not only the one on the label.
#[test]
fn each_broken_limiter_violates_these_contracts_and_no_others() {
    use Contract::{C1, C2, C3, C4, C5, C8};
    let expected: [(&str, &[Contract]); 26] = [
        ("stale_anchor", &[C1, C4, C5]),
        ("late_trimmer", &[C2, C4, C8]),
        ("share_of_limit", &[C1, C4]),
        ("double_balance", &[C1, C2, C4, C5, C8]),
        ("whole_seconds", &[C1, C2, C4, C5, C8]),
        ("double_time", &[C1, C2, C4, C5, C8]),
        ("microsecond_bucket", &[C1, C2, C4, C5, C8]),
        ("unbounded_slack", &[C1, C2, C4, C5, C8]),
        ("wrong_unit", &[C3]),
        ("wrapping_elapsed", &[C4]),
        ("retroactive_rate", &[C1, C4]),
        ("stale_refill", &[C4]),
        ("dropped_remainder", &[C2, C8]),
        ("starts_empty", &[C2, C8]),
        ("minting_clock", &[C4]),
        ("whole_nanoseconds", &[C1, C2, C4, C5, C8]),
        ("wrapping_tolerance", &[C2, C4, C8]),
        ("wrong_clamp", &[C1, C4, C5]),
        ("double_credit", &[C1, C4, C5]),
        ("oversize_resets", &[C1, C4, C5]),
        ("late_retry", &[C3]),
        ("finite_never", &[C3]),
        ("blind_cancel", &[C5]),
        ("short_ttl", &[C1, C4, C5, C8]),
        ("truncated_expiry", &[C1, C4, C5, C8]),
        ("repeated_refund", &[C5]),
    ];
    let found = broken_limiters()
        .into_iter()
        .filter_map(|limiter| match limiter.checker {
            Checker::Conformance(kind, _, build) => {
                Some((limiter.name, check(kind, &build, 500).broken()))
            }
            _ => None,
        });
    let expected = expected.map(|(name, contracts)| (name, contracts.to_vec()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// One defect per limiter: a limiter with two defects is detected for the other as well.
#[test]
fn c1_the_interval_bucket_changes_rates_retroactively() {
    let build: subject::BuildSubject<'_> =
        &|setup, test| test(&mut interval_bucket::IntervalBucket::new(setup.quota));
    let finding = check_contract(Kind::Bucket, build, Contract::C1, 500).unwrap_err();
    let changes = |op: &Op| matches!(op, Op::SetQuota { .. });
    assert!(
        finding.trace.iter().any(|(step, _)| changes(&step.op)),
        "{finding}"
    );
}

#[test]
fn the_token_bucket_is_acquitted_by_the_oracle() {
    for refill in [flowgate::Refill::Continuous, flowgate::Refill::Interval] {
        if let Err(deviation) = differential::against_oracle(&subject::token_bucket, refill, 500) {
            panic!("{deviation}");
        }
    }
}

/// Alone, without a race, those that need one are right.
#[test]
fn one_thread_keeps_the_promise() {
    let quota = Quota::new(1, Duration::from_nanos(10)).unwrap();
    let window = Promise::new(Kind::Window(Anchor::FirstGrant), quota);
    for stage in [Stage::Stores, Stage::Swap, Stage::First, Stage::Relaxed] {
        assert!(explore(&TwoAtomics::new(stage, 1, 10, 1), &window, 10).is_ok());
    }
    assert!(explore(&NextWindow::new(1, 10, 1), &window, 10).is_ok());
    let quota = Quota::per_second(3);
    let alone = SubtractBelowZero::new(quota, 1);
    assert!(explore(&alone, &Promise::bucket(quota), 40).is_ok());
}

#[test]
fn next_window_admits_one_in_each_window_of_none() {
    let mut machine = NextWindow::new(0, 10, 1);
    for _ in 0..3 {
        machine.step(1);
        machine.step(0);
        machine.step(0);
    }
    assert_eq!(machine.grants().len(), 3);
}

#[test]
fn c5_blind_cancel_is_caught_by_every_short_history() {
    let setup = Setup::new(Quota::new(1, Duration::from_nanos(1)).unwrap().burst(2));
    let bounds = Bounds {
        steps: 4,
        last_ns: 2,
        end_ns: 8,
        backward: false,
    };
    let build = |setup: &Setup, test: &mut dyn FnMut(&mut dyn subject::Subject)| {
        test(&mut TakesUpTo(blind_cancel::BlindCancel::new(setup.quota)));
    };
    let counterexample = exhaustive::cancellations(&build, &setup, &bounds).unwrap_err();
    assert!(counterexample.trace.len() <= 5, "{counterexample}");
}

/// Acquires one by one if the limiter does not support `TakeUpTo`.
struct TakesUpTo(blind_cancel::BlindCancel);

impl subject::Subject for TakesUpTo {
    fn capabilities(&self) -> subject::Capabilities {
        self.0.capabilities()
    }

    fn step(
        &mut self,
        step: &flowgate_testkit::script::Step,
    ) -> flowgate_testkit::script::OperationOutcome {
        use flowgate_testkit::script::{Op, OperationOutcome, Step};
        let Op::TakeUpTo { n } = step.op else {
            return self.0.step(step);
        };
        let one = Step {
            at_ns: step.at_ns,
            op: Op::Try { n: 1 },
        };
        let took = (0..n.min(100))
            .take_while(|_| self.0.step(&one) == OperationOutcome::Admitted)
            .count();
        OperationOutcome::Took(took as u64)
    }
}

/// The check for real threads detects a broken limiter as well, whatever the
/// order.
#[test]
fn c1_double_credit_is_condemned_by_its_history() {
    let quota = Quota::per_second(2);
    let at = |at_ns| Event {
        invoked_ns: at_ns,
        returned_ns: at_ns + 50,
        n: 1,
        admitted: true,
    };
    let idle_ns = 100_000_000_000;
    let broken = history::check(quota, &[0, 1, 2, 3].map(|k| at(idle_ns + k))).unwrap_err();
    assert_eq!((broken.admitted, broken.allowed), (4, 2));
}

/// Builds the tour as these tests were built, and returns where it is. With the features of the whole workspace, as
/// `cargo test --workspace` builds it: otherwise cargo would compile the library once more.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    let built = test
        .ancestors()
        .nth(2)
        .expect("it is in target/PROFILE/deps");
    let profile = match built.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--workspace"])
        .args(["--example", "broken_limiters", "--profile", profile])
        .status();
    assert!(status.expect("cargo runs").success());
    built.join("examples/broken_limiters")
}

/// The tour itself, with its exit codes.
#[test]
fn the_example_shows_the_broken_limiters() {
    let program = program();
    let visit = |arguments: &[&str]| {
        let tour = Command::new(&program).args(arguments).output();
        tour.expect("the tour runs")
    };
    let one = visit(&["starts_empty"]);
    let page = String::from_utf8_lossy(&one.stdout).into_owned();
    assert_eq!(one.status.code(), Some(0), "{page}");
    assert!(page.contains("at 0s: try 1 -> refused"), "{page}");
    let none = visit(&["nobody"]);
    let error = String::from_utf8_lossy(&none.stderr).into_owned();
    assert_eq!(none.status.code(), Some(2), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.starts_with("broken_limiters: 'nobody' is unknown: write one of two_atomics_1, ")
    );
}

/// A change to a quota that counts other units is no part of the promise, and is not drawn.
#[test]
fn c1_the_token_bucket_is_acquitted_in_many_histories() {
    let found = check_contract(Kind::Bucket, &subject::token_bucket, Contract::C1, 10_000);
    if let Err(finding) = found {
        panic!("{finding}");
    }
}
