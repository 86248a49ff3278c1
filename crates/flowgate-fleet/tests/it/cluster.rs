//! Records on the servers of a cluster.

use crate::support::{Cluster, Ledger, check_all, until};
use flowgate_fleet::CutOff;
use std::convert::identity;
use std::time::Duration;

const NODES: u32 = 3;
const QUOTA: &str = "50/s burst 10";
const KEYS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
const TIMEOUT: Duration = Duration::from_millis(50);
/// A busy machine does not look like a fault.
const LONG: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
enum Fault {
    Dies,
    Hangs,
    Moved,
}

/// Waits until each key has been admitted `units` by the store that were asked for after `from_ns`. Returns when the last of them had the
/// first of its.
fn progress(ledgers: &[Ledger], from_ns: u64, units: usize) -> u64 {
    let is_so = || {
        ledgers
            .iter()
            .all(|ledger| ledger.by_store(from_ns).len() >= units)
    };
    until("a key is not admitted anything", is_so);
    let firsts = ledgers.iter().map(|ledger| ledger.by_store(from_ns)[0]);
    firsts.max().expect("there are keys")
}

fn failover(fault: Fault) {
    let mut cluster = Cluster::start(true);
    let fleets = cluster.fleets(NODES, TIMEOUT);
    let (mut fault_ns, mut promoted_ns, mut found_ns) = (0, 0, 0);
    let ledgers = Ledger::of_keys(&fleets, QUOTA, CutOff::Deny, &KEYS, |ledgers| {
        progress(ledgers, 0, 10);
        fault_ns = ledgers[0].now_ns();
        match fault {
            Fault::Dies => cluster.primaries[0].kill(),
            Fault::Hangs => cluster.primaries[0].pause(),
            Fault::Moved => cluster.replicas[0].command("CLUSTER FAILOVER").unwrap(),
        }
        cluster.promoted(0);
        promoted_ns = ledgers[0].now_ns();
        found_ns = progress(ledgers, promoted_ns, 5);
        match fault {
            Fault::Dies => cluster.primaries[0].restart(),
            Fault::Hangs => cluster.primaries[0].resume(),
            Fault::Moved => {}
        }
        progress(ledgers, ledgers[0].now_ns(), 5);
    });
    let ms = |since_ns: u64, until_ns: u64| (until_ns - since_ns) / 1_000_000;
    println!(
        "cluster, {fault:?}: promoted after {} ms, all keys admitted {} ms later",
        ms(fault_ns, promoted_ns),
        ms(promoted_ns, found_ns)
    );
    // What the replica has not heard of is forgotten.
    check_all(
        &ledgers,
        &format!("cluster: a primary {fault:?}"),
        1,
        identity,
    );
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_primary_dies() {
    failover(Fault::Dies);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_primary_hangs() {
    failover(Fault::Hangs);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_primary_is_moved() {
    failover(Fault::Moved);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_server_that_hangs_cuts_off_its_own_keys_and_no_others() {
    let cluster = Cluster::start(false);
    let fleets = cluster.fleets(NODES, TIMEOUT);
    Ledger::of_keys(&fleets, QUOTA, CutOff::Deny, &KEYS, |ledgers| {
        progress(ledgers, 0, 10);
        let on_first: u64 = cluster.primaries[0].command("DBSIZE").unwrap();
        cluster.primaries[0].pause();
        let from_ns = ledgers[0].now_ns();
        until("the other keys are not admitted anything", || {
            let is_served = |ledger: &&Ledger| ledger.by_store(from_ns).len() >= 20;
            ledgers.iter().filter(is_served).count() as u64 >= KEYS.len() as u64 - on_first
        });
        cluster.primaries[0].resume();
        progress(ledgers, ledgers[0].now_ns(), 5);
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_slots_move_under_load_without_a_decision_here() {
    let cluster = Cluster::start(false);
    let fleets = cluster.fleets(NODES, LONG);
    let mut moves = 0;
    let ledgers = Ledger::of_keys(&fleets, QUOTA, CutOff::Admit, &KEYS, |ledgers| {
        progress(ledgers, 0, 5);
        let [from, to] = [0, 1].map(|at: usize| &cluster.primaries[at]);
        while let Ok(record) = from.command::<String>("RANDOMKEY") {
            let all_go_on = || _ = progress(ledgers, ledgers[0].now_ns(), 1);
            cluster.migrate(&record, from, to, all_go_on);
            all_go_on();
            moves += 1;
        }
        progress(ledgers, ledgers[0].now_ns(), 5);
    });
    println!("cluster: {moves} slots moved");
    assert!(moves > 0);
    for ledger in &ledgers {
        assert!(ledger.admissions().iter().all(|one| !one.is_alone));
    }
    check_all(&ledgers, "cluster: slots move", 0, identity);
}
