//! Refusals of handlers that ask a limiter themselves.

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use flowgate::{Codel, ConcurrencyLimit, Denied, Gate, ManualClock, Quota, TokenBucket};
use flowgate_tower::{GrpcCode, Headers, LimitLayer, Refusal, Reset};
use http::{HeaderMap, Response, StatusCode};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::Layer;

const SECOND: Duration = Duration::from_secs(1);

fn bucket(quota: &str, time: &ManualClock) -> Arc<TokenBucket> {
    let quota: Quota = quota.parse().expect("a quota");
    let bucket = TokenBucket::builder(quota).clock(time).build();
    Arc::new(bucket.expect("a bucket"))
}

/// A handler's refusal is, byte for byte, what the layer sends.
#[test]
fn a_refusal_is_the_layers_rejection() {
    let time = ManualClock::new();
    let closed = bucket("1/min", &time);
    closed.queue().close();
    let empty = bucket("1/min", &time);
    empty.try_acquire().expect("a token");
    let slots = Arc::new(ConcurrencyLimit::new(0));
    let in_gate = ConcurrencyLimit::builder(0).clock(&time).build();
    let gate = Gate::builder()
        .limit("rate", bucket_of("5/min", &time))
        .limit("slots", in_gate.expect("a limit"))
        .build();
    let gate = Arc::new(gate.expect("a gate"));
    let limits: [(flowgate_tower::AnyLimit, Denied); 4] = [
        (closed.clone().into(), denied(closed.try_acquire())),
        (empty.clone().into(), denied(empty.try_acquire())),
        (slots.clone().into(), denied(slots.try_acquire())),
        (gate.clone().into(), denied(gate.try_acquire())),
    ];
    for headers in [Headers::draft(), Headers::legacy(Reset::Delay)] {
        for (limit, denied) in &limits {
            let layer = LimitLayer::new(limit.clone()).name("all").headers(headers);
            let refusal = Refusal::from(*denied)
                .name("all")
                .fields_of(limit.clone(), headers);
            let plain = of_layer(layer.clone(), "text/html");
            same(&refusal.response(), &plain);
            let details = layer
                .clone()
                .on_rejected(|rejection| rejection.problem_details());
            same(&refusal.problem_details(), &of_layer(details, "text/html"));
            let grpc = of_layer(layer, "application/grpc");
            same(&refusal.grpc_response(), &grpc);
            assert_eq!(refusal.status(), plain.status());
            let code = grpc.headers()["grpc-status"].to_str().expect("a number");
            assert_eq!(refusal.grpc_code().number().to_string(), code);

            // What tonic makes of it says the same.
            let status = tonic::Status::from(refusal.clone());
            assert_eq!((status.code() as i32).to_string(), code);
            assert_eq!(status.message(), refusal.to_string());
            let metadata = status.metadata().clone().into_headers();
            let without = |headers: &HeaderMap| {
                let mut headers = headers.clone();
                for name in ["content-type", "grpc-status", "grpc-message"] {
                    headers.remove(name);
                }
                headers
            };
            assert_eq!(without(&metadata), without(grpc.headers()));
        }
    }
}

/// The server is overloaded, whoever the client is, and the time of a retry is not known.
#[test]
fn a_waiter_that_was_shed_is_refused_by_the_server() {
    let time = ManualClock::new();
    let limit = ConcurrencyLimit::builder(1).clock(&time).build();
    let limit = limit.expect("a limit");
    limit.queue().set_codel(Codel::default());
    let mut held = limit.try_acquire();
    let mut waits = [(); 3].map(|()| Box::pin(limit.acquire()));
    let mut poll = |index: usize| {
        let mut context = Context::from_waker(Waker::noop());
        waits[index].as_mut().poll(&mut context)
    };
    assert!((0..3).all(|index| poll(index).is_pending()));
    for (index, ms) in [101, 101, 0].into_iter().enumerate() {
        time.advance(Duration::from_millis(ms));
        drop(held);
        let Poll::Ready(answer) = poll(index) else {
            panic!("it has an answer");
        };
        held = answer;
    }
    let refusal = Refusal::from(denied(held)).name("all");
    assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        refusal.to_string(),
        "the request waited too long for the limit `all`"
    );
}

fn denied<T>(answer: Result<T, Denied>) -> Denied {
    match answer {
        Ok(_) => panic!("it is refused"),
        Err(denied) => denied,
    }
}

fn bucket_of(quota: &str, time: &ManualClock) -> TokenBucket {
    let quota: Quota = quota.parse().expect("a quota");
    let bucket = TokenBucket::builder(quota).clock(time).build();
    bucket.expect("a bucket")
}

fn of_layer(layer: LimitLayer, content_type: &str) -> Response<String> {
    let mut request = crate::support::get("/");
    let content_type = content_type.parse().expect("a value");
    request.headers_mut().insert("content-type", content_type);
    let answer = crate::support::call(&mut layer.layer(crate::support::done()), request);
    let (parts, body) = answer.into_parts();
    Response::from_parts(parts, crate::support::text(Response::new(body)))
}

#[track_caller]
fn same(refusal: &Response<bytes::Bytes>, rejection: &Response<String>) {
    assert_eq!(refusal.status(), rejection.status());
    assert_eq!(refusal.headers(), rejection.headers());
    assert_eq!(refusal.body(), rejection.body());
}

#[test]
fn what_a_denied_does_not_tell_can_be_said() {
    let busy = denied(ConcurrencyLimit::new(0).try_acquire());
    let refusal = Refusal::from(busy);
    assert_eq!(refusal.limit_name(), "default");
    assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refusal.denied(), &busy);
    assert_eq!(refusal.retry_after(), None);
    let of_client = refusal.clone().of_client();
    assert_eq!(of_client.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(of_client.grpc_code(), GrpcCode::ResourceExhausted);
    let chosen = of_client.grpc_status(tonic::Code::Aborted).name("a\nb");
    assert_eq!(
        tonic::Status::from(chosen.clone()).code(),
        tonic::Code::Aborted
    );
    assert_eq!(chosen.grpc_response().headers()["grpc-status"], "10");
    // A name that is no header value does no harm.
    let response = chosen.into_response();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
}

/// Large errors make each `Result` of a handler large.
#[test]
fn c9_a_refusal_is_one_word() {
    assert_eq!(size_of::<Refusal>(), size_of::<usize>());
}

async fn search(State(searches): State<Arc<TokenBucket>>) -> Result<&'static str, Refusal> {
    searches.try_acquire()?;
    Ok("found")
}

async fn export(State(exports): State<Arc<TokenBucket>>) -> Result<&'static str, Refusal> {
    exports.try_acquire().map_err(|denied| {
        let refusal = Refusal::from(denied).name("exports");
        refusal.fields_of(Arc::clone(&exports), Headers::draft())
    })?;
    Ok("exported")
}

#[tokio::test]
async fn an_axum_handler_refuses_with_a_whole_response() {
    let time = ManualClock::new();
    let app = Router::new()
        .route("/search", axum::routing::get(search))
        .route("/export", axum::routing::get(export))
        .with_state(bucket("1/min", &time));
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async { axum::serve(listener, app).await });
    let ask = async |path: &str| {
        let answer = reqwest::get(format!("{url}{path}"));
        let answer = tokio::time::timeout(20 * SECOND, answer).await;
        answer.expect("in 20 s").expect("an answer")
    };
    assert_eq!(ask("/search").await.status(), 200);
    let refused = ask("/search").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "60");
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    assert!(!refused.headers().contains_key("ratelimit"));
    let body = refused.text().await.expect("text");
    assert!(
        body.contains(r#""status":429,"violated-policies":["default"]"#),
        "{body}"
    );

    let refused = ask("/export").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(
        refused.headers()["ratelimit-policy"],
        "\"exports\";q=1;w=60"
    );
    assert!(refused.headers().contains_key("ratelimit"));
}
