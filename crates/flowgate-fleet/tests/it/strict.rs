//! Strict limits: the store decides on each request.

use crate::support::{Engine, calls, fleet};
use flowgate::{ManualClock, Quota};
use flowgate_fleet::{CutOff, Fleet, FleetError, FleetLimit, FleetStore};
use std::future::Future;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn limit(engine: &Engine, name: &str, text: &str) -> FleetLimit {
    let limit = fleet(engine).limit(name, quota(text)).build();
    limit.expect("a limit")
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_two_processes_share_one_limit() {
    let engine = Engine::start();
    let nodes = [0, 1].map(|_| limit(&engine, "api", "6/day"));
    let admitted: Vec<bool> = (0..8)
        .map(|turn| nodes[turn % 2].ask().block().is_ok())
        .collect();
    assert_eq!(admitted, [true, true, true, true, true, true, false, false]);
    let denied = nodes[0].ask().block().unwrap_err();
    let wait = denied.retry_after().expect("the store knows when");
    let day = Duration::from_secs(86_400);
    assert!(
        wait <= day / 6 && wait > day / 6 - Duration::from_secs(60),
        "{wait:?}"
    );
    assert!(!denied.is_outage());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_refusal_is_known_here_and_costs_one_call_per_second() {
    let engine = Engine::start();
    let time = ManualClock::new();
    let fleet = Fleet::redis(&engine.url()).unwrap().nodes(4).clock(&time);
    let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
    let limit = fleet.limit("mail", quota("3/day")).build().unwrap();
    assert!(limit.ask().n(3).block().is_ok());
    for second in 1..=3 {
        let before = calls(&engine);
        assert!((0..100).all(|_| limit.ask().block().is_err()));
        assert_eq!(calls(&engine), before, "no call for what is known");
        time.advance(Duration::from_secs(1));
        assert!(limit.ask().block().is_err());
        assert_eq!(calls(&engine), before + 1, "{second}");
    }
    assert!(limit.ask().n(4).block().unwrap_err().is_never());
    assert!(limit.ask().n(0).block().is_ok());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn callers_that_come_together_share_a_call() {
    let engine = Engine::start();
    let limit = limit(&engine, "api", "1000/day");
    assert!(limit.ask().block().is_ok());
    let before = calls(&engine);
    // No call ends before all of them have asked.
    engine.pause();
    let asks = (0..500).map(|_| limit.ask());
    let mut asks = Box::pin(futures_util::future::join_all(asks));
    let mut context = Context::from_waker(Waker::noop());
    assert!(asks.as_mut().poll(&mut context).is_pending());
    engine.resume();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let answers = runtime.block_on(asks);
    let admitted = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(admitted, 500);
    // One that some of them share, and one for the others.
    let shared = calls(&engine) - before;
    assert!(shared <= 2, "{shared}");
    assert!(limit.ask().n(500).block().is_err());
    assert!(limit.ask().n(499).block().is_ok());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c2_a_large_request_costs_the_small_ones_beside_it_nothing() {
    let engine = Engine::start();
    let limit = limit(&engine, "api", "10/day");
    assert!(limit.ask().n(6).block().is_ok());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let admitted = runtime.block_on(async {
        let asks = [1, 5, 1, 1, 4, 1, 1].map(|units| limit.ask().n(units));
        let answers = futures_util::future::join_all(asks).await;
        answers.iter().map(Result::is_ok).collect::<Vec<_>>()
    });
    assert_eq!(admitted, [true, false, true, true, false, true, false]);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_four_processes_with_eight_threads_each_are_admitted_what_one_bucket_admits() {
    let engine = Engine::start();
    let nodes = [0; 4].map(|_| limit(&engine, "api", "1000/s burst 100"));
    let start = Instant::now();
    let admitted: usize = thread::scope(|scope| {
        let threads = nodes.iter().flat_map(|node| {
            (0..8).map(move |_| {
                let admitted = || (0..500).filter(|_| node.ask().block().is_ok()).count();
                scope.spawn(admitted)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    let most = 100 + start.elapsed().as_millis() as usize + 1;
    assert!((100..=most).contains(&admitted), "{admitted} of {most}");
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_store_that_hangs_is_no_refusal_and_loses_one_call() {
    let engine = Engine::start();
    let fleet = Fleet::redis(&engine.url())
        .unwrap()
        .nodes(4)
        .open()
        .unwrap();
    let limit = fleet.limit("api", quota("8/day")).build().unwrap();
    assert!(limit.ask().block().is_ok());
    let before = calls(&engine);
    engine.pause();
    // A quarter of the limit is this node's.
    let answers: Vec<_> = (0..4).map(|_| limit.ask().block()).collect();
    let is_degraded = |at: usize| {
        answers[at]
            .as_ref()
            .is_ok_and(|admitted| admitted.is_degraded())
    };
    assert!(is_degraded(0) && is_degraded(1), "{answers:?}");
    for at in [2, 3] {
        let denied = answers[at].as_ref().unwrap_err();
        assert!(denied.is_outage(), "{denied}");
    }
    engine.resume();
    // The call that got no answer was carried out afterwards; no other was sent.
    assert_eq!(calls(&engine) - before, 1);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_store_that_was_killed_is_found_again_and_forgets_little() {
    let mut engine = Engine::start();
    let fleet = fleet(&engine);
    let builder = fleet.limit("api", quota("100/day"));
    let limit = builder.when_cut_off(CutOff::Deny).build().unwrap();
    assert!(limit.ask().n(60).block().is_ok());
    engine.kill();
    assert!(limit.ask().block().unwrap_err().is_outage());
    engine.restart();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(fleet.ready());
    // The store is empty. This node remembers the debt.
    assert!(limit.ask().n(41).block().is_err());
    assert!(limit.ask().n(40).block().is_ok());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_foreign_record_is_an_outage_of_this_limit_alone() {
    let engine = Engine::start();
    let time = ManualClock::new();
    let fleet = Fleet::redis(&engine.url()).unwrap().clock(&time);
    let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
    let [bucket, other] = [
        fleet.limit("bucket", quota("5/day")),
        fleet.limit("other", quota("5/day")),
    ]
    .map(|builder| builder.when_cut_off(CutOff::Deny).build().unwrap());
    let window = fleet.window("window", quota("5/day"));
    let window = window.when_cut_off(CutOff::Deny).build().unwrap();
    for (limit, name) in [(&bucket, "bucket"), (&window, "window")] {
        let record = FleetStore::record_name(name, b"");
        // A string, a list, a hash, and the record of a limit of the other kind.
        let of_other_kind = match name {
            "bucket" => "SET {} w:1:1700000000000000:5:86400000000",
            _ => "SET {} 5:1700000000000000:1:1000000",
        };
        let values = ["SET {} 17", "LPUSH {} 17", "HSET {} a 17", of_other_kind];
        for (refused, value) in values.into_iter().enumerate() {
            engine.command::<()>(&format!("DEL {record}")).unwrap();
            engine.command::<()>(&value.replace("{}", &record)).unwrap();
            assert!(limit.ask().block().unwrap_err().is_outage(), "{value}");
            assert_eq!(engine.command(&format!("EXISTS {record}")), Ok(1));
            assert_eq!(limit.inspect().counts.calls_refused, 1 + refused as u64);
            // It asks again after a second.
            time.advance(Duration::from_secs(1));
        }
        let admitted = other.ask().n(2).block();
        assert!(admitted.is_ok_and(|admitted| !admitted.is_degraded()));
        engine.command::<()>(&format!("DEL {record}")).unwrap();
        assert!(limit.ask().block().is_ok());
    }
}

#[test]
fn nothing_is_open_by_accident() {
    let fleet = Fleet::redis("redis://127.0.0.1:1").unwrap().open().unwrap();
    let error = fleet.limit("api", quota("5/s")).build().unwrap_err();
    assert!(matches!(error, FleetError::NoCutOff), "{error}");
    let wrong = fleet
        .limit("api", quota("5/s"))
        .when_cut_off(CutOff::Share(3, 2));
    assert_eq!(
        wrong.build().unwrap_err().to_string(),
        "a share is between 1/N and 1, not 3/2"
    );
    let no_nodes = Fleet::redis("redis://127.0.0.1:1").unwrap().nodes(0).open();
    assert!(matches!(no_nodes, Err(FleetError::NoNodes)));
    assert!(matches!(
        Fleet::redis("reddis:/x"),
        Err(FleetError::Address(_))
    ));
}

#[test]
fn a_sentinel_and_a_cluster_have_addresses() {
    let none: [&str; 0] = [];
    let error = Fleet::sentinel(none, "mymaster").unwrap_err();
    assert!(matches!(error, FleetError::NoAddress), "{error}");
    let error = Fleet::cluster(["redis://10.0.0.1", "nonsense"]).unwrap_err();
    assert!(matches!(error, FleetError::Address(_)), "{error}");
    let named = Fleet::sentinel(["redis://10.0.0.1:26379"], "redis://:secret@my-master.1/2");
    assert!(!format!("{:?}", named.unwrap()).contains("secret"));
}

#[test]
fn nonsense_is_refused_with_what_would_work() {
    for timeout in [Duration::ZERO, Duration::from_secs(61), Duration::MAX] {
        let error = Fleet::local().timeout(timeout).open().unwrap_err();
        assert!(error.to_string().contains("1 ms and 1 min"), "{error}");
    }
    let fleet = Fleet::local().nodes(u32::MAX).open().unwrap();
    let build = |quota: Quota| fleet.limit("api", quota).build();
    // A share of no whole token admits nothing, and every quota is exact or refused.
    for quota in [
        quota("1/s"),
        quota("2147483647/s"),
        Quota::spacing(Duration::from_nanos(1)).unwrap(),
        Quota::spacing(Duration::from_secs(3_000_000)).unwrap(),
        quota("7/day burst 1000000000"),
    ] {
        match build(quota) {
            Ok(limit) => assert!(limit.ask().n(u64::MAX).block().unwrap_err().is_never()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let keys = fleet.keyed("", quota("5/s")).capacity(0).build();
    assert!(keys.is_ok_and(|keys| keys.ask("").n(5).block().is_ok()));
}

#[test]
fn a_fleet_without_a_store_decides_alone() {
    let fleet = Fleet::redis("redis://127.0.0.1:1")
        .unwrap()
        .nodes(2)
        .open()
        .unwrap();
    let limit = fleet.limit("api", quota("4/day")).build().unwrap();
    let admitted = (0..4).filter(|_| limit.ask().block().is_ok()).count();
    assert_eq!(admitted, 2);
    assert!(limit.ask().block().unwrap_err().is_outage());
}
