//! Schedules of keyed gates: waits that are dropped after each number of polls, among others for the same key, another key and the
//! shared limits. See [`queue::schedules`](crate::queue::schedules). Run by `ci/shuttle.sh`.
//!
//! A wait goes from one queue to another: the order of the waits of its key, the time of the key, the queue of the shared
//! limits. No protocol is new in that, so there is no model. These schedules explore whether anything is lost on the way.

use super::KeyedGate;
use crate::clock::ManualClock;
use crate::concurrency::limit::ConcurrencyLimit;
use crate::gate::Gate;
use crate::keyed::schedules::{INTERVAL_NS, limits, quota};
use crate::queue::schedules::{explore, walk_until_none_is};
use crate::types::token_bucket::TokenBucket;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use shuttle::future::block_on;
use shuttle::thread;
// Not shuttle's: what it counts for the reckoning is not part of what is explored.
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::vec::Vec;

const A: u64 = 1;
const B: u64 = 2;
/// More than the callers ask for, and as many as there will ever be.
const TOKENS: u64 = 20;

struct Crawl {
    gate: KeyedGate<TokenBucket>,
    time: ManualClock,
    /// The instants between which each permit of a key was granted.
    granted: Mutex<Vec<(u64, [u64; 2])>>,
}

impl Crawl {
    /// A gate with one token for each key each 10 ns, one at most, and `slots` slots.
    fn new(slots: u32) -> Self {
        let (keys, time) = limits(1);
        let site = TokenBucket::builder(quota(1_000_000_000, TOKENS)).clock(&time);
        let slots = ConcurrencyLimit::builder(slots).clock(&time);
        let gate = Gate::builder()
            .limit("site", site.build().expect("in range"))
            .limit("slots", slots.build().expect("in range"))
            .keyed("key", keys);
        Self {
            gate: gate.build().expect("they go together"),
            time,
            granted: Mutex::default(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.time.now().as_nanos()
    }

    fn enter(&self, key: u64, from_ns: u64) {
        // Read before the lock: the clock may hand over to another thread, which would wait for the lock for ever.
        let to_ns = self.now_ns();
        let mut granted = self.granted.lock().expect("nobody panics meanwhile");
        granted.push((key, [from_ns, to_ns]));
    }

    /// Waits for a permit, and holds it for a while.
    fn visit(&self, key: u64) {
        let from_ns = self.now_ns();
        let permit = block_on(self.gate.acquire(&key)).expect("in turn");
        self.enter(key, from_ns);
        thread::yield_now();
        drop(permit);
    }

    /// Polls `polls` times, and leaves, whatever has become of it.
    fn leave_after(&self, key: u64, polls: usize) {
        let from_ns = self.now_ns();
        let mut wait = pin!(self.gate.acquire(&key));
        for _ in 0..polls {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(answer) = wait.as_mut().poll(&mut context) {
                drop(answer.expect("in turn"));
                return self.enter(key, from_ns);
            }
            thread::yield_now();
        }
    }

    /// Asserts that no waiter is left, nothing is in use, and all tokens of the site except those of permits are there. No
    /// two permits of a key were granted closer together than it allows.
    #[track_caller]
    fn reckon(&self) {
        let shared = self.gate.shared();
        assert!(shared.queue().is_empty(), "somebody is left in the queue");
        let in_flight = shared.inspect("slots", ConcurrencyLimit::in_flight);
        assert_eq!(in_flight, Some(0), "slots");
        let turns = &self.gate.0.turns;
        assert_eq!((turns.len(), turns.waiting_keys()), (0, 0), "turns");
        assert_eq!(self.gate.keys().waiting_keys(), 0);
        let granted = self.granted.lock().expect("nobody panics any longer");
        let left = shared.inspect("site", TokenBucket::available);
        assert_eq!(left, Some(TOKENS - granted.len() as u64), "tokens");
        for key in [A, B] {
            let of_key = || granted.iter().filter(|permit| permit.0 == key);
            let from_ns = of_key().map(|permit| permit.1[0]).min().unwrap_or(0);
            let to_ns = of_key().map(|permit| permit.1[1]).max().unwrap_or(0);
            let most = 1 + (to_ns - from_ns) / INTERVAL_NS;
            assert!(of_key().count() as u64 <= most, "{granted:?}");
        }
    }
}

/// Each stage of a wait: behind another of its key, for the key, for a slot, granted and unseen.
#[test]
fn c5_c6_a_wait_at_a_keyed_gate_is_dropped_after_any_number_of_polls() {
    explore(|| {
        let crawl = Crawl::new(1);
        let left = AtomicU64::new(2);
        let permit = crawl.gate.try_acquire(&B).expect("all is there");
        crawl.enter(B, 0);
        thread::scope(|threads| {
            for key in [A, B] {
                let (crawl, left) = (&crawl, &left);
                threads.spawn(move || {
                    crawl.visit(key);
                    left.fetch_sub(1, SeqCst);
                });
            }
            for polls in 1..=3 {
                let crawl = &crawl;
                threads.spawn(move || crawl.leave_after(A, polls));
            }
            threads.spawn(move || drop(permit));
            threads.spawn(|| walk_until_none_is(&left, &crawl.time, 4));
        });
        crawl.reckon();
    });
}

/// The shared limits get back what a wait has taken of them when its key turns out to be used up.
#[test]
fn c1_c5_a_key_of_a_keyed_gate_is_used_elsewhere_too() {
    explore(|| {
        let crawl = Crawl::new(1);
        let left = AtomicU64::new(1);
        thread::scope(|threads| {
            threads.spawn(|| {
                crawl.visit(A);
                left.fetch_sub(1, SeqCst);
            });
            threads.spawn(|| {
                // It is not a permit of the gate: it takes the key's token only.
                for _ in 0..2 {
                    _ = crawl.gate.keys().try_acquire(&A);
                    thread::yield_now();
                }
            });
            threads.spawn(|| crawl.leave_after(A, 2));
            threads.spawn(|| walk_until_none_is(&left, &crawl.time, 7));
        });
        crawl.reckon();
    });
}

/// New requests take all or nothing, and do not overtake waiters of their key.
#[test]
fn c1_c5_newcomers_at_a_keyed_gate_take_all_or_nothing() {
    explore(|| {
        let crawl = Crawl::new(1);
        let left = AtomicU64::new(1);
        thread::scope(|threads| {
            for key in [A, A, B] {
                let crawl = &crawl;
                threads.spawn(move || {
                    let from_ns = crawl.now_ns();
                    if let Ok(permit) = crawl.gate.try_acquire(&key) {
                        crawl.enter(key, from_ns);
                        drop(permit);
                    }
                });
            }
            threads.spawn(|| {
                crawl.visit(A);
                left.fetch_sub(1, SeqCst);
            });
            threads.spawn(|| walk_until_none_is(&left, &crawl.time, 7));
        });
        crawl.reckon();
    });
}
