//! What is said about a store whose settings let a limit forget.

use crate::support::warnings::{self, listen};
use crate::support::{Engine, free_port, until};
use flowgate_fleet::Fleet;
use std::time::Duration;

/// Returns the lines about the server of this port.
fn lines_of(engine: &Engine) -> Vec<String> {
    warnings::with(&format!("127.0.0.1:{} ", engine.port()))
}

fn warnings_with(word: &str) -> usize {
    warnings::with(word).len()
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn one_warning_is_given_for_each_dangerous_setting_and_each_limit_that_lasts() {
    listen();
    // No other test has this policy.
    let settings = ["--maxmemory-policy", "volatile-ttl", "--maxmemory", "100mb"];
    let engine = Engine::start_with(&settings);
    let fleet = Fleet::redis(&engine.url())
        .unwrap()
        .nodes(2)
        .open()
        .unwrap();
    let _early = fleet
        .limit("early limit", "3/day".parse().unwrap())
        .build()
        .unwrap();
    until("no warning of an eviction", || {
        warnings_with("volatile-ttl") > 0
    });
    until("no warning of a limit", || warnings_with("early limit") > 0);
    let _late = fleet
        .limit("late limit", "3/day".parse().unwrap())
        .build()
        .unwrap();
    let _short = fleet
        .limit("short limit", "3/min".parse().unwrap())
        .build()
        .unwrap();
    let counts = ["volatile-ttl", "early limit", "late limit", "short limit"].map(warnings_with);
    assert_eq!(counts, [1, 1, 1, 0]);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_wrong_password_and_a_replica_are_told_once_with_what_to_type() {
    listen();
    let engine = Engine::start();
    let replica = Engine::start();
    engine
        .command::<()>("CONFIG SET requirepass sesame")
        .unwrap();
    replica
        .command::<()>(&format!("REPLICAOF 127.0.0.1 {}", free_port()))
        .unwrap();
    let with = |password: &str| engine.url().replace("//", &format!("//{password}"));
    for (url, engine, hint) in [
        (
            engine.url(),
            &engine,
            "write redis://USER:PASSWORD@HOST:PORT",
        ),
        (
            with(":wrong@"),
            &engine,
            "check redis://USER:PASSWORD@HOST:PORT",
        ),
        (replica.url(), &replica, "give the address of the primary"),
    ] {
        let told = || {
            let lines = lines_of(engine);
            lines.iter().filter(|line| line.contains(hint)).count()
        };
        let fleet = Fleet::redis(&url).unwrap().nodes(2).open().unwrap();
        let limit = fleet
            .limit("api", "4/day".parse().unwrap())
            .build()
            .unwrap();
        until("no line", || told() > 0);
        // It is no refusal, and open no further than its share.
        let answers = [0; 3].map(|_| limit.ask().block());
        assert!(
            answers[1]
                .as_ref()
                .is_ok_and(|admitted| admitted.is_degraded())
        );
        assert!(answers[2].as_ref().is_err_and(flowgate::Denied::is_outage));
        // Several attempts later.
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(told(), 1, "{:?}", lines_of(engine));
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_store_that_was_down_and_asks_for_a_password_then_is_told_of_too() {
    listen();
    let mut engine = Engine::start();
    engine.kill();
    let fleet = Fleet::redis(&engine.url())
        .unwrap()
        .nodes(2)
        .open()
        .unwrap();
    until("no line", || !lines_of(&engine).is_empty());
    engine.restart();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(fleet.ready());
    engine
        .command::<()>("CONFIG SET requirepass sesame")
        .unwrap();
    let clients = "CLIENT KILL TYPE normal";
    let mut connection = redis::Client::open(engine.url().replace("//", "//:sesame@")).unwrap();
    let mut kill = redis::cmd("CLIENT");
    clients
        .split(' ')
        .skip(1)
        .for_each(|word| _ = kill.arg(word));
    let _: redis::RedisResult<()> = kill.query(&mut connection);
    let asks = || {
        lines_of(&engine)
            .iter()
            .any(|line| line.contains("it asks for a password"))
    };
    until("no line about the password", asks);
}
