//! What an observed limiter counts, and the state of an adaptive limit, as a recorder of the facade gets them.

use flowgate::{
    Adapt, AdaptReport, AdaptWindow, AdaptiveLimit, AdaptiveMetrics, CallOutcome, FineLimit,
    ManualClock, MetricsPublisher, Observed, Timestamp, TokenBucket,
};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

/// Keeps what it gets, by name and labels.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    described: BTreeSet<String>,
    values: BTreeMap<String, Vec<f64>>,
}

struct Handle(Kept, String);

impl Handle {
    fn of(kept: &Kept, key: &Key) -> Arc<Self> {
        let mut name = key.name().to_owned();
        for label in key.labels() {
            name += &format!(" {}={}", label.key(), label.value());
        }
        Arc::new(Self(kept.clone(), name))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<f64>)) {
        let values = &mut self.0.0.lock().unwrap().values;
        change(values.entry(self.1.clone()).or_default());
    }
}

impl CounterFn for Handle {
    fn increment(&self, n: u64) {
        self.change(|values| values.push(n as f64));
    }

    fn absolute(&self, _: u64) {
        panic!("others may count under the same name");
    }
}

impl GaugeFn for Handle {
    fn increment(&self, _: f64) {
        panic!("it is set");
    }

    fn decrement(&self, _: f64) {
        panic!("it is set");
    }

    fn set(&self, value: f64) {
        self.change(|values| *values = vec![value]);
    }
}

impl HistogramFn for Handle {
    fn record(&self, value: f64) {
        self.change(|values| values.push(value));
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.0
            .lock()
            .unwrap()
            .described
            .insert(name.as_str().to_owned());
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe_counter(name, unit, text);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        assert_eq!(unit, Some(Unit::Seconds));
        self.describe_counter(name, unit, text);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Handle::of(self, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Handle::of(self, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Handle::of(self, key))
    }
}

impl Kept {
    fn sum(&self, name: &str) -> f64 {
        self.values(name).iter().sum()
    }

    fn values(&self, name: &str) -> Vec<f64> {
        self.0
            .lock()
            .unwrap()
            .values
            .get(name)
            .cloned()
            .unwrap_or_default()
    }
}

fn observed(time: &ManualClock) -> Observed<TokenBucket> {
    let quota = "100/s burst 5".parse().expect("a quota");
    let bucket = TokenBucket::builder(quota).clock(time);
    Observed::new(bucket.build().expect("in range"))
}

#[test]
fn each_count_is_published_once_under_its_name() {
    let kept = Kept::default();
    let time = ManualClock::new();
    let limiter = observed(&time);
    let mut publisher = metrics::with_local_recorder(&kept, || MetricsPublisher::register("api"));
    limiter.try_acquire_n(4).expect("there are four");
    limiter.try_acquire().expect("there is one");
    assert!(limiter.try_acquire().is_err());
    assert!(limiter.try_acquire_n(6).is_err());
    let mut context = Context::from_waker(Waker::noop());
    let mut wait = Box::pin(limiter.acquire());
    assert!(wait.as_mut().poll(&mut context).is_pending());
    let _ = Box::pin(limiter.acquire()).as_mut().poll(&mut context);

    publisher.record(&limiter.counts(), &limiter.waits());
    assert_eq!(kept.sum("flowgate_admitted_total limiter=api"), 2.0);
    assert_eq!(kept.sum("flowgate_admitted_units_total limiter=api"), 5.0);
    let refused = "flowgate_refused_total limiter=api reason";
    assert_eq!(kept.sum(&format!("{refused}=over_limit")), 1.0);
    assert_eq!(kept.sum(&format!("{refused}=never")), 1.0);
    assert_eq!(kept.sum(&format!("{refused}=busy")), 0.0);
    assert_eq!(kept.values("flowgate_waiting limiter=api"), [1.0]);
    assert_eq!(kept.sum("flowgate_abandoned_total limiter=api"), 1.0);
    assert!(kept.values("flowgate_wait_seconds limiter=api").is_empty());

    time.advance(Duration::from_millis(10));
    assert!(wait.as_mut().poll(&mut context).is_ready());
    limiter.queue().close();
    assert!(limiter.try_acquire().is_err());
    publisher.record(&limiter.counts(), &limiter.waits());
    publisher.record(&limiter.counts(), &limiter.waits());
    assert_eq!(kept.sum("flowgate_admitted_total limiter=api"), 3.0);
    assert_eq!(kept.sum(&format!("{refused}=closed")), 1.0);
    assert_eq!(kept.values("flowgate_waiting limiter=api"), [0.0]);
    let waits = kept.values("flowgate_wait_seconds limiter=api");
    assert_eq!(waits.len(), 1);
    assert!((0.01..=0.01 * 17.0 / 16.0).contains(&waits[0]), "{waits:?}");
    assert_eq!(kept.0.lock().unwrap().described.len(), 6);
}

#[test]
fn each_wait_is_published_as_long_as_it_was() {
    let kept = Kept::default();
    let time = ManualClock::new();
    let limiter = observed(&time);
    let mut publisher = metrics::with_local_recorder(&kept, || MetricsPublisher::register("x"));
    let mut context = Context::from_waker(Waker::noop());
    let mut waits: Vec<_> = (0..8).map(|_| Box::pin(limiter.acquire())).collect();
    for wait in &mut waits {
        let _ = wait.as_mut().poll(&mut context);
    }
    for wait in &mut waits[5..] {
        time.advance(Duration::from_millis(10));
        assert!(wait.as_mut().poll(&mut context).is_ready());
    }
    publisher.record(&limiter.counts(), &limiter.waits());
    let published = kept.values("flowgate_wait_seconds limiter=x");
    assert_eq!(published.len(), 8);
    for (published, exact) in published
        .iter()
        .zip([0.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.02, 0.03])
    {
        assert!(
            (exact..=exact * 17.0 / 16.0).contains(published),
            "{published}"
        );
    }
}

#[test]
fn limiters_of_one_name_add_up_and_without_a_recorder_nothing_happens() {
    let kept = Kept::default();
    let time = ManualClock::new();
    let limiters = [observed(&time), observed(&time)];
    for limiter in &limiters {
        let mut publisher =
            metrics::with_local_recorder(&kept, || MetricsPublisher::register("both"));
        limiter.acquire().block().expect("there is one");
        publisher.record(&limiter.counts(), &limiter.waits());
        let mut nowhere = MetricsPublisher::register("both");
        nowhere.record(&limiter.counts(), &limiter.waits());
    }
    assert_eq!(kept.sum("flowgate_admitted_total limiter=both"), 2.0);
    assert_eq!(
        kept.values("flowgate_wait_seconds limiter=both"),
        [0.0, 0.0]
    );
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
fn the_state_of_an_adaptive_limit_is_published_under_its_names() {
    let kept = Kept::default();
    let time = ManualClock::new();
    let limit = AdaptiveLimit::builder(Reporting::default())
        .min_outcomes(2)
        .clock(&time)
        .build()
        .expect("a limit");
    let mut metrics = metrics::with_local_recorder(&kept, || AdaptiveMetrics::register("api"));
    let value = |name: &str| kept.values(&format!("flowgate_{name} limiter=api"));
    metrics.record(&limit.inspect());
    assert_eq!(value("adaptive_limit"), [20.0]);
    for of_latency in ["baseline_seconds", "gradient"] {
        assert!(value(&format!("adaptive_{of_latency}")).is_empty());
    }

    let held: Vec<_> = (0..12)
        .map(|_| limit.try_acquire().expect("a permit"))
        .collect();
    let mut held = held.into_iter();
    time.advance(Duration::from_millis(100));
    for permit in held.by_ref().take(10) {
        permit.finish(CallOutcome::Success);
    }
    held.next().expect("two").finish(CallOutcome::Overload);
    for _ in 0..2 {
        metrics.record(&limit.inspect());
        assert_eq!(value("adaptive_limit"), [20.5]);
        assert_eq!(value("adaptive_in_flight"), [1.0]);
        assert_eq!(value("waiting"), [0.0]);
        assert_eq!(value("adaptive_baseline_seconds"), [0.1]);
        assert_eq!(value("adaptive_gradient"), [0.75]);
        assert_eq!(
            kept.sum("flowgate_adaptive_overloads_total limiter=api"),
            1.0
        );
    }
    let described = kept.0.lock().unwrap().described.len();
    assert_eq!(described, 6);
}
