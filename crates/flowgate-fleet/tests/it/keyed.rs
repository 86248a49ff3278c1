//! A limit for each key, decided by the store.

use crate::support::{Engine, fleet};
use flowgate_fleet::{CutOff, Fleet, FleetKeyed};
use std::time::Duration;

fn keyed(engine: &Engine, capacity: usize) -> FleetKeyed {
    let fleet = fleet(engine);
    let builder = fleet.keyed("tenant", "3/day".parse().expect("a quota"));
    builder.capacity(capacity).build().expect("a limit")
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_two_processes_share_the_limit_of_each_key() {
    let engine = Engine::start();
    let nodes = [0, 1].map(|_| keyed(&engine, 1000));
    for key in ["a", "b"] {
        let admitted = (0..6).filter(|turn| nodes[turn % 2].ask(key).block().is_ok());
        assert_eq!(admitted.count(), 3, "{key}");
    }
    // Another limit with the same key has a record of its own.
    let fleet = fleet(&engine);
    let other = fleet
        .keyed("other", "3/day".parse().unwrap())
        .build()
        .unwrap();
    assert!(other.ask("a").n(3).block().is_ok());
    assert_eq!(engine.command("DBSIZE"), Ok(3));
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_process_that_has_forgotten_a_key_asks_the_store() {
    let engine = Engine::start();
    let keys = keyed(&engine, 8);
    let admitted = |key: u32| keys.ask(key.to_le_bytes()).n(3).block().is_ok();
    assert!((0..500).all(admitted));
    assert!(!(0..500).any(admitted));
    assert_eq!(engine.command("DBSIZE"), Ok(500));
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn the_calls_of_many_keys_go_out_together_and_each_key_gets_its_own_answer() {
    let engine = Engine::start();
    let keys = keyed(&engine, 1000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let answers = runtime.block_on(async {
        let asks = (0..300_u32).map(|key| keys.ask(key.to_le_bytes()).n(1 + u64::from(key % 4)));
        futures_util::future::join_all(asks).await
    });
    for (key, answer) in answers.iter().enumerate() {
        match answer {
            Ok(_) => assert!(key % 4 < 3),
            Err(denied) => assert!(key % 4 == 3 && denied.is_never(), "{denied}"),
        }
    }
}

#[test]
fn each_key_has_a_share_of_its_own_while_the_store_cannot_be_reached() {
    let fleet = Fleet::redis("redis://127.0.0.1:1").unwrap();
    let fleet = fleet.timeout(Duration::from_millis(1)).open().unwrap();
    let builder = fleet.keyed("tenant", "4/day".parse().unwrap());
    let keys = builder.when_cut_off(CutOff::Share(1, 2)).build().unwrap();
    for key in ["a", "b"] {
        let admitted = (0..4).filter(|_| keys.ask(key).block().is_ok());
        assert_eq!(admitted.count(), 2, "{key}");
    }
    let closed = fleet.keyed("closed", "4/day".parse().unwrap());
    let closed = closed.when_cut_off(CutOff::Deny).build().unwrap();
    assert!(closed.ask("a").block().unwrap_err().is_outage());
    let open = fleet.keyed("open", "4/day".parse().unwrap());
    let open = open.when_cut_off(CutOff::Admit).build().unwrap();
    assert!((0..9).all(|_| {
        open.ask("a")
            .block()
            .is_ok_and(|admitted| admitted.is_degraded())
    }));
}
