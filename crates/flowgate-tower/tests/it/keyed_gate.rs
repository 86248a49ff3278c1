//! A turn of the key and a slot that all share, or neither.

use crate::support::{call, done, field, from_tenant, poll, text};
use flowgate::{ConcurrencyLimit, Gate, Keyed, KeyedGate, LeakyBucket, ManualClock, TokenBucket};
use flowgate_tower::client::ClientLayer;
use flowgate_tower::{LimitLayer, by};
use http::Request;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tower::{Layer, Service};

const SECOND: Duration = Duration::from_secs(1);

/// `quota` for each tenant, and 2 at a time for all together.
fn gate(quota: &str, time: &ManualClock) -> Arc<KeyedGate<TokenBucket>> {
    let tenants = Keyed::token_bucket(quota.parse().expect("a quota"));
    let slots = ConcurrencyLimit::builder(2).clock(time).build();
    let gate = Gate::builder()
        .limit("slots", slots.expect("a limit"))
        .keyed(
            "tenant",
            tenants.clock(time).capacity(100).expect("a table"),
        )
        .build();
    Arc::new(gate.expect("a gate"))
}

fn in_flight(gate: &KeyedGate<TokenBucket>) -> Option<u64> {
    gate.shared()
        .inspect("slots", |slots: &ConcurrencyLimit| slots.in_flight())
}

#[test]
fn c1_the_slot_is_held_as_long_as_the_body_and_the_turn_stays_used() {
    let time = ManualClock::new();
    let gate = gate("3/h", &time);
    let layer = LimitLayer::keyed(Arc::clone(&gate), by::header("x-tenant"));
    let mut service = layer.layer(done());
    let first = call(&mut service, from_tenant("ann"));
    let second = call(&mut service, from_tenant("bob"));
    assert_eq!(
        field(&second, "ratelimit"),
        "\"slots\";r=0, \"tenant\";r=2;t=1200"
    );

    // The slots are what all share, and nothing is taken of the key.
    let busy = call(&mut service, from_tenant("ann"));
    assert_eq!(busy.status(), 503);
    assert_eq!(text(busy), "all permits of the limit `slots` are in use\n");
    assert_eq!(gate.keys().available("ann"), 2);

    drop(second);
    assert_eq!(in_flight(&gate), Some(1));
    assert_eq!(text(first), "done");
    assert_eq!(in_flight(&gate), Some(0));

    // The key is the client's own, and no slot is taken.
    (0..2).for_each(|_| _ = call(&mut service, from_tenant("ann")));
    let refused = call(&mut service, from_tenant("ann"));
    assert_eq!(
        (refused.status().as_u16(), field(&refused, "retry-after")),
        (429, "1200")
    );
    assert_eq!(
        text(refused),
        "over the limit `tenant`; retry after 1200 s\n"
    );
    assert_eq!(in_flight(&gate), Some(0));
}

#[test]
fn c6_a_request_waits_for_the_turn_and_the_slot_and_takes_both_at_one_instant() {
    let time = ManualClock::new();
    let gate = gate("1/s burst 1", &time);
    let layer = LimitLayer::keyed(Arc::clone(&gate), by::header("x-tenant")).wait(10 * SECOND);
    let mut service = layer.layer(done());
    let ann = call(&mut service, from_tenant("ann"));
    let bob = call(&mut service, from_tenant("bob"));

    let mut waits = pin!(service.call(from_tenant("ann")));
    assert!(poll(waits.as_mut()).is_pending());
    time.advance(5 * SECOND);
    assert!(poll(waits.as_mut()).is_pending(), "there is no slot");
    assert_eq!(gate.keys().available("ann"), 1, "its turn is not taken yet");
    drop(ann);
    let Poll::Ready(Ok(ann)) = poll(waits.as_mut()) else {
        panic!("there is a slot");
    };
    assert_eq!(ann.status(), 200);
    // The next turn is counted from now.
    assert_eq!(gate.keys().available("ann"), 0);
    time.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(gate.keys().available("ann"), 0);
    drop(bob);
}

#[test]
fn c5_a_dropped_wait_for_a_turn_and_a_slot_costs_neither() {
    let time = ManualClock::new();
    let gate = gate("1000/day", &time);
    let layer = LimitLayer::keyed(Arc::clone(&gate), by::header("x-tenant")).wait(10 * SECOND);
    let mut service = layer.layer(done());
    let held = [(); 2].map(|()| call(&mut service, from_tenant("ann")));
    for _ in 0..10_000 {
        assert!(poll(pin!(service.call(from_tenant("ann")))).is_pending());
    }
    drop(held);
    assert_eq!(
        (gate.keys().available("ann"), in_flight(&gate)),
        (998, Some(0))
    );
}

#[test]
fn what_a_gate_of_keys_took_is_settled_by_all_its_limits() {
    let time = ManualClock::new();
    let tenants = Keyed::token_bucket("100/h".parse().expect("a quota"));
    let all = TokenBucket::builder("1000/h".parse().expect("a quota"));
    let gate = Gate::builder()
        .limit("all", all.clock(&time).build().expect("a bucket"))
        .keyed(
            "tenant",
            tenants.clock(&time).capacity(100).expect("a table"),
        )
        .build();
    let gate = Arc::new(gate.expect("a gate"));
    let layer = LimitLayer::keyed(Arc::clone(&gate), by::header("x-tenant"));
    let mut service = layer.cost(|_| 5).settle(|_, _| 2).layer(done());
    call(&mut service, from_tenant("ann"));
    let left = gate.shared().inspect_limiter("all", |all| all.available());
    assert_eq!((left, gate.keys().available("ann")), (Some(998), 98));
}

/// A crawler: one request to each host in 2 s, and 2 in flight.
#[test]
fn a_client_takes_the_turn_of_a_host_and_a_slot_together() {
    let time = ManualClock::new();
    let hosts = Keyed::<LeakyBucket>::leaky_bucket("1/2s".parse().expect("a quota"));
    let slots = ConcurrencyLimit::builder(2).clock(&time).build();
    let gate = Gate::builder()
        .limit("slots", slots.expect("a limit"))
        .keyed("host", hosts.clock(&time).capacity(100).expect("a table"))
        .build();
    let mut client = ClientLayer::new(gate.expect("a gate")).layer(done());
    let to = |host: &str| {
        let request = Request::get(format!("http://{host}/")).body(());
        request.expect("a request")
    };
    let Poll::Ready(Ok(a)) = poll(pin!(client.call(to("a.example")))) else {
        panic!("there is room");
    };
    let Poll::Ready(Ok(b)) = poll(pin!(client.call(to("b.example")))) else {
        panic!("there is room");
    };
    let mut waits = pin!(client.call(to("a.example")));
    assert!(poll(waits.as_mut()).is_pending());
    time.advance(3 * SECOND);
    assert!(poll(waits.as_mut()).is_pending(), "both are in flight");
    drop(b);
    assert!(poll(waits.as_mut()).is_ready());
    drop(a);
}
