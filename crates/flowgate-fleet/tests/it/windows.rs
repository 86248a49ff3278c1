//! Windows that the store keeps, quotas that are replaced, and names that are used twice.

use crate::support::{Engine, fleet};
use flowgate::{ManualClock, Quota};
use flowgate_fleet::{
    CutOff, Fleet, FleetError, FleetLimit, FleetStore, FleetStoreError, LocalStore, Overshoot,
};
use std::future::Future;
use std::thread;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn admitted(limit: &FleetLimit, times: usize) -> usize {
    let admitted = (0..times).filter(|_| limit.ask().block().is_ok());
    admitted.count()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(future)
}

/// Two processes with a store whose clock is moved by hand.
fn two() -> (ManualClock, LocalStore, [Fleet; 2]) {
    let time = ManualClock::new();
    let store = LocalStore::new(&time);
    let fleets = [0; 2].map(|_| store.fleet().nodes(2).open().unwrap());
    (time, store, fleets)
}

#[test]
fn c1_c3_processes_share_a_window_and_a_refusal_states_its_end() {
    let (time, _store, fleets) = two();
    let [one, other] = [0, 1].map(|at| {
        let builder = fleets[at].window("hour", quota("10/h"));
        builder.build().unwrap()
    });
    time.advance(600 * SECOND);
    assert!(one.ask().n(7).block().is_ok());
    time.advance(600 * SECOND);
    assert!(other.ask().n(4).block().is_err());
    assert!(other.ask().n(3).block().is_ok());
    time.advance(2_999 * SECOND);
    let denied = one.ask().block().unwrap_err();
    assert_eq!(denied.retry_after(), Some(SECOND));
    time.advance(SECOND);
    assert_eq!(admitted(&other, 12), 10);
    assert_eq!(one.bound().total(), Some(1)); // 10/h: less than one in 50 ms
}

#[test]
fn c1_aligned_windows_of_keys_begin_with_the_clock() {
    let (time, _store, [fleet, _]) = two();
    let builder = fleet.keyed_window("tenant", quota("3/min"));
    let tenants = builder.align_to_wall().capacity(10).build().unwrap();
    time.advance(50 * SECOND);
    for key in ["a", "b"] {
        let tenant = tenants.with(key);
        assert!(tenant.ask().n(3).block().is_ok());
        let denied = tenants.ask(key).block().unwrap_err();
        assert_eq!(denied.retry_after(), Some(10 * SECOND));
    }
    time.advance(10 * SECOND);
    assert!(tenants.ask("a").n(3).block().is_ok());
    assert_eq!(tenants.with("a").quota(), quota("3/min"));
}

#[test]
fn c1_a_process_that_is_cut_off_counts_in_windows_of_its_share() {
    let (time, store, [fleet, _]) = two();
    let limit = fleet.window("hour", quota("10/h")).build().unwrap();
    assert!(limit.ask().block().is_ok());
    store.stop();
    assert_eq!(admitted(&limit, 9), 5);
    time.advance(3_601 * SECOND);
    assert_eq!(admitted(&limit, 9), 5);
    assert_eq!((limit.bound().alone, limit.inspect().share), (10, 0.5));
}

#[test]
fn c1_a_quota_is_replaced_for_all_limits_of_its_name_in_this_process() {
    let (_time, _store, [fleet, other]) = two();
    for kind in ["bucket", "window"] {
        let build = |fleet: &Fleet, quota: Quota| match kind {
            "bucket" => fleet.limit(kind, quota).build().unwrap(),
            _ => fleet.window(kind, quota).build().unwrap(),
        };
        let [limit, same] = [0; 2].map(|_| build(&fleet, quota("10/h")));
        let elsewhere = build(&other, quota("10/h"));
        assert_eq!(admitted(&limit, 4), 4);
        same.set_quota(quota("6/h")).unwrap();
        assert_eq!(
            (limit.quota(), elsewhere.quota()),
            (quota("6/h"), quota("10/h"))
        );
        assert_eq!(admitted(&limit, 9), 2);
        assert_eq!(admitted(&elsewhere, 9), 4);
        limit.set_quota(quota("12/h")).unwrap();
        assert_eq!(admitted(&same, 9), 2);
        assert!(same.ask().n(13).block().unwrap_err().is_never());
    }
}

#[test]
fn a_quota_that_cannot_be_kept_changes_nothing() {
    let (_time, _store, [fleet, _]) = two();
    let window = fleet.window("window", quota("5/h")).build().unwrap();
    for wrong in ["5/h burst 5", "5/1ns"] {
        assert!(window.set_quota(quota(wrong)).is_err());
    }
    let tenants = fleet.keyed("tenant", quota("5/h")).build().unwrap();
    let wrong = quota("999999937/day burst 1000000");
    assert!(matches!(
        tenants.set_quota(wrong),
        Err(FleetError::Burst { .. })
    ));
    assert_eq!(
        (window.quota(), tenants.quota()),
        (quota("5/h"), quota("5/h"))
    );
    tenants.set_quota(quota("7/h")).unwrap();
    assert!(tenants.ask("a").n(7).block().is_ok());
    assert!(window.ask().n(5).block().is_ok());
}

#[test]
fn a_name_has_one_quota_in_a_process() {
    let (_time, _store, [fleet, other]) = two();
    let api = fleet
        .limit("api", quota("1000/s burst 1000"))
        .build()
        .unwrap();
    let error = fleet.limit("api", quota("900/s")).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "another limit of this fleet is named `api`, with the quota 1000/s burst 1000: state the same, use another name, or call \
         `set_quota` of that limit"
    );
    let is_refused =
        |built: Result<(), FleetError>| matches!(built, Err(FleetError::OtherQuota { .. }));
    let leased = || {
        fleet
            .limit("api", quota("900/s burst 1000"))
            .leased(Overshoot::percent(20))
    };
    assert!(is_refused(leased().build().map(drop)));
    assert!(is_refused(
        fleet.keyed("api", quota("900/s")).build().map(drop)
    ));
    // Across kinds.
    let same = quota("1000/s burst 1000");
    assert!(is_refused(
        fleet.window("api", quota("1000/s")).build().map(drop)
    ));
    let window = fleet.window("hour", quota("10/h")).build().unwrap();
    let aligned = || fleet.window("hour", quota("10/h")).align_to_wall();
    assert!(is_refused(aligned().build().map(drop)));
    assert!(is_refused(
        fleet.limit("hour", quota("10/h")).build().map(drop)
    ));
    // The same quota, another process, or after the first one was dropped.
    assert!(fleet.limit("api", same).build().is_ok());
    assert!(other.limit("api", quota("900/s")).build().is_ok());
    drop(window);
    assert!(aligned().build().is_ok());
    // A leased limit is in use as long as its limiter.
    drop(api);
    let limiter = std::sync::Arc::clone(&leased().build().unwrap());
    assert!(is_refused(fleet.limit("api", same).build().map(drop)));
    let strict = fleet
        .limit("api", quota("900/s burst 1000"))
        .build()
        .unwrap();
    strict.set_quota(same).unwrap();
    let slow = strict.set_quota(quota("1/s")).unwrap_err();
    assert!(matches!(slow, FleetError::Overshoot { .. }), "{slow}");
    assert_eq!(strict.quota(), same);
    drop((limiter, strict));
    assert!(fleet.limit("api", same).build().is_ok());
}

#[test]
fn a_name_that_counts_in_another_way_elsewhere_is_an_outage_and_no_refusal() {
    let (_time, _store, [one, other]) = two();
    let bucket = one.limit("api", quota("10/h")).build().unwrap();
    let window = other.window("api", quota("10/h")).build().unwrap();
    assert!(bucket.ask().n(3).block().is_ok());
    assert!(window.ask().block().unwrap().is_degraded());
    assert!(window.ask().n(9).block().unwrap_err().is_outage());
    assert!(!bucket.ask().block().unwrap().is_degraded());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_real_store_keeps_windows_and_is_reminded_of_them() {
    let engine = Engine::start();
    let time = ManualClock::new();
    let nodes = [0; 2].map(|_| {
        let fleet = Fleet::redis(&engine.url()).unwrap().nodes(4).clock(&time);
        let fleet = fleet.timeout(10 * SECOND).open().unwrap();
        fleet.window("day", quota("6/day")).build().unwrap()
    });
    let taken: Vec<bool> = (0..8)
        .map(|turn| nodes[turn % 2].ask().block().is_ok())
        .collect();
    assert_eq!(taken, [true, true, true, true, true, true, false, false]);
    let denied = nodes[0].ask().block().unwrap_err();
    let wait = denied.retry_after().expect("the store knows when");
    let day = Duration::from_secs(86_400);
    assert!(
        wait <= day && wait > day - Duration::from_secs(60),
        "{wait:?}"
    );
    engine.command::<()>("FLUSHALL").unwrap();
    // A process that remembers nothing would open a window. This one asks again after a second.
    time.advance(SECOND);
    assert!(nodes[1].ask().block().is_err());
    assert_eq!(nodes[1].inspect().counts.healed_units, 6);
}

/// What four processes are admitted of whose quotas one is replaced again and again, and another is never the new one.
fn admitted_while_quotas_change(limits: &[FleetLimit; 4], quotas: [&str; 2]) -> (u64, Duration) {
    let start = Instant::now();
    let admitted = thread::scope(|scope| {
        let threads = limits.each_ref().map(|limit| {
            scope.spawn(move || {
                let mut admitted = 0;
                for turn in 0..600 {
                    admitted += u64::from(limit.ask().block().is_ok());
                    let is_steady = std::ptr::eq(limit, &limits[0]);
                    if !is_steady && turn % 50 == 0 {
                        let next = quotas[turn / 50 % 2].parse().expect("a quota");
                        limit.set_quota(next).expect("a quota that can be kept");
                    }
                    // Not too fast for several windows.
                    thread::sleep(Duration::from_millis(1));
                }
                admitted
            })
        });
        threads.map(|thread| thread.join().expect("it ends"))
    });
    (admitted.into_iter().sum(), start.elapsed())
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_quotas_that_change_in_some_processes_give_the_largest_burst_and_rate_at_most() {
    let engine = Engine::start();
    let fleets = [0; 4].map(|_| fleet(&engine));
    let quotas = ["500/s burst 100", "100/s burst 150"];
    let buckets = fleets
        .each_ref()
        .map(|fleet| fleet.limit("api", quota(quotas[0])).build().unwrap());
    let (admitted, took) = admitted_while_quotas_change(&buckets, quotas);
    let most = 150 + 500 * (took.as_millis() as u64 + 1) / 1_000 + 1;
    assert!((150..=most).contains(&admitted), "{admitted} of {most}");

    let quotas = ["50/100ms", "20/200ms"];
    let windows = fleets
        .each_ref()
        .map(|fleet| fleet.window("window", quota(quotas[0])).build().unwrap());
    let (admitted, took) = admitted_while_quotas_change(&windows, quotas);
    let most = 50 * (2 + took.as_millis() as u64 / 100);
    assert!((100..=most).contains(&admitted), "{admitted} of {most}");
    let counts = buckets
        .iter()
        .chain(&windows)
        .map(|limit| limit.inspect().counts);
    assert_eq!(
        counts
            .map(|counts| counts.degraded + counts.outages)
            .sum::<u64>(),
        0
    );
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_window_is_shown_and_reset() {
    let engine = Engine::start();
    let time = ManualClock::new();
    let fleet = Fleet::redis(&engine.url()).unwrap().nodes(4).clock(&time);
    let fleet = fleet.timeout(10 * SECOND).open().unwrap();
    let builder = fleet.window("day", quota("10/day")).align_to_wall();
    let limit = builder.when_cut_off(CutOff::Deny).build().unwrap();
    assert!(limit.ask().n(8).block().is_ok());
    run(async {
        let store = FleetStore::connect(&engine.url(), 10 * SECOND).await?;
        let record = store.record("day", b"").await?.expect("a window");
        let window = record.window().expect("a window");
        assert_eq!((window.used, window.limit), (8, 10));
        assert!(window.is_aligned && window.ends_in <= 86_400 * SECOND);
        assert_eq!(window.ends_in, record.full_in());
        assert_eq!(
            (record.rate(), record.available(quota("10/day"))),
            (Some(quota("10/day")), 2.0)
        );
        assert!(store.reset("day", b"").await?);
        let record = store.record("day", b"").await?.expect("its mark");
        assert_eq!((record.window(), record.debt()), (None, 0.0));
        Ok::<_, FleetStoreError>(())
    })
    .unwrap();
    // What it remembers is forgiven, and what is taken since counts.
    assert!(limit.ask().n(2).block().is_ok());
    assert!(limit.ask().n(8).block().is_ok());
    assert!(limit.ask().block().is_err());
    assert_eq!(limit.inspect().counts.resets, 1);
    let key: String = engine.command("RANDOMKEY").unwrap();
    let text: String = engine.command(&format!("GET {key}")).unwrap();
    assert!(text.starts_with("a:10:"), "{text}");
    let lasts: i64 = engine.command(&format!("PTTL {key}")).unwrap();
    assert!(lasts > 0, "{lasts}");
}
