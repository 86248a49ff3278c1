//! What comes between the processes and the store: delays, lost messages, connections that end.

use crate::support::{Engine, Ledger, Proxy, fleets};
use flowgate_fleet::CutOff;
use std::sync::atomic::{AtomicBool, Ordering};

const NODES: u32 = 3;
const QUOTA: &str = "500/s burst 100";
const SOME: usize = 50;

/// Runs the processes over a proxy, while `during` makes it fail.
fn over_proxy(what: &str, during: impl FnOnce(&Ledger, &Proxy)) {
    let engine = Engine::start();
    let proxy = Proxy::to(engine.port());
    let fleets = fleets(&proxy.url(), NODES);
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
        proxy.faults().delay_ms.store(5, Ordering::Relaxed);
        ledger.progress(SOME);
        proxy.faults().delay_ms.store(0, Ordering::Relaxed);
    });
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_a_delay_that_is_longer_than_the_time_out() {
    over_proxy("200 to 400 ms each way", |ledger, proxy| {
        proxy.faults().delay_ms.store(200, Ordering::Relaxed);
        ledger.alone();
        proxy.faults().delay_ms.store(0, Ordering::Relaxed);
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
    type Direction = fn(&Proxy) -> &AtomicBool;
    let calls: Direction = |proxy| &proxy.faults().loses_calls;
    let answers: Direction = |proxy| &proxy.faults().loses_answers;
    for (what, direction) in [("calls are lost", calls), ("answers are lost", answers)] {
        over_proxy(what, |ledger, proxy| {
            direction(proxy).store(true, Ordering::Relaxed);
            ledger.alone();
            direction(proxy).store(false, Ordering::Relaxed);
        });
    }
}
