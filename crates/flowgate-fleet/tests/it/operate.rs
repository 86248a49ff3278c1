//! What operators see of a fleet, and what they can change.

use crate::support::{Engine, fleet, free_port};
use flowgate::{ManualClock, Quota};
use flowgate_fleet::{Fleet, FleetLimit, FleetStore, FleetStoreError};
use std::future::Future;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn run<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(future)
}

fn connect(url: &str) -> Result<FleetStore, FleetStoreError> {
    run(FleetStore::connect(url, 10 * SECOND))
}

/// A limit of a process whose clock stands still.
fn limit(engine: &Engine, time: &ManualClock) -> FleetLimit {
    let fleet = Fleet::redis(&engine.url()).unwrap().nodes(4).clock(time);
    let fleet = fleet.timeout(10 * SECOND).open().unwrap();
    fleet.limit("api", quota()).build().unwrap()
}

fn quota() -> Quota {
    "10/day".parse().unwrap()
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_reset_holds_for_all_processes_whatever_they_remember() {
    let engine = Engine::start();
    let time = ManualClock::new();
    let [busy, idle, new] = [0; 3].map(|_| limit(&engine, &time));
    assert!(busy.ask().n(9).block().is_ok());
    // Both remember this: nine, and ten.
    assert!(idle.ask().n(1).block().is_ok());
    assert!(busy.ask().block().is_err());
    run(async {
        let store = FleetStore::connect(&engine.url(), 10 * SECOND).await?;
        assert!(store.reset("api", b"").await?);
        let record = store.record("api", b"").await?.expect("its mark");
        assert_eq!((record.debt(), record.available(quota())), (0.0, 10.0));
        assert!(record.reset_age().is_some() && record.rate().is_none());
        Ok::<_, FleetStoreError>(())
    })
    .unwrap();
    assert!(new.ask().n(2).block().is_ok());
    // They refuse what they know for a second, and ask then.
    assert!(busy.ask().block().is_err() && idle.ask().block().is_err());
    time.advance(SECOND);
    assert!(idle.ask().n(7).block().is_ok());
    assert!(busy.ask().n(2).block().is_err());
    time.advance(SECOND);
    assert!(busy.ask().n(1).block().is_ok());
    assert!(new.ask().block().is_err());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_store_that_has_forgotten_a_reset_limit_is_reminded_of_what_was_taken_since() {
    let engine = Engine::start();
    let limit = limit(&engine, &ManualClock::new());
    assert!(limit.ask().n(4).block().is_ok());
    run(async {
        let store = FleetStore::connect(&engine.url(), 10 * SECOND).await?;
        store.reset("api", b"").await
    })
    .unwrap();
    assert!(limit.ask().n(6).block().is_ok());
    engine.command::<()>("FLUSHALL").unwrap();
    assert!(limit.ask().n(5).block().is_err());
    assert!(limit.ask().n(4).block().is_ok());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_record_and_the_connected_processes_are_shown() {
    let engine = Engine::start();
    let fleet = fleet(&engine);
    let tenants = fleet.keyed("tenant", "120/min burst 50".parse().unwrap());
    let tenants = tenants.build().unwrap();
    assert!(tenants.ask("t-17").n(30).block().is_ok());
    let (record, other, nodes) = run(async {
        let store = FleetStore::connect(&engine.url(), 10 * SECOND).await?;
        let record = store.record("tenant", b"t-17").await?;
        let other = store.record("tenant", b"t-18").await?;
        Ok::<_, FleetStoreError>((record.expect("a debt"), other, store.nodes().await?))
    })
    .unwrap();
    let flowed_back = record.age().as_secs_f64() * 2.0;
    assert!((record.debt() - (30.0 - flowed_back).max(0.0)).abs() < 1e-3);
    assert_eq!(record.rate(), Some("2/s".parse().unwrap()));
    assert!(record.full_in() <= 15 * SECOND && record.reset_age().is_none());
    assert_eq!(other, None, "it is full");
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    assert_eq!(nodes[0].process, std::process::id());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_value_that_is_no_limit_is_not_touched() {
    let engine = Engine::start();
    let name = FleetStore::record_name("api", b"");
    for foreign in [format!("SET {name} 17"), format!("LPUSH {name} 17")] {
        engine.command::<()>(&format!("DEL {name}")).unwrap();
        engine.command::<()>(&foreign).unwrap();
        let (shown, reset) = run(async {
            let store = FleetStore::connect(&engine.url(), 10 * SECOND).await?;
            let shown = store.record("api", b"").await;
            Ok::<_, FleetStoreError>((shown, store.reset("api", b"").await))
        })
        .unwrap();
        assert!(matches!(shown, Err(FleetStoreError::Foreign)), "{shown:?}");
        assert!(matches!(reset, Err(FleetStoreError::Foreign)), "{reset:?}");
        assert_eq!(engine.command(&format!("EXISTS {name}")), Ok(1));
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_wrong_password_is_told_from_a_store_that_is_not_there() {
    let engine = Engine::start();
    let with = |password: &str| {
        let url = engine.url().replace("//", &format!("//:{password}@"));
        connect(&url).map(drop)
    };
    engine
        .command::<()>("CONFIG SET requirepass sesame")
        .unwrap();
    let none = connect(&engine.url()).map(drop);
    for refused in [none, with("wrong")] {
        assert!(
            matches!(refused, Err(FleetStoreError::Password(_))),
            "{refused:?}"
        );
    }
    assert!(with("sesame").is_ok());
    let absent = connect("redis://127.0.0.1:1").map(drop);
    assert!(
        matches!(absent, Err(FleetStoreError::Unreachable(_))),
        "{absent:?}"
    );
    let nonsense = connect("reddis:/x").map(drop);
    assert!(matches!(nonsense, Err(FleetStoreError::Address(_))));
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_replica_is_shown_and_not_reset() {
    let engine = Engine::start();
    let replica = format!("REPLICAOF 127.0.0.1 {}", free_port());
    engine.command::<()>(&replica).unwrap();
    let (shown, reset) = run(async {
        let store = FleetStore::connect(&engine.url(), 10 * SECOND).await?;
        let shown = store.record("api", b"").await;
        Ok::<_, FleetStoreError>((shown, store.reset("api", b"").await))
    })
    .unwrap();
    assert!(matches!(shown, Ok(None)), "{shown:?}");
    let error = reset.unwrap_err();
    assert!(matches!(error, FleetStoreError::Replica(_)), "{error:?}");
    assert!(
        error.to_string().contains("address of the primary"),
        "{error}"
    );
}
