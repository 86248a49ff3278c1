//! [`LayerMetrics`]: what layers count, for the facade of the crate `metrics`.

use crate::counts::{Counts, CountsHandle};
use crate::decision::RefusalReason;
use ::metrics::{Counter, SharedString, Unit, counter, describe_counter};
use flowgate::KeyedCounts;
use std::fmt;

/// A publisher of a layer's counts, through the facade of the crate [`metrics`](::metrics) 0.24.
///
/// It publishes to the recorder that the program has installed.
///
/// | metric | counts |
/// |---|---|
/// | `flowgate_requests_admitted_total` | requests that the limit admitted |
/// | `flowgate_requests_waited_total` | those of them that waited |
/// | `flowgate_requests_refused_total` | rejected requests, by `reason` |
/// | `flowgate_requests_would_refuse_total` | requests that only a dry run did not reject |
/// | `flowgate_requests_exempt_total` | requests that no limit was asked for |
/// | `flowgate_requests_abandoned_total` | requests whose client went away while they waited |
/// | `flowgate_keys_evicted_total` | keys that a table evicted ([`with_keys`](Self::with_keys)) |
/// | `flowgate_keys_shared_total` | decisions by the quota that keys without an entry share |
/// | `flowgate_keys_refused_total` | refusals for want of an entry, by `reason`: `table_full`, `estimate` |
///
/// All are counters, with these labels:
///
/// - `limiter`: the name that [`register`](Self::register) is given.
/// - `class`, of requests: the request's [class](crate::LimitLayer::classes), or `other`.
/// - `reason`, of refused requests: [`RefusalReason::name`].
///
/// No request publishes anything. Call [`record`](Self::record) at intervals, for example every ten seconds, or whenever the
/// metrics are collected. Layers of one name add up.
///
/// For OpenTelemetry, `register_layer_metrics` of flowgate-otel does the same.
///
/// ```
/// use flowgate::Keyed;
/// use flowgate_tower::{LayerMetrics, LimitLayer, by};
/// use std::sync::Arc;
///
/// let users = Arc::new(Keyed::token_bucket("100/s".parse()?).capacity(10_000)?);
/// let layer = LimitLayer::keyed(Arc::clone(&users), by::header("x-user"));
/// let metrics = LayerMetrics::register("api", layer.counts());
/// let mut metrics = metrics.with_keys(move || users.counts());
/// metrics.record(); // in a task, at intervals
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LayerMetrics {
    counts: CountsHandle,
    /// Of each class, and then of requests without one.
    classes: Vec<Class>,
    limiter: SharedString,
    keys: Option<Keys>,
}

/// The metrics of a table of keys.
struct Keys {
    read: Box<dyn Fn() -> KeyedCounts + Send + Sync>,
    evicted: Counter,
    shared: Counter,
    table_full: Counter,
    estimate: Counter,
    published: KeyedCounts,
}

/// The metrics of one class.
struct Class {
    admitted: Counter,
    waited: Counter,
    /// In the order of [`RefusalReason::ALL`].
    refused: [Counter; RefusalReason::ALL.len()],
    would_refuse: Counter,
    exempt: Counter,
    abandoned: Counter,
    published: Counts,
}

const ADMITTED: &str = "flowgate_requests_admitted_total";
const WAITED: &str = "flowgate_requests_waited_total";
const REFUSED: &str = "flowgate_requests_refused_total";
const WOULD_REFUSE: &str = "flowgate_requests_would_refuse_total";
const EXEMPT: &str = "flowgate_requests_exempt_total";
const ABANDONED: &str = "flowgate_requests_abandoned_total";
const KEYS_EVICTED: &str = "flowgate_keys_evicted_total";
const KEYS_SHARED: &str = "flowgate_keys_shared_total";
const KEYS_REFUSED: &str = "flowgate_keys_refused_total";

impl LayerMetrics {
    /// Registers the metrics of the layer with these `counts`.
    ///
    /// The metrics are described to the recorder that is installed now. `limiter` is the value of the label of that name.
    /// Without a recorder, nothing is published. Take the counts of a layer after its [classes](crate::LimitLayer::classes)
    /// are set.
    pub fn register(limiter: impl Into<SharedString>, counts: CountsHandle) -> Self {
        describe();
        let limiter = limiter.into();
        let classes = counts.by_class();
        let names = classes.iter().map(|(name, _)| name.to_string());
        let names = names.chain(std::iter::once("other".to_owned()));
        let classes = names.map(|class| Class::register(&limiter, &class.into()));
        Self {
            classes: classes.collect(),
            counts,
            limiter,
            keys: None,
        }
    }

    /// Also publishes how often a table of keys was full.
    ///
    /// `read` returns the table's [`Keyed::counts`](flowgate::Keyed::counts).
    #[must_use]
    pub fn with_keys(self, read: impl Fn() -> KeyedCounts + Send + Sync + 'static) -> Self {
        describe_keys();
        let of = |name: &'static str| counter!(name, "limiter" => self.limiter.clone());
        let refused = |reason: &'static str| counter!(KEYS_REFUSED, "limiter" => self.limiter.clone(), "reason" => reason);
        let keys = Keys {
            read: Box::new(read),
            evicted: of(KEYS_EVICTED),
            shared: of(KEYS_SHARED),
            table_full: refused("table_full"),
            estimate: refused("estimate"),
            published: KeyedCounts::default(),
        };
        Self {
            keys: Some(keys),
            ..self
        }
    }

    /// Publishes what has been counted since the last call.
    ///
    /// The first call publishes what has been counted since the layer was built.
    pub fn record(&mut self) {
        let by_class = self.counts.by_class();
        for (class, (_, counts)) in self.classes.iter_mut().zip(&by_class) {
            class.record(counts);
        }
        if let Some(others) = self.classes.last_mut() {
            others.record(&self.counts.of_others());
        }
        if let Some(keys) = &mut self.keys {
            keys.record();
        }
    }
}

impl Keys {
    fn record(&mut self) {
        let (now, then) = ((self.read)(), self.published);
        let publish = |counter: &Counter, now: u64, then: u64| {
            counter.increment(now.wrapping_sub(then));
        };
        publish(&self.evicted, now.evicted, then.evicted);
        publish(&self.shared, now.shared, then.shared);
        publish(
            &self.table_full,
            now.refused_for_room,
            then.refused_for_room,
        );
        publish(
            &self.estimate,
            now.refused_by_estimate,
            then.refused_by_estimate,
        );
        self.published = now;
    }
}

impl Class {
    fn register(limiter: &SharedString, class: &SharedString) -> Self {
        let of = |name: &'static str| counter!(name, "limiter" => limiter.clone(), "class" => class.clone());
        let refused = |reason: RefusalReason| {
            counter!(
                REFUSED, "limiter" => limiter.clone(), "class" => class.clone(), "reason" => reason.name()
            )
        };
        Self {
            admitted: of(ADMITTED),
            waited: of(WAITED),
            refused: RefusalReason::ALL.map(refused),
            would_refuse: of(WOULD_REFUSE),
            exempt: of(EXEMPT),
            abandoned: of(ABANDONED),
            published: Counts::default(),
        }
    }

    fn record(&mut self, counts: &Counts) {
        let new = counts.since(&self.published);
        self.admitted.increment(new.admitted);
        self.waited.increment(new.waited);
        for (counter, reason) in self.refused.iter().zip(RefusalReason::ALL) {
            counter.increment(new.refused_for(reason));
        }
        self.would_refuse.increment(new.would_refuse);
        self.exempt.increment(new.exempt);
        self.abandoned.increment(new.abandoned);
        self.published = *counts;
    }
}

fn describe() {
    let describe = |name: &'static str, what: &'static str| {
        describe_counter!(name, Unit::Count, what);
    };
    describe(ADMITTED, "Requests that a limit admitted.");
    describe(WAITED, "Admitted requests that waited.");
    describe(REFUSED, "Requests that were rejected.");
    describe(WOULD_REFUSE, "Requests that only a dry run did not reject.");
    describe(EXEMPT, "Requests that no limit was asked for.");
    describe(
        ABANDONED,
        "Requests whose client went away while they waited.",
    );
}

fn describe_keys() {
    let describe = |name: &'static str, what: &'static str| {
        describe_counter!(name, Unit::Count, what);
    };
    describe(KEYS_EVICTED, "Keys that a full table evicted.");
    describe(
        KEYS_SHARED,
        "Decisions by the quota that keys without an entry share.",
    );
    describe(KEYS_REFUSED, "Refusals of keys without an entry.");
}

impl fmt::Debug for LayerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerMetrics")
            .field("counts", &self.counts.get())
            .finish_non_exhaustive()
    }
}
