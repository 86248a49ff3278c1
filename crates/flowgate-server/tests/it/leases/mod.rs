//! Processes that lease the limits of a server.

#[expect(dead_code, reason = "the tests of flowgate-fleet use all of it")]
mod engine;
#[expect(dead_code, reason = "the tests of flowgate-fleet use all of it")]
mod load;
mod warnings;

use crate::rpc::Client;
use crate::support::{Running, answer};
use engine::Engine;
use flowgate::{ManualClock, Quota};
use flowgate_fleet::{CutOff, Fleet, FleetError, FleetKeyed, LocalStore, Overshoot};
use flowgate_server::{Config, DecideLimits, DecideServer, DecisionTime};
use flowgate_testkit::proxy::Proxy;
use load::Ledger;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 4/day, name: users }
  - { key: site, value: a, quota: 1000/day burst 500 }
  - { key: window, rate_limit: { unit: hour, requests_per_unit: 4 } }
";
/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until it is so.
fn until(why: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < patience, "{why}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn limits(text: &str, store: &Fleet) -> DecideLimits {
    let config = Config::parse("test.yaml", text).unwrap();
    DecideLimits::in_store(&config, &DecisionTime::system(), store).unwrap()
}

/// A server with a store of its own.
struct Server {
    running: Running,
    store: LocalStore,
    clock: ManualClock,
}

impl Server {
    fn new() -> Self {
        Self::with(|server| server)
    }

    fn with(set: impl FnOnce(DecideServer) -> DecideServer) -> Self {
        let clock = ManualClock::new();
        let store = LocalStore::new(&clock);
        let fleet = store.fleet().nodes(1).open().unwrap();
        let running = Running::of(set(DecideServer::new(limits(LIMITS, &fleet))));
        Self {
            running,
            store,
            clock,
        }
    }

    /// A process that leases, with the clock of the test.
    fn process(&self) -> Fleet {
        connected(&url(&self.running), &self.clock)
    }

    /// Asks at the door of HTTP. Returns the status.
    fn asks(&self, limit: &str, key: &str) -> String {
        let request = format!(
            "GET /auth?limit={limit}&key={key} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        );
        let answer = answer(self.running.http, &request);
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }
}

fn url(server: &Running) -> String {
    format!("http://{}", server.grpc)
}

fn connected(url: &str, clock: &ManualClock) -> Fleet {
    let fleet = Fleet::server(url).unwrap().nodes(4).clock(clock);
    let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
    ready(&fleet);
    fleet
}

fn ready(fleet: &Fleet) {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(fleet.ready());
}

/// The limit of each user.
fn user(fleet: &Fleet) -> FleetKeyed {
    let user = fleet.keyed("api.user", "4/day".parse().unwrap());
    user.build().unwrap()
}

fn is_down(fleet: &Fleet) -> bool {
    format!("{fleet:?}").contains("Down")
}

#[test]
fn c1_processes_and_the_doors_of_the_server_take_from_one_limit() {
    let server = Server::new();
    let [one, other] = [server.process(), server.process()].map(|fleet| user(&fleet));
    assert!(one.ask("alice").n(2).block().is_ok());
    assert_eq!(server.asks("users", "alice"), "200");
    assert!(other.ask("alice").n(2).block().is_err());
    assert!(other.ask("alice").block().is_ok());
    assert_eq!(server.asks("users", "alice"), "429");
    assert_eq!(server.asks("users", "bob"), "200");
    let denied = one.ask("alice").block().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(21_600)));
    server.clock.advance(Duration::from_secs(21_600));
    assert!(one.ask("alice").block().is_ok());
    let page = server.running.admin("/metrics");
    assert!(page.contains("\nflowgate_leasing_processes 2\n"), "{page}");
}

#[test]
fn c1_windows_of_a_server_are_aligned_for_all() {
    let server = Server::new();
    server.clock.advance(Duration::from_secs(3_000));
    let fleet = server.process();
    let window = || fleet.keyed_window("api.window", "4/h".parse().unwrap());
    let wrong = window().build().unwrap_err().to_string();
    assert!(wrong.contains("aligned windows of 4/h"), "{wrong}");
    let window = window().align_to_wall().build().unwrap();
    assert!(window.ask("a").n(4).block().is_ok());
    assert_eq!(server.asks("api.window", "a"), "429");
    let denied = window.ask("a").block().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(600)));
    server.clock.advance(Duration::from_secs(600));
    assert_eq!(server.asks("api.window", "a"), "200");
    assert!(window.ask("a").n(4).block().is_err());
}

#[test]
fn c1_several_limits_of_a_server_are_taken_from_all_or_none() {
    let server = Server::new();
    let fleet = server.process();
    let user = user(&fleet);
    let site = fleet
        .limit("api.site_a", "1000/day burst 500".parse().unwrap())
        .build()
        .unwrap();
    let all = |n| flowgate_fleet::Ask::all([user.ask("alice").n(n), site.ask().n(n)]).block();
    assert!(all(3).is_ok());
    assert!(all(2).is_err());
    assert!(all(1).is_ok());
    assert!(site.ask().n(496).block().is_ok());
    assert!(
        site.ask().block().is_err(),
        "the refused request took nothing"
    );
}

#[test]
fn c1_leased_limits_exceed_it_by_no_more_than_the_overshoot_and_need_few_calls() {
    let text = "{domain: api, descriptors: [{key: site, quota: 20000/s burst 2000}]}";
    let server = Running::of(DecideServer::new(limits(text, &local())));
    let quota: Quota = "20000/s burst 2000".parse().unwrap();
    let nodes = [0; 2].map(|_| {
        let fleet = Fleet::server(&url(&server)).unwrap().nodes(2);
        let fleet = fleet.timeout(Duration::from_secs(2)).open().unwrap();
        ready(&fleet);
        let limit = fleet
            .limit("api.site", quota)
            .leased(Overshoot::percent(50));
        limit.build().unwrap()
    });
    let ledger = Ledger::new(quota);
    thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(|| {
                while ledger.admissions().len() < 2_000 {
                    for _ in 0..200 {
                        let _ = ledger.note(10, || node.ask().n(10).block());
                    }
                }
            });
        }
    });
    ledger.check("leased from a server", 0, |allowance| allowance.plus(1_000));
    for node in &nodes {
        let counts = node.inspect().counts;
        assert!(counts.admitted >= 50 * counts.calls_granted, "{counts:?}");
        assert_eq!((counts.outages, counts.calls_refused), (0, 0));
    }
}

/// What is wrong is an error of `build`, once there is a connection. A server that is away is none.
#[test]
fn a_wrong_name_or_quota_is_an_error_and_a_server_that_is_away_is_none() {
    let server = Server::new();
    let fleet = server.process();
    let refused = |name: &str, quota: &str| {
        let built = fleet.limit(name, quota.parse().unwrap()).build();
        match built.unwrap_err() {
            FleetError::Refused { name: of, why } if of == name => why,
            error => panic!("{error:?}"),
        }
    };
    assert!(refused("api.nothing", "4/day").contains("no limit of this name"));
    assert!(refused("users", "4/day").contains("such as api.user"));
    for wrong in ["5/day", "4/h", "4/day burst 5"] {
        assert!(
            refused("api.user", wrong).contains("the quota 4/day"),
            "{wrong}"
        );
    }
    let leased = fleet.limit("api.nothing", "1000/s".parse().unwrap());
    let leased = leased.leased(Overshoot::percent(50)).build();
    assert!(matches!(leased, Err(FleetError::Refused { .. })));

    let away = Fleet::server("http://127.0.0.1:1").unwrap().nodes(4);
    let away = away.open().unwrap();
    let limit = away
        .limit("api.nothing", "4/day".parse().unwrap())
        .build()
        .unwrap();
    assert!(limit.ask().block().unwrap().is_degraded(), "its share");
    assert!(limit.ask().block().unwrap_err().is_outage());
    for (url, hint) in [
        ("redis://a", "http://"),
        ("http://", "no address"),
        ("http://secret@a", ":TOKEN@HOST"),
        (":secret@a", "http"),
        ("http://a:99999", "from 1 to 65535"),
        ("http://:secret@a:0", "from 1 to 65535"),
        ("http://a:8081/path", "nothing follows"),
    ] {
        let error = Fleet::server(url).unwrap_err().to_string();
        assert!(error.contains(hint), "{url}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

/// After a reload, processes state the new quota one after the other.
#[test]
fn a_reload_accepts_the_quota_of_before_and_that_of_now() {
    let server = Server::new();
    let text = LIMITS.replace("quota: 4/day", "quota: 8/day");
    let config = Config::parse("new.yaml", &text).unwrap();
    let fleet = server.process();
    let user = user(&fleet);
    assert!(user.ask("alice").n(3).block().is_ok());
    server.running.reloader.reload(&config).unwrap();
    assert!(user.ask("alice").block().is_ok());
    assert!(user.ask("alice").block().is_err());
    user.set_quota("8/day".parse().unwrap()).unwrap();
    server.clock.advance(Duration::from_secs(1));
    assert!(
        user.ask("alice").n(4).block().is_ok(),
        "8 less the 4 that were taken"
    );
    let other = server.process();
    let refused = other.limit("api.user", "5/day".parse().unwrap()).build();
    assert!(refused.unwrap_err().to_string().contains("8/day"));
}

#[test]
fn a_server_whose_store_is_a_server_reloads() {
    let above = Server::new();
    let fleet = above.process();
    let below = limits(LIMITS, &fleet);
    let text = LIMITS.replace("name: users", "name: people");
    let config = |text: &str| Config::parse("new.yaml", text).unwrap();
    let below = below.reloaded(&config(&text)).unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let admits = |limits: &DecideLimits| {
        let status = runtime.block_on(limits.ask("people", b"alice", 4));
        !status.unwrap().is_over
    };
    assert!(admits(&below));
    assert_eq!(above.asks("users", "alice"), "429");
    // The quota changes above, and then below.
    let text = text.replace("quota: 4/day", "quota: 8/day");
    above.running.reloader.reload(&config(&text)).unwrap();
    let below = below.reloaded(&config(&text)).unwrap();
    assert!(admits(&below));
}

#[test]
fn a_server_that_has_forgotten_is_reminded() {
    let server = Server::new();
    let fleet = server.process();
    let user = user(&fleet);
    assert!(user.ask("alice").n(3).block().is_ok());
    server.store.forget();
    assert!(user.ask("alice").block().is_ok());
    assert_eq!(user.inspect().counts.healed_units, 3);
    assert!(user.ask("alice").block().is_err());
    assert_eq!(server.asks("users", "alice"), "429");
}

#[test]
fn limits_in_tables_cannot_be_leased() {
    let server = Running::new(LIMITS, |server| server);
    let reply = Client::new(server.grpc).call(flowgate_fleet::LEASE_METHOD, &[], b"");
    assert_eq!(reply.status, Some(9), "FAILED_PRECONDITION");
    assert!(reply.what.contains("--store local"), "{}", reply.what);
    let fleet = Fleet::server(&url(&server))
        .unwrap()
        .nodes(1)
        .open()
        .unwrap();
    until("it is connected", || is_down(&fleet));
}

#[test]
fn a_token_lets_in() {
    let server = Server::with(|server| server.secret("s/cret"));
    let address = server.running.grpc;
    let open = |url: String| Fleet::server(&url).unwrap().nodes(1).open().unwrap();
    for wrong in [
        format!("http://{address}"),
        format!("http://:other@{address}"),
    ] {
        let fleet = open(wrong);
        until("it is let in", || is_down(&fleet));
    }
    ready(&open(format!("http://:s%2Fcret@{address}")));
}

#[test]
fn a_wrong_token_is_told_once_with_what_to_write() {
    warnings::listen();
    let server = Server::with(|server| server.secret("s/cret"));
    let address = server.running.grpc;
    let fleet = Fleet::server(&format!("http://:other@{address}"));
    let fleet = fleet.unwrap().nodes(1).open().unwrap();
    let limit = fleet.keyed("api.user", "4/day".parse().unwrap());
    let limit = limit.when_cut_off(CutOff::Deny).build().unwrap();
    let told = || warnings::with(&format!("{address} "));
    until("it is told", || !told().is_empty());
    // It is an outage, and not a refusal.
    assert!(limit.ask("alice").block().unwrap_err().is_outage());
    let [line] = &told()[..] else {
        panic!("{:?}", told());
    };
    let what = "it asks for a token: write http://:TOKEN@HOST:PORT";
    assert!(line.contains(what) && !line.contains("other"), "{line}");
}

#[test]
fn a_wrong_token_is_told_also_if_the_server_was_away_before() {
    warnings::listen();
    let server = Server::with(|server| server.secret("s/cret"));
    let proxy = Proxy::to(server.running.grpc).unwrap();
    proxy.lose_answers(true);
    let address = proxy.address();
    let fleet = Fleet::server(&format!("http://:other@{address}"));
    let _fleet = fleet.unwrap().nodes(1).open().unwrap();
    let told = || warnings::with(&format!("{address} "));
    until("it is missed", || !told().is_empty());
    assert!(!told()[0].contains("token"), "{:?}", told());
    proxy.lose_answers(false);
    until("it is told", || told().len() == 2);
    assert!(told()[1].contains("it asks for a token"), "{:?}", told());
}

/// The reason is told to operators, so a server whose own store is away does not count as one that is there.
#[test]
fn a_server_whose_store_is_away_cuts_off_its_processes_until_it_is_back() {
    let server = Server::new();
    let fleet = server.process();
    let build = |key: &str| {
        let limit = fleet.keyed("api.user", "4/day".parse().unwrap());
        (
            limit.when_cut_off(CutOff::Deny).build().unwrap(),
            key.to_owned(),
        )
    };
    let (user, key) = build("alice");
    assert!(user.ask(&key).block().is_ok());
    server.store.stop();
    assert!(user.ask(&key).block().unwrap_err().is_outage());
    until("the process notices", || is_down(&fleet));
    server.store.start();
    ready(&fleet);
    until("the limit is asked again", || {
        user.ask(&key).block().is_ok()
    });
}

const NODES: u32 = 3;
const QUOTA: &str = "500/s burst 100";
const SHARED: &str = "{domain: api, descriptors: [{key: user, quota: 500/s burst 100}]}";
const SOME: usize = 50;

/// A server in real time, in place of one that has ended.
fn real(at: SocketAddr, store: &Fleet) -> Running {
    Running::at(at, DecideServer::new(limits(SHARED, store)))
}

fn local() -> Fleet {
    let store = LocalStore::new(flowgate::Clock::system()).align_to_wall();
    store.fleet().nodes(1).open().unwrap()
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn processes(url: &str) -> Vec<Fleet> {
    let open = |_| Fleet::server(url).unwrap().nodes(NODES).open().unwrap();
    (0..NODES).map(open).collect()
}

#[test]
fn c1_a_server_that_is_killed_and_comes_back_empty() {
    let mut server = Some(real(any_port(), &local()));
    let address = server.as_ref().unwrap().grpc;
    let fleets = processes(&format!("http://{address}"));
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Share(1, NODES), |ledger| {
        for _ in 0..3 {
            ledger.progress(SOME);
            drop(server.take());
            ledger.alone();
            server = Some(real(address, &local()));
        }
        ledger.progress(SOME);
    });
    ledger.check("a server killed three times, back empty", 3, |allowance| {
        ledger.shares(allowance, NODES)
    });
}

/// Runs the processes over a proxy to a server, while `during` makes it fail.
fn over_proxy(what: &str, during: impl FnOnce(&Ledger, &Proxy)) {
    let server = real(any_port(), &local());
    let proxy = Proxy::to(server.grpc).unwrap();
    let fleets = processes(&format!("http://{}", proxy.address()));
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Share(1, NODES), |ledger| {
        ledger.progress(SOME);
        during(ledger, &proxy);
        ledger.progress(SOME);
    });
    ledger.check(what, 0, |allowance| ledger.shares(allowance, NODES));
}

#[test]
fn c1_streams_that_end_in_the_middle() {
    over_proxy("streams cut ten times", |ledger, proxy| {
        for _ in 0..10 {
            proxy.cut();
            ledger.progress(5);
        }
    });
}

#[test]
fn c1_a_delay_and_losses_in_each_direction() {
    over_proxy("5 to 10 ms each way, then losses", |ledger, proxy| {
        proxy.delay(Duration::from_millis(5));
        ledger.progress(SOME);
        proxy.delay(Duration::ZERO);
        for lose in [Proxy::lose_calls, Proxy::lose_answers] {
            lose(proxy, true);
            ledger.alone();
            lose(proxy, false);
            ledger.progress(SOME);
        }
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_two_servers_on_one_store_and_a_process_at_the_store_itself() {
    let mut engine = Engine::start();
    let store = || {
        let fleet = Fleet::redis(&engine.url()).unwrap().nodes(NODES);
        fleet.open().unwrap()
    };
    let mut one = Some(real(any_port(), &store()));
    let other = real(any_port(), &store());
    let address = one.as_ref().unwrap().grpc;
    let fleets = [
        processes(&format!("http://{address}")).remove(0),
        processes(&url(&other)).remove(0),
        store(),
    ];
    let again = store();
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Share(1, NODES), |ledger| {
        ledger.progress(SOME);
        drop(one.take());
        ledger.alone();
        one = Some(real(address, &again));
        ready(&fleets[0]);
        ledger.progress(SOME);
        engine.kill();
        ledger.alone();
        engine.restart();
        fleets.iter().for_each(ready);
        ledger.progress(SOME);
    });
    let nodes = |at| {
        ledger
            .admissions()
            .iter()
            .filter(|one| one.node == at && !one.is_alone)
            .count()
    };
    assert!((0..3).all(|at| nodes(at) >= 1));
    ledger.check("two servers on a store that was killed", 1, |allowance| {
        ledger.shares(allowance, NODES)
    });
}

/// A call that is in flight when the server hangs may still be carried out, and no other.
#[test]
fn one_call_of_each_process_is_carried_out_after_a_hang() {
    let server = Server::new();
    let proxy = Proxy::to(server.running.grpc).unwrap();
    let open = || {
        let url = format!("http://{}", proxy.address());
        let fleet = Fleet::server(&url).unwrap().nodes(4).open().unwrap();
        ready(&fleet);
        fleet
    };
    let fleets = [open(), open(), open()];
    let limits = fleets.each_ref().map(|fleet| {
        let limit = fleet.limit("api.site_a", "1000/day burst 500".parse().unwrap());
        limit.when_cut_off(CutOff::Deny).build().unwrap()
    });
    proxy.lose_answers(true);
    for _ in 0..5 {
        for limit in &limits {
            assert!(limit.ask().block().unwrap_err().is_outage());
        }
    }
    proxy.lose_answers(false);
    fleets.iter().for_each(ready);
    let left = (0..500).filter(|_| limits[0].ask().block().is_ok()).count();
    assert!((497..500).contains(&left), "{left}");
}
