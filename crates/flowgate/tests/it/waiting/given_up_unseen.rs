//! Waits that are granted and then dropped without having looked, at the edge of a window.

use core::time::Duration;

use flowgate::{FixedWindow, ManualClock, Quota, Timestamp};
use flowgate_testkit::task::Task;

/// The wait's grant opens the window from 1,100 to 1,200, and then it is given back. What others take in that window stays
/// counted, so a span of 100 ns has at most 2 · limit − 1.
#[test]
fn c1_c5_a_window_that_was_opened_by_a_wait_given_up_unseen_admits_no_more_than_the_span_allows() {
    let time = ManualClock::new();
    let at = |ns| time.set(Timestamp::from_nanos(ns));
    let quota = Quota::new(2, Duration::from_nanos(100)).unwrap();
    let window = FixedWindow::builder(quota).clock(&time).build().unwrap();
    at(1_000);
    window.try_acquire_n(2).unwrap();
    let mut wait = Task::start(window.acquire());
    assert!(wait.is_waiting());
    at(1_178);
    let mut admitted = window.take_up_to(1);
    wait.cancel();
    admitted += window.take_up_to(1);
    at(1_228);
    admitted += window.take_up_to(2);
    assert!(admitted <= 3, "{admitted} from 1178 to 1228");
}

/// The shortest history that the conformance suite found: the window of a wait that is granted when it begins.
#[test]
fn c1_c5_a_window_that_was_opened_by_a_wait_holds_what_waits_took_in_it() {
    let time = ManualClock::new();
    let at = |ms: u64| time.set(Timestamp::from_nanos(ms * 1_000_000));
    let window = FixedWindow::builder(Quota::per_second(9));
    let window = window.clock(&time).build().unwrap();
    at(6_600);
    assert!(Task::start(window.acquire().n(9)).granted().is_some());
    at(7_000);
    let mut given_up = Task::start(window.acquire().n(3));
    assert!(given_up.is_waiting());
    at(7_800);
    let mut admitted = 0;
    let granted = |n| match Task::start(window.acquire().n(n)).granted() {
        Some(_) => n,
        None => 0,
    };
    admitted += granted(5);
    at(8_000);
    admitted += window.take_up_to(1);
    at(8_200);
    given_up.cancel();
    admitted += window.take_up_to(3);
    at(8_700);
    admitted += granted(9);
    assert!(admitted <= 17, "{admitted} from 7.8 s to 8.7 s");
}
