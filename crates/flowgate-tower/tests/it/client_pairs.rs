//! Every pair of our limiters behind a server's layer and our client's layer in front of it reaches the rate.

use crate::support::{done, get};
use flowgate::{
    ApproximateWindow, ConcurrencyLimit, DecayingBucket, FixedWindow, Gate, Keyed, LeakyBucket,
    Limiter, ManualClock, Quota, Refill, SegmentedWindow, SlidingWindow, Snapshot, Striped,
    Timestamp, TokenBucket, Unlimited, WarmUp,
};
use flowgate_tower::client::{ClientError, ClientLayer, ClientLimit};
use flowgate_tower::{AnyLimit, Headers, LimitBody, LimitLayer, Limits, by};
use http::{Request, Response};
use http_body_util::Full;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, UNIX_EPOCH};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service};

type Body = LimitBody<Full<bytes::Bytes>>;
type Host = BoxCloneSyncService<Request<()>, Response<Body>, Infallible>;
type Answer = Result<Response<LimitBody<Body>>, ClientError<Infallible>>;

/// A server, and a limiter as it has one.
struct Server {
    name: &'static str,
    host: Host,
    twin: Arc<dyn Limiter>,
}

impl Server {
    fn new<L: Limits>(name: &'static str, layer: LimitLayer<L>, twin: Arc<dyn Limiter>) -> Self {
        Self {
            name,
            host: BoxCloneSyncService::new(layer.layer(done())),
            twin,
        }
    }

    /// With one of two limiters that `make` makes.
    fn of<L>(name: &'static str, make: impl Fn() -> L) -> Self
    where
        L: Limiter + Into<AnyLimit> + 'static,
    {
        Self::new(name, LimitLayer::new(make()), Arc::new(make()))
    }
}

/// A few seconds, or more where there is one request in each.
fn length(per_second: u64) -> Duration {
    Duration::from_secs(if per_second == 1 { 20 } else { 4 })
}

/// A small part of the time for each request.
fn step(per_second: u64) -> Duration {
    Duration::from_secs(1) / (20 * per_second as u32)
}

/// Our limiters, all with the same quota.
fn servers(per_second: u64, time: &ManualClock) -> Vec<Server> {
    let quota = Quota::per_second(per_second);
    let second = Duration::from_secs(1);
    let token = |quota: Quota| {
        let bucket = TokenBucket::builder(quota).clock(time);
        bucket.build().expect("a bucket")
    };
    let leaky = || {
        let bucket = LeakyBucket::builder(quota).clock(time);
        bucket.build().expect("a bucket")
    };
    let gate = || {
        let slots = ConcurrencyLimit::builder(100).clock(time);
        let gate = Gate::builder().limit("rate", token(quota.burst(1)));
        let gate = gate.limit("in flight", slots.build().expect("a limit"));
        LimitLayer::new(gate.build().expect("a gate"))
    };
    let keyed_leaky = Keyed::leaky_bucket(quota).clock(time);
    let keyed_leaky = Arc::new(keyed_leaky.capacity(10).expect("a table"));
    let keyed_window = Keyed::segmented_window(quota).clock(time);
    let keyed_window = Arc::new(keyed_window.capacity(10).expect("a table"));
    vec![
        Server::of("token bucket", || token(quota)),
        Server::of("token bucket, burst 1", || token(quota.burst(1))),
        Server::of("token bucket, burst 3", || token(quota.burst(3))),
        Server::of("token bucket, refilled in lots", || {
            let bucket = TokenBucket::builder(quota).refill(Refill::Interval);
            bucket.clock(time).build().expect("a bucket")
        }),
        Server::of("leaky bucket", leaky),
        Server::of("fixed window", || {
            let window = FixedWindow::builder(quota).clock(time);
            window.build().expect("a window")
        }),
        Server::of("sliding window", || {
            let window = SlidingWindow::builder(quota).clock(time);
            window.build().expect("a window")
        }),
        Server::of("segmented window", || {
            let window = SegmentedWindow::builder(quota).clock(time);
            window.build().expect("a window")
        }),
        Server::of("approximate window", || {
            let window = ApproximateWindow::builder(quota).clock(time);
            window.build().expect("a window")
        }),
        Server::of("warm-up", || {
            let warm_up = WarmUp::builder(quota).warm_up(second);
            warm_up.clock(time).build().expect("a limiter")
        }),
        Server::of("pay after", || token(quota).pay_after()),
        Server::of("decaying bucket", || {
            let bucket = DecayingBucket::builder(per_second, second);
            bucket.clock(time).build().expect("a bucket")
        }),
        Server::of("striped", || Striped::new(token(quota))),
        Server::of("unlimited", Unlimited::new),
        Server::new("gate", gate(), Arc::new(leaky())),
        Server::new(
            "keyed leaky bucket",
            LimitLayer::keyed(Arc::clone(&keyed_leaky), by::path()),
            Arc::new(keyed_leaky.key_owned("twin")),
        ),
        Server::new(
            "keyed segmented window",
            LimitLayer::keyed(Arc::clone(&keyed_window), by::path()),
            Arc::new(keyed_window.key_owned("twin")),
        ),
    ]
}

/// The number of requests that a client with a leaky bucket of `quota` can send, if it knows whether each will be let
/// through: what the best client reaches that sends at constant intervals.
fn at_best(server: &Server, per_second: u64, time: &ManualClock) -> u64 {
    let own = LeakyBucket::builder(Quota::per_second(per_second)).clock(time);
    let own = own.build().expect("a bucket");
    let end = time.now() + length(per_second);
    let mut admitted = 0;
    while time.now() < end {
        while own.peek().is_ok() && server.twin.try_acquire().is_ok() {
            own.try_acquire().expect("there was one");
            admitted += 1;
        }
        time.advance(step(per_second));
    }
    admitted
}

/// Remembers that it was woken.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Call = Pin<Box<dyn Future<Output = Answer>>>;

/// `callers` ask `server` through `layer`, each as soon as it has its answer. The number of requests that were let
/// through, and of those that were refused.
fn run<L: ClientLimit>(
    layer: ClientLayer<L>,
    server: &Server,
    callers: usize,
    per_second: u64,
    time: &ManualClock,
) -> [u64; 2] {
    let mut client = layer.default_host("a").layer(server.host.clone());
    let mut call = || -> Call { Box::pin(client.call(get("/"))) };
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut calls: Vec<Call> = (0..callers).map(|_| call()).collect();
    let [mut admitted, mut refused] = [0, 0];
    let end = time.now() + length(per_second);
    while time.now() < end {
        while woken.0.swap(false, Ordering::Relaxed) {
            for waiting in &mut calls {
                while let Poll::Ready(answer) =
                    waiting.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    let answer = answer.expect("it waits for as long as it takes");
                    match answer.status().is_success() {
                        true => admitted += 1,
                        false => refused += 1,
                    }
                    *waiting = call();
                }
            }
        }
        time.advance(step(per_second));
    }
    [admitted, refused]
}

#[test]
fn every_pair_of_our_layers_reaches_the_rate() {
    let mut least = (1.0, String::new());
    for per_second in [1, 10, 100, 1000] {
        let quota = Quota::per_second(per_second);
        let how_many = servers(per_second, &ManualClock::new()).len();
        for (index, (callers, is_leaky)) in (0..how_many)
            .flat_map(|index| [(1, true), (1, false), (4, false)].map(|how| (index, how)))
        {
            let time = ManualClock::new();
            let best = at_best(&servers(per_second, &time)[index], per_second, &time);
            let time = ManualClock::new();
            let server = servers(per_second, &time).swap_remove(index);
            let [admitted, refused] = match is_leaky {
                true => {
                    let hosts = Keyed::leaky_bucket(quota).clock(&time).capacity(10);
                    let layer = ClientLayer::new(hosts.expect("a table"));
                    run(layer, &server, callers, per_second, &time)
                }
                false => {
                    let hosts = Keyed::token_bucket(quota).clock(&time).capacity(10);
                    let layer = ClientLayer::new(hosts.expect("a table"));
                    run(layer, &server, callers, per_second, &time)
                }
            };
            let share = admitted as f64 / best as f64;
            let bucket = if is_leaky { "leaky" } else { "token" };
            let pair = format!(
                "{} {per_second}/s, {callers} callers behind a {bucket} bucket: {admitted} of {best}, {refused} refused",
                server.name
            );
            eprintln!("{share:.3} {pair}");
            if share < least.0 {
                least = (share, pair);
            }
        }
    }
    assert!(least.0 >= 0.95, "{}", least.1);
}

/// The fields of express-rate-limit 7 and 8, recorded from them.
#[derive(Clone, Copy)]
enum Fields {
    /// Of the draft's 8th version: the time left of the window, rounded up.
    Draft8,
    /// The default. The test begins at this millisecond of the Unix epoch.
    Default(u64),
}

impl Fields {
    fn of(self, snapshot: &Snapshot, time: &ManualClock) -> Vec<(&'static str, String)> {
        let remaining = snapshot.remaining;
        match self {
            Self::Draft8 => {
                let seconds = snapshot.reset_after.as_secs_f64().ceil();
                vec![
                    (
                        "ratelimit-policy",
                        "\"100-in-1sec\"; q=100; w=1; pk=:MTJjYTE3YjQ5YWYy:".to_owned(),
                    ),
                    (
                        "ratelimit",
                        format!("\"100-in-1sec\"; r={remaining}; t={seconds}"),
                    ),
                ]
            }
            Self::Default(epoch_ms) => {
                let now = Duration::from_millis(epoch_ms)
                    + time.now().saturating_duration_since(Timestamp::ORIGIN);
                let reset = (now + snapshot.reset_after).as_millis().div_ceil(1000);
                vec![
                    ("x-ratelimit-limit", snapshot.limit.to_string()),
                    ("x-ratelimit-remaining", remaining.to_string()),
                    ("date", httpdate::fmt_http_date(UNIX_EPOCH + now)),
                    ("x-ratelimit-reset", reset.to_string()),
                ]
            }
        }
    }
}

/// As express-rate-limit answers, with a fixed window of `quota`. The response comes `late` after the first request of a window,
/// and the window begins then.
fn express_rate_limit(
    time: &ManualClock,
    late: Duration,
    quota: Quota,
    fields: Fields,
) -> (Arc<FixedWindow>, Server) {
    let window = FixedWindow::builder(quota).clock(time);
    let window = Arc::new(window.build().expect("a window"));
    let nothing = ConcurrencyLimit::builder(0).clock(time).build();
    let nothing = Arc::new(nothing.expect("a limit"));
    let (time, server) = (time.clone(), Arc::clone(&window));
    let host = tower::service_fn(move |_: Request<()>| {
        let is_full = window.available() == 100;
        let on_the_way = if is_full { late } else { Duration::ZERO };
        let arrives = nothing.acquire_owned().by(time.now() + on_the_way);
        let (window, time) = (Arc::clone(&window), time.clone());
        async move {
            arrives.await.expect_err("nothing is granted");
            let is_admitted = window.try_acquire().is_ok();
            let snapshot = window.snapshot();
            let mut response = Response::builder();
            for (name, value) in fields.of(&snapshot, &time) {
                response = response.header(name, value);
            }
            if !is_admitted {
                let seconds = snapshot.reset_after.as_secs_f64().ceil();
                response = response
                    .status(429)
                    .header("retry-after", seconds.to_string());
            }
            Ok(response.body(Full::default()).expect("a response"))
        }
    });
    let layer = LimitLayer::new(Unlimited::new()).headers(Headers::none());
    let named = Server {
        name: "express-rate-limit",
        host: BoxCloneSyncService::new(layer.layer(host)),
        twin: Arc::new(Unlimited::new()),
    };
    (server, named)
}

fn ask_express(late: Duration, taken_before: u64) -> [u64; 2] {
    ask_express_with(late, taken_before, Quota::per_second(100), Fields::Draft8)
}

fn ask_express_with(late: Duration, taken_before: u64, quota: Quota, fields: Fields) -> [u64; 2] {
    let time = ManualClock::new();
    let (window, server) = express_rate_limit(&time, late, quota, fields);
    window.try_acquire_n(taken_before).expect("there are 100");
    let hosts = Keyed::leaky_bucket(Quota::per_second(100)).clock(&time);
    let layer = ClientLayer::new(hosts.capacity(10).expect("a table"));
    run(layer, &server, 4, 100, &time)
}

#[test]
fn a_window_whose_time_is_rounded_up_is_asked_at_the_rate() {
    assert_eq!(ask_express(Duration::ZERO, 0), [400, 0]);
}

/// The client's requests are ahead of the window, and would be refused at its end for a whole second.
#[test]
fn c2_the_end_of_a_window_that_began_late_is_waited_for() {
    for late_ms in [5, 20, 50] {
        let [admitted, refused] = ask_express(Duration::from_millis(late_ms), 0);
        assert_eq!(refused, 0, "{late_ms} ms");
        assert!(admitted >= 380, "{admitted}, {late_ms} ms");
    }
}

/// `X-RateLimit-Reset` is a whole second, and names no window. The client learns its length from the first response of it,
/// wherever in a second that is.
#[test]
fn c2_a_window_that_is_told_by_a_second_of_the_epoch_is_asked_at_the_rate() {
    for began_ms in [1, 250, 500, 999] {
        for late_ms in [0, 5, 20, 50] {
            let late = Duration::from_millis(late_ms);
            let fields = Fields::Default(1_795_457_186_000 + began_ms);
            let [admitted, refused] = ask_express_with(late, 0, Quota::per_second(100), fields);
            let of = format!("began at {began_ms} ms, {late_ms} ms late: {admitted}, {refused}");
            assert_eq!(refused, 0, "{of}");
            assert!(admitted >= 380, "{of}");
        }
    }
}

/// The first window began at a whole second, so its end tells nothing; the one after it does.
#[test]
fn a_window_that_began_at_a_whole_second_costs_at_most_one_refusal() {
    let fields = Fields::Default(1_795_457_186_000);
    for late_ms in [0, 20] {
        let late = Duration::from_millis(late_ms);
        let [admitted, refused] = ask_express_with(late, 0, Quota::per_second(100), fields);
        assert!(refused <= 1 && admitted >= 300, "{admitted}, {refused}");
    }
}

/// 100 in 1.5 s, to a client with 100/s: at most 300 in 4 s. Its length is not a whole number of seconds, and is guessed too
/// short once.
#[test]
fn a_window_that_is_no_whole_second_is_learned_from_a_refusal() {
    let quota = "100/1500ms".parse().expect("a quota");
    for began_ms in [250, 750] {
        let fields = Fields::Default(1_795_457_186_000 + began_ms);
        let [admitted, refused] = ask_express_with(Duration::ZERO, 0, quota, fields);
        assert!(
            refused <= 2 && admitted >= 200,
            "{began_ms}: {admitted}, {refused}"
        );
    }
}

/// How much is left of the first window is not told, other than that it is at most a second. It is waited for once.
#[test]
fn c2_a_window_that_others_have_used_is_waited_for_once() {
    let [admitted, refused] = ask_express(Duration::ZERO, 40);
    assert_eq!(refused, 0);
    assert!(admitted >= 300, "{admitted}");
}

/// Other fields than `Retry-After` are not needed: the whole second is waited for once.
#[test]
fn a_server_without_fields_is_asked_at_the_rate_after_one_refusal() {
    let time = ManualClock::new();
    let quota = Quota::per_second(100);
    let limit = LeakyBucket::builder(quota).clock(&time);
    let layer = LimitLayer::new(limit.build().expect("a bucket")).headers(Headers::none());
    let server = Server::new("leaky bucket", layer, Arc::new(Unlimited::new()));
    let hosts = Keyed::token_bucket(quota).clock(&time).capacity(10);
    let layer = ClientLayer::new(hosts.expect("a table"));
    let [admitted, refused] = run(layer, &server, 1, 100, &time);
    assert_eq!(refused, 1);
    assert!(admitted >= 297, "{admitted}");
}
