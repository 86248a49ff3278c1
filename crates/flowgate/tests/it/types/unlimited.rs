//! The limiter that limits nothing.

use flowgate::{Limiter, ManualClock, Timestamp, Unlimited};
use std::time::Duration;

#[test]
fn everything_is_admitted_by_any_clock() {
    static ANY: Unlimited = Unlimited::new();
    for n in [0, 1, u64::MAX] {
        assert_eq!(ANY.try_acquire_n(n), Ok(()));
        assert_eq!(ANY.at(Timestamp::MAX).try_acquire_n(n), Ok(()));
        assert_eq!(ANY.at(Timestamp::ORIGIN).take_up_to(n), n);
        assert_eq!(ANY.take_up_to(n), n);
    }
    assert_eq!(ANY.try_acquire(), Ok(()));
    assert_eq!(ANY.available(), u64::MAX);
}

#[test]
fn c5_a_reservation_is_for_now_and_comes_back_whole() {
    let time = ManualClock::new();
    time.advance(Duration::from_secs(3));
    let unlimited = Unlimited::with_clock(&time);
    let any: &dyn Limiter = &unlimited;
    let reservation = any
        .try_reserve_n(u64::MAX)
        .expect("it can tell a time")
        .expect("nothing is refused");
    assert_eq!(reservation.at(), time.now());
    assert_eq!(reservation.cancel(), u64::MAX);
    assert_eq!(any.try_acquire_n_at(Timestamp::ORIGIN, 7), Ok(()));
    let seen = any.snapshot();
    assert_eq!((seen.limit, seen.remaining), (u64::MAX, u64::MAX));
    assert_eq!(seen.reset_after, Duration::ZERO);
    assert_eq!(any.clock().now(), time.now());
}
