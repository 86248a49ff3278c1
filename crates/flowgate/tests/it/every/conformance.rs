//! The one conformance suite, over every type and storage.
//!
//! A contract that says nothing of a type's kind of promise (no refunds, no exact rate) holds of
//! itself; the types' own tests say the rest.

use flowgate_testkit::conformance::{self, Contract};
use flowgate_testkit::promise::{Anchor, Kind};
use flowgate_testkit::script::Setup;
use flowgate_testkit::subject::{self, Subject};

const HISTORIES: u64 = 2_000;

/// One line a type: its name here, what it promises, how it is built.
macro_rules! every_contract {
    ($($name:ident: $kind:expr, $build:path;)+) => {$(
        mod $name {
            use super::*;

            fn holds(contract: Contract) {
                if let Err(finding) =
                    conformance::check_contract($kind, &$build, contract, HISTORIES)
                {
                    panic!("{finding}");
                }
            }

            #[test]
            fn c1_never_over_admits() {
                holds(Contract::C1);
            }

            #[test]
            fn c2_wastes_nothing() {
                holds(Contract::C2);
            }

            #[test]
            fn c3_retry_after_is_the_least_wait() {
                holds(Contract::C3);
            }

            #[test]
            fn c4_takes_any_clock() {
                holds(Contract::C4);
            }

            #[test]
            fn c5_refunds_keep_the_promise() {
                holds(Contract::C5);
            }

            #[test]
            fn c8_rates_are_exact() {
                holds(Contract::C8);
            }
        }
    )+};
}

every_contract! {
    token_bucket: Kind::Bucket, subject::token_bucket;
    leaky_bucket: Kind::Bucket, subject::leaky_bucket;
    pay_after: Kind::PayAfter, subject::pay_after;
    striped: Kind::Bucket, subject::striped;
    striped_by_its_clock: Kind::Bucket, subject::striped_by_its_clock;
    striped_leaky_bucket: Kind::Bucket, subject::striped_leaky_bucket;
    striped_leaky_bucket_by_its_clock: Kind::Bucket, subject::striped_leaky_bucket_by_its_clock;
    striped_fixed_window: Kind::Window(Anchor::FirstGrant), subject::striped_fixed_window;
    striped_fixed_window_by_its_clock: Kind::Approximate, subject::striped_fixed_window_by_its_clock;
    dual_token_bucket: Kind::Bucket, subject::dual_token_bucket;
    fixed_window: Kind::Window(Anchor::FirstGrant), subject::fixed_window;
    fixed_window_aligned: Kind::Window(Anchor::Aligned(0)), subject::fixed_window;
    fixed_window_aligned_elsewhere: Kind::Window(Anchor::Aligned(1_234_567_891)), subject::fixed_window;
    fixed_window_clock_free: Kind::Approximate, subject::clock_free_window;
    sliding_window: Kind::Sliding, subject::sliding_window;
    segmented_window: Kind::Segmented { segments: 10 }, subject::segmented_window;
    segmented_window_of_one: Kind::Segmented { segments: 1 }, subject::segmented_window;
    approximate_window: Kind::Approximate, subject::approximate_window;
    warm_up: Kind::NextPays, subject::warm_up;
    decaying_bucket: Kind::Decaying, subject::decaying_bucket;
    leased: Kind::Bucket, subject::leased;
    keyed_token_bucket: Kind::Bucket, super::keyed_token_bucket;
    keyed_leaky_bucket: Kind::Bucket, super::keyed_leaky_bucket;
    keyed_fixed_window: Kind::Window(Anchor::FirstGrant), super::keyed_fixed_window;
    keyed_fixed_window_aligned: Kind::Window(Anchor::Aligned(0)), subject::keyed_fixed_window;
    keyed_fixed_window_aligned_elsewhere: Kind::Window(Anchor::Aligned(1_234_567_891)), subject::keyed_fixed_window;
    keyed_segmented_window: Kind::Segmented { segments: 1 }, subject::keyed_segmented_window;
    concurrency_limit: Kind::InFlight, subject::concurrency_limit;
    keyed_concurrency_limit: Kind::InFlight, subject::keyed_concurrency_limit;
    keyed_gate_of_buckets: Kind::Bucket, super::keyed_gate;
    keyed_gate_of_windows: Kind::Window(Anchor::FirstGrant), super::keyed_gate;
    keyed_gate_around_a_bucket: Kind::Bucket, subject::keyed_gate_shared;
    keyed_gate_around_a_window: Kind::Window(Anchor::FirstGrant), subject::keyed_gate_shared;
    // The model that the differential test trusts has to pass as well.
    oracle: Kind::Bucket, subject::oracle;
}

/// A tenth of the histories by the limiter's own clock, which is set forward and back: what explicit times do not reach.
mod by_its_clock {
    use super::*;

    fn holds(kind: Kind, build: subject::BuildSubject<'_>) {
        let findings = [Contract::C2, Contract::C4, Contract::C5].map(|contract| {
            conformance::check_contract(kind, build, contract, HISTORIES / 10).err()
        });
        let findings: Vec<_> = findings.iter().flatten().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}", findings.join(""));
    }

    macro_rules! each {
        ($($name:ident: $kind:expr, $build:path;)+) => {$(
            #[test]
            fn $name() {
                holds($kind, &$build);
            }
        )+};
    }

    each! {
        c2_c4_c5_token_bucket: Kind::Bucket, subject::by_its_clock;
        c2_c4_c5_pay_after: Kind::PayAfter, subject::by_its_clock;
        c2_c4_c5_dual_token_bucket: Kind::Bucket, subject::dual_token_bucket_by_its_clock;
        c2_c4_c5_fixed_window: Kind::Window(Anchor::FirstGrant), subject::by_its_clock;
        c2_c4_c5_fixed_window_aligned: Kind::Window(Anchor::Aligned(0)), subject::by_its_clock;
        c2_c4_c5_sliding_window: Kind::Sliding, subject::by_its_clock;
        c2_c4_c5_segmented_window: Kind::Segmented { segments: 10 }, subject::by_its_clock;
        c2_c4_c5_segmented_window_of_one: Kind::Segmented { segments: 1 }, subject::by_its_clock;
        c2_c4_c5_approximate_window: Kind::Approximate, subject::by_its_clock;
        c2_c4_c5_warm_up: Kind::NextPays, subject::by_its_clock;
        c2_c4_c5_decaying_bucket: Kind::Decaying, subject::by_its_clock;
        c2_c4_c5_keyed_token_bucket: Kind::Bucket, keyed;
        c2_c4_c5_keyed_fixed_window: Kind::Window(Anchor::FirstGrant), keyed;
        c2_c4_c5_keyed_fixed_window_aligned: Kind::Window(Anchor::Aligned(0)), subject::keyed_by_its_clock;
        c2_c4_c5_keyed_segmented_window: Kind::Segmented { segments: 1 }, subject::keyed_by_its_clock;
    }

    fn keyed(setup: &Setup, test: Test<'_>) {
        if setup.is_whole_for_keys() {
            subject::keyed_by_its_clock(setup, test);
        }
    }
}

type Test<'a> = &'a mut dyn FnMut(&mut dyn Subject);

/// `keys/differential.rs` says what holds in place of C2 and C8 where something is rounded.
fn keyed_token_bucket(setup: &Setup, test: Test<'_>) {
    if setup.is_whole_for_keys() {
        subject::keyed_token_bucket(setup, test);
    }
}

fn keyed_leaky_bucket(setup: &Setup, test: Test<'_>) {
    if setup.is_whole_for_keys() {
        subject::keyed_leaky_bucket(setup, test);
    }
}

fn keyed_fixed_window(setup: &Setup, test: Test<'_>) {
    if setup.is_whole_for_keys() {
        subject::keyed_fixed_window(setup, test);
    }
}

fn keyed_gate(setup: &Setup, test: Test<'_>) {
    if setup.is_whole_for_keys() {
        subject::keyed_gate(setup, test);
    }
}

/// All that does not ask for what is rounded off: `keys/dual.rs` says what holds in place of C2 and C8.
#[test]
fn c1_c3_c4_c5_hold_of_keyed_dual_token_buckets() {
    for build in [
        subject::keyed_dual_token_bucket,
        subject::keyed_dual_token_bucket_by_its_clock,
    ] {
        for contract in [Contract::C1, Contract::C3, Contract::C4, Contract::C5] {
            if let Err(finding) =
                conformance::check_contract(Kind::Bucket, &build, contract, HISTORIES)
            {
                panic!("{finding}");
            }
        }
    }
}

/// All that does not ask for what is rounded off. (A fixed window that is rounded begins its next one later than the chain
/// that C1 is judged by: `c1_c7_fixed_windows_that_make_way_keep_their_bound_in_every_span` has its bound.)
#[test]
fn c1_c3_c4_c5_hold_of_keyed_buckets_of_any_quota() {
    for build in [subject::keyed_token_bucket, subject::keyed_leaky_bucket] {
        for contract in [Contract::C1, Contract::C3, Contract::C4, Contract::C5] {
            if let Err(finding) =
                conformance::check_contract(Kind::Bucket, &build, contract, HISTORIES)
            {
                panic!("{finding}");
            }
        }
    }
}
