//! Real threads on the real clock, judged afterwards.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flowgate::{Clock, Quota, TokenBucket};
use flowgate_testkit::history::{self, Change, Event};

/// Calls of each of the four threads.
const CALLS: usize = 20_000;

/// Four threads on one limiter, each noting the clock before and after each call.
fn storm(limiter: &TokenBucket, n: impl Fn(usize) -> u64 + Sync) -> Vec<Event> {
    let start = Barrier::new(4);
    let events = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let clock = limiter.clock();
                    let call = |call| {
                        let n = n(call);
                        let invoked_ns = clock.now().as_nanos();
                        let admitted = limiter.try_acquire_n(n).is_ok();
                        let returned_ns = clock.now().as_nanos().max(invoked_ns);
                        Event {
                            invoked_ns,
                            returned_ns,
                            n,
                            admitted,
                        }
                    };
                    (0..CALLS).map(call).collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect::<Vec<_>>()
    });
    events.concat()
}

fn check(quota: Quota, clock: Clock, n: impl Fn(usize) -> u64 + Sync) {
    let limiter = TokenBucket::builder(quota)
        .clock(clock)
        .build()
        .expect("in range");
    let events = storm(&limiter, n);
    if let Err(broken) = history::check(quota, &events) {
        panic!("{quota}: {broken}");
    }
    let admitted: u64 = events
        .iter()
        .filter(|event| event.admitted)
        .map(|event| event.n)
        .sum();
    assert!(
        admitted >= quota.max_burst() * quota.scale() / 2,
        "{quota}: {admitted} admitted"
    );
}

#[test]
fn c1_threads_on_the_os_clock_never_get_too_much() {
    check(Quota::per_second(1_000_000).burst(50), Clock::os(), |_| 1);
}

#[test]
fn c1_threads_on_the_system_clock_never_get_too_much() {
    check(
        Quota::per_second(1_000_000).burst(50),
        Clock::system(),
        |_| 1,
    );
}

#[test]
fn c1_threads_with_different_costs_never_get_too_much() {
    check(
        Quota::per_second(999_983).burst(1_000),
        Clock::system(),
        |call| call as u64 % 7,
    );
}

#[test]
fn c1_threads_on_the_wide_word_never_get_too_much() {
    let quota = Quota::per_day(999_999_937).burst(1_000_000_000);
    check(quota, Clock::system(), |_| 50_000);
}

/// The check can fail: twice as much as the quota it is told.
#[test]
fn c1_a_storm_on_twice_the_rate_is_condemned() {
    let quota = Quota::per_second(2_000).burst(2_000);
    let limiter = TokenBucket::new(quota);
    let events = storm(&limiter, |_| 1);
    let half = Quota::new(1_000, Duration::from_secs(1)).expect("in range");
    assert!(history::check(half, &events).is_err());
}

/// Three threads that read their time before they call, some of them long before, while a fourth changes the quota to and
/// fro. Returns what was taken, each at the time that its thread had read, and the changes.
fn stale_takers_and_changes(
    limiter: &TokenBucket,
    quotas: [Quota; 2],
) -> (Vec<Event>, Vec<Change>) {
    const CHANGES: usize = 400;
    let done = AtomicBool::new(false);
    let start = Barrier::new(4);
    let clock = limiter.clock();
    let taker = |thread: usize| {
        start.wait();
        let mut events = Vec::new();
        for call in thread.. {
            let read = clock.now();
            for _ in 0..call % 13 {
                std::thread::yield_now();
            }
            let n = limiter.at(read).take_up_to(1 + call as u64 % 50);
            if n > 0 {
                let at_ns = read.as_nanos();
                events.push(Event {
                    invoked_ns: at_ns,
                    returned_ns: at_ns,
                    n,
                    admitted: true,
                });
            }
            if done.load(Ordering::Relaxed) {
                break;
            }
        }
        events
    };
    std::thread::scope(|scope| {
        let takers = [0, 1, 2].map(|thread| {
            let taker = &taker;
            scope.spawn(move || taker(thread))
        });
        start.wait();
        let change = |change: usize| {
            let quota = quotas[(change + 1) % 2];
            std::thread::yield_now();
            let invoked_ns = clock.now().as_nanos();
            limiter.set_quota(quota).unwrap();
            let returned_ns = clock.now().as_nanos();
            Change {
                invoked_ns,
                returned_ns,
                quota,
            }
        };
        let changes = (0..CHANGES).map(change).collect();
        done.store(true, Ordering::Relaxed);
        let events = takers.map(|taker| taker.join().expect("no panic"));
        (events.concat(), changes)
    })
}

/// By the limiter's own time: each counts at the time that its thread had read.
#[test]
fn c1_c4_threads_that_read_the_clock_before_a_change_get_nothing_twice() {
    let quotas = [
        Quota::per_second(1_000_000).burst(50),
        Quota::per_second(1).burst(50),
    ];
    let limiter = TokenBucket::builder(quotas[0])
        .clock(Clock::os())
        .build()
        .expect("in range");
    let (events, changes) = stale_takers_and_changes(&limiter, quotas);
    if let Err(broken) = history::check_changing(quotas[0], &changes, &events) {
        panic!("{broken}");
    }
}
