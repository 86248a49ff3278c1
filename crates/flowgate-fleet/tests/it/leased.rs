//! Leased limits: each process holds a part of the limit in advance.

use crate::support::{Engine, calls};
use flowgate::{Gate, ManualClock, Quota};
use flowgate_fleet::{CutOff, Fleet, FleetError, FleetLeased, LocalStore, Overshoot};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn node(engine: &Engine, nodes: u32, text: &str, overshoot: Overshoot) -> FleetLeased {
    let fleet = Fleet::redis(&engine.url()).unwrap().nodes(nodes);
    let fleet = fleet.timeout(Duration::from_secs(2)).open().unwrap();
    let limit = fleet.limit("api", quota(text)).leased(overshoot);
    limit.build().unwrap()
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_two_processes_hold_parts_of_one_limit_and_exceed_it_by_no_more_than_the_overshoot() {
    let engine = Engine::start();
    for (overshoot, most) in [(Overshoot::percent(50), 1_000), (Overshoot::none(), 0)] {
        engine.command::<()>("FLUSHALL").unwrap();
        let before = calls(&engine);
        let nodes = [0; 2].map(|_| node(&engine, 2, "20000/s burst 2000", overshoot));
        let start = Instant::now();
        let admitted: u64 = thread::scope(|scope| {
            let threads = nodes.each_ref().map(|node| {
                scope.spawn(move || {
                    let mut admitted = 0;
                    while start.elapsed() < Duration::from_secs(1) {
                        admitted += u64::from(node.ask().block().is_ok());
                        admitted += (0..100).filter(|_| node.try_acquire().is_ok()).count() as u64;
                    }
                    admitted
                })
            });
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        let bound = 2_000 + most + start.elapsed().as_millis() as u64 * 20 + 20;
        assert!((2_000..=bound).contains(&admitted), "{admitted} of {bound}");
        let calls = calls(&engine) - before;
        // Each holds a few hundred tokens.
        assert!(calls * 50 <= admitted, "{calls} calls for {admitted}");
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn processes_that_want_more_than_the_limit_use_it_up_and_none_is_left_behind() {
    let engine = Engine::start();
    let before = calls(&engine);
    let nodes = [0; 4].map(|_| node(&engine, 4, "20000/s burst 2000", Overshoot::percent(50)));
    let start = Instant::now();
    let admitted = thread::scope(|scope| {
        let threads = nodes.each_ref().map(|node| {
            scope.spawn(move || {
                let mut admitted = 0_u64;
                while start.elapsed() < Duration::from_secs(2) {
                    admitted += (0..100).filter(|_| node.try_acquire().is_ok()).count() as u64;
                    thread::sleep(Duration::from_micros(500));
                }
                admitted
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let all: u64 = admitted.iter().sum();
    let calls = calls(&engine) - before;
    println!("{admitted:?} in {calls} calls");
    assert!(calls * 50 <= all, "{calls} calls for {all}");
    assert!(all >= 36_000, "{all} of 42,000");
    // In virtual time, they differ by a hundredth; here, a thread may come late.
    let [most, least] = [admitted.iter().max(), admitted.iter().min()].map(Option::unwrap);
    assert!(*most <= 2 * least, "{admitted:?}");
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn what_is_held_is_spent_while_the_store_hangs_and_then_the_share() {
    let engine = Engine::start();
    let fleet = Fleet::redis(&engine.url()).unwrap().nodes(4);
    let fleet = fleet.open().unwrap();
    let build = |name, cut_off| {
        let limit = fleet.limit(name, quota("400/day")).when_cut_off(cut_off);
        limit.leased(Overshoot::percent(50)).build().unwrap()
    };
    let (share, none) = (
        build("share", CutOff::Share(1, 4)),
        build("none", CutOff::Deny),
    );
    for limit in [&share, &none] {
        assert!(!limit.ask().n(5).block().unwrap().is_degraded());
    }
    engine.pause();
    let answers: Vec<_> = (0..150).map(|_| share.ask().block()).collect();
    let degraded = |answer: &&Result<flowgate_fleet::Admitted, _>| {
        answer.as_ref().is_ok_and(|admitted| admitted.is_degraded())
    };
    let by_share = answers.iter().filter(degraded).count();
    assert!((1..=100).contains(&by_share), "{by_share} of a quarter");
    assert!(answers[149].as_ref().unwrap_err().is_outage());
    assert!((0..50).any(|_| none.ask().block().is_err_and(|denied| denied.is_outage())));
    engine.resume();
    let is_back = |_| {
        thread::sleep(Duration::from_millis(10));
        share
            .ask()
            .block()
            .is_ok_and(|admitted| !admitted.is_degraded())
    };
    assert!((0..1_000).any(is_back));
}

#[test]
fn waiters_and_gates_take_what_the_store_grants_and_a_refusal_is_the_stores() {
    let fleet = Fleet::local().nodes(1).open().unwrap();
    let limit = fleet.limit("api", quota("400/day"));
    let api = limit.leased(Overshoot::percent(50)).build().unwrap();
    assert_eq!(api.acquire().n(100).block().unwrap().units(), 100);
    let gate = Gate::builder()
        .limit("api", Arc::clone(&api))
        .build()
        .unwrap();
    drop(gate.acquire().n(100).block().unwrap());
    let same = api.clone();
    let admitted = (0..1_000).filter(|_| same.ask().block().is_ok()).count();
    assert_eq!(admitted, 200);
    let denied = api.ask().block().unwrap_err();
    assert!(
        denied.retry_after().is_some() && !denied.is_outage(),
        "{denied}"
    );
    assert!(api.ask().n(401).block().unwrap_err().is_never());
}

#[test]
fn an_overshoot_that_cannot_be_kept_is_refused_with_what_works() {
    let fleet = Fleet::local().nodes(8).open().unwrap();
    let build = |overshoot| fleet.limit("api", quota("100/s")).leased(overshoot).build();
    let error = build(Overshoot::percent(5)).unwrap_err();
    assert!(
        matches!(error, FleetError::Overshoot { least: 80 }),
        "{error}"
    );
    assert!(build(Overshoot::tokens(80)).is_ok());
    let error = build(Overshoot::none()).unwrap_err();
    assert!(
        matches!(error, FleetError::NoOvershoot { burst: 160 }),
        "{error}"
    );
}

#[test]
fn a_limit_that_is_dropped_is_filled_no_longer() {
    let fleet = Fleet::local().nodes(1).open().unwrap();
    let limit = fleet.limit("api", quota("1000/s"));
    let api = limit.leased(Overshoot::percent(50)).build().unwrap();
    api.ask().block().unwrap();
    // A member of a gate is filled as long as the gate lives.
    let kept = Arc::clone(&api);
    drop((api, fleet));
    assert!(kept.acquire().n(400).block().is_ok());
    let weak = Arc::downgrade(&kept);
    drop(kept);
    let is_gone = |_| {
        thread::sleep(Duration::from_millis(1));
        weak.strong_count() == 0
    };
    assert!((0..10_000).any(is_gone));
}

#[test]
fn c1_a_new_quota_holds_from_the_next_call_and_what_was_taken_still_counts() {
    let store = LocalStore::new(ManualClock::new());
    let fleet = store.fleet().nodes(1).open().unwrap();
    let limit = fleet.limit("api", quota("400/day"));
    let api = limit.leased(Overshoot::percent(50)).build().unwrap();
    let strict = fleet.limit("api", quota("400/day")).build().unwrap();
    api.ask().n(100).block().unwrap();
    api.set_quota(quota("600/day")).unwrap();
    assert_eq!(
        (api.quota(), strict.quota()),
        (quota("600/day"), quota("600/day"))
    );
    let admitted = || (0..2_000).filter(|_| api.ask().block().is_ok()).count();
    assert_eq!(admitted(), 500);
    assert!(
        api.ask()
            .n(600)
            .block()
            .unwrap_err()
            .retry_after()
            .is_some()
    );
    // By a smaller one, the debt stays.
    strict.set_quota(quota("40/day")).unwrap();
    assert_eq!(admitted(), 0);
    assert!(api.ask().n(41).block().unwrap_err().is_never());
    let error = api.set_quota(quota("4/day")).unwrap_err();
    assert!(
        matches!(error, FleetError::Overshoot { least: 10 }),
        "{error}"
    );
    assert_eq!(api.quota(), quota("40/day"));
    // The larger of all that were stated: a smaller rate may wait as long again.
    assert!(
        api.bound().leased >= 1 && api.bound().leased <= 20,
        "{:?}",
        api.bound()
    );
}
