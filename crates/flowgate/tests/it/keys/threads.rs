//! [`Keyed`] on real threads and the real clock, judged afterwards, key by key.
//!
//! `FLOWGATE_DECISIONS` sets how many decisions a storm makes (200,000 unless it is set), `FLOWGATE_SEED` where they begin.

use crate::effort::number;
use flowgate::{Clock, Keyed, Quota, TokenBucket};
use flowgate_testkit::history::{self, Event};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Decisions that are judged together, of all threads and keys.
const CHUNK: u64 = 200_000;
const THREADS: u64 = 4;

/// Of one key, as a thread saw it.
type Seen = (usize, Event);

/// Asks `try_acquire` for a key, an amount, and whether it was let through, so often by each thread, noting the clock before
/// and after.
fn chunk(
    clock: &Clock,
    calls: u64,
    seed: u64,
    try_acquire: impl Fn(&mut fastrand::Rng) -> (usize, u64, bool) + Sync,
) -> Vec<Seen> {
    let start = Barrier::new(THREADS as usize);
    let (start, try_acquire) = (&start, &try_acquire);
    thread::scope(|scope| {
        let each: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed << 8 | thread);
                    start.wait();
                    let call = |_| {
                        if random.u32(..2_000) == 0 {
                            thread::yield_now();
                        }
                        let invoked_ns = clock.now().as_nanos();
                        let (key, n, admitted) = try_acquire(&mut random);
                        let returned_ns = clock.now().as_nanos().max(invoked_ns);
                        let event = Event {
                            invoked_ns,
                            returned_ns,
                            n,
                            admitted,
                        };
                        (key, event)
                    };
                    (0..calls).map(call).collect::<Vec<_>>()
                })
            })
            .collect();
        let each = each.into_iter().map(|thread| thread.join());
        each.flat_map(|seen| seen.expect("no panic")).collect()
    })
}

/// Judged in chunks: in each of them what each key was let through for keeps the promise that the whole has to keep.
fn storm(
    quota: Quota,
    limits: &Keyed<TokenBucket>,
    keys: usize,
    try_acquire: impl Fn(&mut fastrand::Rng) -> (usize, u64, bool) + Sync,
) {
    let (mut left, mut seed) = (
        number("FLOWGATE_DECISIONS", 200_000),
        number("FLOWGATE_SEED", 1),
    );
    let mut admitted = 0;
    while left > 0 {
        let calls = left.min(CHUNK).div_ceil(THREADS);
        let mut histories = vec![Vec::new(); keys];
        for (key, event) in chunk(limits.clock(), calls, seed, &try_acquire) {
            histories[key].push(event);
        }
        for (key, events) in histories.iter().enumerate() {
            if let Err(broken) = history::check(quota, events) {
                panic!("key {key}, {quota}, seed {seed}: {broken}");
            }
            admitted += events.iter().filter(|event| event.admitted).count();
        }
        left -= left.min(calls * THREADS);
        seed += 1;
    }
    println!("{quota}, {keys} keys: {admitted} admitted, none over");
    assert!(admitted > 0);
}

fn limits(quota: Quota, capacity: usize) -> Keyed<TokenBucket> {
    let builder = Keyed::token_bucket(quota).clock(Clock::os());
    builder.capacity(capacity).expect("in range")
}

#[test]
fn c1_c7_threads_that_ask_for_a_few_keys_never_get_too_much() {
    let quota = Quota::per_second(20_000).burst(50);
    let limits = limits(quota, 1_000);
    storm(quota, &limits, 16, |random| {
        let (key, n) = (random.usize(..16), random.u64(1..4));
        (key, n, limits.try_acquire_n(&key, n).is_ok())
    });
    assert_eq!(limits.counts().evicted, 0);
}

/// A table that is far too small: entries make way and come back all the time.
#[test]
fn c1_c7_threads_that_crowd_each_other_out_never_get_too_much() {
    const KEYS: usize = 1_500;
    let quota = Quota::per_second(100).burst(20);
    let limits = limits(quota, 150);
    storm(quota, &limits, KEYS, |random| {
        let key = match random.bool() {
            true => random.usize(..KEYS),
            false => random.usize(..30),
        };
        (key, 1, limits.try_acquire(&key).is_ok())
    });
    assert!(limits.counts().evicted > 0);
}

/// Slots fall vacant and are used again all the time.
#[test]
fn c1_c7_threads_whose_keys_are_soon_whole_never_get_too_much() {
    const KEYS: usize = 2_000;
    let quota = Quota::per_second(1_000_000).burst(5);
    let limits = limits(quota, 150);
    storm(quota, &limits, KEYS, |random| {
        let (key, n) = (random.usize(..KEYS), random.u64(1..=5));
        (key, n, limits.try_acquire_n(&key, n).is_ok())
    });
}

/// Quotas of all and of a key's own change meanwhile, of which none is larger than that which is judged by.
#[test]
fn c1_threads_whose_quotas_change_never_get_too_much() {
    let most = Quota::per_second(40_000).burst(50);
    let limits = limits(most, 1_000);
    let less = [10_000, 20_000].map(|count| Quota::per_second(count).burst(50));
    let own = limits.with(less[0]).expect("in range");
    let turn = AtomicU64::new(0);
    storm(most, &limits, 8, |random| {
        if turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(5_000) {
            let quota = [less[0], less[1], most][random.usize(..3)];
            limits.set_quota(quota).expect("in range");
        }
        let key = random.usize(..8);
        let admitted = match key == 0 && random.bool() {
            true => own.try_acquire(&key),
            false => limits.try_acquire(&key),
        };
        (key, 1, admitted.is_ok())
    });
}

/// Lines of real threads, of which each grant has its date.
#[test]
fn c1_c6_threads_that_wait_for_keys_are_dated_by_the_promise_of_each() {
    let quota = Quota::per_second(20_000).burst(3);
    let limits = limits(quota, 100);
    let grants = thread::scope(|scope| {
        let each: Vec<_> = (0..THREADS)
            .map(|thread| {
                let limits = &limits;
                scope.spawn(move || {
                    let wait = |turn| {
                        let key = ((turn + thread) / 3 % 2) as usize;
                        let grant = limits.acquire(&key).block().expect("in turn");
                        let at_ns = grant.at().as_nanos();
                        let event = Event {
                            invoked_ns: at_ns,
                            returned_ns: at_ns,
                            n: 1,
                            admitted: true,
                        };
                        (key, event)
                    };
                    (0..1_000).map(wait).collect::<Vec<Seen>>()
                })
            })
            .collect();
        let each = each.into_iter().map(|thread| thread.join());
        each.flat_map(|seen| seen.expect("no panic"))
            .collect::<Vec<_>>()
    });
    for key in 0..2 {
        let of_key = grants.iter().filter(|(of, _)| *of == key);
        let events: Vec<_> = of_key.map(|(_, event)| *event).collect();
        if let Err(broken) = history::check(quota, &events) {
            panic!("key {key}, {quota}: {broken}");
        }
    }
    assert_eq!(limits.waiting_keys(), 0);
}

/// The check can fail: twice as much as the quota it is told.
#[test]
fn c1_c7_a_storm_on_twice_the_rate_is_condemned() {
    let limits = limits(Quota::per_second(2_000).burst(2_000), 100);
    let seen = chunk(limits.clock(), 5_000, 1, |random| {
        let key = random.usize(..2);
        (key, 1, limits.try_acquire(&key).is_ok())
    });
    let of_one = seen.iter().filter(|(key, _)| *key == 0);
    let events: Vec<_> = of_one.map(|(_, event)| *event).collect();
    let half = Quota::per_second(1_000).burst(1_000);
    assert!(history::check(half, &events).is_err());
}
