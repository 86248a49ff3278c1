//! What the layer does with requests, on a clock that stands still.

use crate::support::{call, done, field, from_tenant, get, poll, text};
use bytes::Bytes;
use flowgate::{
    ConcurrencyLimit, FixedWindow, Gate, Keyed, KeyedConcurrencyLimit, LeakyBucket, Limiter,
    ManualClock, Observed, Quota, SlidingWindow, TokenBucket, Unlimited, WarmUp,
};
use flowgate_tower::by::{self, NoKey};
use flowgate_tower::{
    AnyLimit, Headers, LimitLayer, Limited, Missing, Outcome, Reset, WouldReject,
};
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::Full;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;
use tower::{Layer, Service};

const SECOND: Duration = Duration::from_secs(1);

fn bucket(quota: &str, time: &ManualClock) -> TokenBucket {
    let quota = quota.parse().expect("a quota");
    TokenBucket::builder(quota)
        .clock(time)
        .build()
        .expect("a bucket")
}

fn per_tenant(quota: &str, time: &ManualClock) -> Keyed<TokenBucket> {
    let quota = quota.parse().expect("a quota");
    Keyed::token_bucket(quota)
        .clock(time)
        .capacity(1000)
        .expect("a table")
}

#[test]
fn who_asks_too_often_is_told_when_to_come_back() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(bucket("2/10s", &time));
    let mut service = layer.layer(done());
    for _ in 0..2 {
        let answer = call(&mut service, get("/a"));
        assert_eq!(
            (answer.status(), field(&answer, "x-path")),
            (StatusCode::OK, "/a")
        );
        assert_eq!(text(answer), "done");
    }
    time.advance(Duration::from_millis(700));
    let answer = call(&mut service, get("/a"));
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&answer, "retry-after"), "5"); // 4.3 s
    assert_eq!(field(&answer, "ratelimit-policy"), "\"default\";q=2;w=10");
    assert_eq!(
        field(&answer, "ratelimit"),
        "\"default\";r=0;t=5;t_us=4300000"
    );
    assert_eq!(field(&answer, "content-type"), "text/plain; charset=utf-8");
    assert_eq!(text(answer), "over the limit `default`; retry after 5 s\n");
    time.advance(5 * SECOND);
    assert_eq!(call(&mut service, get("/a")).status(), StatusCode::OK);

    let counts = layer.counts().get();
    assert_eq!((counts.admitted, counts.refused, counts.waited), (3, 1, 0));
}

#[test]
fn any_limit_will_do() {
    let shared: Arc<dyn Limiter> = Arc::new(Unlimited::new());
    let quota = || Quota::per_hour(1);
    let limits: Vec<(AnyLimit, &str)> = vec![
        (TokenBucket::new(quota()).into(), "\"default\";q=1;w=3600"),
        (
            Arc::new(TokenBucket::new(quota())).into(),
            "\"default\";q=1;w=3600",
        ),
        (LeakyBucket::new(quota()).into(), "\"default\";q=1;w=3600"),
        (
            FixedWindow::new(quota()).expect("a window").into(),
            "\"default\";q=1;w=3600",
        ),
        (
            SlidingWindow::new(quota()).expect("a window").into(),
            "\"default\";q=1;w=3600",
        ),
        (
            Observed::new(TokenBucket::new(quota())).into(),
            "\"default\";q=1;w=3600",
        ),
        (shared.into(), "\"default\";q=999999999999999"),
        (
            ConcurrencyLimit::new(1).into(),
            "\"default\";q=1;qu=\"concurrent-requests\"",
        ),
    ];
    for (limit, policy) in limits {
        let mut service = LimitLayer::new(limit.clone()).layer(done());
        let answer = call(&mut service, get("/"));
        assert_eq!(answer.status(), StatusCode::OK, "{limit:?}");
        assert_eq!(field(&answer, "ratelimit-policy"), policy, "{limit:?}");
        // The first answer's body is still there, so its slot is in use.
        let expected = match &limit {
            AnyLimit::Concurrency(_) => StatusCode::SERVICE_UNAVAILABLE,
            _ if policy.contains("w=") => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::OK,
        };
        assert_eq!(call(&mut service, get("/")).status(), expected, "{limit:?}");
        drop(answer);
    }
    let warm_up = WarmUp::new(Quota::per_second(10), SECOND).expect("it warms up");
    let mut service = LimitLayer::new(warm_up).layer(done());
    assert_eq!(call(&mut service, get("/")).status(), StatusCode::OK);
}

#[test]
fn a_gate_tells_of_each_of_its_limits_and_which_refused() {
    let time = ManualClock::new();
    let slots = ConcurrencyLimit::builder(5)
        .clock(&time)
        .build()
        .expect("a limit");
    let gate = Gate::builder()
        .limit("per \"second\"", bucket("2/s", &time))
        .limit("per day", bucket("100/day", &time))
        .limit("at once", slots)
        .build()
        .expect("a gate");
    let mut service = LimitLayer::new(gate).layer(done());
    let first = call(&mut service, get("/"));
    assert_eq!(
        field(&first, "ratelimit-policy"),
        r#""per \"second\"";q=2;w=1, "per day";q=100;w=86400, "at once";q=5;qu="concurrent-requests""#
    );
    assert_eq!(
        field(&first, "ratelimit"),
        r#""per \"second\"";r=1, "per day";r=99;t=864, "at once";r=4"#
    );
    let second = call(&mut service, get("/"));
    let refused = call(&mut service, get("/"));
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        text(refused),
        "over the limit `per \"second\"`; retry after 1 s\n"
    );
    time.advance(10 * SECOND);
    let others: Vec<_> = (0..2).map(|_| call(&mut service, get("/"))).collect();
    time.advance(10 * SECOND);
    let fifth = call(&mut service, get("/"));
    let busy = call(&mut service, get("/"));
    assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(field(&busy, "retry-after"), "");
    assert_eq!(
        text(busy),
        "all permits of the limit `at once` are in use\n"
    );
    drop((first, second, others, fifth));
    assert_eq!(call(&mut service, get("/")).status(), StatusCode::OK);
}

#[test]
fn c7_each_tenant_has_a_limit_of_its_own_and_a_quota_if_it_is_given_one() {
    let time = ManualClock::new();
    let table = Arc::new(per_tenant("2/min", &time));
    let layer = LimitLayer::keyed(Arc::clone(&table), by::header("x-tenant")).quota_of(
        |request, tenant| match (request.uri.path(), &**tenant) {
            (_, "gold") => Some(Quota::per_minute(3)),
            ("/export", _) => Some(Quota::per_minute(1)),
            _ => None,
        },
    );
    let mut service = layer.layer(done());
    let mut admitted = |tenant: &str| {
        let is_ok = |_: &i32| call(&mut service, from_tenant(tenant)).status() == StatusCode::OK;
        (0..5).filter(is_ok).count()
    };
    assert_eq!(
        (admitted("alice"), admitted("bob"), admitted("gold")),
        (2, 2, 3)
    );
    assert_eq!(table.available("alice"), 0);
    table.reset("alice");
    assert_eq!(admitted("alice"), 2);

    let mut request = from_tenant("carol");
    *request.uri_mut() = "/export".parse().expect("a path");
    let answer = call(&mut service, request);
    assert_eq!(field(&answer, "ratelimit-policy"), "\"default\";q=1;w=60");
}

#[test]
fn a_quota_that_cannot_be_kept_is_the_servers_fault() {
    let table = Keyed::fixed_window(Quota::per_minute(5))
        .capacity(100)
        .expect("a table");
    let mut service = LimitLayer::keyed(table, by::path())
        .quota_of(|_, _| Some(Quota::per_second(1).burst(5)))
        .layer(done());
    let answer = call(&mut service, get("/"));
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[test]
fn without_a_key_a_request_is_rejected_or_shares_a_limit_or_is_exempt() {
    let time = ManualClock::new();
    let layer = || LimitLayer::keyed(per_tenant("5/min", &time), by::header("x-tenant"));
    let long = "x".repeat(1025);
    let bad: Vec<Box<dyn Fn() -> Request<()>>> = vec![
        Box::new(|| get("/")),
        Box::new(|| from_tenant("")),
        Box::new(|| from_tenant("gr\u{fc}n")),
        Box::new(|| from_tenant(&long)),
        Box::new(|| {
            let mut request = from_tenant("alice");
            request
                .headers_mut()
                .append("x-tenant", "bob".parse().expect("a value"));
            request
        }),
    ];
    for request in &bad {
        let rejecting = layer();
        let answer = call(&mut rejecting.layer(done()), request());
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        let counts = rejecting.counts().get();
        assert_eq!((counts.refused, counts.without_key), (1, 1));
    }

    let shared = bucket("2/min", &time);
    let sharing = layer().missing(Missing::Share(shared.into()));
    let mut service = sharing.layer(done());
    let statuses: Vec<_> = bad
        .iter()
        .map(|request| call(&mut service, request()).status())
        .collect();
    assert_eq!(statuses[..2], [StatusCode::OK; 2]);
    assert_eq!(statuses[2..], [StatusCode::TOO_MANY_REQUESTS; 3]);
    assert_eq!(
        call(&mut service, from_tenant("alice")).status(),
        StatusCode::OK
    );

    let exempting = layer().missing(Missing::Exempt);
    let mut service = exempting.layer(done());
    for request in &bad {
        assert_eq!(call(&mut service, request()).status(), StatusCode::OK);
    }
    assert_eq!(exempting.counts().get().exempt, bad.len() as u64);
}

#[test]
fn a_peer_that_the_server_does_not_tell_is_the_servers_fault() {
    let time = ManualClock::new();
    let layer = LimitLayer::keyed(per_tenant("5/min", &time), by::peer_address()).on_rejected(
        |rejection| {
            assert_eq!(rejection.no_key(), Some(NoKey::NoPeerAddress));
            let mut response = rejection.response();
            response
                .headers_mut()
                .insert("x-own", "1".parse().expect("a value"));
            response
        },
    );
    let mut service = layer.layer(done());
    let answer = call(&mut service, get("/"));
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(field(&answer, "x-own"), "1");

    let mut request = get("/");
    let peer: SocketAddr = "192.0.2.7:1".parse().expect("an address");
    request.extensions_mut().insert(peer);
    assert_eq!(call(&mut service, request).status(), StatusCode::OK);
}

#[test]
fn some_are_exempt() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(bucket("1/h", &time))
        .exempt(|request| request.headers.contains_key("x-internal"))
        .exempt_paths(["/health", "/static/*"])
        .exempt_addresses(by::peer_address(), ["10.0.0.0/8".parse().expect("a range")]);
    let mut service = layer.layer(done());
    assert_eq!(call(&mut service, get("/")).status(), StatusCode::OK);
    let mut internal = get("/");
    internal
        .headers_mut()
        .insert("x-internal", "1".parse().expect("a value"));
    let mut near = get("/");
    let peer: SocketAddr = "10.9.8.7:1".parse().expect("an address");
    near.extensions_mut().insert(peer);
    let mut far = get("/");
    let peer: SocketAddr = "11.9.8.7:1".parse().expect("an address");
    far.extensions_mut().insert(peer);
    let table = [
        (get("/health"), StatusCode::OK),
        (get("/health?x=1"), StatusCode::OK),
        (get("/static/a/b.css"), StatusCode::OK),
        (get("/static/"), StatusCode::OK),
        (internal, StatusCode::OK),
        (near, StatusCode::OK),
        (far, StatusCode::TOO_MANY_REQUESTS),
        (get("/health/"), StatusCode::TOO_MANY_REQUESTS),
        (get("/healthy"), StatusCode::TOO_MANY_REQUESTS),
        (get("/static"), StatusCode::TOO_MANY_REQUESTS),
        (get("/staticky"), StatusCode::TOO_MANY_REQUESTS),
    ];
    for (request, expected) in table {
        let uri = request.uri().clone();
        let answer = call(&mut service, request);
        assert_eq!(answer.status(), expected, "{uri}");
        let has_fields = answer.headers().contains_key("ratelimit");
        assert_eq!(has_fields, expected != StatusCode::OK, "{uri}");
    }
    let counts = layer.counts().get();
    assert_eq!((counts.admitted, counts.exempt, counts.refused), (1, 6, 5));
}

#[test]
fn a_dry_run_counts_and_annotates_and_refuses_nobody() {
    let time = ManualClock::new();
    let dry = LimitLayer::new(bucket("2/min", &time))
        .dry_run_header(HeaderName::from_static("x-would-reject"))
        .dry_run();
    let mut service = dry.layer(done());
    for _ in 0..2 {
        let answer = call(&mut service, get("/"));
        assert_eq!(answer.extensions().get::<WouldReject>(), None);
        assert_eq!(field(&answer, "ratelimit"), "");
    }
    let answer = call(&mut service, get("/"));
    assert_eq!(answer.status(), StatusCode::OK);
    let would = answer
        .extensions()
        .get::<WouldReject>()
        .expect("an annotation");
    assert_eq!(would.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(would.retry_after, Some(30 * SECOND));
    assert_eq!(
        field(&answer, "x-would-reject"),
        "over the limit `default`; retry after 30 s"
    );
    assert_eq!(text(answer), "done");
    let counts = dry.counts().get();
    assert_eq!(
        (counts.admitted, counts.would_refuse, counts.refused),
        (2, 1, 0)
    );

    // A request without a key would be rejected, too.
    let keyed = LimitLayer::keyed(per_tenant("2/min", &time), by::header("x-tenant")).dry_run();
    assert_eq!(
        call(&mut keyed.layer(done()), get("/")).status(),
        StatusCode::OK
    );
    assert_eq!(keyed.counts().get().would_refuse, 1);

    // What would have waited is not delayed.
    let waiting = LimitLayer::new(bucket("1/min", &time))
        .wait(60 * SECOND)
        .dry_run();
    let mut service = waiting.layer(done());
    for _ in 0..2 {
        let answer = call(&mut service, get("/"));
        assert!(answer.extensions().get::<WouldReject>().is_none());
    }
    assert_eq!(waiting.counts().get().would_refuse, 0);
}

#[test]
fn a_request_costs_what_it_says_and_is_settled_when_it_is_over() {
    #[derive(Clone)]
    struct Cost(u64);

    let time = ManualClock::new();
    let limiter = Arc::new(bucket("1/s burst 100", &time));
    let layer = LimitLayer::new(Arc::clone(&limiter))
        .cost(|request| request.uri.path().len() as u64 - 1)
        .settle_by_response(|taken, head| head.extensions.get().map_or(taken, |Cost(cost)| *cost));
    let real = Arc::new(AtomicU64::new(u64::MAX));
    let inner = tower::service_fn({
        let real = Arc::clone(&real);
        move |_: Request<()>| {
            let mut response = Response::new(Full::<Bytes>::default());
            match real.load(Ordering::Relaxed) {
                u64::MAX => {}
                cost => _ = response.extensions_mut().insert(Cost(cost)),
            }
            std::future::ready(Ok::<_, Infallible>(response))
        }
    });
    let mut service = layer.layer(inner);
    call(&mut service, get("/12345"));
    assert_eq!(limiter.available(), 95);
    real.store(2, Ordering::Relaxed);
    call(&mut service, get("/12345"));
    assert_eq!(limiter.available(), 93);
    real.store(13, Ordering::Relaxed);
    let answer = call(&mut service, get("/123"));
    assert_eq!(limiter.available(), 80);
    assert_eq!(field(&answer, "ratelimit"), "\"default\";r=80");
    // A debt, which the next one pays.
    real.store(90, Ordering::Relaxed);
    call(&mut service, get("/"));
    assert_eq!(
        limiter.try_acquire().unwrap_err().retry_after(),
        Some(11 * SECOND)
    );
    let free = call(&mut service, get("/"));
    assert_eq!(free.status(), StatusCode::OK);
    // More than there ever is: not to be retried.
    let long = format!("/{}", "x".repeat(101));
    let answer = call(&mut service, get(&long));
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&answer, "retry-after"), "");
}

#[test]
fn keys_are_settled_too_and_so_are_gates() {
    let time = ManualClock::new();
    let table = Arc::new(per_tenant("10/h", &time));
    let mut service = LimitLayer::keyed(Arc::clone(&table), by::header("x-tenant"))
        .cost(|_| 4)
        .settle(|_, _| 1)
        .layer(done());
    call(&mut service, from_tenant("alice"));
    assert_eq!(table.available("alice"), 9);
    let mut service = LimitLayer::keyed(Arc::clone(&table), by::header("x-tenant"))
        .settle(|_, _| 20)
        .layer(done());
    call(&mut service, from_tenant("alice"));
    assert_eq!(table.available("alice"), 0);

    let gate = Gate::builder()
        .limit("a", bucket("10/h", &time))
        .limit("b", bucket("20/h", &time))
        .build()
        .expect("a gate");
    let gate = Arc::new(gate);
    let left = |name: &str| gate.inspect(name, TokenBucket::available);
    let layer = LimitLayer::new(Arc::clone(&gate))
        .cost(|_| 4)
        .settle(|_, _| 1);
    call(&mut layer.layer(done()), get("/"));
    assert_eq!((left("a"), left("b")), (Some(9), Some(19)));
}

#[test]
fn c5_what_begins_and_is_cancelled_has_been_paid_for_unless_settled_otherwise() {
    let time = ManualClock::new();
    let limiter = Arc::new(bucket("10/h", &time));
    let never = tower::service_fn(|_: Request<()>| {
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let mut paid = LimitLayer::new(Arc::clone(&limiter)).layer(never);
    drop(paid.call(get("/")));
    assert_eq!(limiter.available(), 9);
    let forgiving = |taken, outcome: Outcome<'_>| match outcome {
        Outcome::Cancelled => 0,
        _ => taken,
    };
    let mut forgiven = LimitLayer::new(Arc::clone(&limiter))
        .settle(forgiving)
        .layer(never);
    let mut request = Box::pin(forgiven.call(get("/")));
    assert!(poll(request.as_mut()).is_pending());
    assert_eq!(limiter.available(), 8);
    drop(request);
    assert_eq!(limiter.available(), 9);

    let slots = Arc::new(ConcurrencyLimit::new(1));
    let mut service = LimitLayer::new(Arc::clone(&slots)).layer(never);
    let request = service.call(get("/"));
    assert_eq!(slots.in_flight(), 1);
    drop(request);
    assert_eq!(slots.in_flight(), 0);
}

#[test]
fn an_error_passes_through_and_is_an_outcome() {
    let time = ManualClock::new();
    let limiter = Arc::new(bucket("10/h", &time));
    let failing = tower::service_fn(|_: Request<()>| {
        std::future::ready(Err::<Response<Full<Bytes>>, _>("no such luck"))
    });
    let mut service = LimitLayer::new(Arc::clone(&limiter))
        .settle(|taken, outcome| {
            if matches!(outcome, Outcome::Failed) {
                3
            } else {
                taken
            }
        })
        .layer(failing);
    let answer = poll(std::pin::pin!(service.call(get("/"))));
    assert!(matches!(answer, Poll::Ready(Err("no such luck"))));
    assert_eq!(limiter.available(), 7);
}

#[test]
fn c1_a_slot_is_in_use_until_the_body_ends() {
    let slots = Arc::new(ConcurrencyLimit::new(2));
    let mut service = LimitLayer::new(Arc::clone(&slots)).layer(done());
    let first = call(&mut service, get("/"));
    let second = call(&mut service, get("/"));
    assert_eq!(slots.in_flight(), 2);
    assert_eq!(field(&second, "ratelimit"), "\"default\";r=0");
    assert_eq!(
        call(&mut service, get("/")).status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    drop(first); // unread
    assert_eq!(slots.in_flight(), 1);
    assert_eq!(text(second), "done");
    assert_eq!(slots.in_flight(), 0);

    // It ends with its last frame, also if it is kept.
    let mut answer = call(&mut service, get("/"));
    let mut body = std::pin::Pin::new(answer.body_mut());
    let frame = |body: std::pin::Pin<&mut flowgate_tower::LimitBody<Full<Bytes>>>| {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        http_body::Body::poll_frame(body, &mut context)
    };
    assert!(matches!(frame(body.as_mut()), Poll::Ready(Some(Ok(_)))));
    assert!(matches!(frame(body.as_mut()), Poll::Ready(None)));
    assert_eq!(slots.in_flight(), 0);

    // An empty one has ended before it is read.
    let empty = tower::service_fn(|_: Request<()>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
    });
    let _answer = call(
        &mut LimitLayer::new(Arc::clone(&slots)).layer(empty),
        get("/"),
    );
    assert_eq!(slots.in_flight(), 0);

    let mut service = LimitLayer::new(Arc::clone(&slots))
        .release_at_head()
        .layer(done());
    let _answer = call(&mut service, get("/"));
    assert_eq!(slots.in_flight(), 0);
}

#[test]
fn so_many_at_once_for_each_tenant_is_the_tenants_own_fault() {
    let table = Arc::new(KeyedConcurrencyLimit::new(1, 100).expect("a table"));
    let mut service = LimitLayer::keyed(Arc::clone(&table), by::header("x-tenant")).layer(done());
    let held = call(&mut service, from_tenant("alice"));
    assert_eq!(
        field(&held, "ratelimit-policy"),
        "\"default\";q=1;qu=\"concurrent-requests\""
    );
    assert_eq!(
        call(&mut service, from_tenant("alice")).status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(
        call(&mut service, from_tenant("bob")).status(),
        StatusCode::OK
    );
    drop(held);
    assert_eq!(
        call(&mut service, from_tenant("alice")).status(),
        StatusCode::OK
    );
}

#[test]
fn c6_who_may_wait_is_served_in_turn_and_whoever_leaves_costs_nothing() {
    let time = ManualClock::new();
    let limiter = Arc::new(bucket("1/s", &time));
    let layer = LimitLayer::new(Arc::clone(&limiter)).wait(3 * SECOND);
    let mut service = layer.layer(done());
    call(&mut service, get("/"));
    let mut line: Vec<_> = (0..3).map(|_| Box::pin(service.call(get("/")))).collect();
    for request in &mut line {
        assert!(poll(request.as_mut()).is_pending());
    }
    // A fourth would have to wait for 4 s: told so at once.
    let refused = call(&mut service, get("/"));
    assert_eq!(
        (refused.status(), field(&refused, "retry-after")),
        (StatusCode::TOO_MANY_REQUESTS, "4")
    );
    // Whoever leaves lets the others move up.
    drop(line.remove(0));
    time.advance(SECOND);
    let Poll::Ready(Ok(answer)) = poll(line[0].as_mut()) else {
        panic!("it is its turn")
    };
    assert_eq!(field(&answer, "x-path"), "/");
    assert!(poll(line[1].as_mut()).is_pending());
    time.advance(SECOND);
    assert!(poll(line[1].as_mut()).is_ready());
    let counts = layer.counts().get();
    assert_eq!(
        (
            counts.admitted,
            counts.waited,
            counts.refused,
            counts.abandoned
        ),
        (3, 2, 1, 1)
    );
}

#[test]
fn c9_a_request_that_waits_is_put_aside_in_one_allocation() {
    let allocations = |wait: &mut dyn FnMut()| {
        // What the queue keeps for later waits is there.
        wait();
        allocation_counter::measure(wait).count_total
    };
    let time = ManualClock::new();
    let limiter = Arc::new(bucket("1/min", &time));
    limiter.try_acquire().expect("a token");
    let alone = allocations(&mut || {
        let mut wait = std::pin::pin!(limiter.acquire_owned().within(60 * SECOND));
        assert!(poll(wait.as_mut()).is_pending());
    });
    let layer = LimitLayer::new(Arc::clone(&limiter)).wait(60 * SECOND);
    let (mut service, mut requests) = (layer.layer(done()), vec![get("/"), get("/")]);
    let limited = allocations(&mut || {
        let request = requests.pop().expect("two");
        let mut wait = std::pin::pin!(service.call(request));
        assert!(poll(wait.as_mut()).is_pending());
    });
    assert_eq!(limited, alone + 1);

    let table = Arc::new(per_tenant("1/min", &time));
    table.try_acquire("alice").expect("a token");
    let alone = allocations(&mut || {
        let mut wait = std::pin::pin!(table.acquire("alice").within(60 * SECOND));
        assert!(poll(wait.as_mut()).is_pending());
    });
    let layer = LimitLayer::keyed(Arc::clone(&table), by::header("x-tenant")).wait(60 * SECOND);
    let mut service = layer.layer(done());
    let mut requests = vec![from_tenant("alice"), from_tenant("alice")];
    let limited = allocations(&mut || {
        let request = requests.pop().expect("two");
        let mut wait = std::pin::pin!(service.call(request));
        assert!(poll(wait.as_mut()).is_pending());
    });
    // And the key, which the request brings.
    assert_eq!(limited, alone + 2);
}

#[test]
fn c5_a_turn_that_comes_too_late_for_its_owner_is_given_back() {
    let time = ManualClock::new();
    for keyed in [false, true] {
        let table = Arc::new(per_tenant("1/min", &time));
        let limiter = Arc::new(bucket("1/min", &time));
        let mut all = LimitLayer::new(Arc::clone(&limiter))
            .wait(60 * SECOND)
            .layer(done());
        let mut each = LimitLayer::keyed(Arc::clone(&table), by::header("x-tenant"))
            .wait(60 * SECOND)
            .layer(done());
        if keyed {
            call(&mut each, from_tenant("alice"));
            let mut waiting = Box::pin(each.call(from_tenant("alice")));
            assert!(poll(waiting.as_mut()).is_pending());
            time.advance(60 * SECOND);
            drop(waiting);
            assert_eq!(table.available("alice"), 1);
        } else {
            call(&mut all, get("/"));
            let mut waiting = Box::pin(all.call(get("/")));
            assert!(poll(waiting.as_mut()).is_pending());
            time.advance(60 * SECOND);
            drop(waiting);
            assert_eq!(limiter.available(), 1);
        }
    }
}

#[test]
fn slots_and_keys_and_gates_can_be_waited_for() {
    let slots = Arc::new(ConcurrencyLimit::new(1));
    let table = Arc::new(KeyedConcurrencyLimit::new(1, 100).expect("a table"));
    let gate = Gate::builder()
        .limit("at once", ConcurrencyLimit::new(1))
        .build()
        .expect("a gate");
    let mut all = LimitLayer::new(slots).wait(SECOND).layer(done());
    let mut gated = LimitLayer::new(gate).wait(SECOND).layer(done());
    let mut each = LimitLayer::keyed(table, by::header("x-tenant"))
        .wait(SECOND)
        .layer(done());
    let held = (
        call(&mut all, get("/")),
        call(&mut gated, get("/")),
        call(&mut each, from_tenant("a")),
    );
    let mut first = Box::pin(all.call(get("/")));
    let mut second = Box::pin(gated.call(get("/")));
    let mut third = Box::pin(each.call(from_tenant("a")));
    assert!(poll(first.as_mut()).is_pending());
    assert!(poll(second.as_mut()).is_pending());
    assert!(poll(third.as_mut()).is_pending());
    drop(held);
    assert!(poll(first.as_mut()).is_ready());
    assert!(poll(second.as_mut()).is_ready());
    assert!(poll(third.as_mut()).is_ready());
}

#[test]
fn a_deadline_that_passes_ends_in_a_rejection() {
    let time = ManualClock::new();
    let slots = ConcurrencyLimit::builder(1)
        .clock(&time)
        .build()
        .expect("a limit");
    let layer = LimitLayer::new(slots).wait(SECOND);
    let mut service = layer.layer(done());
    let held = call(&mut service, get("/"));
    let mut waiting = Box::pin(service.call(get("/")));
    assert!(poll(waiting.as_mut()).is_pending());
    time.advance(SECOND);
    let Poll::Ready(Ok(answer)) = poll(waiting.as_mut()) else {
        panic!("its deadline has passed")
    };
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(field(&answer, "ratelimit"), "\"default\";r=0");
    let counts = layer.counts().get();
    assert_eq!((counts.refused, counts.abandoned), (1, 0));
    drop(held);
}

#[test]
fn a_closed_limit_says_so() {
    let limiter = Arc::new(TokenBucket::new(Quota::per_second(1)));
    limiter.queue().close();
    let mut service = LimitLayer::new(limiter).wait(SECOND).layer(done());
    let answer = call(&mut service, get("/"));
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(text(answer), "the limit `default` is closed\n");
}

/// A connection that is idle, or a request that was never made, takes nothing.
#[tokio::test]
async fn taken_in_call_and_not_in_poll_ready() {
    let time = ManualClock::new();
    let limiter = Arc::new(bucket("1/h", &time));
    let layer = LimitLayer::new(Arc::clone(&limiter));
    let (mut service, mut handle) = tower_test::mock::spawn_with(
        |inner: tower_test::mock::Mock<Request<()>, Response<Full<Bytes>>>| layer.layer(inner),
    );
    // As ready as the service behind it.
    handle.allow(0);
    assert!(service.poll_ready().is_pending());
    handle.allow(1);
    assert!(matches!(service.poll_ready(), Poll::Ready(Ok(()))));
    assert!(matches!(service.poll_ready(), Poll::Ready(Ok(()))));
    assert_eq!(limiter.available(), 1);
    let answer = service.call(get("/"));
    assert_eq!(limiter.available(), 0);
    let (_, reply) = handle.next_request().await.expect("a request");
    reply.send_response(Response::new(Full::from("done")));
    assert_eq!(answer.await.expect("an answer").status(), StatusCode::OK);
    // What is rejected does not reach it, and leaves it as ready as it was.
    handle.allow(1);
    assert!(matches!(service.poll_ready(), Poll::Ready(Ok(()))));
    let answer = service.call(get("/")).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(matches!(service.poll_ready(), Poll::Ready(Ok(()))));
}

#[test]
fn it_may_go_anywhere() {
    fn anywhere<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn to_a_task<T: Send>(_: &T) {}
    let layer = LimitLayer::new(TokenBucket::new(Quota::per_second(1)));
    anywhere(&layer);
    let mut service: Limited<_, AnyLimit> = layer.layer(done());
    to_a_task(&service.call(get("/")));
    let keyed = LimitLayer::keyed(
        KeyedConcurrencyLimit::new(1, 10).expect("a table"),
        by::path(),
    );
    anywhere(&keyed.layer(()));
    anywhere(&layer.layer(()));
}

/// A clone in another service, of another route, is the same limit.
#[test]
fn clones_share_the_limit_and_the_counts() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(bucket("2/h", &time));
    let counts = layer.counts();
    let mut first = layer.clone().layer(done());
    let mut second = layer.layer(done()).clone();
    call(&mut first, get("/"));
    call(&mut second, get("/"));
    assert_eq!(
        call(&mut first, get("/")).status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!((counts.get().admitted, counts.get().refused), (2, 1));
}

#[test]
fn fields_are_those_that_were_chosen() {
    let time = ManualClock::new();
    let answer = |headers: Headers, requests: usize| {
        let layer = LimitLayer::new(bucket("2/10s", &time))
            .name("api")
            .headers(headers);
        let mut service = layer.layer(done());
        (0..requests)
            .map(|_| call(&mut service, get("/")))
            .last()
            .expect("an answer")
    };
    let legacy = answer(Headers::legacy(Reset::Delay), 1);
    assert_eq!(field(&legacy, "x-ratelimit-limit"), "2");
    assert_eq!(field(&legacy, "x-ratelimit-remaining"), "1");
    assert_eq!(field(&legacy, "x-ratelimit-reset"), "5");
    assert_eq!(field(&legacy, "ratelimit"), "");
    let both = answer(Headers::draft().and_legacy(Reset::Epoch), 2);
    assert_eq!(field(&both, "ratelimit"), "\"api\";r=0;t=5;t_us=5000000");
    let reset: u64 = field(&both, "x-ratelimit-reset").parse().expect("a number");
    assert!(reset > 1_700_000_000);
    let none = answer(Headers::none(), 3);
    assert_eq!(field(&none, "retry-after"), "5");
    let has_any = none
        .headers()
        .keys()
        .any(|name| name.as_str().contains("ratelimit"));
    assert!(!has_any);
}

#[test]
fn fields_of_layers_in_layers_add_up() {
    let time = ManualClock::new();
    let inner = LimitLayer::new(bucket("3/s", &time)).name("inner");
    let outer = LimitLayer::new(bucket("9/s", &time)).name("outer");
    let answer = call(&mut outer.layer(inner.layer(done())), get("/"));
    let all: Vec<_> = answer
        .headers()
        .get_all("ratelimit-policy")
        .iter()
        .collect();
    assert_eq!(all, ["\"inner\";q=3;w=1", "\"outer\";q=9;w=1"]);
}

#[test]
fn a_rejection_may_have_a_body_of_its_own() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(bucket("1/10s", &time)).name("a \"b\"");
    let mut own = layer
        .clone()
        .on_rejected(|rejection| {
            let mut response = Response::new(format!("{} is empty", rejection.limit_name()));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response
        })
        .layer(done());
    call(&mut own, get("/"));
    let answer = call(&mut own, get("/"));
    assert_eq!(answer.status(), StatusCode::IM_A_TEAPOT);
    assert_eq!(field(&answer, "retry-after"), "10");
    assert_eq!(text(answer), "a \"b\" is empty");

    let mut problem = layer
        .on_rejected(|rejection| rejection.problem_details())
        .layer(done());
    let answer = call(&mut problem, get("/"));
    assert_eq!(field(&answer, "content-type"), "application/problem+json");
    assert_eq!(
        text(answer),
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"over the limit `a \"b\"`; retry after 10 s","status":429,"violated-policies":["a \"b\""]}"#
    );
}

#[test]
fn grpc_is_answered_in_its_own_way() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(bucket("1/10s", &time))
        .cost(|request| request.uri.path().len() as u64)
        .on_rejected(|_| Response::new("not for gRPC"));
    let mut service = layer.layer(done());
    let mut grpc = |path: &str, content_type: &str| {
        let mut request = get(path);
        let content_type = content_type.parse().expect("a value");
        request.headers_mut().insert("content-type", content_type);
        call(&mut service, request)
    };
    grpc("/", "application/grpc");
    time.advance(Duration::from_micros(500));
    for content_type in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc;x=1",
        "Application/GRPC",
    ] {
        let answer = grpc("/", content_type);
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(field(&answer, "grpc-status"), "8");
        assert_eq!(
            field(&answer, "grpc-message"),
            "over the limit `default`; retry after 10 s"
        );
        assert_eq!(field(&answer, "grpc-retry-pushback-ms"), "10000");
        assert_eq!(field(&answer, "content-type"), content_type);
        assert_eq!(text(answer), "");
    }
    let never = grpc("/too/much", "application/grpc");
    assert_eq!(field(&never, "grpc-retry-pushback-ms"), "-1");
    for content_type in ["application/grpcx", "application/json", "application/grp"] {
        assert_eq!(text(grpc("/", content_type)), "not for gRPC");
    }

    let keyed = LimitLayer::keyed(per_tenant("5/min", &time), by::header("x-tenant"));
    let mut request = get("/");
    request
        .headers_mut()
        .insert("content-type", "application/grpc".parse().expect("a value"));
    assert_eq!(
        field(&call(&mut keyed.layer(done()), request), "grpc-status"),
        "3"
    );
}
