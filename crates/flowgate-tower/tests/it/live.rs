//! Settings and quotas that change while the layer serves.

use crate::support::{call, done, field, from_tenant, get, poll};
use axum::Router;
use flowgate::{ConcurrencyLimit, Gate, Keyed, ManualClock, Quota, TokenBucket};
use flowgate_tower::{Exemptions, LimitLayer, WouldReject, by};
use http::{Request, StatusCode};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tower::{Layer, Service};

const SECOND: Duration = Duration::from_secs(1);

fn bucket(quota: &str, time: &ManualClock) -> Arc<TokenBucket> {
    let quota: Quota = quota.parse().expect("a quota");
    let bucket = TokenBucket::builder(quota).clock(time).build();
    Arc::new(bucket.expect("a bucket"))
}

/// Each change reaches services that were made before it.
#[test]
fn a_layer_is_turned_off_and_on_again() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(bucket("1/h", &time));
    let controls = layer.controls();
    let mut service = layer.layer(done());
    let mut statuses = |n: usize| -> Vec<u16> {
        (0..n)
            .map(|_| call(&mut service, get("/")).status().as_u16())
            .collect()
    };
    assert_eq!(statuses(2), [200, 429]);
    controls.set_enabled(false);
    assert_eq!(statuses(2), [200, 200]);
    controls.set_enabled(true);
    assert_eq!(statuses(1), [429]);
    let counts = layer.counts().get();
    assert_eq!((counts.admitted, counts.refused, counts.exempt), (1, 2, 2));

    // Built so, and without asking for a key.
    let limits = Keyed::token_bucket(Quota::per_hour(1)).capacity(10);
    let off = LimitLayer::keyed(limits.expect("a table"), by::header("x-tenant")).enabled(false);
    let mut service = off.layer(done());
    let answer = call(&mut service, get("/"));
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(field(&answer, "ratelimit"), "");
    off.controls().set_enabled(true);
    assert_eq!(
        call(&mut service, get("/")).status(),
        StatusCode::BAD_REQUEST
    );
}

#[test]
fn a_dry_run_begins_and_ends_while_serving() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(bucket("1/h", &time))
        .dry_run_header(http::HeaderName::from_static("x-would-reject"));
    let controls = layer.controls();
    let mut service = layer.layer(done());
    call(&mut service, get("/"));
    let would = call(&mut service, get("/"));
    assert_eq!(would.status(), StatusCode::OK);
    assert!(would.extensions().get::<WouldReject>().is_some());
    controls.set_dry_run(false);
    let refused = call(&mut service, get("/"));
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(!field(&refused, "ratelimit").is_empty());
    controls.set_dry_run(true);
    let would = call(&mut service, get("/"));
    assert_eq!(
        field(&would, "x-would-reject"),
        "over the limit `default`; retry after 3600 s"
    );
    let counts = layer.counts().get();
    assert_eq!((counts.refused, counts.would_refuse), (1, 2));
}

#[test]
fn waits_are_allowed_and_forbidden_while_serving() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(bucket("1/10s", &time));
    let controls = layer.controls();
    let mut service = layer.layer(done());
    call(&mut service, get("/"));
    assert_eq!(
        call(&mut service, get("/")).status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    controls.set_wait(Some(10 * SECOND));
    let mut waiting = Box::pin(service.call(get("/")));
    assert!(poll(waiting.as_mut()).is_pending());
    controls.set_wait(None);
    assert_eq!(
        call(&mut service, get("/")).status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    // The one that waits keeps its deadline.
    assert!(poll(waiting.as_mut()).is_pending());
    time.advance(10 * SECOND);
    assert!(poll(waiting.as_mut()).is_ready());
    // The longest time there is, is one, and not none.
    controls.set_wait(Some(Duration::MAX));
    assert!(controls.wait() > Some(Duration::from_secs(1 << 33)));
    let mut waiting = Box::pin(service.call(get("/")));
    assert!(poll(waiting.as_mut()).is_pending());
}

#[test]
fn exemptions_are_replaced_while_serving() {
    let layer = LimitLayer::new(ConcurrencyLimit::new(0)).exempt_paths(["/health"]);
    let controls = layer.controls();
    let mut service = layer.layer(done());
    let mut exempt = || {
        let mut far = get("/far");
        let peer: SocketAddr = "10.9.8.7:1".parse().expect("an address");
        far.extensions_mut().insert(peer);
        let mut internal = get("/internal");
        let one = "1".parse().expect("a value");
        internal.headers_mut().insert("x-internal", one);
        let requests = [get("/health"), get("/static/a.css"), far, internal];
        requests.map(|request| call(&mut service, request).status() == StatusCode::OK)
    };
    assert_eq!(exempt(), [true, false, false, false]);
    controls.set_exempt(Exemptions::new().paths(["/static/*"]));
    assert_eq!(exempt(), [true, true, false, false]);
    let others = Exemptions::new()
        .addresses(by::peer_address(), ["10.0.0.0/8".parse().expect("a range")])
        .when(|request| request.headers.contains_key("x-internal"));
    controls.set_exempt(others);
    assert_eq!(exempt(), [true, false, true, true]);
    controls.set_exempt(Exemptions::new());
    assert_eq!(exempt(), [true, false, false, false]);
}

/// An exemption may change the exemptions: no lock is held meanwhile.
#[test]
fn exemptions_may_be_changed_by_an_exemption() {
    let layer = LimitLayer::new(ConcurrencyLimit::new(0));
    let controls = layer.controls();
    let again = controls.clone();
    controls.set_exempt(Exemptions::new().when(move |_| {
        again.set_exempt(Exemptions::new());
        true
    }));
    let mut service = layer.layer(done());
    assert_eq!(call(&mut service, get("/")).status(), StatusCode::OK);
    assert_eq!(
        call(&mut service, get("/")).status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[test]
fn controls_are_those_of_a_layer_and_its_clones_and_not_of_one_made_from_it() {
    let layer = LimitLayer::new(ConcurrencyLimit::new(0));
    let controls = layer.controls();
    // Not yet shared: it is still the same.
    let layer = layer.name("all").wait(SECOND);
    assert_eq!(controls.wait(), Some(SECOND));
    let other = layer.clone().dry_run();
    assert!(!controls.is_dry_run());
    controls.set_enabled(false);
    assert!(!layer.clone().controls().is_enabled());
    assert!(other.controls().is_enabled());
    assert_eq!(other.controls().wait(), Some(SECOND));
}

#[test]
fn c8_a_quota_changes_at_the_limiter_while_the_layer_serves() {
    let time = ManualClock::new();
    let limiter = bucket("2/min", &time);
    let table = Keyed::token_bucket(Quota::per_minute(2)).clock(&time);
    let table = Arc::new(table.capacity(100).expect("a table"));
    let gate = Gate::builder()
        .limit("rate", bucket_of(Quota::per_minute(2), &time))
        .build();
    let gate = Arc::new(gate.expect("a gate"));
    let mut all = LimitLayer::new(Arc::clone(&limiter)).layer(done());
    let mut each = LimitLayer::keyed(Arc::clone(&table), by::header("x-tenant")).layer(done());
    let mut gated = LimitLayer::new(Arc::clone(&gate)).layer(done());
    let mut policies = |request: fn() -> Request<()>| {
        let answers = [
            call(&mut all, request()),
            call(&mut each, request()),
            call(&mut gated, request()),
        ];
        answers.map(|answer| field(&answer, "ratelimit-policy").to_owned())
    };
    let ask = || from_tenant("alice");
    assert_eq!(
        policies(ask),
        [
            "\"default\";q=2;w=60",
            "\"default\";q=2;w=60",
            "\"rate\";q=2;w=60"
        ]
    );
    let quota = Quota::per_minute(6);
    limiter.set_quota(quota).expect("a quota");
    table.set_quota(quota).expect("a quota");
    let changed = gate.configure("rate", |limiter: &TokenBucket| limiter.set_quota(quota));
    changed.expect("a limit").expect("a quota");
    assert_eq!(
        policies(ask),
        [
            "\"default\";q=6;w=60",
            "\"default\";q=6;w=60",
            "\"rate\";q=6;w=60"
        ]
    );
    // Two of six are taken; a token each 10 s from now on.
    time.advance(20 * SECOND);
    let mut admitted = |n: usize| {
        let is_ok = |_: &usize| call(&mut each, ask()).status() == StatusCode::OK;
        (0..n).filter(is_ok).count()
    };
    let available = usize::try_from(table.available("alice")).expect("few");
    assert_eq!(admitted(10), available);
    time.advance(20 * SECOND);
    assert_eq!(admitted(10), 2);
}

fn bucket_of(quota: Quota, time: &ManualClock) -> TokenBucket {
    let bucket = TokenBucket::builder(quota).clock(time).build();
    bucket.expect("a bucket")
}

/// A server that is reloaded: quota, exemptions and on and off, over sockets.
#[tokio::test]
async fn a_server_is_reloaded() {
    let time = ManualClock::new();
    let limiter = bucket("1/min", &time);
    let layer = LimitLayer::new(Arc::clone(&limiter));
    let controls = layer.controls();
    let app = Router::new()
        .route("/", axum::routing::get(async || "hello"))
        .layer(layer);
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    tokio::spawn(async { axum::serve(listener, app).await });
    let client = reqwest::Client::new();
    let status = async || {
        let answer = tokio::time::timeout(20 * SECOND, client.get(&url).send()).await;
        answer
            .expect("in 20 s")
            .expect("an answer")
            .status()
            .as_u16()
    };
    assert_eq!([status().await, status().await], [200, 429]);
    let quota = "1/s burst 1".parse().expect("a quota");
    limiter.set_quota(quota).expect("a quota");
    time.advance(SECOND);
    assert_eq!([status().await, status().await], [200, 429]);
    controls.set_exempt(Exemptions::new().paths(["/"]));
    assert_eq!(status().await, 200);
    controls.set_exempt(Exemptions::new());
    assert_eq!(status().await, 429);
    controls.set_enabled(false);
    assert_eq!(status().await, 200);
}
