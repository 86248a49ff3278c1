//! Keys with two quotas, and every other table of limits, behind the layers.

use crate::support::{call, done, field, from_tenant, poll};
use flowgate::{AnyKeyed, DualTokenBucket, Gate, Keyed, KeyedLimiterConfig, Limiter, ManualClock};
use flowgate_tower::client::ClientLayer;
use flowgate_tower::{LimitLayer, by};
use http::Request;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tower::{Layer, Service};

const SECOND: Duration = Duration::from_secs(1);
const DROPS: usize = 10_000;

fn users(quotas: &str, time: &ManualClock) -> Arc<Keyed<DualTokenBucket>> {
    let quotas = quotas.parse().expect("two quotas");
    let users = Keyed::dual_token_bucket(quotas).clock(time).capacity(1000);
    Arc::new(users.expect("a table"))
}

/// What is left of the second quota.
fn left_today(users: &Arc<Keyed<DualTokenBucket>>, user: &str) -> u64 {
    let states = users.key(user).quota_states().expect("two quotas");
    states[1].snapshot.remaining
}

fn to_example() -> Request<()> {
    let request = Request::get("http://example.org/").body(());
    request.expect("a request")
}

#[test]
fn c5_two_quotas_per_key_lose_no_token_to_10_000_dropped_waits() {
    let time = ManualClock::new();
    let users = users("10/s; 1000/day", &time);
    let layer = LimitLayer::keyed(Arc::clone(&users), by::header("x-tenant")).wait(60 * SECOND);
    let mut service = layer.layer(done());
    for _ in 0..10 {
        call(&mut service, from_tenant("ann"));
    }
    for _ in 0..DROPS {
        let wait = pin!(service.call(from_tenant("ann")));
        assert!(poll(wait).is_pending());
    }
    assert_eq!(left_today(&users, "ann"), 990);
    let counts = layer.counts().get();
    assert_eq!((counts.admitted, counts.abandoned), (10, DROPS as u64));
    // The rest of the day is all there.
    for _ in 0..990 {
        time.advance(SECOND / 9);
        assert_eq!(call(&mut service, from_tenant("ann")).status(), 200);
    }
}

/// A wait that has been served by another one, and is dropped before it knows.
#[test]
fn c5_two_quotas_per_key_get_back_what_was_granted_unseen() {
    let time = ManualClock::new();
    let users = users("10/s burst 1; 1000/day", &time);
    let layer = LimitLayer::keyed(Arc::clone(&users), by::header("x-tenant")).wait(60 * SECOND);
    let mut service = layer.layer(done());
    call(&mut service, from_tenant("ann"));
    let mut admitted = 1;
    for _ in 0..100 {
        let mut dropped = Box::pin(service.call(from_tenant("ann")));
        let mut stays = Box::pin(service.call(from_tenant("ann")));
        assert!(poll(dropped.as_mut()).is_pending() && poll(stays.as_mut()).is_pending());
        time.advance(SECOND / 9);
        // It serves the one before it, and waits on.
        assert!(poll(stays.as_mut()).is_pending());
        drop(dropped);
        // All comes back but the time of one rounding step.
        time.advance(SECOND / 90);
        match poll(stays.as_mut()) {
            Poll::Ready(answer) => {
                assert_eq!(answer.expect("an answer").status(), 200);
                admitted += 1;
            }
            Poll::Pending => panic!("what was granted unseen was lost"),
        }
    }
    // In 11 s, nothing of a day's tokens has flowed in again.
    assert_eq!(left_today(&users, "ann"), 1000 - admitted);
}

#[test]
fn c5_a_client_with_two_quotas_per_host_loses_no_token_to_10_000_dropped_waits() {
    let time = ManualClock::new();
    let hosts = users("10/s; 1000/day", &time);
    let mut client = ClientLayer::new(Arc::clone(&hosts)).layer(done());
    for _ in 0..10 {
        let sent = poll(pin!(client.call(to_example())));
        assert!(matches!(sent, Poll::Ready(Ok(_))));
    }
    for _ in 0..DROPS {
        assert!(poll(pin!(client.call(to_example()))).is_pending());
    }
    assert_eq!(left_today(&hosts, "example.org"), 990);
}

/// After a pause, requests go on at the rate of the faster quota, and not one each 86 s.
#[test]
fn a_client_with_two_quotas_goes_on_at_the_faster_rate() {
    let time = ManualClock::new();
    let hosts = users("10/s; 1000/day", &time);
    let answers = tower::service_fn(|request: Request<()>| async move {
        let is_first = request.uri().path() == "/first";
        let response = http::Response::builder().status(if is_first { 429 } else { 200 });
        let response = response.header("retry-after", "3");
        Ok::<_, std::convert::Infallible>(response.body(String::new()).expect("a response"))
    });
    let mut client = ClientLayer::new(hosts).layer(answers);
    let first = Request::get("http://example.org/first").body(());
    let first = poll(pin!(client.call(first.expect("a request"))));
    assert!(first.is_ready());
    let mut waits: Vec<_> = (0..5)
        .map(|_| Box::pin(client.call(to_example())))
        .collect();
    let mut sent_after = Vec::new();
    for _ in 0..36 {
        // One who looks may have others look again.
        for _ in 0..3 {
            waits.retain_mut(|wait| poll(wait.as_mut()).is_pending());
        }
        sent_after.push(5 - waits.len());
        time.advance(SECOND / 10);
    }
    assert_eq!(&sent_after[28..36], [0, 0, 1, 2, 3, 4, 5, 5]);
}

#[test]
fn c3_each_quota_of_a_key_has_fields_of_its_own_which_are_true() {
    let time = ManualClock::new();
    let users = users("10/s burst 5; 1440/day", &time);
    let layer = LimitLayer::keyed(users, by::header("x-tenant")).quota_names(["second", "day"]);
    let mut service = layer.layer(done());
    let mut ask = || call(&mut service, from_tenant("ann"));

    let first = ask();
    assert_eq!(
        field(&first, "ratelimit-policy"),
        "\"second\";q=10;w=1, \"day\";q=1440;w=86400"
    );
    assert_eq!(
        field(&first, "ratelimit"),
        "\"second\";r=4, \"day\";r=1439;t=61"
    );
    (0..4).for_each(|_| _ = ask());

    let refused = ask();
    assert_eq!(refused.status(), 429);
    let told = field(&refused, "ratelimit").to_owned();
    let (second, day) = told.split_once(", ").expect("two items");
    assert_eq!(day, "\"day\";r=1435;t=61");
    let told_us = second.strip_prefix("\"second\";r=0;t_us=").expect("a time");
    let told_us: u64 = told_us.parse().expect("a number");
    time.advance(Duration::from_micros(told_us - 1));
    assert_eq!(ask().status(), 429);
    time.advance(Duration::from_micros(1));
    assert_eq!(ask().status(), 200);
    assert!(crate::support::text(refused).starts_with("over the limit `second`;"));
}

/// The second quota is used up, and tells when there is more.
#[test]
fn c3_the_quota_that_takes_longer_is_named() {
    let time = ManualClock::new();
    let users = users("10/s; 12/h", &time);
    let layer = LimitLayer::keyed(users, by::header("x-tenant")).name("api");
    let mut service = layer.layer(done());
    let mut ask = || call(&mut service, from_tenant("ann"));
    (0..10).for_each(|_| _ = ask());
    time.advance(SECOND);
    (0..2).for_each(|_| _ = ask());
    let refused = ask();
    let of_hour = field(&refused, "ratelimit").split(", ").nth(1);
    let of_hour = of_hour.and_then(|item| item.strip_prefix("\"api-2\";r=0;t=300;t_us="));
    let told_us: u64 = of_hour.expect("a time").parse().expect("a number");
    assert_eq!(field(&refused, "retry-after"), "300");
    time.advance(Duration::from_micros(told_us - 1));
    assert_eq!(ask().status(), 429);
    time.advance(Duration::from_micros(1));
    assert_eq!(ask().status(), 200);
    assert!(crate::support::text(refused).starts_with("over the limit `api-2`; "));
}

/// For all requests, and in a gate beside other limits.
#[test]
fn two_quotas_for_all_have_fields_of_their_own_too() {
    let time = ManualClock::new();
    let bucket = || {
        let quotas = "10/s burst 1; 1440/day".parse().expect("two quotas");
        let bucket = DualTokenBucket::builder(quotas).clock(&time).build();
        bucket.expect("a bucket")
    };
    let mut service = LimitLayer::new(bucket()).layer(done());
    let admitted = call(&mut service, from_tenant(""));
    let fields = "\"default-1\";r=0;t_us=100000, \"default-2\";r=1439;t=60";
    assert_eq!(field(&admitted, "ratelimit"), fields);
    let refused = call(&mut service, from_tenant(""));
    assert_eq!(field(&refused, "ratelimit"), fields);
    assert!(crate::support::text(refused).starts_with("over the limit `default-1`; "));

    let gate = Gate::builder().limit("api", bucket()).build();
    let mut service = LimitLayer::new(gate.expect("a gate")).layer(done());
    let admitted = call(&mut service, from_tenant(""));
    let fields = "\"api-1\";r=0;t_us=100000, \"api-2\";r=1439;t=60";
    assert_eq!(field(&admitted, "ratelimit"), fields);

    // One quota is one quota.
    let one = DualTokenBucket::builder("10/s burst 1".parse().expect("a quota"));
    let one = one.clock(&time).build().expect("a bucket");
    let admitted = call(&mut LimitLayer::new(one).layer(done()), from_tenant(""));
    assert_eq!(field(&admitted, "ratelimit"), "\"default\";r=0;t_us=100000");
}

#[test]
fn every_table_that_a_configuration_can_name_is_a_limit() {
    for (text, admits, policy) in [
        ("keyed token 60/min burst 3", 3, "\"default\";q=3;w=3"),
        ("keyed leaky 1/min", 1, "\"default\";q=1;w=60"),
        ("keyed fixed 4/min", 4, "\"default\";q=4;w=60"),
        ("keyed segmented 4/min", 4, "\"default\";q=4;w=60"),
        (
            "keyed token 60/min burst 5; 6/h",
            5,
            "\"default-1\";q=5;w=5, \"default-2\";q=6;w=3600",
        ),
    ] {
        let time = ManualClock::new();
        let config: KeyedLimiterConfig = text.parse().expect("a configuration");
        let limits: AnyKeyed = config.build_on(&time, 100).expect("a table");
        let mut service = LimitLayer::keyed(limits.clone(), by::header("x-tenant")).layer(done());
        for tenant in ["ann", "bob"] {
            let answers: Vec<_> = (0..10)
                .map(|_| call(&mut service, from_tenant(tenant)))
                .collect();
            let admitted = answers.iter().filter(|answer| answer.status() == 200);
            assert_eq!(admitted.count(), admits, "{text}");
            assert_eq!(field(&answers[0], "ratelimit-policy"), policy, "{text}");
        }
        // What a request of a client takes is taken of the same limit.
        let mut client = ClientLayer::new(limits.clone()).layer(done());
        assert!(poll(pin!(client.call(to_example()))).is_ready());
        assert_eq!(
            limits.key("example.org").available(),
            limits.key("cat").available() - 1,
            "{text}"
        );
    }
}
