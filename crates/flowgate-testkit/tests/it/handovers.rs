//! The suite detects an import that forgets or invents, and passes one that continues exactly.

use flowgate::Carry;
use flowgate_testkit::conformance::{Contract, Finding, check_contract};
use flowgate_testkit::oracle::Oracle;
use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
use flowgate_testkit::subject::{BuildSubject, Capabilities, Subject};

/// What an import does with the tokens that keys have taken.
#[derive(Clone, Copy)]
enum Import {
    Keeps,
    Forgets,
    TakesAll,
}

/// An exact bucket with an import.
struct Imported {
    setup: Setup,
    bucket: Oracle,
    import: Import,
}

impl Subject for Imported {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            costs: true,
            set_quota: true,
            retry_after: true,
            hand_over: true,
            ..Capabilities::NONE
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::HandOver { quota } = step.op else {
            if let Op::SetQuota { quota, .. } = step.op {
                self.setup.quota = quota;
            }
            return self.bucket.step(step);
        };
        self.setup.quota = quota.unwrap_or(self.setup.quota);
        let change = Op::SetQuota {
            quota: self.setup.quota,
            carry: Carry::Kept,
        };
        let initial_tokens = match self.import {
            Import::Keeps => {
                self.bucket.step(&Step {
                    op: change,
                    ..*step
                });
                return OperationOutcome::HandedOver;
            }
            Import::Forgets => None,
            Import::TakesAll => Some(0),
        };
        self.bucket = Oracle::new(&Setup {
            initial_tokens,
            built_ns: step.at_ns,
            ..self.setup
        });
        OperationOutcome::HandedOver
    }
}

fn judge(import: Import, contract: Contract) -> Result<(), Box<Finding>> {
    let build: BuildSubject<'_> = &|setup, test| {
        test(&mut Imported {
            setup: *setup,
            bucket: Oracle::new(setup),
            import,
        });
    };
    check_contract(Kind::Bucket, build, contract, 400)
}

#[test]
fn c1_c2_c3_c4_an_import_that_keeps_everything_passes() {
    for contract in [Contract::C1, Contract::C2, Contract::C3, Contract::C4] {
        if let Err(finding) = judge(Import::Keeps, contract) {
            panic!("{finding}");
        }
    }
}

#[track_caller]
fn assert_shown_in_three_steps(import: Import, contract: Contract) {
    let finding = judge(import, contract).expect_err("the import is wrong");
    let hands_over = |step: &Step| step.op == Op::HandOver { quota: None };
    let handovers = finding.trace.iter().filter(|(step, _)| hands_over(step));
    assert_eq!(handovers.count(), 1, "{finding}");
    assert!(finding.trace.len() <= 3, "{finding}");
}

#[test]
fn c1_an_import_that_forgets_is_shown_in_three_steps() {
    assert_shown_in_three_steps(Import::Forgets, Contract::C1);
}

#[test]
fn c2_an_import_that_takes_too_much_is_shown_in_three_steps() {
    assert_shown_in_three_steps(Import::TakesAll, Contract::C2);
}
