//! The state of a limit, as a recorder of the facade gets it.

use flowgate_fleet::{CutOff, Fleet, FleetMetrics, Overshoot};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Keeps the sum of each counter and histogram, and the last value of each gauge, by name and labels.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, f64>>>);

struct Handle(Kept, String);

impl Kept {
    fn of(&self, key: &Key) -> Arc<Handle> {
        let labels = key.labels();
        let labels = labels.map(|label| format!(" {}={}", label.key(), label.value()));
        let name = key.name().to_owned() + &labels.collect::<String>();
        Arc::new(Handle(self.clone(), name))
    }
}

impl Handle {
    fn change(&self, change: impl FnOnce(&mut f64)) {
        change(self.0.0.lock().unwrap().entry(self.1.clone()).or_default());
    }
}

impl CounterFn for Handle {
    fn increment(&self, n: u64) {
        self.change(|value| *value += n as f64);
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

    fn set(&self, new: f64) {
        self.change(|value| *value = new);
    }
}

impl HistogramFn for Handle {
    fn record(&self, value: f64) {
        self.change(|sum| *sum += value);
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.of(key))
    }
}

#[test]
fn each_count_is_published_once_and_no_key_is_in_a_label() {
    let time = flowgate::ManualClock::new();
    let fleet = Fleet::local().clock(&time).nodes(4).open().unwrap();
    let tenants = fleet.keyed("tenant", "2/day".parse().unwrap());
    let tenants = tenants.build().unwrap();
    for key in ["t-17", "t-18", "t-17", "t-17"] {
        let _ = tenants.ask(key).block();
    }
    let kept = Kept::default();
    let mut published = metrics::with_local_recorder(&kept, || FleetMetrics::register("tenant"));
    for _ in 0..2 {
        published.record(&tenants.inspect());
    }
    let values = kept.0.lock().unwrap().clone();
    let of = |name: &str| values[&name.replacen(' ', " limiter=tenant ", 1)];
    for (name, expected) in [
        ("flowgate_fleet_decisions_total decision=admitted", 3.0),
        ("flowgate_fleet_decisions_total decision=denied", 1.0),
        ("flowgate_fleet_decisions_total decision=cut_off", 0.0),
        ("flowgate_fleet_decisions_total decision=degraded", 0.0),
        // The third answer says that nothing is left.
        ("flowgate_fleet_calls_total result=granted", 3.0),
        ("flowgate_fleet_calls_total result=denied", 0.0),
    ] {
        assert_eq!(of(name), expected, "{name}: {values:?}");
    }
    let alone = |name: &str| values[&format!("flowgate_fleet_{name} limiter=tenant")];
    assert_eq!((alone("connected"), alone("share")), (1.0, 0.25));
    // The clock stands still: each call counts as the shortest time.
    assert!((alone("call_seconds") - 0.0003).abs() < 1e-9);
    assert_eq!(alone("excess_bound_units"), 1.0);
    assert!(
        values.keys().all(|name| !name.contains("t-1")),
        "{values:?}"
    );
}

#[test]
fn the_excess_of_a_leased_limit_is_what_all_processes_may_hold() {
    let fleet = Fleet::local().nodes(8).open().unwrap();
    let limit = fleet.limit("api", "1000/s burst 1000".parse().unwrap());
    let limit = limit.leased(Overshoot::percent(20)).build().unwrap();
    assert!(limit.ask().n(3).block().is_ok());
    let kept = Kept::default();
    let mut published = metrics::with_local_recorder(&kept, || FleetMetrics::register("api"));
    published.record(&limit.inspect());
    let values = kept.0.lock().unwrap().clone();
    let value = |name: &str| values[&format!("flowgate_fleet_{name}")];
    assert_eq!(value("excess_bound_units limiter=api"), 200.0);
    // Units, in place of requests.
    assert_eq!(value("decisions_total limiter=api decision=admitted"), 3.0);
}

#[test]
fn the_excess_is_infinite_without_a_bound() {
    let fleet = Fleet::redis("redis://127.0.0.1:1").unwrap().open().unwrap();
    let limit = fleet.limit("api", "2/day".parse().unwrap());
    let limit = limit.when_cut_off(CutOff::Admit).build().unwrap();
    assert!(limit.ask().block().is_ok());
    let kept = Kept::default();
    let mut published = metrics::with_local_recorder(&kept, || FleetMetrics::register("api"));
    published.record(&limit.inspect());
    let values = kept.0.lock().unwrap().clone();
    let value = |name: &str| values[&format!("flowgate_fleet_{name} limiter=api")];
    assert_eq!(value("excess_bound_units"), f64::INFINITY);
    assert_eq!((value("connected"), value("outages_total")), (0.0, 1.0));
}
