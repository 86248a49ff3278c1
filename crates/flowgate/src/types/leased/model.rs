//! loom models of the leases: every interleaving of decisions, new leases, ends, refunds, and a clock that moves beside them.
//!
//! Run by `ci/loom.sh`. The clock is an atomic, in ticks of the word. Lease A ends at tick 1, lease B at tick 2.

use super::leases::Leases;
use super::word::MAX_END_NS;
use crate::clock::Clock;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const TICK_NS: u64 = 65_536;

struct Model {
    leases: Leases,
    now: AtomicU64,
    /// Units that have been spent, by the tick that their decision has read.
    spent: [AtomicU64; 3],
    /// Units that came back.
    back: AtomicU64,
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            leases: Leases::new(100, Clock::default()),
            now: AtomicU64::new(0),
            spent: std::array::from_fn(|_| AtomicU64::new(0)),
            back: AtomicU64::new(0),
        })
    }

    fn now_ns(&self) -> u64 {
        self.now.load(Ordering::SeqCst) * TICK_NS
    }

    fn spend(&self, min: u64, max: u64) {
        let now_ns = self.now_ns();
        let spent = match min == max && self.leases.spend_first(now_ns, max) {
            true => max,
            false => self.leases.spend(now_ns, min, max).unwrap_or(0),
        };
        let tick = (now_ns / TICK_NS) as usize;
        self.spent[tick].fetch_add(spent, Ordering::SeqCst);
    }

    fn grant(&self, units: u64, until: u64) {
        let now_ns = self.now_ns();
        self.leases.grant(units, until * TICK_NS, now_ns);
    }

    fn refund(&self, n: u64) {
        let back = self.leases.refund(n, None, || self.now_ns());
        self.back.fetch_add(back, Ordering::SeqCst);
    }

    fn spent(&self) -> [u64; 3] {
        std::array::from_fn(|tick| self.spent[tick].load(Ordering::SeqCst))
    }
}

/// `first` and `second` beside each other and the clock, which moves from tick 0 to 2 meanwhile.
fn explore(
    preemptions: usize,
    before: fn(&Model),
    first: fn(&Model),
    second: fn(&Model),
    after: fn(&Model),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let model = Model::new();
        before(&model);
        let threads = [first, second].map(|act| {
            let model = Arc::clone(&model);
            thread::spawn(move || act(&model))
        });
        model.now.store(1, Ordering::SeqCst);
        model.now.store(2, Ordering::SeqCst);
        for thread in threads {
            thread.join().expect("no panic");
        }
        after(&model);
    });
}

/// A has 2 units and B has 3. Nothing is spent at tick 2, and nothing of A at tick 1.
fn bounds_hold(model: &Model) {
    let [at_0, at_1, at_2] = model.spent();
    let back = model.back.load(Ordering::SeqCst);
    assert_eq!(at_2, 0, "a unit was spent when both leases had ended");
    assert!(at_1 <= 3 + back, "{at_1} were spent at tick 1, of 3");
    assert!(at_0 + at_1 <= 5 + back, "{at_0} and {at_1} were spent");
}

#[test]
fn c1_decisions_race_the_second_lease_and_the_clock() {
    explore(
        2,
        |model| {
            model.grant(2, 1);
            model.grant(3, 2);
        },
        |model| model.spend(3, 3),
        |model| {
            model.spend(1, 1);
            model.spend(0, 4);
        },
        bounds_hold,
    );
}

#[test]
fn c1_decisions_race_a_grant_and_the_clock() {
    explore(
        2,
        |model| model.grant(2, 1),
        |model| {
            model.spend(1, 1);
            model.spend(2, 2);
        },
        |model| model.grant(3, 2),
        bounds_hold,
    );
}

#[test]
fn c5_refunds_race_decisions_the_second_lease_and_the_clock() {
    explore(
        2,
        |model| {
            model.grant(2, 1);
            model.spend(2, 2);
            model.grant(3, 2);
        },
        |model| model.spend(1, 1),
        |model| model.refund(2),
        |model| {
            bounds_hold(model);
            let back = model.back.load(Ordering::SeqCst);
            assert!(back <= 2, "{back} came back, of 2 and what B had spent");
        },
    );
}

/// The clock stands still here: what is there is spent, whichever lease it is in.
#[test]
fn c2_a_unit_that_is_there_is_found_while_leases_change_places() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let model = Model::new();
        model.grant(1, 1);
        model.grant(2, 2);
        let takers = [(); 2].map(|()| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.spend(1, 1))
        });
        model.spend(1, 1);
        for taker in takers {
            taker.join().expect("no panic");
        }
        assert_eq!(model.spent(), [3, 0, 0], "of 3 units for 3 takers");
    });
}

/// A new origin: the word is emptied first, so that no decision judges one lease by the origin of the other.
#[test]
fn c4_decisions_race_a_new_origin() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let model = Model::new();
        let far_ns = MAX_END_NS + 10 * TICK_NS;
        model.leases.grant(1, TICK_NS, 0);
        let takers = [0, far_ns - 1].map(|now_ns| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.leases.spend(now_ns, 1, 1).unwrap_or(0))
        });
        model.leases.grant(1, far_ns, far_ns - TICK_NS);
        let [early, late] = takers.map(|taker| taker.join().expect("no panic"));
        assert!(early + late <= 2);
        assert_eq!(model.leases.spend(far_ns, 1, 1), None);
    });
}
