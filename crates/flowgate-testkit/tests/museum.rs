//! Every specimen is caught, by the checker that its page names, in a history short enough to read.
//!
//! `cargo test -p flowgate-testkit --test museum -- --nocapture` prints them.

use std::time::Duration;

use flowgate::Quota;
use flowgate_testkit::conformance::{Contract, Report, check};
use flowgate_testkit::exhaustive::{self, Bounds};
use flowgate_testkit::history::{self, Event};
use flowgate_testkit::interleave::explore;
use flowgate_testkit::promise::Promise;
use flowgate_testkit::script::Setup;
use flowgate_testkit::specimens::late_store::LateStore;
use flowgate_testkit::specimens::subtract_below_zero::SubtractBelowZero;
use flowgate_testkit::specimens::{blind_cancel, subjects};

fn report(name: &str) -> Report {
    let (_, build) = subjects()
        .into_iter()
        .find(|(listed, _)| *listed == name)
        .expect(name);
    let report = check(build, 500);
    println!("{name}\n{report}");
    report
}

/// Which contracts break, and in how few steps the first of them shows.
fn caught(name: &str, contracts: &[Contract], steps: usize) {
    let report = report(name);
    assert_eq!(report.broken(), contracts, "{name}");
    let shortest = report
        .findings
        .iter()
        .map(|finding| finding.trace.len())
        .min();
    assert!(
        shortest.is_some_and(|len| len <= steps),
        "{name}: {shortest:?} steps"
    );
}

#[test]
fn c2_c8_dropped_remainder_is_caught() {
    caught("dropped_remainder", &[Contract::C2, Contract::C8], 3);
}

#[test]
fn c2_c8_starts_empty_is_caught() {
    caught("starts_empty", &[Contract::C2, Contract::C8], 1);
}

#[test]
fn c4_minting_clock_is_caught() {
    caught("minting_clock", &[Contract::C4], 5);
}

#[test]
fn c1_retroactive_rate_is_caught() {
    caught("retroactive_rate", &[Contract::C1], 4);
}

#[test]
fn c1_c8_whole_nanoseconds_is_caught() {
    use Contract::{C1, C2, C4, C5, C8};
    caught("whole_nanoseconds", &[C1, C2, C4, C5, C8], 3);
}

#[test]
fn c1_wrong_clamp_is_caught() {
    caught(
        "wrong_clamp",
        &[Contract::C1, Contract::C4, Contract::C5],
        3,
    );
}

#[test]
fn c1_double_credit_is_caught() {
    caught(
        "double_credit",
        &[Contract::C1, Contract::C4, Contract::C5],
        3,
    );
}

#[test]
fn c1_oversize_resets_is_caught() {
    caught(
        "oversize_resets",
        &[Contract::C1, Contract::C4, Contract::C5],
        3,
    );
}

#[test]
fn c3_late_retry_is_caught() {
    caught("late_retry", &[Contract::C3], 4);
}

#[test]
fn c5_blind_cancel_is_caught() {
    caught("blind_cancel", &[Contract::C5], 6);
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
    let build =
        |setup: &Setup, test: &mut dyn FnMut(&mut dyn flowgate_testkit::subject::Subject)| {
            test(&mut TakesUpTo(blind_cancel::BlindCancel::new(setup.quota)));
        };
    let counterexample = exhaustive::cancellations(&build, &setup, &bounds).unwrap_err();
    println!("{counterexample}");
    assert!(counterexample.trace.len() <= 5, "{counterexample}");
}

/// Takes one by one where the specimen cannot take up to so many.
struct TakesUpTo(blind_cancel::BlindCancel);

impl flowgate_testkit::subject::Subject for TakesUpTo {
    fn capabilities(&self) -> flowgate_testkit::subject::Capabilities {
        self.0.capabilities()
    }

    fn step(&mut self, step: &flowgate_testkit::script::Step) -> flowgate_testkit::script::Outcome {
        use flowgate_testkit::script::{Op, Outcome, Step};
        let Op::TakeUpTo { n } = step.op else {
            return self.0.step(step);
        };
        let one = Step {
            at_ns: step.at_ns,
            op: Op::Try { n: 1 },
        };
        let took = (0..n.min(100))
            .take_while(|_| self.0.step(&one) == Outcome::Admitted)
            .count();
        Outcome::Took(took as u64)
    }
}

#[test]
fn c1_late_store_is_caught_on_some_schedule() {
    let promise = Promise::Window {
        limit: 1,
        window_ns: 10,
    };
    let race = explore(&LateStore::new(1, 10, 2), &promise, 8).unwrap_err();
    println!("late_store\n{race}");
    assert_eq!(race.broken.admitted, 2);
    assert!(race.steps.len() <= 5, "{race}");
}

#[test]
fn c1_subtract_below_zero_is_caught_on_some_schedule() {
    let quota = Quota::per_second(1);
    let race = explore(
        &SubtractBelowZero::new(quota, 2),
        &Promise::bucket(quota),
        8,
    )
    .unwrap_err();
    println!("subtract_below_zero\n{race}");
    assert_eq!(race.broken.admitted, 2);
    assert_eq!(race.steps.len(), 6, "{race}");
}

/// One thread, no race.
#[test]
fn subtract_below_zero_is_right_alone() {
    let quota = Quota::per_second(3);
    assert!(
        explore(
            &SubtractBelowZero::new(quota, 1),
            &Promise::bucket(quota),
            40
        )
        .is_ok()
    );
}

/// The check for real threads sees a specimen as well: what it admits is condemned whatever the
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
