//! What a reader collects of observed limiters, of adaptive limits, of tables of keys and of layers.

use crate::collector::Collector;
use flowgate::{
    Adapt, AdaptReport, AdaptWindow, AdaptiveLimit, CallOutcome, ConcurrencyLimit, FineLimit, Gate,
    Keyed, ManualClock, Observed, Quota, Timestamp, TokenBucket, WhenFull,
};
use flowgate_otel::{
    register_adaptive_metrics, register_fleet_metrics, register_key_metrics,
    register_layer_metrics, register_metrics,
};
use flowgate_tower::LimitLayer;
use futures_executor::block_on;
use http::{Request, Response};
use opentelemetry_sdk::metrics::Temporality;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tower::{Layer, ServiceExt, service_fn};

type Limiter = Arc<Observed<TokenBucket>>;

fn observed(time: &ManualClock) -> Limiter {
    let quota = "100/s burst 5".parse().expect("a quota");
    let bucket = TokenBucket::builder(quota).clock(time);
    Arc::new(Observed::new(bucket.build().expect("in range")))
}

fn register(collector: &Collector, name: &'static str, limiter: &Limiter) {
    let limiter = Arc::clone(limiter);
    register_metrics(&collector.meter(), name, move || {
        (limiter.counts(), limiter.waits())
    });
}

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

#[test]
fn each_count_is_observed_under_its_name() {
    let collector = Collector::new(Temporality::Cumulative);
    let time = ManualClock::new();
    let limiter = observed(&time);
    register(&collector, "api", &limiter);
    limiter.try_acquire_n(4).expect("there are four");
    limiter.try_acquire().expect("there is one");
    assert!(limiter.try_acquire().is_err());
    assert!(limiter.try_acquire_n(6).is_err());
    let mut context = Context::from_waker(Waker::noop());
    let mut wait = Box::pin(limiter.acquire());
    assert!(wait.as_mut().poll(&mut context).is_pending());
    let _ = Box::pin(limiter.acquire()).as_mut().poll(&mut context);

    let values = collector.collect();
    assert_eq!(values["flowgate.admitted flowgate.limiter=api"], (2, true));
    assert_eq!(
        values["flowgate.admitted_units flowgate.limiter=api"],
        (5, true)
    );
    let refused =
        |reason| format!("flowgate.refused flowgate.limiter=api flowgate.reason={reason}");
    for (reason, count) in [
        ("over_limit", 1),
        ("busy", 0),
        ("never", 1),
        ("queue_full", 0),
        ("shed", 0),
        ("closed", 0),
        ("deadline", 0),
        ("cancelled", 0),
        ("table_full", 0),
    ] {
        assert_eq!(values[&refused(reason)], (count, true), "{reason}");
    }
    assert_eq!(values["flowgate.abandoned flowgate.limiter=api"], (1, true));
    assert_eq!(values["flowgate.waiting flowgate.limiter=api"], (1, false));
    let waits = "flowgate.waits flowgate.limiter=api le=+Inf";
    assert_eq!(values[waits], (0, true));
    assert_eq!(values.len(), 3 + 9 + 1 + 14);

    time.advance(Duration::from_millis(10));
    assert!(wait.as_mut().poll(&mut context).is_ready());
    limiter.queue().close();
    assert!(limiter.try_acquire().is_err());
    for _ in 0..2 {
        let values = collector.collect();
        assert_eq!(values["flowgate.admitted flowgate.limiter=api"], (3, true));
        assert_eq!(values[&refused("closed")], (1, true));
        assert_eq!(values["flowgate.waiting flowgate.limiter=api"], (0, false));
        assert_eq!(values[waits], (1, true));
    }
}

#[test]
fn waits_are_counted_up_to_each_bound_and_never_as_shorter() {
    let collector = Collector::new(Temporality::Cumulative);
    let time = ManualClock::new();
    let limiter = observed(&time);
    register(&collector, "x", &limiter);
    let within = |le: &str| {
        let name = format!("flowgate.waits flowgate.limiter=x le={le}");
        collector.collect()[&name].0
    };
    let mut context = Context::from_waker(Waker::noop());
    let mut waits: Vec<_> = (0..8).map(|_| Box::pin(limiter.acquire())).collect();
    for wait in &mut waits {
        let _ = wait.as_mut().poll(&mut context);
    }
    // Of no length five, then of 10, 20 and 30 ms.
    assert_eq!(["0.001", "0.01", "+Inf"].map(within), [5, 5, 5]);
    time.advance(Duration::from_millis(10));
    assert!(waits[5].as_mut().poll(&mut context).is_ready());
    assert_eq!(["0.005", "0.01", "0.025"].map(within), [5, 6, 6]);
    for wait in &mut waits[6..] {
        time.advance(Duration::from_millis(10));
        assert!(wait.as_mut().poll(&mut context).is_ready());
    }
    let bounds = ["0.001", "0.005", "0.01", "0.025", "0.05", "10", "+Inf"];
    assert_eq!(bounds.map(within), [5, 5, 6, 7, 8, 8, 8]);
}

#[test]
fn a_reader_of_differences_gets_them_and_each_limiter_has_its_own() {
    let collector = Collector::new(Temporality::Delta);
    let time = ManualClock::new();
    let limiters = [observed(&time), observed(&time)];
    register(&collector, "a", &limiters[0]);
    register(&collector, "b", &limiters[1]);
    limiters[0].try_acquire_n(3).expect("there are three");
    let values = collector.collect();
    assert_eq!(values["flowgate.admitted_units flowgate.limiter=a"].0, 3);
    assert_eq!(values["flowgate.admitted_units flowgate.limiter=b"].0, 0);

    limiters[0].try_acquire_n(2).expect("there are two");
    limiters[1].try_acquire().expect("there is one");
    let values = collector.collect();
    assert_eq!(values["flowgate.admitted_units flowgate.limiter=a"].0, 2);
    assert_eq!(values["flowgate.admitted_units flowgate.limiter=b"].0, 1);
}

#[test]
fn an_observed_gate_and_an_observed_table_are_reported_by_the_same_names() {
    let collector = Collector::new(Temporality::Cumulative);
    let gate = Gate::builder()
        .limit("rate", TokenBucket::new(quota("3/day")))
        .limit("permits", ConcurrencyLimit::new(1))
        .build();
    let gate = Arc::new(Observed::new(gate.expect("a gate")));
    let read = Arc::clone(&gate);
    register_metrics(&collector.meter(), "gate", move || {
        (read.counts(), read.waits())
    });
    let permit = gate.try_acquire().expect("both have one");
    assert!(gate.try_acquire().is_err());
    drop(permit);

    let table = Keyed::token_bucket(quota("2/day")).capacity(100);
    let table = Arc::new(Observed::new(table.expect("a table")));
    let read = Arc::clone(&table);
    register_metrics(&collector.meter(), "users", move || {
        (read.counts(), read.waits())
    });
    for key in ["ada", "ada", "ada", "bob"] {
        let _ = table.try_acquire(key);
    }
    let values = collector.collect();
    let refused = |limiter, reason| {
        let name = format!("flowgate.refused flowgate.limiter={limiter} flowgate.reason={reason}");
        values[&name].0
    };
    assert_eq!(values["flowgate.admitted flowgate.limiter=gate"].0, 1);
    assert_eq!(refused("gate", "busy"), 1);
    assert_eq!(values["flowgate.admitted flowgate.limiter=users"].0, 3);
    assert_eq!(refused("users", "over_limit"), 1);
}

#[test]
fn what_a_full_table_does_is_observed_under_its_name() {
    let collector = Collector::new(Temporality::Cumulative);
    let of = |name: &'static str, when_full| {
        let time = ManualClock::new();
        let table = Keyed::token_bucket(quota("2/day"))
            .clock(&time)
            .when_full(when_full);
        let table = Arc::new(table.capacity(8).expect("a table"));
        let read = Arc::clone(&table);
        register_key_metrics(&collector.meter(), name, move || read.counts());
        for key in 0..1000_u32 {
            let _ = table.try_acquire(&key);
        }
        table.counts()
    };
    let evicts = of("evicts", WhenFull::Evict);
    let denies = of("denies", WhenFull::Deny);
    let shares = of("shares", WhenFull::Share(quota("5/day")));
    assert!(evicts.evicted > 0 && denies.refused_for_room > 0 && shares.shared > 0);
    let values = collector.collect();
    for (name, counts) in [("evicts", evicts), ("denies", denies), ("shares", shares)] {
        let of = |metric: &str, reason: &str| {
            let name = format!("flowgate.keys.{metric} flowgate.limiter={name}{reason}");
            let (value, grows) = values[&name];
            assert!(grows, "{name}");
            u64::try_from(value).expect("a count")
        };
        assert_eq!(of("evicted", ""), counts.evicted, "{name}");
        assert_eq!(of("shared", ""), counts.shared, "{name}");
        assert_eq!(
            of("refused", " flowgate.reason=table_full"),
            counts.refused_for_room
        );
        assert_eq!(
            of("refused", " flowgate.reason=estimate"),
            counts.refused_by_estimate
        );
    }
    assert_eq!(values.len(), 3 * 4);
}

/// Of two classes and of other requests: each with its own numbers, under its own attributes.
#[test]
fn what_a_layer_counts_is_observed_by_class_and_reason() {
    let collector = Collector::new(Temporality::Cumulative);
    let time = ManualClock::new();
    let bucket = TokenBucket::builder(quota("4/day")).clock(&time).build();
    let layer = LimitLayer::new(bucket.expect("a bucket"))
        .exempt_paths(["/health"])
        .classes(["read", "write"], |request| match request.uri.path() {
            "/read" => Some("read"),
            "/write" => Some("write"),
            _ => None,
        });
    register_layer_metrics(&collector.meter(), "api", layer.counts());
    let service = layer.layer(service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let ask = |path: &str| {
        let request = Request::get(path).body(String::new()).expect("a request");
        block_on(service.clone().oneshot(request)).expect("it answers");
    };
    for path in [
        "/health", "/read", "/read", "/read", "/write", "/write", "/write", "/",
    ] {
        ask(path);
    }
    let values = collector.collect();
    let of = |metric: &str, class: &str, reason: &str| {
        let name = format!(
            "flowgate.requests.{metric} flowgate.class={class} flowgate.limiter=api{reason}"
        );
        let (value, grows) = values[&name];
        assert!(grows, "{name}");
        value
    };
    let refused = |class| of("refused", class, " flowgate.reason=over_limit");
    let by_class = |metric| ["read", "write", "other"].map(|class| of(metric, class, ""));
    assert_eq!(by_class("admitted"), [3, 1, 0]);
    assert_eq!(by_class("exempt"), [0, 0, 1]);
    assert_eq!(["read", "write", "other"].map(refused), [0, 2, 1]);
    for metric in ["waited", "would_refuse", "abandoned"] {
        assert_eq!(by_class(metric), [0, 0, 0], "{metric}");
    }
    assert_eq!(of("refused", "write", " flowgate.reason=busy"), 0);
    let reasons = flowgate_tower::RefusalReason::ALL.len();
    assert_eq!(values.len(), 3 * (5 + reasons));
}

/// An algorithm that knows nothing before its first window.
#[derive(Default)]
struct Reporting(AdaptReport);

impl Adapt for Reporting {
    fn initial(&self) -> FineLimit {
        FineLimit::whole(20)
    }

    fn on_window(&mut self, _: Timestamp, window: &AdaptWindow) -> FineLimit {
        self.0.baseline_ns = Some(window.mean_latency_ns);
        self.0.gradient_permille = Some(750);
        FineLimit::whole(41).times(1, 2)
    }

    fn report(&self) -> AdaptReport {
        self.0
    }
}

#[test]
fn the_state_of_an_adaptive_limit_is_observed_under_its_names() {
    let collector = Collector::new(Temporality::Cumulative);
    let time = ManualClock::new();
    let limit = AdaptiveLimit::builder(Reporting::default())
        .min_outcomes(2)
        .clock(&time)
        .build();
    let limit = Arc::new(limit.expect("a limit"));
    let seen = Arc::clone(&limit);
    register_adaptive_metrics(&collector.meter(), "api", move || seen.inspect());
    let name = |name: &str| format!("flowgate.{name} flowgate.limiter=api");
    let values = collector.collect();
    assert_eq!(values[&name("adaptive.limit")], (20_000, false));
    // The baseline and the gradient are not known yet.
    assert_eq!(values.len(), 4);

    let held = [(); 12].map(|()| limit.try_acquire().expect("a permit"));
    let mut held = held.into_iter();
    time.advance(Duration::from_millis(100));
    for permit in held.by_ref().take(10) {
        permit.finish(CallOutcome::Success);
    }
    held.next().expect("two").finish(CallOutcome::Overload);
    let values = collector.collect();
    assert_eq!(values[&name("adaptive.limit")], (20_500, false));
    assert_eq!(values[&name("adaptive.in_flight")], (1_000, false));
    assert_eq!(values[&name("waiting")], (0, false));
    assert_eq!(values[&name("adaptive.baseline")], (100, false));
    assert_eq!(values[&name("adaptive.gradient")], (750, false));
    assert_eq!(values[&name("adaptive.overloads")], (1, true));
    assert_eq!(values.len(), 6);
}

#[test]
fn a_limit_of_a_fleet_is_reported_and_no_key_is_in_an_attribute() {
    let time = ManualClock::new();
    let fleet = flowgate_fleet::Fleet::local().clock(&time).nodes(4);
    let fleet = fleet.open().expect("a fleet");
    let tenants = fleet.keyed("tenant", quota("2/day")).build();
    let tenants = tenants.expect("a limit");
    for key in ["t-17", "t-18", "t-17", "t-17"] {
        let _ = tenants.ask(key).block();
    }
    let collector = Collector::new(Temporality::Cumulative);
    register_fleet_metrics(&collector.meter(), "tenant", move || tenants.inspect());
    let values = collector.collect();
    for (name, expected) in [
        ("decisions flowgate.decision=admitted", (3, true)),
        ("decisions flowgate.decision=denied", (1, true)),
        ("decisions flowgate.decision=cut_off", (0, true)),
        (
            "calls flowgate.limiter=tenant flowgate.result=granted",
            (3, true),
        ),
        (
            "calls flowgate.limiter=tenant flowgate.result=lost",
            (0, true),
        ),
        ("call_times flowgate.limiter=tenant le=0.0001", (3, true)),
        ("call_times flowgate.limiter=tenant le=+Inf", (3, true)),
        ("amnesias flowgate.limiter=tenant", (0, true)),
        ("excess_bound flowgate.limiter=tenant", (1_000, false)),
        ("connected flowgate.limiter=tenant", (1_000, false)),
        ("share flowgate.limiter=tenant", (250, false)),
    ] {
        let mut name = format!("flowgate.fleet.{name}");
        if name.contains("decision=") {
            name += " flowgate.limiter=tenant";
        }
        assert_eq!(values.get(&name), Some(&expected), "{name}: {values:?}");
    }
    assert!(values.keys().all(|name| !name.contains("t-1")));
}
