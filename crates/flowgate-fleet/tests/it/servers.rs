//! What each server answers when it cannot keep records.

use crate::support::{Engine, Ledger, calls, fleets, is_down, servers, until};
use flowgate_fleet::CutOff;
use std::convert::identity;

const QUOTA: &str = "500/s burst 100";
const SOME: usize = 50;

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_server_that_is_no_primary_for_a_while_is_asked_again_when_it_is_one() {
    const DEMOTE: &str = "REPLICAOF 127.0.0.1 1";
    const PROMOTE: &str = "REPLICAOF NO ONE";
    let faults = [
        (
            "READONLY",
            [DEMOTE, "CONFIG SET replica-serve-stale-data yes"],
            PROMOTE,
        ),
        (
            "MASTERDOWN",
            [DEMOTE, "CONFIG SET replica-serve-stale-data no"],
            PROMOTE,
        ),
        (
            "NOREPLICAS",
            ["CONFIG SET min-replicas-to-write 1", "PING"],
            "CONFIG SET min-replicas-to-write 0",
        ),
    ];
    for (name, program) in servers() {
        let engine = Engine::start_program(&program, &[]);
        let fleets = fleets(&engine.url(), 2);
        let ledger = Ledger::of(&fleets, QUOTA, CutOff::Deny, |ledger| {
            for (fault, begin, end) in faults {
                if (name, fault) == ("Redis 6.2", "NOREPLICAS") {
                    // It does not hold scripts back.
                    continue;
                }
                ledger.progress(SOME);
                for words in begin {
                    engine.command::<()>(words).unwrap();
                }
                until(fault, || fleets.iter().all(is_down));
                engine.command::<()>(end).unwrap();
            }
            ledger.progress(SOME);
        });
        // A server that becomes a replica keeps its records until it has found its primary.
        ledger.check(&format!("{name}: no primary for a while"), 0, identity);
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_replica_is_not_asked() {
    for (name, program) in servers() {
        let engine = Engine::start_program(&program, &["--replicaof", "127.0.0.1", "1"]);
        let fleet = fleets(&engine.url(), 1).remove(0);
        let builder = fleet.limit("api", "1000/day".parse().unwrap());
        let limit = builder.when_cut_off(CutOff::Deny).build().unwrap();
        assert!(limit.ask().block().unwrap_err().is_outage(), "{name}");
        assert_eq!(calls(&engine), 0, "{name}");
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_full_memory_is_no_fault_of_the_connection() {
    for (name, program) in servers() {
        let engine = Engine::start_program(&program, &[]);
        let fleets = fleets(&engine.url(), 1);
        let fleet = &fleets[0];
        let build = |limit| {
            let builder = fleet.limit(limit, "1000/day".parse().unwrap());
            builder.when_cut_off(CutOff::Deny).build().unwrap()
        };
        let limit = build("one");
        until(name, || limit.ask().block().is_ok());
        engine.command::<()>("CONFIG SET maxmemory 1").unwrap();
        until(name, || {
            limit.ask().block().is_err_and(|denied| denied.is_outage())
        });
        assert!(!is_down(fleet), "{name}");
        engine.command::<()>("CONFIG SET maxmemory 0").unwrap();
        // It is asked again after a second; another limit is asked now.
        let other = build("other");
        until(name, || other.ask().block().is_ok());
        until(name, || limit.ask().block().is_ok());
    }
}
