//! Schedules of keys: small crowds of threads that want the same few slots, in thousands of orders chosen by shuttle.
//!
//! loom explores every order of two or three threads with two interruptions (`model.rs`); this samples those of more, with
//! queues and with changes of quota. See [`queue::schedules`](crate::queue::schedules), which has the rest. Run by `ci/shuttle.sh`.
//!
//! A table here is one line of four slots, so that keys crowd each other out. Each scenario ends with a reckoning: no key has
//! got more than its promise, what it has taken is owed, and nobody is left in the queue.

use super::counts::Counters;
use super::current::InForce;
use super::entry::{Entry, Reading, Seed, ticks};
use super::keys::{Full, Keys};
use super::queues::KeyQueues;
use super::rule::{Bucket, Rule as _};
use super::sketch::Sketch;
use super::table::{SLOTS_PER_LINE, Table};
use super::{Keyed, KeyedView};
use crate::clock::ManualClock;
use crate::keyed::KeyedConcurrencyLimit;
use crate::queue::Grant;
use crate::queue::schedules::{explore, leave_early, walk, walk_until_none_is};
use crate::quota::Quota;
use crate::types::token_bucket::TokenBucket;
use crate::verdict::Denied;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::pin;
use core::task::{Context, Waker};
use core::time::Duration;
use shuttle::future::block_on;
use shuttle::thread;
// Not shuttle's: what it counts for the reckoning is not part of what is explored.
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::vec::Vec;

/// A token comes back in that time.
pub(crate) const INTERVAL_NS: u64 = 10;
/// Two keys.
const A: u64 = 1;
const B: u64 = 2;
/// Later than anything that happens here.
const FAR_NS: u64 = 1_000_000;

pub(crate) type Limits = Keyed<TokenBucket>;

pub(crate) fn quota(interval_ns: u64, burst: u64) -> Quota {
    Quota::new(1, Duration::from_nanos(interval_ns))
        .and_then(|quota| quota.try_burst(burst))
        .expect("a quota within range")
}

/// A token each 10 ns for each key; all keys have the same four slots.
pub(crate) fn limits(burst: u64) -> (Limits, ManualClock) {
    let time = ManualClock::new();
    let quota = quota(INTERVAL_NS, burst);
    let terms = Bucket::terms(&quota).expect("it fits");
    let keyed = Keyed {
        keys: Keys {
            table: Table::new(1, Seed([1, 2])).expect("there is room"),
            sketch: Sketch::new(64).expect("there is room"),
            force: InForce::new(quota, &terms),
            full: Full::Evict,
            counters: Counters::default(),
            newest_ns: crate::primitive::AtomicU64::new(0),
            largest: crate::primitive::AtomicU64::new(burst),
            rule: PhantomData,
        },
        capacity: SLOTS_PER_LINE,
        begins_ns: None,
        clock: (&time).into(),
        queues: KeyQueues::new(SLOTS_PER_LINE),
        max_waiters_per_key: 100,
    };
    (keyed, time)
}

impl Limits {
    fn view(&self) -> KeyedView<'_, TokenBucket> {
        KeyedView {
            keyed: self,
            now_ns: None,
            own: None,
        }
    }

    /// All slots but so many are taken by keys that owe more than any other.
    fn crowded(self, left: usize) -> Self {
        for key in 100..100 + (SLOTS_PER_LINE - left) as u64 {
            let fingerprint = self.keys.table.who(&key).place.fingerprint;
            let entry = Entry::new(fingerprint, Reading::of_table(0), ticks(FAR_NS));
            assert!(self.keys.table.add(0, entry), "a slot is left");
        }
        self
    }

    fn slots_of(&self, key: u64) -> usize {
        let fingerprint = self.keys.table.who(&key).place.fingerprint;
        let all = self.keys.table.all();
        all.filter(|(_, slot)| slot.entry.fingerprint() == fingerprint)
            .count()
    }
}

/// Who was let through: a key, between which instants, and how many units.
#[derive(Default)]
struct Ledger(Mutex<Vec<(u64, [u64; 2], u64)>>);

impl Ledger {
    fn enter(&self, key: u64, between_ns: [u64; 2], n: u64) {
        let mut turns = self.0.lock().expect("nobody panics meanwhile");
        turns.push((key, between_ns, n));
    }

    /// Tries for a token of `key`, so often.
    fn take(&self, view: KeyedView<'_, TokenBucket>, key: u64, times: usize) {
        let now_ns = || view.keyed.clock.now().as_nanos();
        for _ in 0..times {
            let from_ns = now_ns();
            if view.try_acquire(&key).is_ok() {
                // Where the clock runs backward, nobody knows when it was.
                self.enter(key, [from_ns, now_ns().max(from_ns)], 1);
            }
        }
    }

    /// Waits for a turn of `key`.
    fn wait(&self, key: u64, wait: impl Future<Output = Result<Grant, Denied>>) {
        let grant = block_on(wait).expect("in turn");
        self.enter_grant(key, grant);
    }

    fn enter_grant(&self, key: u64, grant: Grant) {
        self.enter(key, [grant.at().as_nanos(); 2], grant.units());
    }

    fn taken(&self, key: u64) -> u64 {
        let turns = self.0.lock().expect("nobody panics any longer");
        turns
            .iter()
            .filter(|turn| turn.0 == key)
            .map(|turn| turn.2)
            .sum()
    }

    /// Contract C1 for each key: between any two instants no more than `burst` and a token each `interval_ns`.
    #[track_caller]
    fn assert_promise(&self, burst: u64, interval_ns: u64) {
        let turns = self.0.lock().expect("nobody panics any longer");
        for &(key, [from_ns, _], _) in turns.iter() {
            for &(_, [_, to_ns], _) in turns.iter().filter(|turn| turn.0 == key) {
                let inside = turns
                    .iter()
                    .filter(|turn| turn.0 == key && turn.1[0] >= from_ns && turn.1[1] <= to_ns);
                let taken: u64 = inside.map(|turn| turn.2).sum();
                let most = burst + to_ns.saturating_sub(from_ns) / interval_ns;
                assert!(taken <= most, "{taken} of {most} by {key}: {turns:?}");
            }
        }
    }

    /// On a clock that stood still: no key has had more than `burst`, and what it has had is owed.
    #[track_caller]
    fn assert_owed(&self, view: KeyedView<'_, TokenBucket>, key: u64, burst: u64) {
        let taken = self.taken(key);
        assert!(taken <= burst, "{taken} of {burst} by {key}");
        let (left, limit) = (view.available(&key), view.snapshot(&key).limit);
        let most = limit.saturating_sub(taken);
        assert!(
            left <= most,
            "{left} left of {limit}, {taken} taken by {key}"
        );
        assert!(view.keyed.slots_of(key) <= 1, "{key} is there twice");
    }
}

// Entries.

/// Insert and insert: two entries for one key would be two limits.
#[test]
fn c1_c7_a_new_key_that_many_bring_has_one_entry() {
    explore(|| {
        let (limits, _time) = limits(2);
        let ledger = Ledger::default();
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| ledger.take(limits.view(), 7, 2));
            }
        });
        assert_eq!((ledger.taken(7), limits.slots_of(7)), (2, 1));
    });
}

/// Insert and evict, update and evict: three keys want the one slot that is left, two threads each.
#[test]
fn c7_keys_that_make_way_for_each_other_get_nothing_by_it() {
    explore(|| {
        let limits = limits(2).0.crowded(1);
        let ledger = Ledger::default();
        thread::scope(|threads| {
            for key in [1, 2, 3, 1, 2, 3] {
                let (limits, ledger) = (&limits, &ledger);
                threads.spawn(move || ledger.take(limits.view(), key, 2));
            }
        });
        for key in 1..=3 {
            ledger.assert_owed(limits.view(), key, 2);
        }
    });
}

/// Slots fall vacant and are used again, and the clock runs back when they have been.
#[test]
fn c4_c7_a_clock_that_runs_backward_meets_slots_that_are_used_again() {
    explore(|| {
        let (limits, time) = limits(2);
        let limits = limits.crowded(2);
        let ledger = Ledger::default();
        thread::scope(|threads| {
            for key in 1..=4 {
                let (limits, ledger) = (&limits, &ledger);
                threads.spawn(move || ledger.take(limits.view(), key, 3));
            }
            threads.spawn(|| walk(&time, [15, 31, 0, 12, 25]));
        });
        // Whatever the clock has shown meanwhile: what has flowed in until the latest time, and no more.
        for key in 1..=4 {
            let (taken, most) = (ledger.taken(key), 2 + 31 / INTERVAL_NS);
            assert!(taken <= most, "{taken} of {most} by {key}");
        }
    });
}

#[test]
fn c1_c7_keys_come_and_go_while_the_clock_moves() {
    explore(|| {
        let (limits, time) = limits(2);
        let limits = limits.crowded(2);
        let ledger = Ledger::default();
        thread::scope(|threads| {
            for key in [1, 2, 3, 1] {
                let (limits, ledger) = (&limits, &ledger);
                threads.spawn(move || ledger.take(limits.view(), key, 4));
            }
            threads.spawn(|| walk(&time, [10, 20, 45, 46]));
        });
        ledger.assert_promise(2, INTERVAL_NS);
    });
}

/// What is given back is no more than what was taken, also by a key that makes way meanwhile.
#[test]
fn c5_c7_refunds_meet_takers_and_newcomers() {
    explore(|| {
        let limits = limits(2).0.crowded(1);
        let (ledger, back) = (Ledger::default(), AtomicU64::new(0));
        assert!(limits.try_acquire_n(&A, 2).is_ok());
        thread::scope(|threads| {
            threads.spawn(|| _ = back.fetch_add(limits.refund(&A, 1), SeqCst));
            threads.spawn(|| _ = back.fetch_add(limits.refund(&A, 2), SeqCst));
            threads.spawn(|| ledger.take(limits.view(), A, 3));
            threads.spawn(|| ledger.take(limits.view(), B, 2));
        });
        let (taken, back) = (2 + ledger.taken(A), back.into_inner());
        assert!(taken - back <= 2, "{taken} taken, {back} came back");
        let left = limits.available(&A);
        assert!(left <= 2 - (taken - back), "{left} left");
        ledger.assert_owed(limits.view(), B, 2);
    });
}

// Quotas.

/// Whichever quota they are let through by, what is taken stays taken, in tokens.
#[test]
fn c1_changes_of_quota_meet_takers_and_newcomers() {
    explore(|| {
        let (limits, _time) = limits(3);
        let ledger = Ledger::default();
        ledger.take(limits.view(), A, 1);
        thread::scope(|threads| {
            for key in [1, 1, 2, 3] {
                let (limits, ledger) = (&limits, &ledger);
                threads.spawn(move || ledger.take(limits.view(), key, 2));
            }
            threads.spawn(|| {
                for (interval_ns, burst) in [(40, 2), (5, 4), (20, 3)] {
                    let quota = quota(interval_ns, burst);
                    limits.set_quota(quota).expect("it is in range");
                }
            });
        });
        for key in 1..=3 {
            ledger.assert_owed(limits.view(), key, 4);
        }
        assert_eq!(limits.snapshot(&A).limit, 3);
    });
}

/// The same by quotas of a key's own, while it makes way for others.
#[test]
fn c1_c7_quotas_of_its_own_meet_changes_and_newcomers() {
    explore(|| {
        let limits = limits(3).0.crowded(1);
        let ledger = Ledger::default();
        let own = |interval_ns| limits.with(quota(interval_ns, 3)).expect("in range");
        let (slow, fast) = (own(40), own(5));
        thread::scope(|threads| {
            for view in [slow, fast, limits.view()] {
                let ledger = &ledger;
                threads.spawn(move || ledger.take(view, A, 2));
            }
            threads.spawn(|| ledger.take(limits.view(), B, 2));
            threads.spawn(|| limits.set_quota(quota(20, 3)).expect("in range"));
        });
        ledger.assert_owed(limits.view(), B, 3);
        assert!(limits.slots_of(A) <= 1);
        // In time, where a key has made way: so by the fastest, no more than as if a token were cheap.
        assert!(ledger.taken(A) <= 3 || limits.counts().evicted > 0);
    });
}

// Lines.

/// A clock that stands still: whoever waits is helped by what is given back, or not at all.
#[test]
fn c5_c6_those_who_wait_for_a_key_meet_what_is_given_back() {
    explore(|| {
        let limits = limits(3).0.crowded(1);
        let ledger = Ledger::default();
        assert!(limits.try_acquire_n(&A, 3).is_ok());
        thread::scope(|threads| {
            threads.spawn(|| ledger.wait(A, limits.acquire(&A)));
            threads.spawn(|| ledger.wait(A, limits.acquire(&A).n(2)));
            threads.spawn(|| assert_eq!(limits.refund(&A, 1), 1));
            threads.spawn(|| assert_eq!(limits.refund(&A, 2), 2));
        });
        assert_eq!((ledger.taken(A), limits.available(&A)), (3, 0));
        assert_eq!(limits.waiting_keys(), 0);
    });
}

/// A queue opens and closes over and over, while others want its slot.
#[test]
fn c6_c7_a_line_that_closes_meets_somebody_who_enters_it() {
    explore(|| {
        let (limits, time) = limits(1);
        let limits = limits.crowded(1);
        let ledger = Ledger::default();
        let left = AtomicU64::new(2);
        ledger.take(limits.view(), A, 1);
        thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..2 {
                    ledger.wait(A, limits.acquire(&A));
                }
                left.fetch_sub(1, SeqCst);
            });
            threads.spawn(|| {
                if let Some(answer) = leave_early(limits.acquire(&A)) {
                    ledger.enter_grant(A, answer.expect("in turn"));
                }
                ledger.wait(A, limits.acquire(&A));
                left.fetch_sub(1, SeqCst);
            });
            threads.spawn(|| ledger.take(limits.view(), B, 2));
            threads.spawn(|| walk_until_none_is(&left, &time, 7));
        });
        ledger.assert_promise(1, INTERVAL_NS);
        assert_eq!(limits.waiting_keys(), 0);
        let waits = |slot: &super::table::Slot<'_>| slot.entry.waits();
        assert!(!limits.keys.table.all().any(|(_, slot)| waits(&slot)));
    });
}

/// More is made possible at once for all who wait, or the key is forgotten.
#[test]
fn c6_those_who_wait_for_a_key_meet_a_faster_quota_and_a_reset() {
    explore(|| {
        let (limits, _time) = limits(2);
        let ledger = Ledger::default();
        limits.set_quota(quota(1_000_000, 2)).expect("in range");
        assert!(limits.try_acquire_n(&A, 2).is_ok());
        assert!(limits.try_acquire_n(&B, 2).is_ok());
        thread::scope(|threads| {
            threads.spawn(|| ledger.wait(A, limits.acquire(&A).n(2)));
            threads.spawn(|| ledger.wait(B, limits.acquire(&B)));
            threads.spawn(|| limits.reset(&A));
            threads.spawn(|| limits.set_quota(quota(10, 3)).expect("in range"));
        });
        // What has been taken stays taken; the third token of each is new.
        assert_eq!((ledger.taken(A), ledger.taken(B)), (2, 1));
        assert_eq!(limits.available(&B), 0);
        assert_eq!(limits.waiting_keys(), 0);
    });
}

/// The queue goes by whichever of them came last, and all are served, by it or before it.
#[test]
fn c1_c6_those_who_wait_for_a_key_come_with_quotas_of_its_own() {
    explore(|| {
        let (limits, time) = limits(1);
        let ledger = Ledger::default();
        let fast = limits.with(quota(5, 1)).expect("in range");
        let left = AtomicU64::new(3);
        ledger.take(limits.view(), A, 1);
        thread::scope(|threads| {
            for view in [limits.view(), fast, limits.view()] {
                let (ledger, left) = (&ledger, &left);
                threads.spawn(move || {
                    ledger.wait(A, view.acquire(&A));
                    left.fetch_sub(1, SeqCst);
                });
            }
            threads.spawn(|| walk_until_none_is(&left, &time, 4));
        });
        ledger.assert_promise(1, 5);
        assert_eq!(limits.waiting_keys(), 0);
    });
}

/// Slots of one key come back while somebody comes with a larger limit, somebody leaves, and another key wants the entry.
#[test]
fn c1_c6_those_who_wait_for_a_slot_come_with_limits_of_their_own() {
    explore(|| {
        let limits = KeyedConcurrencyLimit::builder(1).clock(ManualClock::new());
        let limits = limits.seed([1, 2]).capacity(1).expect("in range");
        let in_use = AtomicU64::new(0);
        let permit = limits.try_acquire(&A).expect("it is free");
        thread::scope(|threads| {
            for own in [1, 2, 2] {
                let (limits, in_use) = (&limits, &in_use);
                threads.spawn(move || {
                    let limit = limits.with(own).expect("in range");
                    let permit = block_on(limit.acquire(&A)).expect("in turn");
                    assert!(in_use.fetch_add(1, SeqCst) < 2);
                    thread::yield_now();
                    in_use.fetch_sub(1, SeqCst);
                    drop(permit);
                });
            }
            threads.spawn(|| drop(leave_early(limits.acquire(&A))));
            threads.spawn(|| drop(limits.try_acquire(&B)));
            threads.spawn(move || drop(permit));
        });
        assert_eq!((limits.len(), limits.waiting_keys()), (0, 0));
    });
}

/// Whoever gives back is held up until the key's slot is another key's, for which somebody waits.
#[test]
fn c1_c7_what_is_given_back_meets_another_key_in_the_slot() {
    explore(|| {
        let limits = KeyedConcurrencyLimit::builder(1).clock(ManualClock::new());
        let limits = limits.seed([1, 2]).capacity(1).expect("in range");
        let permit = limits.try_acquire(&A).expect("it is free");
        thread::scope(|threads| {
            threads.spawn(move || drop(permit));
            threads.spawn(|| {
                drop(block_on(limits.acquire(&A)).expect("in turn"));
                let permit = limits.try_acquire(&B).expect("it is free");
                assert!(stays_in_line(limits.acquire(&B)), "B is let in twice");
                assert_eq!(limits.in_flight(&B), 1);
                drop(permit);
            });
        });
        assert_eq!((limits.len(), limits.waiting_keys()), (0, 0));
    });
}

/// The same of a refund: each key gets what is its own.
#[test]
fn c1_c7_a_refund_meets_another_key_in_the_slot() {
    explore(|| {
        let limits = limits(1).0.crowded(1);
        assert!(limits.try_acquire(&A).is_ok());
        thread::scope(|threads| {
            threads.spawn(|| limits.refund(&A, 1));
            threads.spawn(|| {
                stays_in_line(limits.acquire(&A));
                if limits.try_acquire(&B).is_ok() {
                    assert!(stays_in_line(limits.acquire(&B)), "B has none left");
                }
            });
        });
        assert_eq!(limits.waiting_keys(), 0);
    });
}

/// Gets in the queue, stands there for a while, and leaves; whether it has got nothing.
fn stays_in_line<F: Future>(wait: F) -> bool {
    let mut wait = pin!(wait);
    (0..2).all(|_| {
        let mut context = Context::from_waker(Waker::noop());
        let answer = wait.as_mut().poll(&mut context);
        thread::yield_now();
        answer.is_pending()
    })
}
