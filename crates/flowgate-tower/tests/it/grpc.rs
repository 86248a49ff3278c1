//! gRPC requests: codes, waits and services, in process and in tonic over sockets.

use crate::support::{call, done, field, get, poll, text};
use flowgate::{ConcurrencyLimit, ManualClock, Quota, TokenBucket};
use flowgate_tower::{GrpcCode, LimitLayer, Refusal};
use http::{Request, Response, StatusCode};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::transport::server::{Router, TcpIncoming};
use tonic::transport::{Channel, Server};
use tonic::{Code, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower::{Layer, Service};

const SECOND: Duration = Duration::from_secs(1);

fn bucket(quota: &str, time: &ManualClock) -> Arc<TokenBucket> {
    let quota: Quota = quota.parse().expect("a quota");
    let bucket = TokenBucket::builder(quota).clock(time).build();
    Arc::new(bucket.expect("a bucket"))
}

fn grpc(path: &str) -> Request<()> {
    let mut request = get(path);
    let content_type = "application/grpc".parse().expect("a value");
    request.headers_mut().insert("content-type", content_type);
    request
}

fn with_timeout(timeout: &str) -> Request<()> {
    let mut request = grpc("/");
    let timeout = timeout.parse().expect("a value");
    request.headers_mut().insert("grpc-timeout", timeout);
    request
}

#[test]
fn the_code_of_a_rejection_can_be_chosen() {
    let busy = || LimitLayer::new(ConcurrencyLimit::new(0));
    let status_of = |layer: LimitLayer| {
        let answer = call(&mut layer.layer(done()), grpc("/"));
        field(&answer, "grpc-status").to_owned()
    };
    assert_eq!(status_of(busy()), "14");
    let chosen = busy().grpc_status(|rejection| {
        assert_eq!(rejection.grpc_code(), GrpcCode::Unavailable);
        GrpcCode::ResourceExhausted
    });
    assert_eq!(status_of(chosen.clone()), "8");
    // `on_rejected` gets the chosen code, too.
    let heard = chosen.on_rejected(|rejection| {
        assert_eq!(rejection.grpc_code(), GrpcCode::ResourceExhausted);
        rejection.response()
    });
    assert_eq!(status_of(heard), "8");
    assert_eq!(status_of(busy().grpc_status(|_| Code::Aborted)), "10");
    // Requests that are not gRPC do not ask.
    let never = busy().grpc_status(|_| -> GrpcCode { panic!("it is not gRPC") });
    let answer = call(&mut never.layer(done()), get("/"));
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn on_rejected_is_heard_and_what_it_makes_becomes_grpc() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(bucket("1/10s", &time)).on_rejected(|rejection| {
        let response = Response::builder()
            .status(rejection.status())
            .header("content-type", "application/json")
            .header("content-length", "2")
            .header("x-own", "1")
            .header("grpc-message", "slow down");
        response.body("{}").expect("a response")
    });
    let mut service = layer.layer(done());
    call(&mut service, grpc("/"));
    let answer = call(&mut service, grpc("/"));
    assert_eq!(answer.status(), StatusCode::OK);
    for (name, value) in [
        ("x-own", "1"),
        ("grpc-status", "8"),
        ("grpc-message", "slow down"),
        ("grpc-retry-pushback-ms", "10000"),
        ("content-type", "application/grpc"),
        ("content-length", ""),
        ("retry-after", "10"),
    ] {
        assert_eq!(field(&answer, name), value, "{name}");
    }
    assert_eq!(text(answer), "");
    // Others get it as it is.
    let answer = call(&mut service, get("/"));
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(text(answer), "{}");

    // One with a status of its own is sent as it is.
    let own = LimitLayer::new(ConcurrencyLimit::new(0)).on_rejected(|_| {
        let response = Response::builder().header("grpc-status", "16");
        response.body("").expect("a response")
    });
    let answer = call(&mut own.layer(done()), grpc("/"));
    assert_eq!(field(&answer, "grpc-status"), "16");
    assert_eq!(field(&answer, "grpc-message"), "");
}

/// The next token comes in 10 s, and the layer lets requests wait for 60 s.
#[test]
fn a_request_waits_no_longer_than_its_grpc_timeout() {
    let time = ManualClock::new();
    let limiter = bucket("1/10s", &time);
    let layer = LimitLayer::new(Arc::clone(&limiter)).wait(60 * SECOND);
    let mut service = layer.layer(done());
    call(&mut service, get("/"));
    let mut waits = |request: Request<()>| {
        let mut future = Box::pin(service.call(request));
        poll(future.as_mut()).is_pending()
    };
    for short in ["9S", "9999m", "9999999u", "99999999n", "0S"] {
        assert!(!waits(with_timeout(short)), "{short}");
    }
    for long in ["10S", "10000m", "10000000u", "1M", "1H"] {
        assert!(waits(with_timeout(long)), "{long}");
    }
    for malformed in ["", "9", "S", "9s", "-9S", "1.5S", "000000009S", "9S9S"] {
        assert!(waits(with_timeout(malformed)), "{malformed}");
    }
    // It is a field of gRPC only.
    let mut other = get("/");
    let timeout = "1S".parse().expect("a value");
    other.headers_mut().insert("grpc-timeout", timeout);
    assert!(waits(other));
    // It makes no wait longer.
    let short = LimitLayer::new(limiter).wait(SECOND);
    let mut service = short.layer(done());
    let answer = call(&mut service, with_timeout("1H"));
    assert_eq!(field(&answer, "grpc-status"), "8");
}

/// The deadline is kept by the wait itself, too: here, nothing is known when the wait begins.
#[test]
fn a_wait_for_a_slot_ends_with_the_grpc_timeout() {
    let time = ManualClock::new();
    let slots = ConcurrencyLimit::builder(0).clock(&time).build();
    let layer = LimitLayer::new(slots.expect("a limit")).wait(60 * SECOND);
    let mut service = layer.layer(done());
    let mut waiting = Box::pin(service.call(with_timeout("2S")));
    assert!(poll(waiting.as_mut()).is_pending());
    time.advance(2 * SECOND);
    assert!(poll(waiting.as_mut()).is_ready());
}

/// A health service that asks a limiter by itself.
struct Own {
    limiter: Arc<TokenBucket>,
}

type Watch = tonic::codegen::BoxStream<HealthCheckResponse>;

#[tonic::async_trait]
impl Health for Own {
    type WatchStream = Watch;

    async fn check(
        &self,
        _: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<HealthCheckResponse>, Status> {
        self.limiter.try_acquire().map_err(|denied| {
            let refusal = Refusal::from(denied).name("checks");
            refusal.fields_of(Arc::clone(&self.limiter), flowgate_tower::Headers::draft())
        })?;
        Ok(tonic::Response::new(HealthCheckResponse::default()))
    }

    async fn watch(
        &self,
        _: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<Watch>, Status> {
        Err(Status::unimplemented("it is not asked for"))
    }
}

async fn serve(server: Router) -> HealthClient<Channel> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let channel = Channel::from_shared(format!("http://{address}")).expect("a uri");
    HealthClient::new(channel.connect().await.expect("a connection"))
}

async fn check(client: &mut HealthClient<Channel>) -> Result<(), Status> {
    let answer = client.check(HealthCheckRequest::default());
    let answer = tokio::time::timeout(20 * SECOND, answer).await;
    answer.expect("an answer in 20 s").map(|_| ())
}

/// The limit is around one service of a server, not around the whole server.
#[tokio::test]
async fn a_limited_service_is_added_to_a_tonic_server() {
    let layer = LimitLayer::new(bucket("1/min", &ManualClock::new()));
    let layer = layer.grpc_status(|_| Code::Aborted);
    let (_reporter, service) = tonic_health::server::health_reporter();
    let mut client = serve(Server::builder().add_service(layer.layer(service))).await;
    check(&mut client).await.expect("an answer");
    let status = check(&mut client).await.expect_err("refused");
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(
        status.metadata().get("grpc-retry-pushback-ms"),
        Some(&"60000".parse().expect("ASCII"))
    );
}

#[tokio::test]
async fn a_tonic_client_with_a_timeout_does_not_wait_in_vain() {
    let layer = LimitLayer::new(bucket("1/min", &ManualClock::new())).wait(3600 * SECOND);
    let counts = layer.counts();
    let (_reporter, service) = tonic_health::server::health_reporter();
    let mut client = serve(Server::builder().add_service(layer.layer(service))).await;
    check(&mut client).await.expect("an answer");
    let mut request = tonic::Request::new(HealthCheckRequest::default());
    request.set_timeout(30 * SECOND);
    let answer = tokio::time::timeout(20 * SECOND, client.check(request)).await;
    let status = answer.expect("refused immediately").expect_err("refused");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(counts.get().refused, 1);
}

#[tokio::test]
async fn a_tonic_handler_refuses_with_a_status() {
    let time = ManualClock::new();
    let limiter = bucket("1/min", &time);
    let service = HealthServer::new(Own { limiter });
    let mut client = serve(Server::builder().add_service(service)).await;
    check(&mut client).await.expect("an answer");
    let status = check(&mut client).await.expect_err("refused");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(
        status.message(),
        "over the limit `checks`; retry after 60 s"
    );
    for (name, value) in [
        ("grpc-retry-pushback-ms", "60000"),
        ("retry-after", "60"),
        ("ratelimit-policy", "\"checks\";q=1;w=60"),
    ] {
        let found = status.metadata().get(name).expect("metadata");
        assert_eq!(found, value, "{name}");
    }
}
