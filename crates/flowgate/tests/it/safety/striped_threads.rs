//! [`Striped`] on real threads and the real clock, judged afterwards; the threads stall at random.
//!
//! `FLOWGATE_DECISIONS` sets how many decisions a storm makes (200,000 unless it is set), `FLOWGATE_SEED` where the
//! stalls begin.

use crate::effort::number;
use flowgate::{Batch, Clock, FixedWindow, ManualClock, Quota, Striped, Timestamp, TokenBucket};
use flowgate_testkit::history::{self, Event};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Decisions that are judged together, of all threads: what is kept of a storm at any time.
const CHUNK: u64 = 400_000;
const STRIPES: usize = 8;

/// Looks away for up to some microseconds, sometimes.
fn stall(random: &mut fastrand::Rng) {
    match random.u32(..2_000) {
        0 => thread::yield_now(),
        1..3 => (0..random.u32(..20_000)).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

/// So many calls by each of `threads`, each noting the clock before and after.
fn chunk(
    limiter: &Striped<TokenBucket>,
    threads: u64,
    calls: u64,
    seed: u64,
    n: impl Fn(&mut fastrand::Rng) -> u64 + Sync,
) -> Vec<Event> {
    let start = Barrier::new(threads as usize);
    let (start, n) = (&start, &n);
    let events = thread::scope(|scope| {
        let each: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed << 8 | thread);
                    let clock = limiter.get_ref().clock();
                    start.wait();
                    let call = |_| {
                        stall(&mut random);
                        let n = n(&mut random);
                        let invoked_ns = clock.now().as_nanos();
                        let admitted = match n {
                            1 => limiter.try_acquire().is_ok(),
                            _ => limiter.try_acquire_n(n).is_ok(),
                        };
                        let returned_ns = clock.now().as_nanos().max(invoked_ns);
                        Event {
                            invoked_ns,
                            returned_ns,
                            n,
                            admitted,
                        }
                    };
                    (0..calls).map(call).collect::<Vec<_>>()
                })
            })
            .collect();
        let each = each.into_iter().map(|thread| thread.join());
        each.map(|events| events.expect("no panic"))
            .collect::<Vec<_>>()
    });
    events.concat()
}

/// Judged in chunks: in each of them what was admitted keeps the promise that the whole has to keep.
fn storm(quota: Quota, n: impl Fn(&mut fastrand::Rng) -> u64 + Sync) {
    let limiter = TokenBucket::builder(quota).clock(Clock::os());
    let limiter = Striped::with_stripes(limiter.build().expect("in range"), STRIPES);
    assert!(limiter.is_shared(), "{quota}");
    let (decisions, mut seed) = (
        number("FLOWGATE_DECISIONS", 200_000),
        number("FLOWGATE_SEED", 1),
    );
    let (mut decided, mut admitted) = (0, 0);
    while decided < decisions {
        let threads = 2 + seed % 7;
        let calls = CHUNK.min(decisions - decided).div_ceil(threads);
        let events = chunk(&limiter, threads, calls, seed, &n);
        if let Err(broken) = history::check(quota, &events) {
            panic!("{quota}, {threads} threads, seed {seed}: {broken}");
        }
        decided += events.len() as u64;
        admitted += events.iter().filter(|event| event.admitted).count();
        seed += 1;
    }
    println!("{quota}: {decided} decisions, {admitted} admitted, none over");
    assert!(admitted > 0);
}

/// What is there at once is soon used up: they are refused most of the time.
#[test]
fn c1_threads_that_ask_for_too_much_never_get_it() {
    storm(Quota::per_second(500_000).burst(2_048), |_| 1);
}

/// It is full again and again, which is when it matters when something was spent.
#[test]
fn c1_threads_that_come_and_go_at_a_full_bucket_never_get_too_much() {
    storm(Quota::per_second(4_000_000).burst(2_048), |_| 1);
}

#[test]
fn c1_threads_with_different_costs_never_get_too_much() {
    storm(
        Quota::per_second(20_000_000).burst(100_000),
        |random| match random.u32(..100) {
            0 => random.u64(1..5_000),
            1..20 => random.u64(1..40),
            _ => 1,
        },
    );
}

/// The check can fail: twice as much as the quota it is told.
#[test]
fn c1_a_storm_on_twice_the_rate_is_condemned() {
    let quota = Quota::per_second(2_000).burst(2_048);
    let limiter = Striped::with_stripes(TokenBucket::new(quota), 2);
    let events = chunk(&limiter, 4, 5_000, 1, |_| 1);
    assert!(history::check(quota, &events).is_ok());
    let half = Quota::per_second(1_000).burst(1_024);
    assert!(history::check(half, &events).is_err());
}

/// One of 64 threads is hungry, and the others, who have all had something, are idle: on a clock that stands still in
/// between, so that each token is counted.
#[test]
fn c2_a_hungry_thread_among_idle_ones_gets_the_rate() {
    const BURST: u64 = 128 * 64 * 4;
    let time = ManualClock::new();
    let quota = Quota::per_second(100_000_000).burst(BURST);
    let bucket = TokenBucket::builder(quota).clock(&time).build();
    let hot = Striped::with_stripes(bucket.expect("in range"), 64);
    let admitted = |tries: u64| (0..tries).filter(|_| hot.try_acquire().is_ok()).count() as u64;
    let had = Barrier::new(64);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads = [(); 63].map(|()| {
            scope.spawn(|| {
                assert_eq!(admitted(20), 20);
                had.wait();
                while !done.load(Ordering::Acquire) {
                    thread::park_timeout(Duration::from_millis(1));
                }
            })
        });
        had.wait();
        let left = BURST - 63 * 20;
        assert_eq!(admitted(2 * BURST), left, "of what is left");
        let rounds = number("FLOWGATE_DECISIONS", 200_000);
        let mut got = 0;
        for _ in 0..rounds {
            time.advance(Duration::from_nanos(10));
            got += admitted(2);
        }
        done.store(true, Ordering::Release);
        // Joined: ThreadSanitizer sees that, and not what a scope waits for by itself.
        for thread in threads {
            thread.join().expect("no panic");
        }
        println!("{got} of {rounds}");
        assert_eq!(got, rounds, "all of the rate");
    });
}

/// Threads that end, or panic with a batch in their hands, take nothing with them.
#[test]
fn c2_c5_threads_that_die_lose_nothing() {
    const BURST: u64 = 128 * STRIPES as u64 * 8;
    let time = ManualClock::new();
    time.set(Timestamp::from_nanos(1_000_000_000));
    let quota = Quota::per_hour(1).burst(BURST);
    let bucket = TokenBucket::builder(quota).clock(&time).build();
    let hot = Striped::with_stripes(bucket.expect("in range"), STRIPES);
    let admitted = AtomicU64::new(0);
    for generation in 0..50 {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|index| {
                    let (hot, admitted) = (&hot, &admitted);
                    scope.spawn(move || {
                        for _ in 0..index {
                            let took = u64::from(hot.try_acquire().is_ok());
                            admitted.fetch_add(took, Ordering::Relaxed);
                        }
                        let mut batch = Batch::new(hot, 16);
                        if (generation + index) % 4 == 0 && batch.try_acquire().is_ok() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                            // Without the hook's message.
                            std::panic::resume_unwind(Box::new("dies"));
                        }
                    })
                })
                .collect();
            // Joined here, so that the panics end here.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
    }
    assert_eq!(hot.get_ref().available(), BURST - admitted.into_inner());
}

/// Whoever looks at all of it gets an answer while others take as fast as they can.
#[test]
fn what_empties_all_stripes_ends_while_others_fill_them() {
    let quota = Quota::per_second(1_000_000_000).burst(1_000_000);
    let hot = Striped::with_stripes(TokenBucket::new(quota), STRIPES);
    let done = AtomicBool::new(false);
    let mut longest = Duration::ZERO;
    thread::scope(|scope| {
        let threads = [(); 8].map(|()| {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    (0..100).for_each(|_| _ = hot.try_acquire());
                }
            })
        });
        for _ in 0..number("FLOWGATE_LOOKS", 20) {
            let began = std::time::Instant::now();
            assert!(hot.get_ref().snapshot().remaining <= 1_000_000);
            assert!(hot.get_ref().set_burst(1_000_000).is_ok());
            longest = longest.max(began.elapsed());
        }
        done.store(true, Ordering::Release);
        // Joined: ThreadSanitizer sees that, and not what a scope waits for by itself.
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
    println!("{longest:?} at the longest");
}

/// A window's limit, whoever spends what in which window: on real threads, one window after another.
#[test]
fn c1_c2_a_window_is_used_up_by_threads_exactly_once() {
    const LIMIT: u64 = 128 * STRIPES as u64 * 2;
    let time = ManualClock::new();
    let quota = Quota::per_second(LIMIT);
    let window = FixedWindow::builder(quota).clock(&time).build();
    let hot = Striped::with_stripes(window.expect("in range"), STRIPES);
    for window in 0..50 {
        let admitted: u64 = thread::scope(|scope| {
            let take = || (0..LIMIT).filter(|_| hot.try_acquire().is_ok()).count() as u64;
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            let each = threads.into_iter().map(|thread| thread.join());
            each.map(|admitted| admitted.expect("no panic")).sum()
        });
        assert_eq!(admitted, LIMIT, "window {window}");
        time.advance(Duration::from_secs(1));
    }
}
