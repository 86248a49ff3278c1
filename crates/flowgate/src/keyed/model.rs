//! loom models of keys that come, change and make way for each other at the same time. Run by `ci/loom.sh`.
//!
//! There are two lines of two slots, which all keys have in common; but odd keys look at the one first and take its lock, and
//! even keys at the other. A token takes a second to come back, and all happens in the first: so whatever is admitted must be
//! told by the slots and the sketch together.

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
        table: Table::new(2).expect("there is room"),
        names: Hashed,
        sketch: Sketch::new(cells).expect("there is room"),
        force: InForce::new(quota, &terms),
        full,
        counters: Counters::default(),
        newest_ns: crate::primitive::AtomicU64::new(0),
        rule: PhantomData,
    }
}

/// A key that may be in either line.
fn who(key: u64) -> Who<'static, Hashed> {
    let line = (key % 2) as usize;
    let in_both = |&fingerprint: &u64| {
        let place = Place { fingerprint, line };
        place.turned(2).line != line
    };
    let fingerprint = (1..)
        .filter(in_both)
        .nth(key as usize)
        .expect("half of all are");
    let place = Place { fingerprint, line };
    Who { place, key: &() }
}

/// All schedules in which threads are interrupted twice at the most: a key is looked for in eight steps, and all of
/// their orders would be too many.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
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

    /// A key that owes this in `line` at the beginning.
    fn seat(&self, line: usize, key: u64, ns: u64) {
        let entry = Entry::new(who(key).place.fingerprint, Reading::of_table(0), ticks(ns));
        assert!(self.table.add(line, entry), "a slot is left");
    }

    /// Three slots are taken by keys that owe more than any other.
    fn crowded(self) -> Self {
        self.seat(0, 1, 5 * SECOND);
        self.seat(1, 2, 5 * SECOND);
        self.seat(1, 3, 5 * SECOND);
        self
    }

    fn slots_of(&self, key: u64) -> usize {
        let fingerprint = who(key).place.fingerprint;
        let all = self
            .table
            .all()
            .filter(|(_, slot)| slot.entry.fingerprint() == fingerprint);
        all.count()
    }
}

#[test]
fn c1_c7_a_key_that_two_threads_bring_has_one_entry() {
    explore(|| {
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
    explore(|| {
        let keys = Arc::new(keys(1, Full::Deny, 0).crowded());
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
    explore(|| {
        let keys = Arc::new(keys(2, Full::Evict, 64).crowded());
        // One token of two is taken.
        keys.seat(0, 7, SECOND);
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
    explore(|| {
        let keys = Arc::new(keys(2, Full::Evict, 64).crowded());
        // Of the second of its tokens a part has come back.
        keys.seat(0, 7, SECOND + 1);
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
    explore(|| {
        let keys = Arc::new(keys(1, Full::Deny, 0).crowded());
        keys.seat(0, 7, SECOND);
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
    explore(|| {
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
