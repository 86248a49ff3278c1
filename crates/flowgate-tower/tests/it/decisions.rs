//! Every decision is seen once: by the hook, in the counts of its class, and in the metrics.

use crate::support::{call, done, from_tenant, get, poll};
use flowgate::{ConcurrencyLimit, Keyed, ManualClock, TokenBucket, WhenFull};
use flowgate_tower::{Counts, Decision, LayerMetrics, LayerVerdict, LimitLayer, RefusalReason, by};
use http::Request;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::{Layer, Service};

const SECOND: Duration = Duration::from_secs(1);

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what is decided.
fn log() -> (Log, impl Fn(&Decision<'_>) + Send + Sync + 'static) {
    let log = Log::default();
    let lines = Arc::clone(&log);
    let watch = move |decision: &Decision<'_>| {
        let mut line = format!("{} {}", decision.limit_name, decision.verdict);
        if let Some(waited) = decision.waited {
            line += &format!(" after {waited:?}");
        }
        if let Some(wait) = decision.denied.and_then(|denied| denied.retry_after()) {
            line += &format!(", retry after {wait:?}");
        }
        lines.lock().expect("unharmed").push(line);
    };
    (log, watch)
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().expect("unharmed"))
}

fn bucket(quota: &str, time: &ManualClock) -> TokenBucket {
    let bucket = TokenBucket::builder(quota.parse().expect("a quota")).clock(time);
    bucket.build().expect("a bucket")
}

#[test]
fn every_decision_is_seen_once() {
    let time = ManualClock::new();
    let (log, watch) = log();
    let layer = LimitLayer::new(bucket("1/s burst 2", &time))
        .name("api")
        .exempt_paths(["/health"])
        .cost(|request| if request.uri.path() == "/large" { 3 } else { 1 })
        .on_decision(watch);
    let controls = layer.controls();
    let mut service = layer.layer(done());
    for path in ["/", "/health", "/", "/", "/large"] {
        call(&mut service, get(path));
    }
    assert_eq!(
        take(&log),
        [
            "api admitted",
            "api exempt",
            "api admitted",
            "api refused (over_limit), retry after 1s",
            "api refused (never)",
        ]
    );

    controls.set_dry_run(true);
    call(&mut service, get("/"));
    controls.set_wait(Some(10 * SECOND));
    call(&mut service, get("/"));
    assert_eq!(
        take(&log),
        [
            "api would be refused (over_limit), retry after 1s",
            "api would wait"
        ]
    );

    // Waits are seen when they are over.
    controls.set_dry_run(false);
    let mut granted = Box::pin(service.call(get("/")));
    let mut dropped = Box::pin(service.call(get("/")));
    assert!(poll(granted.as_mut()).is_pending() && poll(dropped.as_mut()).is_pending());
    assert!(take(&log).is_empty());
    time.advance(SECOND);
    assert!(poll(granted.as_mut()).is_ready());
    drop(dropped);
    assert_eq!(
        take(&log),
        ["api admitted after 1s", "api abandoned after 1s"]
    );
    let Counts {
        admitted,
        waited,
        refused,
        would_refuse,
        exempt,
        abandoned,
        ..
    } = layer.counts().get();
    assert_eq!((admitted, waited, refused), (3, 1, 2));
    assert_eq!((would_refuse, exempt, abandoned), (1, 1, 1));
}

#[test]
fn a_refusal_has_one_reason() {
    let time = ManualClock::new();
    let tenants = Keyed::token_bucket("1/h".parse().expect("a quota"));
    let tenants = tenants.clock(&time).capacity(10).expect("a table");
    let layer = LimitLayer::keyed(tenants, by::header("x-tenant"));
    let mut service = layer.layer(done());
    for request in [from_tenant("ann"), from_tenant("ann"), get("/"), get("/")] {
        call(&mut service, request);
    }
    let counts = layer.counts().get();
    let by_reason = RefusalReason::ALL.map(|reason| counts.refused_for(reason));
    assert_eq!(by_reason, [1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
    assert_eq!(by_reason.iter().sum::<u64>(), counts.refused);

    let busy = LimitLayer::new(ConcurrencyLimit::new(0));
    call(&mut busy.layer(done()), get("/"));
    assert_eq!(busy.counts().get().refused_for(RefusalReason::Busy), 1);
    let peer = Keyed::token_bucket("1/h".parse().expect("a quota"));
    let peer = LimitLayer::keyed(peer.capacity(10).expect("a table"), by::peer_address());
    call(&mut peer.layer(done()), get("/"));
    let counts = peer.counts().get();
    assert_eq!(counts.refused_for(RefusalReason::Misconfigured), 1);
}

/// Keeps the sums, by name and labels.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, u64>>>);

struct Handle(Kept, String);

impl CounterFn for Handle {
    fn increment(&self, n: u64) {
        let mut sums = self.0.0.lock().expect("unharmed");
        if n > 0 {
            *sums.entry(self.1.clone()).or_default() += n;
        }
    }

    fn absolute(&self, _: u64) {
        panic!("others may count under the same name");
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key.labels().map(|label| label.value()).collect::<Vec<_>>();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Counter::from_arc(Arc::new(Handle(self.clone(), name)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        panic!("there are none")
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("there are none")
    }
}

#[test]
fn what_is_counted_is_published_once_by_class_and_reason() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(bucket("1/s burst 1", &time))
        .wait(SECOND)
        .classes(["free", "gold"], |request| {
            request.headers.get("x-tenant")?.to_str().ok()
        });
    let mut service = layer.layer(done());
    let mut ask = |tenant: &str| {
        let mut answer = pin!(service.call(from_tenant(tenant)));
        poll(answer.as_mut()).is_ready()
    };
    let kept = Kept::default();
    let mut published =
        metrics::with_local_recorder(&kept, || LayerMetrics::register("api", layer.counts()));
    published.record();
    assert!(kept.0.lock().expect("unharmed").is_empty());

    assert!(ask("gold"));
    assert!(!ask("free"), "it waits, and is dropped");
    published.record();
    published.record();
    layer.controls().set_wait(None);
    assert!(ask("free") && ask("made up"));
    published.record();
    let expected = [
        ("flowgate_requests_abandoned_total api free", 1),
        ("flowgate_requests_admitted_total api gold", 1),
        ("flowgate_requests_refused_total api free over_limit", 1),
        ("flowgate_requests_refused_total api other over_limit", 1),
    ];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(*kept.0.lock().expect("unharmed"), BTreeMap::from(expected));
    let by_class = layer.counts().by_class();
    let names: Vec<_> = by_class.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["free", "gold"]);
}

#[test]
fn what_a_full_table_does_is_published_too() {
    let tenants = Keyed::token_bucket("1/h".parse().expect("a quota"));
    let tenants = Arc::new(
        tenants
            .when_full(WhenFull::Deny)
            .capacity(8)
            .expect("a table"),
    );
    let layer = LimitLayer::keyed(Arc::clone(&tenants), by::header("x-tenant"));
    let kept = Kept::default();
    let mut published = metrics::with_local_recorder(&kept, || {
        let read = Arc::clone(&tenants);
        LayerMetrics::register("api", layer.counts()).with_keys(move || read.counts())
    });
    let mut service = layer.layer(done());
    // The smallest table has 256 slots, wherever its seed puts the keys.
    for number in 0..1000 {
        call(&mut service, from_tenant(&number.to_string()));
    }
    published.record();
    published.record();
    let refused = layer.counts().get().refused_for(RefusalReason::TableFull);
    assert!(refused > 0);
    let sums = kept.0.lock().expect("unharmed");
    for name in [
        "flowgate_keys_refused_total api table_full",
        "flowgate_requests_refused_total api other table_full",
    ] {
        assert_eq!(sums.get(name), Some(&refused), "{name}");
    }
}

/// It sees the request of a wait that is given up, too.
#[test]
fn the_hook_has_the_request_of_a_wait_that_is_given_up() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let paths = Arc::clone(&seen);
    let layer = LimitLayer::new(ConcurrencyLimit::new(0))
        .wait(SECOND)
        .on_decision(move |decision| {
            let path = decision.request.uri.path().to_owned();
            paths
                .lock()
                .expect("unharmed")
                .push((path, decision.verdict));
        });
    let mut service = layer.layer(done());
    let request = Request::get("/slow").body(()).expect("a request");
    assert!(poll(pin!(service.call(request))).is_pending());
    let expected = [("/slow".to_owned(), LayerVerdict::Abandoned)];
    assert_eq!(*seen.lock().expect("unharmed"), expected);
}
