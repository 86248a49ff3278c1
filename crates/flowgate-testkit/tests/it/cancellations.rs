//! Every short history of reservations and cancellations keeps the promise.

use std::time::Duration;

use flowgate::Quota;
use flowgate_testkit::exhaustive::{self, Bounds};
use flowgate_testkit::script::Setup;
use flowgate_testkit::subject::{self, BuildSubject};

fn holds(build: BuildSubject<'_>, steps: usize, last_ns: u64, backward: bool) {
    for (count, period_ns) in [(1, 1), (1, 2), (2, 3), (2, 1)] {
        for burst in 1..=3 {
            let quota = Quota::new(count, Duration::from_nanos(period_ns)).expect("in range");
            let setup = Setup::new(quota.burst(burst));
            let bounds = Bounds {
                steps,
                last_ns,
                end_ns: last_ns + 8,
                backward,
            };
            if let Err(counterexample) = exhaustive::cancellations(build, &setup, &bounds) {
                panic!("{counterexample}");
            }
        }
    }
}

#[test]
fn c5_the_oracle_gives_back_no_more_than_it_may() {
    holds(&subject::oracle, 4, 3, false);
}

#[test]
fn c5_the_oracle_gives_back_no_more_by_any_clock() {
    holds(&subject::oracle, 4, 2, true);
}

#[test]
fn c5_the_token_bucket_gives_back_no_more_than_it_may() {
    holds(&subject::token_bucket, 4, 3, false);
}

#[test]
fn c4_c5_the_token_bucket_gives_back_no_more_by_any_clock() {
    holds(&subject::token_bucket, 4, 2, true);
}

/// Two cancellations in a row: the second must know of the first.
#[test]
fn c5_the_token_bucket_cancels_twice() {
    let quota = Quota::new(1, Duration::from_nanos(1))
        .expect("in range")
        .burst(2);
    let bounds = Bounds {
        steps: 5,
        last_ns: 2,
        end_ns: 8,
        backward: false,
    };
    if let Err(counterexample) =
        exhaustive::cancellations(&subject::token_bucket, &Setup::new(quota), &bounds)
    {
        panic!("{counterexample}");
    }
}
