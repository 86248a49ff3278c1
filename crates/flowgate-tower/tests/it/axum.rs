//! The layer in axum, over sockets.

use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::routing::get;
use bytes::Bytes;
use flowgate::{ConcurrencyLimit, Keyed, ManualClock, Quota, TokenBucket};
use flowgate_tower::by::{self, TrustedProxies};
use flowgate_tower::{CountsHandle, LimitLayer};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

struct Server {
    address: SocketAddr,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Server {
    async fn start(app: Router) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async { axum::serve(listener, app).await });
        Self {
            address,
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    async fn get(&self, path: &str) -> Response<Incoming> {
        self.get_with(path, &[]).await
    }

    async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Response<Incoming> {
        let mut request = Request::get(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::new()).expect("a request");
        self.client.request(request).await.expect("an answer")
    }
}

async fn text(response: Response<Incoming>) -> String {
    let body = response.into_body().collect().await.expect("a body");
    String::from_utf8(body.to_bytes().to_vec()).expect("text")
}

fn per_key(quota: Quota) -> Keyed<TokenBucket> {
    let time = ManualClock::new();
    Keyed::token_bucket(quota)
        .clock(&time)
        .capacity(1000)
        .expect("a table")
}

#[tokio::test]
async fn by_peer_address() {
    let limits = per_key(Quota::per_minute(2));
    let layer = LimitLayer::keyed(limits, by::peer_address());
    let app = Router::new().route("/", get(async || "hello")).layer(layer);
    let server = Server::start(app).await;
    for _ in 0..2 {
        let answer = server.get("/").await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(text(answer).await, "hello");
    }
    let answer = server.get("/").await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "30");
    assert_eq!(
        answer.headers()["ratelimit"],
        "\"default\";r=0;t=30;t_us=30000000"
    );
    let length = answer.headers()["content-length"].clone();
    let said = text(answer).await;
    assert_eq!(said, "over the limit `default`; retry after 30 s\n");
    assert_eq!(length, said.len().to_string());
}

/// Whoever sends the field without being a proxy gets nothing by it; and behind one, only what it wrote counts.
#[tokio::test]
async fn spoofed_forwarding_headers_change_nothing() {
    let app = |proxies: &str| {
        let proxies = TrustedProxies::x_forwarded_for([proxies.parse().expect("a range")]);
        let layer = LimitLayer::keyed(per_key(Quota::per_minute(3)), by::client_address(proxies));
        Router::new().route("/", get(async || "hello")).layer(layer)
    };
    let direct = Server::start(app("10.0.0.0/8")).await;
    let mut admitted = 0;
    for n in 0..10 {
        let spoofed = format!("192.0.2.{n}");
        let answer = direct.get_with("/", &[("x-forwarded-for", &spoofed)]).await;
        admitted += usize::from(answer.status() == StatusCode::OK);
    }
    assert_eq!(admitted, 3);

    let behind = Server::start(app("127.0.0.0/8")).await;
    for (client, expected) in [("192.0.2.1", 3), ("192.0.2.2", 3)] {
        let mut admitted = 0;
        for n in 0..10 {
            let written = format!("198.51.100.{n}, {client}");
            let answer = behind.get_with("/", &[("x-forwarded-for", &written)]).await;
            admitted += usize::from(answer.status() == StatusCode::OK);
        }
        assert_eq!(admitted, expected, "{client}");
    }
}

#[tokio::test]
async fn by_route_and_tenant() {
    let by_both = (
        by::function(|request| Some(request.extensions.get::<MatchedPath>()?.as_str().to_owned())),
        by::header("x-tenant"),
    );
    let layer = LimitLayer::keyed(per_key(Quota::per_minute(1)), by_both);
    let app = Router::new()
        .route("/users/{id}", get(async || "user"))
        .route("/orders/{id}", get(async || "order"))
        .route_layer(layer);
    let server = Server::start(app).await;
    let mut statuses = Vec::new();
    for (path, tenant) in [
        ("/users/1", "a"),
        ("/users/2", "a"),
        ("/orders/1", "a"),
        ("/users/3", "b"),
    ] {
        let answer = server.get_with(path, &[("x-tenant", tenant)]).await;
        statuses.push(answer.status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 200, 200]);
    assert_eq!(
        server.get("/users/1").await.status(),
        StatusCode::BAD_REQUEST
    );
}

/// A slot lasts as long as the download, also one that its client gives up.
#[tokio::test]
async fn c1_slots_are_in_use_while_bodies_are_sent() {
    let slots = Arc::new(ConcurrencyLimit::new(1));
    let (finish, finished) = oneshot::channel::<()>();
    let finished = Arc::new(std::sync::Mutex::new(Some(finished)));
    let slow = async move || {
        let finished = finished.lock().expect("unharmed").take();
        let body = SlowBody { finished };
        Response::new(Body::new(body))
    };
    let layer = LimitLayer::new(Arc::clone(&slots));
    let app = Router::new()
        .route("/slow", get(slow))
        .route("/", get(async || "hello"))
        .layer(layer);
    let server = Server::start(app).await;
    let download = server.get("/slow").await;
    assert_eq!(download.status(), StatusCode::OK);
    assert_eq!(slots.in_flight(), 1);
    let busy = server.get("/").await;
    assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
    finish.send(()).expect("it is waited for");
    assert_eq!(text(download).await, "");
    wait_until(|| slots.in_flight() == 0).await;
    assert_eq!(server.get("/").await.status(), StatusCode::OK);
    wait_until(|| slots.in_flight() == 0).await;

    // The body of this one never ends; its client goes away.
    let download = server.get("/slow").await;
    assert_eq!(slots.in_flight(), 1);
    drop(download);
    wait_until(|| slots.in_flight() == 0).await;
}

/// Ends when it is told to.
struct SlowBody {
    finished: Option<oneshot::Receiver<()>>,
}

impl http_body::Body for SlowBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        use std::future::Future;
        match &mut self.finished {
            Some(finished) => std::pin::Pin::new(finished).poll(context).map(|_| None),
            None => std::task::Poll::Pending,
        }
    }
}

/// What another task is about to do is done; what goes over a socket cannot be waited for otherwise.
async fn wait_until(holds: impl Fn() -> bool) {
    let patience = tokio::time::timeout(Duration::from_secs(10), async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    });
    patience.await.expect("in ten seconds");
}

/// Requests wait in turn on real time; a client that goes away is not waited for.
#[tokio::test]
async fn c6_requests_wait_and_clients_that_leave_do_not() {
    let time = ManualClock::new();
    let quota = Quota::per_minute(1);
    let bucket = TokenBucket::builder(quota)
        .clock(&time)
        .build()
        .expect("a bucket");
    let bucket = Arc::new(bucket);
    let layer = LimitLayer::new(Arc::clone(&bucket)).wait(Duration::from_secs(100));
    let counts: CountsHandle = layer.counts();
    let app = Router::new().route("/", get(async || "hello")).layer(layer);
    let server = Arc::new(Server::start(app).await);
    assert_eq!(server.get("/").await.status(), StatusCode::OK);

    let ask = |server: Arc<Server>| tokio::spawn(async move { server.get("/").await.status() });
    let leaves = ask(Arc::clone(&server));
    wait_until(|| bucket.queue().len() == 1).await;
    let stays = ask(Arc::clone(&server));
    // 60 s behind the one that leaves: 120 s, and it has 100.
    assert_eq!(
        stays.await.expect("it does not panic"),
        StatusCode::TOO_MANY_REQUESTS
    );
    leaves.abort();
    wait_until(|| bucket.queue().is_empty()).await;
    let stays = ask(Arc::clone(&server));
    wait_until(|| bucket.queue().len() == 1).await;
    time.advance(Duration::from_secs(60));
    assert_eq!(stays.await.expect("it does not panic"), StatusCode::OK);
    wait_until(|| counts.get().abandoned == 1).await;
    let counts = counts.get();
    assert_eq!((counts.admitted, counts.waited, counts.refused), (2, 1, 1));
}
