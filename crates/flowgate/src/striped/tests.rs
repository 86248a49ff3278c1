//! What batches are filled by, which other crates cannot call.

use super::Striped;
use super::plumbing::{Key, Lots};
use crate::clock::{ManualClock, Timestamp};
use crate::quota::Quota;
use crate::types::token_bucket::TokenBucket;
use core::time::Duration;

const BURST: u64 = 2_560;

/// One token in 10 ns, in four stripes.
fn striped() -> Striped<TokenBucket> {
    let time = ManualClock::new();
    time.set(Timestamp::from_nanos(1_000_000_000));
    let quota = Quota::per_second(100_000_000).burst(BURST);
    let bucket = TokenBucket::builder(quota).clock(&time).build();
    let striped = Striped::with_stripes(bucket.expect("in range"), 4);
    assert!(striped.is_shared());
    striped
}

#[test]
fn a_draw_is_between_its_bounds() {
    let hot = striped();
    let draw = |min, max| hot.draw(Key::new(), min, max);
    assert_eq!(draw(10, 100), Ok(100));
    assert_eq!(draw(0, 0), Ok(0));
    assert_eq!(draw(5, 1), Ok(5), "at the least comes first");
    assert_eq!(draw(10, u64::MAX), Ok(BURST - 105));
    assert_eq!(draw(0, 10), Ok(0));
    assert_eq!(
        draw(2, 10).unwrap_err().retry_after(),
        Some(Duration::from_nanos(20))
    );
    assert!(draw(BURST + 1, BURST + 1).unwrap_err().is_never());
    assert_eq!(hot.get_ref().refund(7), 7);
    assert_eq!(draw(2, 10), Ok(7));
}

#[test]
fn a_draw_from_a_stripe_is_between_its_bounds_too() {
    let hot = striped();
    assert!((0..30).all(|_| hot.try_acquire().is_ok()));
    assert_eq!(hot.draw(Key::new(), 3, 1), Ok(3));
}
