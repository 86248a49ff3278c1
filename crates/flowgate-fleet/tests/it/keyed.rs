//! A limit for each key, decided by the store.

use crate::support::{Engine, Ledger, calls, fleet};
use flowgate::Quota;
use flowgate_fleet::{Ask, CutOff, Fleet, FleetError, FleetKeyed, Overshoot};
use std::thread;
use std::time::{Duration, Instant};

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

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_busy_keys_lease_within_their_overshoot_and_cold_keys_stay_strict() {
    let engine = Engine::start();
    let quota: Quota = "2000/s burst 1000".parse().expect("a quota");
    let node = |_| {
        let fleet = Fleet::redis(&engine.url()).unwrap().nodes(4);
        let fleet = fleet.timeout(Duration::from_secs(2)).open().unwrap();
        let tenants = fleet.keyed("tenant", quota).leased(Overshoot::tokens(400));
        tenants.build().unwrap()
    };
    let nodes: Vec<FleetKeyed> = (0..4).map(node).collect();
    let ledger = Ledger::new(quota);
    let (before, start) = (calls(&engine), Instant::now());
    let admitted: u64 = thread::scope(|scope| {
        let ledger = &ledger;
        let threads = nodes.iter().map(|node| {
            scope.spawn(move || {
                let (tenant, mut admitted) = (node.with("busy"), 0_u64);
                while start.elapsed() < Duration::from_secs(2) {
                    match ledger.note(1, || tenant.ask().block()) {
                        Ok(_) => admitted += 1,
                        Err(_) => thread::sleep(Duration::from_micros(500)),
                    }
                }
                admitted
            })
        });
        let threads: Vec<_> = threads.collect();
        let admitted = threads.into_iter().map(|thread| thread.join().unwrap());
        admitted.sum()
    });
    let calls = calls(&engine) - before;
    let possible = 1_000 + 2 * 2_000;
    println!("{admitted} of {possible} in {calls} calls");
    assert!(admitted * 10 >= possible * 8, "{admitted} of {possible}");
    assert!(calls * 5 <= admitted, "{calls} calls for {admitted}");
    let bound = nodes[0].bound();
    assert_eq!(bound.leased, 400);
    let excess = ledger.excess();
    assert!(
        excess <= bound.total().unwrap() as i64,
        "{excess}: {bound:?}"
    );
    // A key that is asked for now and then costs a call each time.
    let before = self::calls(&engine);
    for _ in 0..10 {
        assert!(nodes[1].ask("cold").block().is_ok());
    }
    assert_eq!(self::calls(&engine) - before, 10);
}

#[test]
fn an_overshoot_of_keys_that_cannot_be_kept_is_refused_with_what_works() {
    let fleet = Fleet::local().nodes(8).open().unwrap();
    let build = |overshoot| {
        let tenants = fleet.keyed("tenant", "100/min burst 20".parse().unwrap());
        tenants.leased(overshoot).build()
    };
    let error = build(Overshoot::percent(50)).unwrap_err();
    assert!(
        matches!(error, FleetError::Overshoot { least: 80 }),
        "{error}"
    );
    assert!(build(Overshoot::tokens(80)).is_ok());
}

#[test]
fn a_request_to_several_limits_takes_what_a_busy_key_holds() {
    let fleet = Fleet::local().nodes(1).open().unwrap();
    let tenants = fleet.keyed("tenant", "1000/day".parse().unwrap());
    let tenants = tenants.leased(Overshoot::percent(50)).build().unwrap();
    let api = fleet.limit("api", "10/day".parse().unwrap());
    let api = api.build().unwrap();
    assert!((0..100).all(|_| tenants.ask("a").block().is_ok()));
    let both = || Ask::all([api.ask(), tenants.ask("a")]).block();
    assert!((0..10).all(|_| both().is_ok()));
    assert_eq!(both().unwrap_err().limits()[0].0, 0);
    // What was held and taken for a refusal has come back.
    let admitted = (0..2_000).filter(|_| tenants.ask("a").block().is_ok());
    assert_eq!(admitted.count(), 1_000 - 110);
}
