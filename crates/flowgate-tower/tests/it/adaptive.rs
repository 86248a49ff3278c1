//! What an adaptive limit learns from the requests of a layer, on a clock that the tests move.

use crate::support::{call, done, get, poll, text};
use bytes::Bytes;
use flowgate::{Adapt, AdaptiveLimit, CallOutcome, ConcurrencyLimit, FineLimit, ManualClock};
use flowgate_tower::client::ClientLayer;
use flowgate_tower::{LimitBody, LimitLayer, RefusalReason};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{Layer, Service, service_fn};

const TICK: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(60);

/// An algorithm that never changes its limit.
#[derive(Debug)]
struct Fixed(u32);

impl Adapt for Fixed {
    fn initial(&self) -> FineLimit {
        FineLimit::whole(self.0)
    }

    fn on_window(&mut self, _: flowgate::Timestamp, _: &flowgate::AdaptWindow) -> FineLimit {
        self.initial()
    }
}

/// A limit that closes a window after each call that counts.
struct Probe {
    time: ManualClock,
    limit: Arc<AdaptiveLimit<Fixed>>,
    windows: u64,
}

impl Probe {
    fn new(permits: u32) -> Self {
        let time = ManualClock::new();
        let limit = AdaptiveLimit::builder(Fixed(permits))
            .min_outcomes(1)
            .clock(&time)
            .build()
            .expect("a limit");
        time.advance(LONG);
        Self {
            time,
            limit: Arc::new(limit),
            windows: 0,
        }
    }

    fn layer(&self) -> LimitLayer {
        LimitLayer::new(Arc::clone(&self.limit))
    }

    /// How the last call counted, and its latency.
    fn counted(&mut self) -> (CallOutcome, Duration) {
        let seen = self.limit.inspect();
        let is_counted = seen.windows > self.windows;
        self.windows = seen.windows;
        self.time.advance(LONG);
        match seen.last_window.filter(|_| is_counted) {
            Some(window) if window.overloads == 1 => (CallOutcome::Overload, Duration::ZERO),
            Some(window) if window.successes == 1 => {
                let latency = Duration::from_nanos(window.mean_latency_ns);
                (CallOutcome::Success, latency)
            }
            Some(window) => panic!("it counts once: {window:?}"),
            None => (CallOutcome::Ignore, Duration::ZERO),
        }
    }

    #[track_caller]
    fn expect(&mut self, outcome: CallOutcome, of: &str) {
        assert_eq!(self.limit.in_flight(), 0, "{of}");
        assert_eq!(self.counted().0, outcome, "{of}");
    }
}

/// A response with this status and field, 10 ms later.
fn response(time: &ManualClock, status: u16, field: Option<(&str, &str)>) -> Response<Full<Bytes>> {
    time.advance(TICK);
    let mut response = Response::builder().status(status);
    if let Some((name, value)) = field {
        response = response.header(name, value);
    }
    response.body(Full::from("done")).expect("a response")
}

/// A status of 0 is an error.
fn answers(
    time: &ManualClock,
    status: u16,
    field: Option<(&'static str, &'static str)>,
) -> impl Service<Request<()>, Response = Response<Full<Bytes>>, Error = &'static str, Future: Send>
+ Clone
+ use<> {
    let time = time.clone();
    service_fn(move |_: Request<()>| {
        let response = match status {
            0 => {
                time.advance(TICK);
                Err("broken")
            }
            _ => Ok(response(&time, status, field)),
        };
        async move { response }
    })
}

/// What becomes of a request, read to its end.
fn read<S, R, E>(service: &mut S) -> Result<(), E>
where
    S: Service<Request<()>, Response = Response<LimitBody<R>>, Error = E>,
    R: Body<Data = Bytes, Error = Infallible>,
{
    let request = Request::get("http://example.org/")
        .body(())
        .expect("a request");
    match poll(pin!(service.call(request))) {
        Poll::Ready(answer) => answer.map(|response| _ = text(response)),
        Poll::Pending => panic!("it waits"),
    }
}

/// A body that does not know where it ends.
struct Parts(VecDeque<Result<&'static str, &'static str>>);

impl Parts {
    fn new<const N: usize>(parts: [Result<&'static str, &'static str>; N]) -> Self {
        Self(parts.into())
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let part = self.0.pop_front();
        Poll::Ready(part.map(|part| part.map(|text| Frame::data(text.into()))))
    }
}

#[test]
fn statuses_are_outcomes() {
    use CallOutcome::{Ignore, Overload, Success};
    // Of a server, and of a client.
    for (status, server, client) in [
        (200, Success, Success),
        (204, Success, Success),
        (304, Success, Success),
        (400, Success, Success),
        (404, Success, Success),
        (408, Overload, Overload),
        (429, Ignore, Overload),
        (500, Ignore, Ignore),
        (501, Ignore, Ignore),
        (502, Ignore, Ignore),
        (503, Overload, Overload),
        (504, Overload, Overload),
        (0, Ignore, Overload),
    ] {
        let name = status.to_string();
        let mut probe = Probe::new(5);
        let service = answers(&probe.time, status, None);
        let _ = read(&mut probe.layer().layer(service.clone()));
        probe.expect(server, &name);

        let layer = ClientLayer::new(Arc::clone(&probe.limit));
        let _ = read(&mut layer.layer(service));
        probe.expect(client, &name);
    }
}

#[test]
fn grpc_codes_are_outcomes_in_the_head_and_in_trailers() {
    use CallOutcome::{Ignore, Overload, Success};
    for (code, outcome) in [
        ("0", Success),
        ("1", Ignore),
        ("2", Ignore),
        ("3", Success),
        ("4", Overload),
        ("5", Success),
        ("7", Success),
        ("8", Overload),
        ("12", Ignore),
        ("13", Ignore),
        ("14", Overload),
        ("15", Ignore),
        ("16", Success),
        ("17", Ignore),
        ("none", Ignore),
    ] {
        let mut probe = Probe::new(5);
        let service = answers(&probe.time, 200, Some(("grpc-status", code)));
        read(&mut probe.layer().layer(service.clone())).expect("a response");
        probe.expect(outcome, code);

        let time = probe.time.clone();
        let service = service_fn(move |_: Request<()>| {
            let head = response(&time, 200, Some(("content-type", "application/grpc")));
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", code.parse().expect("a value"));
            let trailers = async move { Some(Ok(trailers)) };
            let response = head.map(|body| body.with_trailers(trailers));
            async move { Ok::<_, &str>(response) }
        });
        read(&mut probe.layer().layer(service.clone())).expect("a response");
        probe.expect(outcome, code);
        let layer = ClientLayer::new(Arc::clone(&probe.limit));
        read(&mut layer.layer(service)).expect("a response");
        probe.expect(outcome, code);
    }
}

#[test]
fn a_rule_of_your_own_replaces_the_default() {
    let rule = |answer: Option<flowgate_tower::ResponseHead<'_>>| match answer {
        Some(head) if head.headers.contains_key("x-slow") => CallOutcome::Overload,
        Some(_) => CallOutcome::Ignore,
        None => CallOutcome::Success,
    };
    for (status, field, outcome) in [
        (200, Some(("x-slow", "1")), CallOutcome::Overload),
        (503, None, CallOutcome::Ignore),
        (0, None, CallOutcome::Success),
    ] {
        let mut probe = Probe::new(5);
        let service = answers(&probe.time, status, field);
        let _ = read(&mut probe.layer().outcome_of(rule).layer(service.clone()));
        probe.expect(outcome, "a server");
        let layer = ClientLayer::new(Arc::clone(&probe.limit)).outcome_of(rule);
        let _ = read(&mut layer.layer(service));
        probe.expect(outcome, "a client");
    }
}

#[test]
fn the_latency_lasts_until_the_body_has_ended() {
    let mut probe = Probe::new(5);
    let mut service = probe.layer().layer(answers(&probe.time, 200, None));
    let Poll::Ready(Ok(response)) = poll(pin!(service.call(get("/")))) else {
        panic!("it waits")
    };
    assert_eq!(probe.limit.in_flight(), 1);
    probe.time.advance(TICK);
    assert_eq!(text(response), "done");
    assert_eq!(probe.counted(), (CallOutcome::Success, 2 * TICK));

    let mut service = probe
        .layer()
        .release_at_head()
        .layer(answers(&probe.time, 200, None));
    let Poll::Ready(Ok(response)) = poll(pin!(service.call(get("/")))) else {
        panic!("it waits")
    };
    assert_eq!(probe.limit.in_flight(), 0);
    probe.time.advance(TICK);
    assert_eq!(text(response), "done");
    assert_eq!(probe.counted(), (CallOutcome::Success, TICK));
}

/// hyper asks for no frame after the last byte of a response with a length.
#[test]
fn a_body_ends_with_its_last_frame() {
    for (length, outcome) in [("4", CallOutcome::Success), ("5", CallOutcome::Ignore)] {
        let mut probe = Probe::new(5);
        let time = probe.time.clone();
        let service = service_fn(move |_: Request<()>| {
            let head = response(&time, 200, Some(("content-length", length)));
            let response = head.map(|_| Parts::new(["do", "ne"].map(Ok)));
            async move { Ok::<_, Infallible>(response) }
        });
        let mut body = call(&mut probe.layer().layer(service), get("/")).into_body();
        for left in [1, 0] {
            assert_eq!(probe.limit.in_flight(), 1, "{left} more");
            assert!(poll(pin!(body.frame())).is_ready());
        }
        drop(body);
        probe.expect(outcome, length);
    }
    // One that knows its end needs no length.
    let mut probe = Probe::new(5);
    let mut service = probe.layer().layer(answers(&probe.time, 200, None));
    let Poll::Ready(Ok(response)) = poll(pin!(service.call(get("/")))) else {
        panic!("it waits")
    };
    let mut body = response.into_body();
    assert!(poll(pin!(body.frame())).is_ready());
    probe.expect(CallOutcome::Success, "a frame");
}

#[test]
fn what_is_abandoned_or_breaks_off_is_ignored() {
    let mut probe = Probe::new(5);
    let never =
        service_fn(|_: Request<()>| std::future::pending::<Result<Response<Full<Bytes>>, &str>>());
    let mut waiting = Box::pin(probe.layer().layer(never).call(get("/")));
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!(probe.limit.in_flight(), 1);
    drop(waiting);
    probe.expect(CallOutcome::Ignore, "no response");

    let mut service = probe.layer().layer(answers(&probe.time, 200, None));
    drop(poll(pin!(service.call(get("/")))));
    probe.expect(CallOutcome::Ignore, "no body");
    // But it is over if there is none.
    let empty = service_fn({
        let time = probe.time.clone();
        move |_: Request<()>| {
            let response = response(&time, 204, None).map(|_| Full::<Bytes>::default());
            async move { Ok::<_, &str>(response) }
        }
    });
    drop(poll(pin!(probe.layer().layer(empty).call(get("/")))));
    probe.expect(CallOutcome::Success, "an empty body");

    let broken = service_fn({
        let time = probe.time.clone();
        move |_: Request<()>| {
            let parts = Parts::new([Ok("do"), Err("broken")]);
            let response = response(&time, 200, None).map(|_| parts);
            async move { Ok::<_, Infallible>(response) }
        }
    });
    let mut body = call(&mut probe.layer().layer(broken), get("/")).into_body();
    assert!(poll(pin!(body.frame())).is_ready());
    assert!(matches!(
        poll(pin!(body.frame())),
        Poll::Ready(Some(Err("broken")))
    ));
    probe.expect(CallOutcome::Ignore, "a broken body");
}

#[test]
fn over_the_limit_it_is_503_or_a_wait() {
    let probe = Probe::new(1);
    let layer = probe.layer();
    let mut service = layer.layer(done());
    let held = call(&mut service, get("/"));
    let refused = call(&mut service, get("/"));
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["ratelimit"], "\"default\";r=0");
    assert_eq!(layer.counts().get().refused_for(RefusalReason::Busy), 1);

    let mut waits = layer.clone().wait(LONG).layer(done());
    let mut waiting = Box::pin(waits.call(get("/")));
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!(probe.limit.inspect().waiting, 1);
    drop(held);
    assert!(poll(waiting.as_mut()).is_ready());
}

#[test]
fn c9_it_allocates_a_record_of_the_call_and_no_more_than_a_concurrency_limit_beside_it() {
    let probe = Probe::new(5);
    let fixed = LimitLayer::new(ConcurrencyLimit::new(5));
    let allocations = |layer: &LimitLayer| {
        let mut service = layer.layer(done());
        let mut requests = vec![get("/"), get("/")];
        let mut once = || {
            let request = requests.pop().expect("two");
            assert_eq!(text(call(&mut service, request)), "done");
        };
        once();
        allocation_counter::measure(once).count_total
    };
    assert_eq!(allocations(&probe.layer()), 1 + allocations(&fixed));
}
