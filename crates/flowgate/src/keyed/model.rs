//! loom models of keys that come, change and make way for each other at the same time. Run by `ci/loom.sh`.
//!
//! There are three lines of two slots. Even keys are in the first or the second, odd ones in the second or the third, so
//! that they want the same slots and take different locks. A token takes a second to come back, and all happens in the first:
//! so whatever is admitted must be told by the slots and the sketch together.

use super::counts::Counters;
use super::current::InForce;
use super::entry::{Entry, Place, Reading, Seed, ticks};
use super::keys::{Amount, Asked, Full, Keys, Query, Told};
use super::names::Hashed;
use super::rule::{Bucket, Rule as _};
use super::sketch::Sketch;
use super::table::{Table, Who};
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
        table: Table::new(3, Seed([1, 2])).expect("there is room"),
        sketch: Sketch::new(cells).expect("there is room"),
        force: InForce::new(quota, &terms),
        full,
        counters: Counters::default(),
        newest_ns: crate::primitive::AtomicU64::new(0),
        largest: crate::primitive::AtomicU64::new(burst),
        rule: PhantomData,
    }
}

fn who(key: u64) -> Who<'static, Hashed> {
    let [line, other] = if key % 2 == 0 { [0, 1] } else { [1, 2] };
    let place = |fingerprint| Place { fingerprint, line };
    let fits = |&fingerprint: &u64| place(fingerprint).turned(3).line == other;
    let fingerprint = (1..).filter(fits).nth(key as usize);
    Who {
        place: place(fingerprint.expect("a third of all fit")),
        key: &(),
    }
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
        told: Told::ByClock,
        clock: None,
        own: None,
    }
}

fn asked(key: u64, now_ns: u64) -> Query<'static, Hashed> {
    let (who, asked) = (who(key), at(now_ns));
    Query { who, asked }
}

impl Model {
    fn takes(&self, key: u64, now_ns: u64) -> u64 {
        let taken = self.take(&asked(key, now_ns), Amount::Token, false);
        u64::from(taken.is_ok())
    }

    /// A key that owes this in `line` at the beginning.
    fn seat(&self, line: usize, key: u64, ns: u64) {
        let entry = Entry::new(who(key).place.fingerprint, Reading::of_table(0), ticks(ns));
        assert!(self.table.add(line, entry), "a slot is left");
    }

    /// All slots but one are taken by keys that owe more than any other.
    fn crowded(self) -> Self {
        for (line, key) in [(0, 0), (0, 2), (1, 4), (2, 1), (2, 3)] {
            self.seat(line, key, 5 * SECOND);
        }
        self
    }

    fn change(&self, quota: Quota) {
        let terms = Bucket::terms(&quota).expect("it fits");
        self.set_quota(quota, &terms, at(0));
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
        // One token of two is taken, and a part of it has come back: the sketch rounds up.
        keys.seat(1, 7, SECOND - 100_000);
        let other = {
            let keys = Arc::clone(&keys);
            thread::spawn(move || keys.take(&asked(8, 0), Amount::All(2), false).is_ok())
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
        keys.seat(1, 7, SECOND + 1);
        let other = {
            let keys = Arc::clone(&keys);
            thread::spawn(move || keys.take(&asked(8, 0), Amount::All(2), false).is_ok())
        };
        assert_eq!(keys.takes(7, 0), 0);
        assert!(other.join().unwrap());
        assert_eq!(keys.takes(7, 0), 0);
    });
}

#[test]
fn c4_c7_a_slot_that_is_used_again_grants_nothing_to_a_clock_that_runs_back() {
    explore(|| {
        let keys = Arc::new(keys(1, Full::Evict, 64).crowded());
        keys.seat(1, 7, SECOND);
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
            thread::spawn(move || keys.take(&asked(7, 0), Amount::All(2), false).is_ok())
        };
        // Twice: what the first has passed over would be taken for what the second has put in force.
        keys.change(Quota::per_second(10).burst(2));
        assert!(other.join().unwrap());
        keys.change(Quota::per_minute(6).burst(2));
        assert_eq!(keys.takes(7, 0), 0, "it has had both");
    });
}
