//! The client's layer in front of real servers, over sockets: it reaches the rate, and is hardly ever refused.

use axum::body::Body;
use axum::{Router, routing::get};
use flowgate::{FixedWindow, Keyed, Quota, TokenBucket};
use flowgate_tower::LimitLayer;
use flowgate_tower::client::{ClientLayer, PerHost, PoliteClient};
use http::{Request, StatusCode};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tower::{Layer, Service};

const PER_SECOND: u32 = 100;
const LENGTH: Duration = Duration::from_secs(4);

type Polite = PoliteClient<Client<HttpConnector, Body>, PerHost<Keyed<flowgate::LeakyBucket>>>;

fn polite() -> Polite {
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let hosts = Keyed::leaky_bucket(Quota::per_second(PER_SECOND.into())).capacity(10);
    ClientLayer::new(hosts.expect("a table")).layer(client)
}

/// Two callers ask for four seconds. The share of the rate that was let through, and the number of refusals.
async fn ask(url: &str) -> (f64, u32) {
    let client = polite();
    let began = Instant::now();
    let callers = [client.clone(), client].map(|mut client| {
        let url = url.to_owned();
        tokio::spawn(async move {
            let [mut admitted, mut refused] = [0, 0];
            while began.elapsed() < LENGTH {
                let request = Request::get(&url).body(Body::empty());
                let answer = client.call(request.expect("a request")).await;
                match answer.expect("an answer").status() {
                    StatusCode::OK => admitted += 1,
                    StatusCode::TOO_MANY_REQUESTS => refused += 1,
                    status => panic!("{status}"),
                }
            }
            [admitted, refused]
        })
    });
    let [mut admitted, mut refused] = [0, 0];
    for caller in callers {
        let [more, less] = caller.await.expect("it does not panic");
        admitted += more;
        refused += less;
    }
    let expected = f64::from(PER_SECOND) * began.elapsed().as_secs_f64();
    (f64::from(admitted) / expected, refused)
}

/// The best of five: other programs on this machine stop client and server for a while.
async fn reaches_the_rate(url: &str) {
    let mut shares = Vec::new();
    for _ in 0..5 {
        if !shares.is_empty() {
            // The window that the client before has used ends: how much of it is left, no server says.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let (share, refused) = ask(url).await;
        eprintln!("{url}: {share:.3} of the rate, {refused} refused");
        if share >= 0.95 && refused <= 8 {
            return;
        }
        shares.push((share, refused));
    }
    panic!("{url}: {shares:?}");
}

async fn serve(app: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async { axum::serve(listener, app).await });
    format!("http://{address}/")
}

fn app() -> Router {
    Router::new().route("/", get(async || "hello"))
}

#[tokio::test]
async fn our_own_layer_is_asked_at_the_rate() {
    let quota = Quota::per_second(PER_SECOND.into()).burst(10);
    let bucket = serve(app().layer(LimitLayer::new(TokenBucket::new(quota)))).await;
    let window = FixedWindow::new(Quota::per_second(PER_SECOND.into())).expect("a window");
    let window = serve(app().layer(LimitLayer::new(window))).await;
    tokio::join!(reaches_the_rate(&bucket), reaches_the_rate(&window));
}

#[tokio::test]
async fn tower_governor_is_asked_at_the_rate() {
    use tower_governor::{GovernorLayer, governor::GovernorConfigBuilder};
    let mut config = GovernorConfigBuilder::default();
    config
        .period(Duration::from_secs(1) / PER_SECOND)
        .burst_size(10);
    let plain = config.finish().expect("neither is 0");
    let plain = serve(app().layer(GovernorLayer::new(plain))).await;
    let config = config.use_headers().finish().expect("neither is 0");
    let with_fields = serve(app().layer(GovernorLayer::new(config))).await;
    tokio::join!(reaches_the_rate(&plain), reaches_the_rate(&with_fields));
}

#[tokio::test]
#[ignore = "needs nginx: ./ci/test"]
async fn nginx_is_asked_at_the_rate() {
    let nginx = Nginx::start(
        "limit_req_zone $server_name zone=all:1m rate=100r/s; limit_req_status 429;",
        "limit_req zone=all burst=10 nodelay;",
    );
    reaches_the_rate(&format!("http://127.0.0.1:{}/ok", nginx.port())).await;
}

/// A server with 100 per second that runs elsewhere, such as the original express-rate-limit:
///
/// ```js
/// const { rateLimit } = require("express-rate-limit"), app = require("express")();
/// app.use(rateLimit({ windowMs: 1000, limit: 100, standardHeaders: "draft-8", legacyHeaders: false }));
/// app.get("/", (_, response) => response.send("hello")).listen(3000);
/// ```
#[tokio::test]
async fn a_server_that_was_named_is_asked_at_the_rate() {
    if let Ok(url) = std::env::var("FLOWGATE_SERVER_OF_100_PER_SECOND") {
        reaches_the_rate(&url).await;
    }
}

#[path = "support/daemon.rs"]
mod daemon;
#[expect(dead_code, reason = "nobody reads its log here")]
#[path = "support/nginx.rs"]
mod nginx;
use nginx::Nginx;
