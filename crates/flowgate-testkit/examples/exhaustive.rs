//! Every short history of reservations and cancellations, further than a test has time for.
//!
//! `cargo run --release -p flowgate-testkit --example exhaustive -- [STEPS] [LAST_NS] [--oracle]`

use std::process::ExitCode;
use std::time::Duration;

use flowgate::Quota;
use flowgate_testkit::exhaustive::{self, Bounds};
use flowgate_testkit::script::Setup;
use flowgate_testkit::subject;

fn main() -> ExitCode {
    let of_the_oracle = std::env::args().any(|word| word == "--oracle");
    let build = if of_the_oracle {
        subject::oracle
    } else {
        subject::token_bucket
    };
    let mut numbers = std::env::args()
        .skip(1)
        .filter(|word| word != "--oracle")
        .map(|word| word.parse::<u64>());
    let (Ok(steps), Ok(last_ns)) = (
        numbers.next().unwrap_or(Ok(5)),
        numbers.next().unwrap_or(Ok(4)),
    ) else {
        eprintln!("usage: exhaustive [STEPS] [LAST_NS], both whole numbers");
        return ExitCode::from(2);
    };
    let rates = [(1, 1), (1, 2), (2, 3), (2, 1)];
    for backward in [false, true] {
        for (count, period_ns) in rates {
            for burst in 1..=4 {
                let Ok(quota) = Quota::new(count, Duration::from_nanos(period_ns)) else {
                    continue;
                };
                let setup = Setup::new(quota.burst(burst));
                let bounds = Bounds {
                    steps: steps as usize,
                    last_ns,
                    end_ns: last_ns + 14,
                    backward,
                };
                match exhaustive::cancellations(&build, &setup, &bounds) {
                    Ok(histories) => println!(
                        "{setup}, backward {backward}: {histories} histories keep the promise"
                    ),
                    Err(counterexample) => {
                        println!("BROKEN {counterexample}");
                    }
                }
            }
        }
    }
    ExitCode::SUCCESS
}
