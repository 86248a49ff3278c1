//! What the client's layer refuses while a backend is overloaded, and which requests it repeats; on a clock that stands still.

use crate::support::poll;
use flowgate::{ConcurrencyLimit, LeakyBucket, ManualClock, RetryBudget, Throttle};
use flowgate_tower::client::{ClientError, ClientLayer, RetryRefused};
use flowgate_tower::{GrpcCode, Refusal};
use http::{Method, Request, Response};
use std::collections::VecDeque;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tower::retry::RetryLayer;
use tower::{Layer, Service, ServiceBuilder};

type Empty = http_body_util::Empty<bytes::Bytes>;
type Answer = Result<Response<Empty>, &'static str>;

/// Gives these answers in order, and then the last of them again.
#[derive(Clone)]
struct Backend {
    answers: Arc<Mutex<VecDeque<(u16, Option<(&'static str, &'static str)>)>>>,
    asked: Arc<Mutex<usize>>,
}

impl Backend {
    /// A status of 0 is an error of the client.
    fn new(answers: &[(u16, Option<(&'static str, &'static str)>)]) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.iter().copied().collect())),
            asked: Arc::default(),
        }
    }

    fn asked(&self) -> usize {
        *self.asked.lock().expect("unharmed")
    }
}

impl Service<Request<()>> for Backend {
    type Response = Response<Empty>;
    type Error = &'static str;
    type Future = Ready<Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        *self.asked.lock().expect("unharmed") += 1;
        let mut answers = self.answers.lock().expect("unharmed");
        let (status, field) = match answers.len() {
            1 => answers[0],
            _ => answers.pop_front().expect("an answer"),
        };
        if status == 0 {
            return ready(Err("no connection"));
        }
        let mut response = Response::builder().status(status);
        if let Some((name, value)) = field {
            response = response.header(name, value);
        }
        ready(Ok(response.body(Empty::new()).expect("a response")))
    }
}

fn request(method: Method) -> Request<()> {
    let request = Request::builder().method(method).uri("http://a.example/");
    request.body(()).expect("a request")
}

fn throttle(time: &ManualClock) -> Arc<Throttle> {
    Arc::new(Throttle::builder().clock(time).build().expect("settings"))
}

/// A layer whose limit is of no account.
fn layer(time: &ManualClock) -> ClientLayer {
    let limit = ConcurrencyLimit::builder(1000).clock(time);
    ClientLayer::new(limit.build().expect("a limit")).backoff(Duration::ZERO, Duration::ZERO)
}

#[test]
fn while_the_backend_is_overloaded_requests_fail_without_being_sent() {
    let time = ManualClock::new();
    let throttle = throttle(&time);
    let backend = Backend::new(&[(0, None)]);
    let mut client = layer(&time)
        .throttle(Arc::clone(&throttle))
        .layer(backend.clone());
    let mut ask = || poll(pin!(client.call(request(Method::GET))));
    for _ in 0..20 {
        time.advance(Duration::from_millis(1));
        assert!(matches!(ask(), Poll::Ready(Err(ClientError::Client(_)))));
    }
    time.advance(throttle.bucket());
    let mut refused = 0;
    for _ in 0..100 {
        time.advance(Duration::from_nanos(10));
        match ask() {
            Poll::Ready(Err(ClientError::Denied(denied, not_sent))) => {
                assert!(denied.is_throttled() && not_sent.retry_after().is_some());
                refused += 1;
            }
            Poll::Ready(Err(ClientError::Client(_))) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((refused, backend.asked()), (95, 25));
}

#[test]
fn refusals_and_errors_are_overload_and_all_other_responses_are_not() {
    let grpc = |status| Some(("grpc-status", status));
    for (status, field, is_accepted) in [
        (200, None, true),
        (404, None, true),
        (500, None, true),
        (429, None, false),
        (503, None, false),
        (200, grpc("0"), true),
        (200, grpc("8"), false),
        (200, grpc("14"), false),
        (200, grpc("13"), true),
        (0, None, false),
    ] {
        for by_closure in [false, true] {
            let time = ManualClock::new();
            let throttle = throttle(&time);
            let mut layer = layer(&time).throttle(Arc::clone(&throttle));
            if by_closure {
                // The other way round.
                layer = layer.overload_if(|response| {
                    response.is_some_and(|head| {
                        let is_ok = matches!(head.status.as_u16(), 200 | 404 | 500);
                        let grpc = head.headers.get("grpc-status");
                        is_ok && grpc.is_none_or(|status| status == "0" || status == "13")
                    })
                });
            }
            let mut client = layer.layer(Backend::new(&[(status, field)]));
            let call = client.call(request(Method::GET));
            assert!(poll(pin!(call)).is_ready());
            time.advance(throttle.bucket());
            let counts = throttle.counts();
            let expected = is_accepted != by_closure;
            assert_eq!(
                (counts.requests, counts.accepted),
                (1, u64::from(expected)),
                "{status} {field:?}"
            );
        }
    }
}

#[test]
fn a_request_that_is_dropped_while_it_waits_does_not_count() {
    let time = ManualClock::new();
    let throttle = throttle(&time);
    let limit = LeakyBucket::builder("1/s".parse().expect("a quota")).clock(&time);
    let layer = ClientLayer::new(limit.build().expect("a limiter")).throttle(Arc::clone(&throttle));
    let mut client = layer.layer(Backend::new(&[(200, None)]));
    assert!(poll(pin!(client.call(request(Method::GET)))).is_ready());
    let mut waiting = Box::pin(client.call(request(Method::GET)));
    assert!(poll(waiting.as_mut()).is_pending());
    drop(waiting);
    time.advance(throttle.bucket());
    assert_eq!(throttle.counts().requests, 1);
}

/// The client of a gateway did nothing wrong.
#[test]
fn a_refusal_by_the_throttle_is_a_503() {
    let time = ManualClock::new();
    let throttle = throttle(&time);
    (0..20).for_each(|_| throttle.record(false));
    time.advance(throttle.bucket());
    let denied = throttle.try_begin().expect_err("throttled");
    let refusal = Refusal::from(denied).name("payments");
    assert_eq!(refusal.status(), 503);
    assert_eq!(refusal.grpc_code(), GrpcCode::Unavailable);
    assert_eq!(
        refusal.to_string(),
        "the backend of `payments` refuses too many requests; retry after 1 s"
    );
}

fn budget(time: &ManualClock, capacity: u32) -> Arc<RetryBudget> {
    let budget = RetryBudget::builder().capacity(capacity).min_per_second(0);
    Arc::new(budget.clock(time).build().expect("settings"))
}

#[test]
fn a_refused_request_is_repeated_when_the_host_allows_it() {
    let time = ManualClock::new();
    let backend = Backend::new(&[(429, Some(("retry-after", "7"))), (200, None)]);
    let budget = budget(&time, 10);
    let layer = layer(&time)
        .throttle(throttle(&time))
        .retry_budget(Arc::clone(&budget));
    let mut client = ServiceBuilder::new().layer(layer).service(backend.clone());
    let mut call = pin!(client.call(request(Method::POST)));
    assert!(poll(call.as_mut()).is_pending());
    time.advance(Duration::from_secs(7) - Duration::from_nanos(1));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(backend.asked(), 1);
    time.advance(Duration::from_nanos(1));
    match poll(call) {
        Poll::Ready(Ok(response)) => assert_eq!(response.status(), 200),
        other => panic!("{other:?}"),
    }
    assert_eq!((backend.asked(), budget.balance()), (2, 9));
}

#[test]
fn the_budget_bounds_the_retries_of_all_requests_together() {
    let time = ManualClock::new();
    let backend = Backend::new(&[(429, None)]);
    let budget = budget(&time, 10);
    let mut client = layer(&time)
        .retry_budget(Arc::clone(&budget))
        .layer(backend.clone());
    for _ in 0..100 {
        time.advance(Duration::from_millis(1));
        match poll(pin!(client.call(request(Method::GET)))) {
            Poll::Ready(Ok(response)) => assert_eq!(response.status(), 429),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(backend.asked(), 110);
    // A success pays for a tenth.
    let mut client = layer(&time)
        .retry_budget(Arc::clone(&budget))
        .layer(Backend::new(&[(200, None)]));
    for _ in 0..10 {
        assert!(poll(pin!(client.call(request(Method::GET)))).is_ready());
    }
    assert_eq!(budget.balance(), 1);
}

#[test]
fn nothing_is_repeated_that_may_have_been_done() {
    let grpc = |status| (200, Some(("grpc-status", status)));
    let (get, post) = (Method::GET, Method::POST);
    for (answer, method, attempts, if_idempotent) in [
        ((200, None), &get, 1, 1),
        ((500, None), &get, 1, 1),
        ((429, None), &get, 3, 3),
        ((429, None), &post, 3, 3),
        ((503, None), &get, 1, 3),
        ((503, None), &post, 1, 1),
        ((0, None), &get, 1, 3),
        ((0, None), &post, 1, 1),
        (grpc("8"), &post, 3, 3),
        (grpc("14"), &post, 1, 1),
        (grpc("5"), &post, 1, 1),
    ] {
        for (is_repeated, expected) in [(false, attempts), (true, if_idempotent)] {
            let time = ManualClock::new();
            let backend = Backend::new(&[answer]);
            let policy = RetryRefused::new(budget(&time, 10)).idempotent_methods(is_repeated);
            let mut client = ServiceBuilder::new()
                .layer(RetryLayer::new(policy))
                .layer(layer(&time))
                .service(backend.clone());
            assert!(poll(pin!(client.call(request(method.clone())))).is_ready());
            assert_eq!(backend.asked(), expected, "{answer:?} to {method}");
        }
    }
}

/// gRFC A6: a time to wait allows a retry, and anything else forbids it.
#[test]
fn a_pushback_decides_about_a_retry() {
    for (status, pushback, attempts) in
        [("14", "0", 3), ("8", "0", 3), ("8", "-1", 1), ("8", "x", 1)]
    {
        let time = ManualClock::new();
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let answer = tower::service_fn(move |_: Request<()>| {
            *count.lock().expect("unharmed") += 1;
            let response = Response::builder().header("grpc-status", status);
            let response = response.header("grpc-retry-pushback-ms", pushback);
            ready(Ok::<_, &'static str>(
                response.body(Empty::new()).expect("a response"),
            ))
        });
        let policy = RetryRefused::new(budget(&time, 10)).idempotent_methods(true);
        let mut client = ServiceBuilder::new()
            .layer(RetryLayer::new(policy))
            .layer(layer(&time))
            .service(answer);
        assert!(poll(pin!(client.call(request(Method::GET)))).is_ready());
        assert_eq!(
            *asked.lock().expect("unharmed"),
            attempts,
            "{status}, {pushback}"
        );
    }
}
