//! One server that fails: what is admitted never exceeds the bound, and the limit holds again afterwards.

use crate::support::{Engine, Ledger, calls, fleet, fleets, is_down, servers, until};
use flowgate_fleet::{CutOff, Fleet};
use std::convert::identity;
use std::thread;
use std::time::Duration;

const NODES: u32 = 3;
const SECOND: Duration = Duration::from_secs(1);
const QUOTA: &str = "500/s burst 100";
/// Admissions after a fault that show that the limit works again.
const SOME: usize = 50;

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_killed_and_back_empty() {
    let mut engine = Engine::start();
    let fleets = fleets(&engine.url(), NODES);
    let mut back_ns = 0;
    let mut recovered_ns = 0;
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Share(1, NODES), |ledger| {
        ledger.progress(SOME);
        engine.kill();
        ledger.alone();
        engine.restart();
        back_ns = ledger.now_ns();
        recovered_ns = ledger.progress(SOME);
    });
    println!(
        "killed: up {} ms after it answered",
        (recovered_ns - back_ns) / 1_000_000
    );
    ledger.check("killed, back empty", 1, |allowance| {
        ledger.shares(allowance, NODES)
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_killed_and_back_with_what_it_kept() {
    // A log that is written before the answer loses nothing; a snapshot forgets what came after it.
    for (settings, amnesias) in [("yes", 0), ("no", 1)] {
        let mut engine = Engine::start_with(&["--appendonly", settings]);
        let fleets = fleets(&engine.url(), NODES);
        let ledger = Ledger::of(&fleets, QUOTA, CutOff::Deny, |ledger| {
            ledger.progress(SOME);
            if settings == "no" {
                engine.command::<()>("SAVE").unwrap();
                ledger.progress(SOME);
            }
            engine.kill();
            engine.restart();
            ledger.progress(SOME);
        });
        let what = format!("killed, back with appendonly {settings}");
        ledger.check(&what, amnesias, identity);
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_hang() {
    let engine = Engine::start();
    let fleets = fleets(&engine.url(), NODES);
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Share(1, NODES), |ledger| {
        for _ in 0..2 {
            ledger.progress(SOME);
            engine.pause();
            ledger.alone();
            engine.resume();
            ledger.progress(SOME);
        }
    });
    ledger.check("two hangs", 0, |allowance| ledger.shares(allowance, NODES));
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn one_call_of_each_process_and_limit_is_carried_out_after_a_hang() {
    const LIMITS: usize = 3;
    let engine = Engine::start();
    let limits: Vec<_> = fleets(&engine.url(), 4)
        .into_iter()
        .flat_map(|fleet| {
            let name = |limit: usize| format!("limit {limit}");
            let quota = "1000/day".parse().unwrap();
            let build = |limit| {
                fleet
                    .limit(name(limit), quota)
                    .when_cut_off(CutOff::Deny)
                    .build()
            };
            (0..LIMITS)
                .map(|limit| build(limit).unwrap())
                .collect::<Vec<_>>()
        })
        .collect();
    for limit in &limits {
        let mut admitted = limit.ask().block();
        while admitted.is_err() {
            admitted = limit.ask().block();
        }
    }
    let before = calls(&engine);
    engine.pause();
    for _ in 0..5 {
        for limit in &limits {
            assert!(limit.ask().block().unwrap_err().is_outage());
        }
    }
    engine.resume();
    let zombies = calls(&engine) - before;
    println!(
        "a hang: {zombies} calls of 4 processes with {LIMITS} limits were carried out afterwards"
    );
    assert!(zombies <= limits.len() as u64, "{zombies}");
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_quiet_process_notices_that_its_store_hangs_and_ends_and_loses_no_call() {
    let mut engine = Engine::start();
    let fleet = fleets(&engine.url(), 1).remove(0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let ready = || runtime.block_on(fleet.ready());
    ready();
    engine.pause();
    until("the hang is not noticed", || is_down(&fleet));
    engine.resume();
    ready();
    engine.kill();
    until("the end is not noticed", || is_down(&fleet));
    engine.restart();
    ready();
    assert_eq!(calls(&engine), 0, "it is quiet");
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_emptied() {
    let engine = Engine::start();
    let fleets = fleets(&engine.url(), NODES);
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Deny, |ledger| {
        for _ in 0..3 {
            ledger.progress(SOME);
            engine.command::<()>("FLUSHALL").unwrap();
        }
        ledger.progress(SOME);
    });
    ledger.check("emptied three times", 3, identity);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_an_emptied_store_forgets_what_was_taken_since_the_last_answer_of_the_process_that_asks_first()
{
    for (first, over) in [(0, 10), (1, 0)] {
        let engine = Engine::start();
        let limits = [0; 2].map(|_| {
            let fleet = fleet(&engine);
            let builder = fleet.limit("api", "20/day".parse().unwrap());
            builder.build().unwrap()
        });
        assert!(limits[0].ask().n(5).block().is_ok());
        assert!(limits[1].ask().n(10).block().is_ok());
        engine.command::<()>("FLUSHALL").unwrap();
        let left = 5 + over;
        assert!(limits[first].ask().n(left + 1).block().is_err());
        assert!(limits[first].ask().n(left).block().is_ok());
        assert!(limits[1 - first].ask().block().is_err());
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_script_that_was_flushed_costs_no_decision() {
    let engine = Engine::start();
    let fleets = [0; 3].map(|_| fleet(&engine));
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Admit, |ledger| {
        for _ in 0..5 {
            ledger.progress(SOME);
            engine.command::<()>("SCRIPT FLUSH").unwrap();
        }
        ledger.progress(SOME);
    });
    // Nobody would be refused if one were decided here.
    assert!(ledger.admissions().iter().all(|one| !one.is_alone));
    ledger.check("SCRIPT FLUSH", 0, identity);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_memory_that_is_full_is_an_outage_and_no_refusal() {
    let engine = Engine::start();
    let fleets = fleets(&engine.url(), NODES);
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Share(1, NODES), |ledger| {
        ledger.progress(SOME);
        engine.command::<()>("CONFIG SET maxmemory 1").unwrap();
        ledger.alone();
        engine.command::<()>("CONFIG SET maxmemory 0").unwrap();
        ledger.progress(SOME);
    });
    ledger.check("memory full", 0, |allowance| {
        ledger.shares(allowance, NODES)
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_an_eviction_is_an_amnesia() {
    const KEYS: usize = 300;
    let engine = Engine::start();
    let memory: String = engine.command("INFO memory").unwrap();
    let used = memory
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .unwrap();
    let used: u64 = used.trim().parse().unwrap();
    let fleet = fleet(&engine);
    let keys = fleet
        .keyed("tenant", "5/day".parse().unwrap())
        .capacity(20 * KEYS)
        .build()
        .unwrap();
    let admitted = |rounds: usize| {
        let ask = |key: usize| keys.ask(key.to_le_bytes()).block().is_ok();
        (0..rounds)
            .flat_map(|_| 0..KEYS)
            .filter(|&key| ask(key))
            .count()
    };
    assert_eq!(admitted(3), 3 * KEYS);
    engine
        .command::<()>("CONFIG SET maxmemory-policy allkeys-random")
        .unwrap();
    engine
        .command::<()>(&format!("CONFIG SET maxmemory {used}"))
        .unwrap();
    assert_eq!(engine.command("DBSIZE"), Ok(0), "all of them were evicted");
    engine.command::<()>("CONFIG SET maxmemory 0").unwrap();
    // The process remembers each of them.
    assert_eq!(admitted(5), 2 * KEYS);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_c4_a_record_of_another_hour_mints_nothing_and_blocks_nothing() {
    const HOUR_US: u64 = 3_600_000_000;
    let engine = Engine::start();
    let limit = |name| {
        fleet(&engine)
            .limit(name, "6/min burst 10".parse().unwrap())
            .build()
    };
    for (name, hours) in [("a clock that was set back", 1), ("an old record", -1)] {
        let limit = limit(name).unwrap();
        assert!(limit.ask().n(8).block().is_ok());
        // A clock that was set back finds records of the future. An old one is less than what this process has seen.
        let record: String = engine.command("RANDOMKEY").unwrap();
        let text: String = engine.command(&format!("GET {record}")).unwrap();
        let mut fields: Vec<u64> = text
            .split(':')
            .map(|field| field.parse().unwrap())
            .collect();
        fields[1] = fields[1].wrapping_add_signed(hours * HOUR_US as i64);
        let text: Vec<String> = fields.iter().map(u64::to_string).collect();
        engine
            .command::<()>(&format!("SET {record} {}", text.join(":")))
            .unwrap();
        assert!(limit.ask().n(9).block().is_err(), "{name}: minted");
        assert!(limit.ask().n(2).block().is_ok(), "{name}: blocked");
        let denied = limit.ask().n(2).block().unwrap_err();
        let wait = denied.retry_after().expect("the store knows when");
        assert!(wait <= Duration::from_secs(20), "{name}: {wait:?}");
        engine.command::<()>("FLUSHALL").unwrap();
    }
}

#[test]
#[ignore = "needs valkey-server and libfaketime: ./ci/test"]
fn c1_c4_a_store_whose_clock_jumps_an_hour() {
    let Some((_, valkey)) = servers()
        .into_iter()
        .find(|(name, _)| name.contains("Valkey"))
    else {
        println!("skipped: Valkey is not here");
        return;
    };
    let engine = Engine::start_with_clock(&valkey);
    let time = flowgate::ManualClock::new();
    let fleet = Fleet::redis(&engine.url()).unwrap().nodes(1).clock(&time);
    let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
    let limit = fleet.limit("api", "6/h burst 10".parse().unwrap());
    let limit = limit.build().unwrap();
    // A refusal is known here for a second.
    let ask = |n| {
        time.advance(2 * SECOND);
        limit.ask().n(n).block()
    };
    let is_spent = |why: &str| {
        let denied = ask(1).expect_err(why);
        let wait = denied.retry_after().expect("the store knows when");
        assert!(wait <= 600 * SECOND, "{why}: blocked for {wait:?}");
    };
    assert!(ask(10).is_ok());
    is_spent("all are taken");
    engine.set_clock(-1);
    is_spent("set back: nothing flows back, and time goes on from there");
    engine.set_clock(0);
    assert!(ask(6).is_ok(), "set ahead: what flows back in an hour");
    is_spent("set ahead: no more than that");
    engine.set_clock(-1);
    is_spent("set back again");
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_start_of_many_processes_is_one_connection_and_one_call_each() {
    const MANY: u64 = 64;
    let mut engine = Engine::start();
    let connections = |engine: &Engine| -> u64 {
        let text: String = engine.command("INFO stats").unwrap();
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("total_connections_received:"));
        count.unwrap().trim().parse().unwrap()
    };
    let fleets: Vec<Fleet> = (0..MANY).map(|_| fleet(&engine)).collect();
    let admitted = || {
        let limits = fleets.iter().map(|fleet| {
            let builder = fleet.limit("api", "1000000/day".parse().unwrap());
            builder.when_cut_off(CutOff::Deny).build().unwrap()
        });
        let limits: Vec<_> = limits.collect();
        thread::scope(|scope| {
            let asks = limits
                .iter()
                .map(|limit| scope.spawn(|| limit.ask().block().is_ok()));
            let asks: Vec<_> = asks.collect();
            asks.into_iter()
                .map(|ask| ask.join().unwrap())
                .filter(|is_ok| *is_ok)
                .count()
        })
    };
    let before = connections(&engine);
    assert_eq!(admitted(), MANY as usize);
    // A script that is not there yet is loaded by each, and the call is sent once more.
    assert!(calls(&engine) <= 2 * MANY, "{}", calls(&engine));
    let first = connections(&engine) - before;
    assert!(first <= MANY + 2, "{first}");

    engine.kill();
    engine.restart();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    fleets
        .iter()
        .for_each(|fleet| runtime.block_on(fleet.ready()));
    assert_eq!(admitted(), MANY as usize);
    assert!(calls(&engine) <= 2 * MANY, "{}", calls(&engine));
}
