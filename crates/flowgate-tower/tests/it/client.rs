//! What the client's layer sends, and when, on a clock that stands still; and over sockets, against the server's layer.

use crate::support::{done, field, poll};
use flowgate::{
    ConcurrencyLimit, FixedWindow, Gate, Keyed, KeyedConcurrencyLimit, LeakyBucket, ManualClock,
    Quota, TokenBucket,
};
use flowgate_tower::client::{ClientError, ClientLayer, ClientLimit};
use http::{Request, Response, StatusCode};

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::{Layer, Service};

type Empty = http_body_util::Empty<bytes::Bytes>;

const SECOND: Duration = Duration::from_secs(1);

/// Says what it is told to, in order, and then "fine"; and remembers what it was asked.
#[derive(Clone, Default)]
struct Host {
    answers: Arc<Mutex<VecDeque<Response<Empty>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Host {
    fn will_say(&self, status: u16, fields: &[(&str, &str)]) {
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let response = response.body(Empty::new()).expect("a response");
        self.answers.lock().expect("unharmed").push_back(response);
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("unharmed").len()
    }
}

impl Service<Request<()>> for Host {
    type Response = Response<Empty>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Empty>, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        self.asked
            .lock()
            .expect("unharmed")
            .push(request.uri().to_string());
        let answer = self.answers.lock().expect("unharmed").pop_front();
        std::future::ready(Ok(answer.unwrap_or_default()))
    }
}

fn hosts(quota: Quota, time: &ManualClock) -> Keyed<LeakyBucket> {
    Keyed::leaky_bucket(quota)
        .clock(time)
        .capacity(1000)
        .expect("a table")
}

fn to(uri: &str) -> Request<()> {
    Request::get(uri).body(()).expect("a request")
}

#[test]
fn each_host_is_sent_to_at_its_rate() {
    let time = ManualClock::new();
    let host = Host::default();
    let mut client = ClientLayer::new(hosts(Quota::per_second(1), &time)).layer(host.clone());
    let mut a = Box::pin(client.call(to("http://A.example/1")));
    let mut second = Box::pin(client.call(to("http://user@a.example/2")));
    let mut other = Box::pin(client.call(to("http://a.example:81/1")));
    assert!(poll(a.as_mut()).is_ready());
    assert!(poll(second.as_mut()).is_pending());
    assert!(poll(other.as_mut()).is_ready());
    time.advance(SECOND);
    assert!(poll(second.as_mut()).is_ready());
    assert_eq!(host.asked(), 3);

    let mut nowhere = Box::pin(client.call(to("/relative")));
    assert!(matches!(
        poll(nowhere.as_mut()),
        std::task::Poll::Ready(Err(ClientError::NoHost))
    ));
    let mut request = to("/relative");
    request
        .headers_mut()
        .insert("host", "b.example".parse().expect("a value"));
    assert!(poll(std::pin::pin!(client.call(request))).is_ready());
}

#[test]
fn a_host_that_says_when_is_left_alone_until_then() {
    let time = ManualClock::new();
    let host = Host::default();
    let mut client = ClientLayer::new(hosts(Quota::per_second(1000), &time)).layer(host.clone());
    for (status, fields) in [
        (429, ("retry-after", "7")),
        (503, ("retry-after", "7")),
        (200, ("ratelimit", "\"a\";r=0;t_us=7000000")),
    ] {
        time.advance(SECOND);
        host.will_say(status, &[fields]);
        assert!(poll(std::pin::pin!(client.call(to("http://a/")))).is_ready());
        let mut next = Box::pin(client.call(to("http://a/")));
        let mut behind = Box::pin(client.call(to("http://a/")));
        assert!(poll(next.as_mut()).is_pending());
        assert!(poll(behind.as_mut()).is_pending());
        assert!(poll(std::pin::pin!(client.call(to("http://b/")))).is_ready());
        time.advance(7 * SECOND - Duration::from_nanos(1));
        assert!(poll(next.as_mut()).is_pending());
        time.advance(Duration::from_nanos(1));
        assert!(poll(next.as_mut()).is_ready());
        // And then at its rate.
        assert!(poll(behind.as_mut()).is_pending());
        time.advance(Duration::from_millis(1));
        assert!(poll(behind.as_mut()).is_ready());
    }
}

/// How many of them are served by now.
fn served<F: Future>(line: &mut Vec<Pin<Box<F>>>) -> usize {
    let before = line.len();
    line.retain_mut(|waiting| poll(waiting.as_mut()).is_pending());
    before - line.len()
}

/// A request that waits for its turn when the pause begins does not take its token through it.
#[test]
fn c1_after_a_pause_requests_go_at_the_rate_again() {
    let time = ManualClock::new();
    let host = Host::default();
    let mut client = ClientLayer::new(hosts(Quota::per_second(1), &time)).layer(host.clone());
    let mut first = Box::pin(client.call(to("http://a/")));
    assert!(poll(first.as_mut()).is_ready());
    let mut line: Vec<_> = (0..4)
        .map(|_| Box::pin(client.call(to("http://a/"))))
        .collect();
    // Turns at 1 s, 2 s, 3 s and 4 s; the first of them brings a pause until 11 s.
    assert_eq!(served(&mut line), 0);
    host.will_say(429, &[("retry-after", "10")]);
    let mut sent = Vec::new();
    for _ in 1..=14 {
        time.advance(SECOND);
        sent.push(served(&mut line));
    }
    assert_eq!(sent, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0]);
}

#[test]
fn a_host_that_does_not_say_when_is_asked_less_and_less_often() {
    let time = ManualClock::new();
    let host = Host::default();
    let layer = ClientLayer::new(hosts(Quota::per_second(1000), &time)).backoff(SECOND, 4 * SECOND);
    let mut client = layer.layer(host.clone());
    for most in [1, 2, 4, 4] {
        host.will_say(503, &[]);
        assert!(poll(std::pin::pin!(client.call(to("http://a/")))).is_ready());
        let mut next = Box::pin(client.call(to("http://a/")));
        assert!(poll(next.as_mut()).is_pending());
        time.advance(most * SECOND / 2 - Duration::from_nanos(1));
        assert!(poll(next.as_mut()).is_pending(), "{most}");
        drop(next);
        time.advance(most * SECOND / 2 + Duration::from_millis(1));
    }
}

#[test]
fn who_has_no_time_is_told_at_once() {
    let time = ManualClock::new();
    let host = Host::default();
    let layer = ClientLayer::new(hosts(Quota::per_minute(1), &time)).within(10 * SECOND);
    let mut client = layer.layer(host.clone());
    host.will_say(429, &[("retry-after", "60")]);
    assert!(poll(std::pin::pin!(client.call(to("http://a/")))).is_ready());
    let refused = poll(std::pin::pin!(client.call(to("http://a/"))));
    let std::task::Poll::Ready(Err(error)) = refused else {
        panic!("it waits")
    };
    assert_eq!(
        error.to_string(),
        "not sent: its host has asked for a pause of 60s"
    );
    assert_eq!(error.retry_after(), Some(60 * SECOND));
    assert!(error.was_known_beforehand() && !error.was_sent());

    assert!(poll(std::pin::pin!(client.call(to("http://b/")))).is_ready());
    let refused = poll(std::pin::pin!(client.call(to("http://b/"))));
    let std::task::Poll::Ready(Err(error @ ClientError::Denied(..))) = refused else {
        panic!("it waits")
    };
    assert_eq!(error.retry_after(), Some(50 * SECOND));
    assert!(error.was_known_beforehand() && !error.was_sent());
    assert_eq!(host.asked(), 2);
}

/// hyper's client and reqwest's against axum with a limit.
#[tokio::test]
async fn polite_clients_are_served_and_mind_what_they_are_told() {
    use axum::{Router, routing::get};
    use flowgate_tower::LimitLayer;
    use hyper_util::{client::legacy::Client, rt::TokioExecutor};
    use tokio::net::TcpListener;

    let limit = LimitLayer::new(TokenBucket::new(Quota::per_hour(40)));
    let counts = limit.counts();
    let app = Router::new().route("/", get(async || "hello")).layer(limit);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async { axum::serve(listener, app).await });

    let client = Client::builder(TokioExecutor::new()).build_http::<Empty>();
    let table = Keyed::leaky_bucket(Quota::per_second(100))
        .capacity(10)
        .expect("a table");
    let mut polite = ClientLayer::new(table).layer(client);
    for _ in 0..10 {
        let request = Request::get(format!("http://{address}/")).body(Empty::new());
        let answer = polite
            .call(request.expect("a request"))
            .await
            .expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
    }
    assert_eq!((counts.get().admitted, counts.get().refused), (10, 0));

    // reqwest's, in the same way.
    let table = Keyed::leaky_bucket(Quota::per_second(1000))
        .capacity(10)
        .expect("a table");
    let mut polite = tower::ServiceBuilder::new()
        .layer(ClientLayer::new(table).within(SECOND))
        .map_request(|request: Request<reqwest::Body>| {
            reqwest::Request::try_from(request).expect("its URI names a host")
        })
        .map_response(Response::<reqwest::Body>::from)
        .service(reqwest::Client::new());
    for left in (0..30).rev() {
        let request = Request::get(format!("http://{address}/")).body(reqwest::Body::from(""));
        let answer = polite
            .call(request.expect("a request"))
            .await
            .expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        let standing = field(&answer, "ratelimit");
        assert!(
            standing.starts_with(&format!("\"default\";r={left};")),
            "{standing}"
        );
    }
    // Nothing is left, and the next one would have to wait for more than a second: it is not even sent.
    let request = Request::get(format!("http://{address}/")).body(reqwest::Body::from(""));
    let error = polite
        .call(request.expect("a request"))
        .await
        .expect_err("a pause");
    assert!(matches!(error, ClientError::Paused(_)), "{error}");
    assert_eq!((counts.get().admitted, counts.get().refused), (40, 0));
}

/// Ten requests wait for the end of a pause, and the limit would let all of them go then.
#[test]
fn c1_requests_that_waited_for_a_pause_leave_one_by_one() {
    fn sent_after_a_pause<L: ClientLimit>(layer: ClientLayer<L>, time: &ManualClock) -> Vec<usize> {
        let host = Host::default();
        let mut client = layer.layer(host.clone());
        host.will_say(429, &[("retry-after", "10")]);
        assert!(poll(std::pin::pin!(client.call(to("http://a/")))).is_ready());
        let mut line: Vec<_> = (0..10)
            .map(|_| Box::pin(client.call(to("http://a/"))))
            .collect();
        assert_eq!(served(&mut line), 0);
        time.advance(10 * SECOND - Duration::from_nanos(1));
        assert_eq!(served(&mut line), 0);
        time.advance(Duration::from_nanos(1));
        let mut sent = Vec::new();
        for _ in 0..11 {
            sent.push(served(&mut line));
            time.advance(SECOND / 10);
        }
        // They are gone, so the burst is as large as it was.
        let mut line: Vec<_> = (0..5)
            .map(|_| Box::pin(client.call(to("http://a/"))))
            .collect();
        sent.push(served(&mut line));
        sent
    }
    let expected = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 5];
    let quota: Quota = "10/s burst 50".parse().expect("a quota");
    let time = ManualClock::new();
    let bucket = || {
        TokenBucket::builder(quota)
            .clock(&time)
            .build()
            .expect("a bucket")
    };
    let keyed = Keyed::token_bucket(quota)
        .clock(&time)
        .capacity(10)
        .expect("a table");
    assert_eq!(sent_after_a_pause(ClientLayer::new(keyed), &time), expected);
    assert_eq!(
        sent_after_a_pause(ClientLayer::new(bucket()), &time),
        expected
    );
    let slots = ConcurrencyLimit::builder(100)
        .clock(&time)
        .build()
        .expect("a limit");
    let gate = Gate::builder()
        .limit("rate", bucket())
        .limit("slots", slots)
        .build();
    let layer = ClientLayer::new(gate.expect("a gate"));
    assert_eq!(sent_after_a_pause(layer, &time), expected);
    let window = Quota::new(600, 60 * SECOND).expect("a quota");
    let window = FixedWindow::builder(window)
        .clock(&time)
        .build()
        .expect("a window");
    assert_eq!(
        sent_after_a_pause(ClientLayer::new(window), &time),
        expected
    );
}

/// Two quotas: a pause of a minute ends, and requests go on at 10 per second. Spread over the day, there would be one a minute
/// as long as there are more.
fn goes_on_at_ten_per_second<L: ClientLimit>(time: &ManualClock, layer: ClientLayer<L>) {
    let host = Host::default();
    let mut client = layer.layer(host.clone());
    host.will_say(429, &[("retry-after", "60")]);
    assert!(poll(std::pin::pin!(client.call(to("http://a/")))).is_ready());
    let mut line: Vec<_> = (0..50)
        .map(|_| Box::pin(client.call(to("http://a/"))))
        .collect();
    assert_eq!(served(&mut line), 0);
    time.advance(60 * SECOND);
    for _ in 0..50 {
        assert_eq!(served(&mut line), 1);
        time.advance(SECOND / 10);
    }
}

#[test]
fn c2_after_a_pause_a_budget_of_the_day_slows_nothing() {
    let time = ManualClock::new();
    let second = LeakyBucket::builder(Quota::per_second(10)).clock(&time);
    let day = FixedWindow::builder(Quota::per_day(1000)).clock(&time);
    let gate = Gate::builder()
        .limit("second", second.build().expect("a bucket"))
        .limit("day", day.build().expect("a window"))
        .build();
    goes_on_at_ten_per_second(&time, ClientLayer::new(gate.expect("a gate")));
}

#[test]
fn c2_after_a_pause_a_shared_budget_of_the_day_does_not_slow_a_key() {
    let time = ManualClock::new();
    let day = FixedWindow::builder(Quota::per_day(1000)).clock(&time);
    let gate = Gate::builder()
        .limit("day", day.build().expect("a window"))
        .keyed("host", hosts(Quota::per_second(10), &time))
        .build();
    goes_on_at_ten_per_second(&time, ClientLayer::new(gate.expect("a gate")));
}

/// What a request was granted while its host asked for a pause, it gives back: tokens and permits.
#[test]
fn c5_a_grant_in_a_pause_is_given_back() {
    let time = ManualClock::new();
    let host = Host::default();
    let bucket = TokenBucket::builder("1/s burst 1".parse().expect("a quota")).clock(&time);
    let slots = ConcurrencyLimit::builder(1)
        .clock(&time)
        .build()
        .expect("a limit");
    let gate = Gate::builder()
        .limit("rate", bucket.build().expect("a bucket"))
        .limit("slots", slots)
        .build();
    let gate = Arc::new(gate.expect("a gate"));
    let mut client = ClientLayer::new(Arc::clone(&gate)).layer(host.clone());
    assert!(poll(std::pin::pin!(client.call(to("http://a/")))).is_ready());
    let mut second = Box::pin(client.call(to("http://a/")));
    let mut third = Box::pin(client.call(to("http://a/")));
    assert!(poll(second.as_mut()).is_pending());
    assert!(poll(third.as_mut()).is_pending());
    host.will_say(503, &[("retry-after", "5")]);
    time.advance(SECOND);
    assert!(poll(second.as_mut()).is_ready());
    // The third one is granted a token and a permit, and may not be sent.
    time.advance(SECOND);
    assert!(poll(third.as_mut()).is_pending());
    assert_eq!(gate.inspect("slots", ConcurrencyLimit::in_flight), Some(0));
    assert_eq!(gate.inspect("rate", TokenBucket::available), Some(1));
    assert!(poll(std::pin::pin!(client.call(to("http://b/")))).is_ready());
    time.advance(4 * SECOND - Duration::from_nanos(1));
    assert!(poll(third.as_mut()).is_pending());
    time.advance(Duration::from_nanos(1));
    assert!(poll(third.as_mut()).is_ready());
    assert_eq!(host.asked(), 4);
}

/// A permit is held until the response's body has ended or is dropped, and one limit is for all hosts.
#[test]
fn c1_a_permit_is_held_until_the_body_has_ended() {
    use http_body_util::BodyExt;
    let slots = Arc::new(ConcurrencyLimit::new(2));
    let mut client = ClientLayer::new(Arc::clone(&slots)).layer(done());
    let mut answer = |uri| match poll(Box::pin(client.call(to(uri))).as_mut()) {
        std::task::Poll::Ready(answer) => Some(answer.expect("an answer")),
        std::task::Poll::Pending => None,
    };
    let first = answer("http://a/").expect("there are two");
    let second = answer("http://b/").expect("there are two");
    assert_eq!(slots.in_flight(), 2);
    assert!(answer("http://c/").is_none());
    drop(first);
    assert_eq!(slots.in_flight(), 1);
    assert!(poll(std::pin::pin!(second.into_body().collect())).is_ready());
    assert_eq!(slots.in_flight(), 0);

    // Of each host.
    let each = KeyedConcurrencyLimit::new(1, 10).expect("a table");
    let mut client = ClientLayer::new(each).layer(done());
    let a = poll(Box::pin(client.call(to("http://a/"))).as_mut());
    assert!(a.is_ready());
    assert!(poll(Box::pin(client.call(to("http://a/"))).as_mut()).is_pending());
    assert!(poll(Box::pin(client.call(to("http://b/"))).as_mut()).is_ready());
    drop(a);
    assert!(poll(Box::pin(client.call(to("http://a/"))).as_mut()).is_ready());
}

/// A server that says `r=0;t=1` after each request is sent as many as the client's own limit allows.
#[test]
fn a_second_that_is_rounded_up_stops_nobody() {
    let time = ManualClock::new();
    let host = Host::default();
    let mut client = ClientLayer::new(hosts(Quota::per_second(100), &time)).layer(host.clone());
    for _ in 0..400 {
        host.will_say(200, &[("ratelimit", "\"a\";r=0;t=1")]);
        assert!(poll(std::pin::pin!(client.call(to("http://a/")))).is_ready());
        time.advance(SECOND / 100);
    }
    assert_eq!(host.asked(), 400);
}

#[test]
fn an_error_says_whether_the_request_had_waited() {
    let time = ManualClock::new();
    let host = Host::default();
    let slots = ConcurrencyLimit::builder(0)
        .clock(&time)
        .build()
        .expect("a limit");
    let layer = ClientLayer::new(slots).within(SECOND);
    let mut client = layer.layer(host.clone());
    let mut waiting = Box::pin(client.call(to("http://a/")));
    // When a permit comes back is not known beforehand.
    assert!(poll(waiting.as_mut()).is_pending());
    time.advance(SECOND);
    let std::task::Poll::Ready(Err(error)) = poll(waiting.as_mut()) else {
        panic!("it waits on")
    };
    let ClientError::Denied(_, not_sent) = error else {
        panic!("{error}")
    };
    assert_eq!(not_sent.waited(), Some(SECOND));
    assert_eq!(not_sent.retry_after(), None);
    assert!(!error.was_known_beforehand() && !error.was_sent());
    assert_eq!(error.not_before(), None);

    // A pause that begins while it waits, beyond its maximum.
    let layer = ClientLayer::new(hosts(Quota::per_second(1), &time)).within(3 * SECOND);
    let mut client = layer.layer(host.clone());
    host.will_say(429, &[("retry-after", "60")]);
    let mut first = Box::pin(client.call(to("http://a/")));
    let mut second = Box::pin(client.call(to("http://a/")));
    assert!(poll(first.as_mut()).is_ready());
    let before = std::time::SystemTime::now();
    let std::task::Poll::Ready(Err(error)) = poll(second.as_mut()) else {
        panic!("it waits")
    };
    assert_eq!(error.retry_after(), Some(60 * SECOND));
    assert!(
        error
            .not_before()
            .is_some_and(|at| at >= before + 60 * SECOND)
    );

    let failing = tower::service_fn(async |_: Request<()>| Err::<Response<Empty>, _>("gone"));
    let mut client = ClientLayer::new(hosts(Quota::per_second(1), &time)).layer(failing);
    let std::task::Poll::Ready(Err(error)) = poll(Box::pin(client.call(to("http://a/"))).as_mut())
    else {
        panic!("it waits")
    };
    assert!(error.was_sent() && !error.was_known_beforehand());
    assert_eq!((error.retry_after(), error.not_before()), (None, None));
}
