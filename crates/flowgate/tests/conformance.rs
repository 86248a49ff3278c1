//! The one conformance suite, over every type and storage.

use flowgate_testkit::conformance::{self, Contract};
use flowgate_testkit::subject;

const HISTORIES: u64 = 2_000;

fn holds(contract: Contract) {
    if let Err(finding) = conformance::check_contract(&subject::token_bucket, contract, HISTORIES) {
        panic!("{finding}");
    }
}

#[test]
fn c1_token_bucket_never_over_admits() {
    holds(Contract::C1);
}

#[test]
fn c2_token_bucket_wastes_nothing() {
    holds(Contract::C2);
}

#[test]
fn c3_token_bucket_retry_after_is_the_least_wait() {
    holds(Contract::C3);
}

#[test]
fn c4_token_bucket_takes_any_clock() {
    holds(Contract::C4);
}

#[test]
fn c5_token_bucket_refunds_keep_the_promise() {
    holds(Contract::C5);
}

#[test]
fn c8_token_bucket_rates_are_exact() {
    holds(Contract::C8);
}

/// The model that the differential test trusts has to pass as well.
#[test]
fn the_oracle_conforms() {
    let report = conformance::check(&subject::oracle, HISTORIES);
    assert!(report.findings.is_empty(), "{report}");
}
