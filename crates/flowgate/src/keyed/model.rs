//! loom models of keys that come, change and make way for each other at the same time. Run by `ci/loom.sh`.
//!
//! There is one line of two slots, and a bucket of which a token takes a second to come back, in the first of them: so
//! whatever is admitted must be told by the slots and the sketch together. A clock that moves meanwhile is an atomic.

use super::counts::Counters;
use super::entry::{Entry, Reading};
use super::force::InForce;
use super::keys::{Asked, Full, Keys, Who, ticks};
use super::names::Hashed;
use super::place::Place;
use super::rule::{Bucket, Rule as _};
use super::sketch::Sketch;
use super::table::Table;
use crate::quota::Quota;
use core::marker::PhantomData;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const SECOND: u64 = 1_000_000_000;

type Model = Keys<Bucket, Hashed>;

fn keys(burst: u64, full: Full, cells: usize) -> Model {
    let quota = Quota::per_second(1).burst(burst);
    let terms = Bucket::terms(&quota).expect("it fits");
    Keys {
        table: Table::new(1).expect("there is room"),
        names: Hashed,
        sketch: Sketch::new(cells).expect("there is room"),
        force: InForce::new(quota, &terms),
        full,
        counters: Counters::default(),
        newest_ns: crate::primitive::AtomicU64::new(0),
        rule: PhantomData,
    }
}

/// The keys that there are: so that no two share both cells of four.
fn who(key: u64) -> Who<'static, Hashed> {
    let place = Place {
        fingerprint: key,
        line: 0,
    };
    Who { place, key: &() }
}

fn at(now_ns: u64) -> Asked<'static> {
    Asked {
        now_ns,
        clock: None,
        own: None,
    }
}

impl Model {
    fn takes(&self, key: u64, now_ns: u64) -> u64 {
        u64::from(self.take(who(key), at(now_ns), None, false).is_ok())
    }

    /// A key that owes `tokens` at the beginning.
    fn seat(&self, key: u64, tokens: u64) {
        let state = ticks(tokens * SECOND);
        let entry = Entry::new(key, Reading::of_table(0), state);
        assert!(self.table.add(0, entry), "a slot is left");
    }

    fn slots_of(&self, key: u64) -> usize {
        let all = self
            .table
            .all()
            .filter(|(_, slot)| slot.entry.fingerprint() == key);
        all.count()
    }
}

#[test]
fn c1_c7_a_key_that_two_threads_bring_has_one_entry() {
    loom::model(|| {
        let keys = Arc::new(keys(1, Full::Deny, 0));
        let other = {
            let keys = Arc::clone(&keys);
            thread::spawn(move || keys.takes(7, 0))
        };
        let taken = keys.takes(7, 0);
        assert_eq!(taken + other.join().unwrap(), 1);
        assert_eq!(keys.slots_of(7), 1);
    });
}

#[test]
fn c1_c7_two_keys_that_want_the_same_slot_do_not_lose_each_other() {
    loom::model(|| {
        let keys = Arc::new(keys(1, Full::Deny, 0));
        keys.seat(1, 5);
        let other = {
            let keys = Arc::clone(&keys);
            thread::spawn(move || keys.takes(7, 0))
        };
        let taken = [keys.takes(8, 0), other.join().unwrap()];
        assert_eq!(taken[0] + taken[1], 1, "one slot, one key");
        assert_eq!((keys.takes(8, 0), keys.takes(7, 0)), (0, 0));
    });
}

#[test]
fn c7_a_key_that_makes_way_while_it_takes_gets_nothing_by_it() {
    loom::model(|| {
        let keys = Arc::new(keys(2, Full::Evict, 8));
        keys.seat(1, 5);
        // One token of two is taken.
        keys.seat(7, 1);
        let other = {
            let keys = Arc::clone(&keys);
            thread::spawn(move || keys.take(who(8), at(0), Some(2), false).is_ok())
        };
        let taken = keys.takes(7, 0);
        assert!(other.join().unwrap());
        assert_eq!(taken, 1);
        assert_eq!(keys.takes(7, 0), 0, "it has had both");
        assert_eq!(keys.takes(8, 0), 0);
    });
}

#[test]
fn c7_a_key_that_makes_way_comes_back_with_its_debt() {
    loom::model(|| {
        let keys = Arc::new(keys(2, Full::Evict, 8));
        keys.seat(1, 5);
        // Both of its tokens but a part of one are taken.
        keys.table
            .add(0, Entry::new(7, Reading::of_table(0), ticks(SECOND + 1)));
        let other = {
            let keys = Arc::clone(&keys);
            thread::spawn(move || keys.take(who(8), at(0), Some(2), false).is_ok())
        };
        assert_eq!(keys.takes(7, 0), 0);
        assert!(other.join().unwrap());
        assert_eq!(keys.takes(7, 0), 0);
    });
}

#[test]
fn c4_c7_a_slot_that_is_used_again_grants_nothing_to_a_clock_that_runs_back() {
    loom::model(|| {
        let keys = Arc::new(keys(1, Full::Deny, 0));
        keys.seat(1, 5);
        keys.seat(7, 1);
        let now = Arc::new(AtomicU64::new(SECOND));
        let other = {
            let (keys, now) = (Arc::clone(&keys), Arc::clone(&now));
            thread::spawn(move || keys.takes(8, now.load(Ordering::SeqCst)))
        };
        now.store(0, Ordering::SeqCst);
        assert_eq!(keys.takes(7, 0), 0, "it has had its token at 0");
        let _ = other.join().unwrap();
    });
}

#[test]
fn c1_a_change_of_quota_misses_no_key() {
    loom::model(|| {
        let keys = Arc::new(keys(2, Full::Deny, 0));
        let other = {
            let keys = Arc::clone(&keys);
            thread::spawn(move || keys.takes(7, 0))
        };
        let quota = Quota::per_second(10).burst(2);
        let terms = Bucket::terms(&quota).expect("it fits");
        keys.set_quota(quota, &terms, 0);
        assert_eq!(other.join().unwrap(), 1);
        // Twice, so that an entry that had been passed over would be read as one of this generation.
        let quota = Quota::per_second(1).burst(2);
        let terms = Bucket::terms(&quota).expect("it fits");
        keys.set_quota(quota, &terms, 0);
        assert_eq!(keys.takes(7, 0) + keys.takes(7, 0), 1);
        assert_eq!(keys.takes(7, SECOND - 1), 0);
    });
}
