//! The token bucket against the exact oracle, answer by answer, over the whole accepted range of
//! quotas, with clocks that stall, jump and run backward.
//!
//! `FLOWGATE_OPS` sets how many operations (10⁶ unless it is set), `FLOWGATE_SEED` where to begin.
//! The long run is `cargo run --release -p flowgate-testkit --example oracle -- 1000000000`.

use crate::effort::number;
use flowgate_testkit::differential;

#[test]
fn c1_c2_c3_c4_c5_c8_token_bucket_agrees_with_the_oracle() {
    let (operations, seed) = (
        number("FLOWGATE_OPS", 1_000_000),
        number("FLOWGATE_SEED", 1),
    );
    match differential::run(seed, operations) {
        Ok(done) => println!("{done} operations, seed {seed}: no disagreement"),
        Err(disagreement) => panic!("seed {seed}: {disagreement}"),
    }
}
