//! The layer in tonic, over sockets: the health service that tonic comes with.

use flowgate::{Keyed, ManualClock, Quota};
use flowgate_tower::{LimitLayer, by};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

async fn health(layer: impl AnyLayer) -> HealthClient<Channel> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    layer.serve(TcpIncoming::from(listener));
    let channel = Channel::from_shared(format!("http://{address}")).expect("a uri");
    HealthClient::new(channel.connect().await.expect("a connection"))
}

/// A layer that a server can be started with, whichever it is.
trait AnyLayer {
    fn serve(self, incoming: TcpIncoming);
}

impl<L: flowgate_tower::Limits + std::fmt::Debug> AnyLayer for LimitLayer<L> {
    fn serve(self, incoming: TcpIncoming) {
        let (_reporter, service) = tonic_health::server::health_reporter();
        let server = Server::builder().layer(self).add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
    }
}

fn per_minute(count: u64) -> Keyed<flowgate::TokenBucket> {
    let time = ManualClock::new();
    Keyed::token_bucket(Quota::per_minute(count))
        .clock(&time)
        .capacity(1000)
        .expect("a table")
}

#[tokio::test]
async fn a_client_over_its_limit_gets_resource_exhausted() {
    let layer = LimitLayer::keyed(per_minute(2), by::peer_address());
    let counts = layer.counts();
    let mut client = health(layer).await;
    for left in ["1", "0"] {
        let answer = client
            .check(HealthCheckRequest::default())
            .await
            .expect("an answer");
        let standing = answer
            .metadata()
            .get("ratelimit")
            .expect("a field")
            .to_str()
            .expect("text");
        assert!(
            standing.starts_with(&format!("\"default\";r={left};t=30")),
            "{standing}"
        );
    }
    let status = client
        .check(HealthCheckRequest::default())
        .await
        .expect_err("refused");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(
        status.message(),
        "over the limit `default`; retry after 30 s"
    );
    assert_eq!(
        status
            .metadata()
            .get("grpc-retry-pushback-ms")
            .expect("a time"),
        "30000"
    );
    assert_eq!(status.metadata().get("retry-after").expect("a time"), "30");
    assert_eq!((counts.get().admitted, counts.get().refused), (2, 1));
}

#[tokio::test]
async fn metadata_is_a_key_and_without_it_the_argument_is_invalid() {
    let layer = LimitLayer::keyed(per_minute(1), by::header("x-tenant"));
    let mut client = health(layer).await;
    let status = client
        .check(HealthCheckRequest::default())
        .await
        .expect_err("refused");
    assert_eq!(status.code(), Code::InvalidArgument);
    let mut code_of = async |tenant: &'static str| {
        let mut request = tonic::Request::new(HealthCheckRequest::default());
        request
            .metadata_mut()
            .insert("x-tenant", tenant.parse().expect("ASCII"));
        client
            .check(request)
            .await
            .map_or_else(|status| status.code(), |_| Code::Ok)
    };
    assert_eq!(code_of("a").await, Code::Ok);
    assert_eq!(code_of("a").await, Code::ResourceExhausted);
    assert_eq!(code_of("b").await, Code::Ok);
}

/// Streams hold their slot for as long as they last.
#[tokio::test]
async fn c1_a_stream_is_in_flight_until_it_ends() {
    let slots = std::sync::Arc::new(flowgate::ConcurrencyLimit::new(1));
    let layer = LimitLayer::new(std::sync::Arc::clone(&slots));
    let mut client = health(layer).await;
    let mut stream = client
        .watch(HealthCheckRequest::default())
        .await
        .expect("a stream")
        .into_inner();
    assert!(stream.message().await.expect("a message").is_some());
    assert_eq!(slots.in_flight(), 1);
    let status = client
        .check(HealthCheckRequest::default())
        .await
        .expect_err("busy");
    assert_eq!(status.code(), Code::Unavailable);
    drop(stream);
    let freed = tokio::time::timeout(Duration::from_secs(10), async {
        while slots.in_flight() != 0 {
            tokio::task::yield_now().await;
        }
    });
    freed.await.expect("in ten seconds");
    client
        .check(HealthCheckRequest::default())
        .await
        .expect("an answer");
}

/// Our client's layer in front of tonic's channel: it takes the host from the layer, and heeds how gRPC refuses.
#[tokio::test]
async fn a_channel_behind_our_layer_waits_for_as_long_as_the_server_says() {
    use flowgate::{ConcurrencyLimit, Limiter, TokenBucket};
    use flowgate_tower::Headers;
    use flowgate_tower::client::{ClientError, ClientLayer};
    use std::sync::Arc;
    use tower::ServiceBuilder;

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let bucket = Arc::new(TokenBucket::new(Quota::per_hour(1)));
    let layer = LimitLayer::new(Arc::clone(&bucket)).headers(Headers::none());
    let counts = layer.counts();
    layer.serve(TcpIncoming::from(listener));
    let channel = Channel::from_shared(format!("http://{address}")).expect("a uri");
    let channel = channel.connect().await.expect("a connection");

    let slots = Arc::new(ConcurrencyLimit::new(5));
    let nameless = ClientLayer::new(Arc::clone(&slots)).within(Duration::from_secs(1));
    let layer = nameless.clone().default_host("grpc.example.org");
    let service = ServiceBuilder::new()
        .layer(nameless)
        .service(channel.clone());
    let error = HealthClient::new(service)
        .check(HealthCheckRequest::default())
        .await
        .expect_err("no host");
    assert!(error.message().contains("default_host"), "{error}");

    let service = ServiceBuilder::new().layer(layer).service(channel);
    let mut client = HealthClient::new(service);
    let mut ask = async || client.check(HealthCheckRequest::default()).await;
    ask().await.expect("an answer");
    assert_eq!(slots.in_flight(), 0);
    let refused = ask().await.expect_err("refused by the server");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    // Not even sent now.
    let paused = ask().await.expect_err("a pause");
    assert_eq!((counts.get().admitted, counts.get().refused), (1, 1));
    let source = std::error::Error::source(&paused).expect("the layer's error");
    let error = source.downcast_ref::<ClientError<tonic::transport::Error>>();
    let error = error.expect("the layer's error");
    assert!(!error.was_sent() && error.was_known_beforehand());
    let rest = error.retry_after().expect("a time").as_millis();
    let expected = Limiter::peek(&*bucket).expect_err("an hour").retry_after();
    let expected = expected.expect("a time").as_millis();
    assert!(
        rest.abs_diff(expected) < 5_000,
        "{rest} ms of {expected} ms"
    );
}
