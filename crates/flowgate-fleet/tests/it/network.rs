//! What comes between the processes and the store: delays, lost messages, connections that end.

use crate::support::{Engine, Ledger, fleets};
use flowgate_fleet::CutOff;
use flowgate_testkit::proxy::Proxy;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const NODES: u32 = 3;
const QUOTA: &str = "500/s burst 100";
const SOME: usize = 50;

/// Runs the processes over a proxy, while `during` makes it fail.
fn over_proxy(what: &str, during: impl FnOnce(&Ledger, &Proxy)) {
    let engine = Engine::start();
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, engine.port()));
    let proxy = Proxy::to(server).unwrap();
    let fleets = fleets(&format!("redis://{}", proxy.address()), NODES);
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Share(1, NODES), |ledger| {
        ledger.progress(SOME);
        during(ledger, &proxy);
        ledger.progress(SOME);
    });
    ledger.check(what, 0, |allowance| ledger.shares(allowance, NODES));
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_delay_with_jitter() {
    over_proxy("5 to 10 ms each way", |ledger, proxy| {
        proxy.delay(Duration::from_millis(5));
        ledger.progress(SOME);
        proxy.delay(Duration::from_millis(0));
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_delay_that_is_longer_than_the_time_out() {
    over_proxy("200 to 400 ms each way", |ledger, proxy| {
        proxy.delay(Duration::from_millis(200));
        ledger.alone();
        proxy.delay(Duration::from_millis(0));
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_connections_that_end_in_the_middle() {
    over_proxy("connections cut ten times", |ledger, proxy| {
        for _ in 0..10 {
            proxy.cut();
            ledger.progress(5);
        }
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_loss_in_one_direction() {
    type Direction = fn(&Proxy, bool);
    let directions: [(&str, Direction); 2] = [
        ("calls are lost", Proxy::lose_calls),
        ("answers are lost", Proxy::lose_answers),
    ];
    for (what, lose) in directions {
        over_proxy(what, |ledger, proxy| {
            lose(proxy, true);
            ledger.alone();
            lose(proxy, false);
        });
    }
}
