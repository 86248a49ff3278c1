//! Several limits, from all or from none: in one store, and in the slots of a cluster.

use crate::support::{Cluster, Engine, calls, fleet, fleets, until};
use flowgate::ManualClock;
use flowgate_fleet::{Ask, AskAll, CutOff, Fleet, FleetKeyed, FleetLimit, LocalStore, Overshoot};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
/// A busy machine does not look like a fault.
const LONG: Duration = Duration::from_secs(10);

fn limit(fleet: &Fleet, name: &str, quota: &str) -> FleetLimit {
    let builder = fleet.limit(name, quota.parse().unwrap());
    builder.when_cut_off(CutOff::Deny).build().unwrap()
}

fn keyed(fleet: &Fleet, name: &str, quota: &str) -> FleetKeyed {
    let builder = fleet.keyed(name, quota.parse().unwrap());
    builder.when_cut_off(CutOff::Deny).build().unwrap()
}

/// An exact bucket, in microseconds: a unit takes `per` of them.
struct Model {
    per: u64,
    burst: u64,
    debt: u64,
}

impl Model {
    fn wait(&self, n: u64) -> u64 {
        (self.debt + n * self.per).saturating_sub(self.burst * self.per)
    }
}

#[test]
fn c1_c2_c3_two_limits_decide_as_two_exact_buckets_that_take_from_both_or_none() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let time = ManualClock::new();
        let fleet = Fleet::local().clock(&time).open().unwrap();
        let api = limit(&fleet, "api", "1000/s burst 20");
        let tenants = keyed(&fleet, "tenant", "500/s burst 8");
        let mut models = [(1_000, 20), (2_000, 8)].map(|(per, burst)| Model {
            per,
            burst,
            debt: 0,
        });
        let mut refused = [0; 2];
        for _ in 0..1_000 {
            let units = [random.u64(1..=12), random.u64(1..=4)];
            let waits = [0, 1].map(|at| models[at].wait(units[at]));
            let asks = [api.ask().n(units[0]), tenants.ask("t-17").n(units[1])];
            match Ask::all(asks).block() {
                Ok(admitted) => {
                    assert_eq!(waits, [0, 0]);
                    assert!(!admitted.is_degraded());
                    for (model, n) in models.iter_mut().zip(units) {
                        model.debt += n * model.per;
                    }
                }
                Err(denied) => {
                    let wait = Duration::from_micros(*waits.iter().max().unwrap());
                    assert_eq!(denied.retry_after(), Some(wait), "{seed}");
                    let lacking = denied.limits().iter().map(|(at, _)| *at);
                    let lacking: Vec<usize> = lacking.collect();
                    let expected: Vec<usize> = (0..2).filter(|&at| waits[at] > 0).collect();
                    assert_eq!(lacking, expected);
                    expected.iter().for_each(|&at| refused[at] += 1);
                    for (at, each) in denied.limits() {
                        let wait = Duration::from_micros(waits[*at]);
                        assert_eq!(each.retry_after(), Some(wait));
                    }
                }
            }
            let passed_us = random.u64(0..8_000);
            time.advance(Duration::from_micros(passed_us));
            for model in &mut models {
                model.debt = model.debt.saturating_sub(passed_us);
            }
        }
        assert!(refused.iter().all(|&refused| refused > 50), "{refused:?}");
        let counts = api.inspect().counts;
        assert_eq!(counts.denied, refused[0]);
        assert_eq!(counts.admitted, tenants.inspect().counts.admitted);
    }
}

#[test]
fn a_request_that_can_never_be_granted_and_an_empty_one_need_no_store() {
    let fleet = Fleet::redis("redis://127.0.0.1:1").unwrap().open().unwrap();
    let (api, other) = (
        limit(&fleet, "api", "5/day"),
        limit(&fleet, "other", "9/day"),
    );
    let denied = Ask::all([other.ask(), api.ask().n(6)]).block().unwrap_err();
    assert!(denied.is_never());
    assert_eq!(denied.limits().len(), 1);
    assert_eq!(denied.limits()[0].0, 1);
    // Twice the same limit: the units add up.
    let twice = || [api.ask().n(3), other.ask(), api.ask().n(3)];
    let denied = Ask::all(twice()).block().unwrap_err();
    assert_eq!(
        denied
            .limits()
            .iter()
            .map(|(at, _)| *at)
            .collect::<Vec<_>>(),
        [0, 2]
    );
    assert!(Ask::all([]).block().is_ok());
    assert!(Ask::all([api.ask().n(0)]).block().is_ok());
}

#[test]
fn without_a_store_the_shares_of_all_decide_and_an_outage_is_no_refusal() {
    let store = LocalStore::new(ManualClock::new());
    let fleet = store.fleet().nodes(2).open().unwrap();
    let of = |name: &str, quota: &str| fleet.limit(name, quota.parse().unwrap()).build().unwrap();
    let (large, small) = (of("large", "20/day"), of("small", "4/day"));
    let both = |n| Ask::all([large.ask().n(n), small.ask().n(1)]).block();
    assert!(!both(5).unwrap().is_degraded());
    store.stop();
    assert!(both(1).unwrap().is_degraded());
    assert!(both(1).unwrap().is_degraded());
    for _ in 0..20 {
        let denied = both(1).unwrap_err();
        assert!(denied.is_outage() && denied.retry_after().is_none());
        assert_eq!(denied.limits()[0].0, 1, "the share of the small one");
    }
    // A refused request has taken nothing from the other share.
    assert!(large.ask().n(8).block().unwrap().is_degraded());
    assert!(large.ask().block().unwrap_err().is_outage());
    assert_eq!(small.inspect().counts.cut_off, 20);
}

#[test]
fn two_limits_of_one_name_and_limits_of_two_fleets_are_taken_from_together() {
    let time = ManualClock::new();
    let stores = [LocalStore::new(&time), LocalStore::new(&time)];
    let fleets = stores.each_ref().map(|store| store.fleet().open().unwrap());
    let [api, same] = [0, 0].map(|at| limit(&fleets[at], "api", "10/day"));
    let other = limit(&fleets[1], "other", "3/day");
    let all = || Ask::all([api.ask().n(2), other.ask(), same.ask().n(1)]).block();
    assert!((0..3).all(|_| all().is_ok()));
    let denied = all().unwrap_err();
    assert_eq!(denied.limits()[0].0, 1);
    assert_eq!(denied.retry_after(), Some(DAY / 3));
    // What takes two calls, one after the other, is in flight for two timeouts.
    let in_flight = |limit: &FleetLimit| limit.bound().in_flight;
    assert_eq!(in_flight(&limit(&fleets[0], "fast", "1000/s")), 50);
    let fast = limit(&fleets[0], "fast", "1000/s");
    assert!(Ask::all([fast.ask(), other.ask()]).block().is_err() && in_flight(&fast) == 50);
    assert!(
        Ask::all([fast.ask(), limit(&fleets[1], "new", "1/s").ask()])
            .block()
            .is_ok()
    );
    assert_eq!(in_flight(&fast), 100);
    // Nine are taken.
    assert!(api.ask().n(1).block().is_ok());
    assert!(same.ask().n(1).block().is_err());
}

#[test]
fn a_leased_limit_gets_back_what_a_refused_request_had_taken_from_it() {
    let time = ManualClock::new();
    let fleet = Fleet::local().nodes(2).clock(&time).open().unwrap();
    let leased = fleet.limit("leased", "1000/s burst 1000".parse().unwrap());
    let leased = leased.leased(Overshoot::percent(100)).build().unwrap();
    let few = limit(&fleet, "few", "1/day");
    let both = || Ask::all([leased.ask().n(2), few.ask()]).block();
    assert!(both().is_ok());
    // A process holds what it uses within a short time.
    until("nothing is leased", || {
        time.advance(Duration::from_millis(10));
        let _ = leased.try_acquire_n(5);
        leased.available() > 10
    });
    let before = leased.available();
    for _ in 0..100 {
        assert_eq!(both().unwrap_err().limits()[0].0, 1);
    }
    assert!(leased.available() >= before);
}

#[test]
fn a_window_is_asked_last_and_what_it_refuses_is_given_back() {
    let fleet = Fleet::local().nodes(2).open().unwrap();
    let window = |name, quota: &str| {
        let window = fleet.window(name, quota.parse().unwrap());
        window.build().unwrap()
    };
    let (few, many, api) = (
        window("few", "3/day"),
        window("many", "9/day"),
        limit(&fleet, "api", "100/day"),
    );
    let all = |api_units| Ask::all([few.ask(), many.ask(), api.ask().n(api_units)]).block();
    // The bucket refuses, and no window has lost anything.
    assert!(all(101).unwrap_err().is_never());
    for _ in 0..3 {
        assert!(all(1).is_ok());
    }
    let denied = all(1).unwrap_err();
    assert_eq!(
        denied
            .limits()
            .iter()
            .map(|(at, _)| *at)
            .collect::<Vec<_>>(),
        [0]
    );
    assert!(denied.retry_after().is_some() && !denied.is_outage());
    assert!(api.ask().n(97).block().is_ok());
    assert!(many.ask().n(6).block().is_ok());
    assert!(many.ask().block().is_err());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_one_call_of_the_script_takes_from_all_or_none() {
    let engine = Engine::start();
    let fleet = fleet(&engine);
    let (api, tenants) = (
        limit(&fleet, "api", "100/day"),
        keyed(&fleet, "tenant", "3/day"),
    );
    let both = |tenant: &str| Ask::all([api.ask(), tenants.ask(tenant)]).block();
    for tenant in ["a", "b"] {
        let admitted = (0..9).filter(|_| both(tenant).is_ok()).count();
        assert_eq!(admitted, 3, "{tenant}");
    }
    // Refusals that are known here need no call. The first one of all had to bring the script.
    assert_eq!(calls(&engine), 7);
    assert!(api.ask().n(94).block().is_ok());
    assert!(api.ask().block().is_err());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_foreign_value_cuts_off_its_own_limit_and_no_other() {
    let engine = Engine::start();
    let fleet = fleet(&engine);
    let (api, tenants) = (
        limit(&fleet, "api", "100/day"),
        keyed(&fleet, "tenant", "3/day"),
    );
    let name = flowgate_fleet::FleetStore::record_name("tenant", b"a");
    engine.command::<()>(&format!("SET {name} 17")).unwrap();
    let denied = Ask::all([api.ask(), tenants.ask("a")]).block().unwrap_err();
    assert!(denied.is_outage());
    assert_eq!(denied.limits()[0].0, 1);
    assert!(Ask::all([api.ask(), tenants.ask("b")]).block().is_ok());
    // What was taken for the first one is given back.
    assert!(!api.ask().n(99).block().unwrap().is_degraded());
}

/// Threads of all processes ask for one unit of "busy" and one of "rest". Returns how many were admitted, and how many were refused.
fn ask_for_both(busy: &[FleetLimit], rest: &[FleetLimit], at_least: u64) -> [u64; 2] {
    let [admitted, refused] = [const { AtomicU64::new(0) }; 2];
    thread::scope(|scope| {
        for (busy, rest) in busy.iter().zip(rest) {
            for _ in 0..4 {
                scope.spawn(|| {
                    while admitted.load(Ordering::Relaxed) < at_least {
                        match Ask::all([rest.ask(), busy.ask()]).block() {
                            Ok(one) => {
                                assert!(!one.is_degraded());
                                admitted.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(denied) => {
                                assert!(!denied.is_outage(), "{denied}");
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        }
    });
    [admitted, refused].map(AtomicU64::into_inner)
}

/// One limit is used up again and again. The other one has lost no more than what was admitted.
fn no_drained_loser(fleets: &[Fleet]) {
    let of = |name: &str, quota: &str| -> Vec<FleetLimit> {
        fleets
            .iter()
            .map(|fleet| limit(fleet, name, quota))
            .collect()
    };
    // Of the busy one, units flow back all the time, and few at a time.
    let (busy, rest) = (of("busy", "500/s burst 5"), of("rest", "1000000/day"));
    let [admitted, refused] = ask_for_both(&busy, &rest, 500);
    // While it ran, less than one unit in 86 ms flowed back.
    let mut left = 0;
    for step in [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1] {
        while left + step <= 1_000_000 && rest[0].ask().n(step).block().is_ok() {
            left += step;
        }
    }
    println!("{admitted} admitted, {refused} refused, {left} left of 1000000");
    assert!(refused > admitted);
    let drained = 1_000_000_i64 - i64::try_from(left + admitted).unwrap();
    // Those that flowed back are more, not fewer.
    assert!(drained <= 0, "{drained} units are lost");
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_many_that_one_limit_refuses_drain_nothing_from_the_other_one() {
    let engine = Engine::start();
    let open = |_| fleet(&engine);
    no_drained_loser(&(0..3).map(open).collect::<Vec<_>>());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_many_that_one_limit_refuses_drain_nothing_from_the_other_one_in_another_slot() {
    let cluster = Cluster::start(false);
    no_drained_loser(&cluster.fleets(3, LONG));
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_units_of_refused_and_of_dropped_requests_are_given_back_to_the_last_one() {
    const UNITS: u64 = 40;
    const KEYS: usize = 5;
    let cluster = Cluster::start(false);
    let nodes = cluster.fleets(3, LONG);
    let of = |name: &str| -> Vec<FleetKeyed> {
        let of = |fleet| keyed(fleet, name, &format!("{UNITS}/day"));
        nodes.iter().map(of).collect()
    };
    let (tenants, sites) = (of("tenant"), of("site"));
    let admitted = [const { [const { AtomicU64::new(0) }; KEYS] }; 2];
    let refused = AtomicU64::new(0);
    thread::scope(|scope| {
        for (tenants, sites) in tenants.iter().zip(&sites) {
            for _ in 0..4 {
                scope.spawn(|| {
                    while refused.load(Ordering::Relaxed) < 2_000 {
                        let keys = [fastrand::usize(..KEYS), fastrand::usize(..KEYS)];
                        let units = [fastrand::u64(1..=3), fastrand::u64(1..=3)];
                        let tenant = tenants.ask([keys[0] as u8]).n(units[0]);
                        let site = sites.ask([keys[1] as u8]).n(units[1]);
                        let all = Ask::all([tenant, site]);
                        let admits = match fastrand::u32(..8) {
                            0 => begin_and_drop(all),
                            _ => Some(all.block().is_ok()),
                        };
                        match admits {
                            Some(true) => admit(&admitted, keys, units),
                            Some(false) => _ = refused.fetch_add(1, Ordering::Relaxed),
                            None => {}
                        }
                    }
                });
            }
        }
    });
    let marks = |server: &Engine| {
        let records: Vec<String> = server.command("KEYS fg1:*").unwrap();
        let text = |record: &String| server.command::<String>(&format!("GET {record}")).unwrap();
        records
            .iter()
            .map(text)
            .filter(|text| text.matches(':').count() > 3)
            .count()
    };
    let marks: usize = cluster.primaries.iter().map(marks).sum();
    println!("{marks} of {} records were given back to", 2 * KEYS);
    assert!(marks > 0);
    for (limits, admitted) in [(&tenants, &admitted[0]), (&sites, &admitted[1])] {
        for (key, admitted) in admitted.iter().enumerate() {
            let left = UNITS - admitted.load(Ordering::Relaxed);
            let ask = |units| limits[0].ask([key as u8]).n(units).block();
            until("units are lost", || ask(left).is_ok());
            assert!(ask(1).is_err(), "more than there were");
        }
    }
}

/// Gives up. Returns whether the request was admitted, if that was known in time.
fn begin_and_drop(all: AskAll) -> Option<bool> {
    match pin!(all).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer.is_ok()),
        Poll::Pending => None,
    }
}

fn admit<const K: usize>(admitted: &[[AtomicU64; K]; 2], keys: [usize; 2], units: [u64; 2]) {
    for at in [0, 1] {
        admitted[at][keys[at]].fetch_add(units[at], Ordering::Relaxed);
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_limits_in_slots_of_a_cluster_are_taken_from_all_or_none() {
    let cluster = Cluster::start(false);
    let nodes = cluster.fleets(2, LONG);
    let tenants: Vec<FleetKeyed> = nodes
        .iter()
        .map(|fleet| keyed(fleet, "tenant", "3/day"))
        .collect();
    let sites: Vec<FleetKeyed> = nodes
        .iter()
        .map(|fleet| keyed(fleet, "site", "2/day"))
        .collect();
    for key in 0..40_u32 {
        let key = key.to_le_bytes();
        let both = |at: usize| Ask::all([tenants[at].ask(key), sites[at].ask(key)]).block();
        let admitted = (0..6).filter(|turn| both(turn % 2).is_ok()).count();
        assert_eq!(admitted, 2);
        assert!(
            !tenants[0].ask(key).block().unwrap().is_degraded(),
            "its third unit is there"
        );
        assert!(tenants[1].ask(key).block().is_err());
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_server_that_hangs_decides_nothing_and_the_others_get_back_what_they_gave() {
    let cluster = Cluster::start(false);
    let nodes = cluster.fleets(1, Duration::from_millis(100));
    let (tenants, sites) = (
        keyed(&nodes[0], "tenant", "9/day"),
        keyed(&nodes[0], "site", "9/day"),
    );
    let keys: Vec<[u8; 4]> = (0..30_u32).map(u32::to_le_bytes).collect();
    let both = |key: &[u8; 4]| Ask::all([tenants.ask(key), sites.ask(key)]).block();
    until("the cluster is not found", || {
        keys.iter().all(|key| both(key).is_ok())
    });
    cluster.primaries[0].pause();
    let (mut cut_off, mut admitted) = (Vec::new(), 0);
    for key in &keys {
        match both(key) {
            Ok(one) => {
                assert!(!one.is_degraded());
                admitted += 1;
            }
            Err(denied) => {
                assert!(denied.is_outage(), "{denied}");
                cut_off.push(key);
            }
        }
    }
    println!("{admitted} admitted, {} cut off", cut_off.len());
    assert!(admitted > 0 && !cut_off.is_empty());
    cluster.primaries[0].resume();
    until("the server is not found again", || {
        cut_off.iter().all(|key| both(key).is_ok())
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_caller_that_gives_up_gets_its_units_back() {
    let engine = Engine::start();
    let open = fleets(&engine.url(), 1);
    let (api, other) = (
        limit(&open[0], "api", "50/day"),
        limit(&open[0], "other", "50/day"),
    );
    let mut admitted = 0;
    for _ in 0..50 {
        let admits = begin_and_drop(Ask::all([api.ask(), other.ask()]));
        admitted += u64::from(admits == Some(true));
    }
    for limit in [api, other] {
        until("they are not given back", || {
            limit.ask().n(50 - admitted).block().is_ok()
        });
    }
}
