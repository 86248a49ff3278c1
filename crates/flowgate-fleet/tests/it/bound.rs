//! How much a limit may be exceeded, against a ledger of all processes over all intervals.

use crate::support::{Engine, Ledger, fleet};
use flowgate::Quota;
use flowgate_fleet::{CutOff, Fleet, FleetBound, FleetLeased, FleetLimit, FleetStore, Overshoot};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NODES: u32 = 3;

fn quota() -> Quota {
    "1000/s burst 100".parse().expect("a quota")
}

fn nodes(engine: &Engine) -> Vec<FleetLimit> {
    let node = |_| {
        let fleet = Fleet::redis(&engine.url()).unwrap().nodes(NODES);
        let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
        fleet.limit("api", quota()).build().unwrap()
    };
    (0..NODES).map(node).collect()
}

/// The bound, if admissions are dated by the store.
fn dated_by_the_store(bound: FleetBound) -> i64 {
    (bound.total().expect("there is one") - bound.in_flight) as i64
}

/// Waits until a count has grown by this much.
fn wait_for_more(count: &AtomicU64, more: u64) {
    let most = count.load(Ordering::Relaxed) + more;
    let latest = Instant::now() + Duration::from_secs(20);
    while count.load(Ordering::Relaxed) < most && Instant::now() < latest {
        thread::yield_now();
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_it_covers_a_store_that_is_killed_and_comes_back_empty() {
    let mut engine = Engine::start();
    let nodes = nodes(&engine);
    let ledger = Ledger::new(quota());
    let (by_store, alone, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    match ledger.note(1, || node.ask().block()) {
                        Ok(admitted) if admitted.is_degraded() => &alone,
                        Err(denied) if denied.is_outage() => &alone,
                        _ => &by_store,
                    }
                    .fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_for_more(&by_store, 300);
        engine.kill();
        wait_for_more(&alone, 1_000);
        engine.restart();
        wait_for_more(&by_store, 300);
        stop.store(true, Ordering::Relaxed);
    });
    let excess = ledger.excess();
    let bounds: Vec<_> = nodes.iter().map(FleetLimit::bound).collect();
    let most = bounds.iter().copied().map(dated_by_the_store).max();
    assert!(excess <= most.unwrap(), "{excess}: {bounds:?}");
    for node in &nodes {
        let counts = node.inspect().counts;
        assert!(counts.outages >= 1 && counts.amnesias <= counts.outages + 1);
        // Not more than two full limits, and what flowed back.
        let most = 100 * (2 * counts.outages + counts.amnesias) + 30_000;
        assert!(
            dated_by_the_store(node.bound()) <= most as i64,
            "{counts:?}"
        );
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_it_covers_leases_of_a_store_that_is_killed_and_comes_back_empty() {
    let mut engine = Engine::start();
    let node = |_| {
        let fleet = Fleet::redis(&engine.url()).unwrap().nodes(NODES);
        let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
        let limit = fleet.limit("api", quota());
        limit.leased(Overshoot::tokens(60)).build().unwrap()
    };
    let nodes: Vec<_> = (0..NODES).map(node).collect();
    assert!(nodes.iter().all(|node| node.bound().total() == Some(60)));
    let ledger = Ledger::new(quota());
    let (by_store, alone, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    match ledger.note(1, || node.ask().block()) {
                        Ok(admitted) if admitted.is_degraded() => &alone,
                        Ok(_) => &by_store,
                        Err(denied) if denied.is_outage() => &alone,
                        Err(_) => {
                            thread::sleep(Duration::from_micros(200));
                            continue;
                        }
                    }
                    .fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_for_more(&by_store, 300);
        engine.kill();
        wait_for_more(&alone, 1_000);
        engine.restart();
        wait_for_more(&by_store, 300);
        stop.store(true, Ordering::Relaxed);
    });
    let excess = ledger.excess();
    let totals = nodes.iter().map(|node| node.bound().total());
    let most = totals.max().unwrap().expect("there is one");
    assert!(excess <= most as i64, "{excess} of {most}");
    // A process that holds tokens may not notice it.
    let outages = |node: &FleetLeased| node.inspect().counts.outages;
    assert!(nodes.iter().any(|node| outages(node) >= 1));
    for node in &nodes {
        let (counts, bound) = (node.inspect().counts, node.bound());
        assert!(counts.calls_granted >= 1 && counts.admitted >= 1);
        assert_eq!((bound.in_flight, bound.leased), (0, 60));
        // A burst, and what was reserved.
        assert_eq!(bound.forgotten, 160 * counts.amnesias);
        assert_eq!(bound.alone, counts.degraded_units);
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_without_a_fault_it_is_what_flows_back_within_the_timeout() {
    let engine = Engine::start();
    let nodes = nodes(&engine);
    let ledger = Ledger::new(quota());
    thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(|| {
                for _ in 0..300 {
                    let _ = ledger.note(1, || node.ask().block());
                }
            });
        }
    });
    assert!(ledger.excess() <= 0);
    for node in &nodes {
        let bound = node.bound();
        assert_eq!((bound.total(), bound.in_flight), (Some(10_000), 10_000));
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_it_covers_a_loss_of_records_that_this_process_notices() {
    let engine = Engine::start();
    // Nothing flows back.
    let quota: Quota = "10/day".parse().unwrap();
    let fleet = fleet(&engine);
    let [remembers, new] = [0; 2].map(|_| fleet.limit("api", quota).build().unwrap());
    let ledger = Ledger::new(quota);
    let take = |node: &FleetLimit, n| ledger.note(n, || node.ask().n(n).block()).is_ok();
    assert!(take(&remembers, 9));
    engine.command::<()>("FLUSHALL").unwrap();
    assert!(take(&new, 8));
    // Nine of these: the store is reminded of one.
    assert!(take(&remembers, 1));
    assert_eq!(remembers.inspect().counts.healed_units, 1);
    let excess = ledger.excess();
    assert!((7..=8).contains(&excess), "{excess}");
    assert_eq!(dated_by_the_store(remembers.bound()), 10);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_it_covers_what_an_operator_resets() {
    let engine = Engine::start();
    let time = flowgate::ManualClock::new();
    let fleet = Fleet::redis(&engine.url()).unwrap().nodes(4).clock(&time);
    let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
    let limit = fleet.limit("api", "3/day".parse().unwrap());
    let limit = limit.build().unwrap();
    let ledger = Ledger::new("3/day".parse().unwrap());
    assert!(ledger.note(3, || limit.ask().n(3).block()).is_ok());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let reset = runtime.block_on(async {
        let store = FleetStore::connect(&engine.url(), Duration::from_secs(10)).await?;
        store.reset("api", b"").await
    });
    assert!(reset.unwrap());
    time.advance(Duration::from_secs(1));
    assert!(ledger.note(3, || limit.ask().n(3).block()).is_ok());
    assert!(ledger.excess() > 1);
    let bound = limit.bound();
    assert_eq!((bound.reset, bound.forgotten), (3, 0));
    assert!(ledger.excess() <= dated_by_the_store(bound));
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_loss_that_several_keys_show_counts_once() {
    let engine = Engine::start();
    let fleet = fleet(&engine);
    let tenants = fleet.keyed("tenant", "3/day".parse().unwrap());
    let tenants = tenants.build().unwrap();
    let take = |key: u32| tenants.ask(key.to_le_bytes()).block();
    assert!((0..20).all(|key| take(key).is_ok()));
    engine.command::<()>("FLUSHALL").unwrap();
    assert!((0..20).all(|key| take(key).is_ok()));
    let counts = tenants.inspect().counts;
    assert_eq!((counts.amnesias, counts.healed_units), (1, 20));
    engine.command::<()>("FLUSHALL").unwrap();
    assert!(take(7).is_ok());
    assert_eq!(tenants.inspect().counts.amnesias, 2);
    assert_eq!(tenants.bound().forgotten, 6);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_key_that_the_store_refuses_again_and_again_is_one_outage() {
    let engine = Engine::start();
    let time = flowgate::ManualClock::new();
    let fleet = Fleet::redis(&engine.url()).unwrap().nodes(4).clock(&time);
    let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
    let tenants = fleet.keyed("tenant", "8/day".parse().unwrap());
    let tenants = tenants.build().unwrap();
    let record = FleetStore::record_name("tenant", b"foreign");
    engine.command::<()>(&format!("SET {record} 17")).unwrap();
    for _ in 0..8 {
        let _ = tenants.ask("foreign").block();
        // The answers of other keys say nothing about this one.
        assert!(tenants.ask("a").block().is_ok());
        time.advance(Duration::from_secs(1));
    }
    let counts = tenants.inspect().counts;
    assert_eq!((counts.outages, counts.amnesias), (1, 0));
    assert_eq!((counts.calls_refused, counts.degraded), (8, 2));
    assert_eq!(tenants.bound().others_alone, Some(7));
}

#[test]
fn each_answer_is_counted_and_a_share_is_what_was_admitted_alone() {
    let fleet = Fleet::redis("redis://127.0.0.1:1").unwrap().nodes(4);
    let fleet = fleet.open().unwrap();
    let limit = fleet.limit("api", "8/day".parse().unwrap());
    let limit = limit.build().unwrap();
    assert!(limit.ask().n(2).block().is_ok());
    assert!(limit.ask().block().unwrap_err().is_outage());
    assert!(limit.ask().n(9).block().unwrap_err().is_never());
    let view = limit.inspect();
    let counts = view.counts;
    let decisions = [
        counts.admitted,
        counts.denied,
        counts.degraded,
        counts.cut_off,
    ];
    assert_eq!(decisions, [0, 1, 1, 1]);
    assert_eq!((view.is_connected, view.share), (false, 0.25));
    assert_eq!(
        (counts.outages, counts.amnesias, counts.calls_lost),
        (1, 0, 0)
    );
    assert_eq!((view.bound.alone, view.bound.others_alone), (2, Some(7)));

    let open = fleet.limit("open", "8/day".parse().unwrap());
    let open = open.when_cut_off(CutOff::Admit).build().unwrap();
    assert!(open.bound().total().is_some());
    assert!(open.ask().block().is_ok());
    assert_eq!(open.bound().total(), None);
}
