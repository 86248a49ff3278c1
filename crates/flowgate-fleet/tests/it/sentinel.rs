//! A primary that Sentinel replaces.

use crate::support::{Ledger, Replicated, calls, is_down, is_long, until};
use flowgate_fleet::CutOff;

const NODES: u32 = 3;
const QUOTA: &str = "500/s burst 100";
const SOME: usize = 50;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Dies,
    Hangs,
    Moved,
}

/// Lets the primary fail, and come back after a replica has taken its place.
fn failover(fault: Fault, min_replicas: bool) {
    let mut store = Replicated::start(min_replicas);
    let fleets = store.fleets(NODES);
    let (mut fault_ns, mut promoted_ns, mut found_ns, mut moved_ns) = (0, 0, 0, 0);
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Deny, |ledger| {
        ledger.progress(SOME);
        fault_ns = ledger.now_ns();
        match fault {
            Fault::Dies => store.servers[0].kill(),
            Fault::Hangs => store.servers[0].pause(),
            Fault::Moved => store.failover(),
        }
        let promoted = store.promoted();
        promoted_ns = ledger.now_ns();
        let before = calls(promoted);
        until("no process finds the new primary", || {
            calls(promoted) > before
        });
        found_ns = ledger.now_ns();
        ledger.progress(SOME);
        match fault {
            Fault::Dies => store.servers[0].restart(),
            Fault::Hangs => store.servers[0].resume(),
            Fault::Moved => {}
        }
        // Until all processes have left it, a primary that was moved admits too.
        let old = &store.servers[0];
        let is_left = || {
            let before = calls(old);
            ledger.progress(SOME);
            calls(old) == before
        };
        until("the old primary is asked", is_left);
        moved_ns = ledger.now_ns();
        let before = calls(old);
        ledger.progress(3 * SOME);
        assert_eq!(calls(old), before, "a process is back at the old primary");
    });
    let ms = |since_ns: u64, until_ns: u64| (until_ns - since_ns) / 1_000_000;
    println!(
        "Sentinel, {fault:?}, min-replicas {min_replicas}: promoted after {} ms, found {} ms later, the old one left after {} ms",
        ms(fault_ns, promoted_ns),
        ms(promoted_ns, found_ns),
        ms(fault_ns, moved_ns)
    );
    let what = format!("Sentinel: the primary {fault:?}, min-replicas {min_replicas}");
    // What the replica has not heard of is forgotten.
    ledger.check(&what, 1, |allowance| match fault {
        Fault::Moved => allowance.flow([1, 1], fault_ns, moved_ns),
        _ => allowance,
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_the_primary_dies() {
    failover(Fault::Dies, false);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_the_primary_hangs() {
    failover(Fault::Hangs, true);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_the_primary_is_moved() {
    failover(Fault::Moved, false);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_minority_of_sentinels_is_not_believed_and_no_reason_to_leave_the_store() {
    let store = Replicated::start(false);
    let fleets = store.fleets(1);
    Ledger::of(&fleets, QUOTA, CutOff::Deny, |ledger| {
        ledger.progress(SOME);
        for sentinel in &store.sentinels[..2] {
            sentinel.pause();
        }
        let newcomer = store.fleets(1).remove(0);
        until("one sentinel is believed", || is_down(&newcomer));
        // At this rate, that takes longer than two looks at the sentinels.
        ledger.progress(1_500);
        assert!(is_down(&newcomer), "one sentinel is believed");
        for sentinel in &store.sentinels[..2] {
            sentinel.resume();
        }
        until("three sentinels are not believed", || !is_down(&newcomer));
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test; the other settings only with FLOWGATE_LONG"]
fn c1_each_fault_with_and_without_enough_replicas() {
    if is_long() {
        for fault in [Fault::Dies, Fault::Hangs, Fault::Moved] {
            for min_replicas in [false, true] {
                failover(fault, min_replicas);
            }
        }
    }
}
