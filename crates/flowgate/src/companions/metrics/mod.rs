//! [`MetricsPublisher`]: what an observed limiter counts, for the facade of the crate `metrics`.

use crate::companions::observed::{ObservedCounts, Refusals, Waits};
use ::metrics::{
    Counter, Gauge, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};
use core::fmt;

/// **Publishes what an [`Observed`](crate::Observed) limiter counts** through the facade of the crate
/// [`metrics`](::metrics) 0.24, to whichever recorder the program has installed.
///
/// | metric | kind | labels |
/// |---|---|---|
/// | `flowgate_admitted_total` | counter of operations | `limiter` |
/// | `flowgate_admitted_units_total` | counter of units | `limiter` |
/// | `flowgate_refused_total` | counter of operations | `limiter`, `reason` |
/// | `flowgate_abandoned_total` | counter of operations | `limiter` |
/// | `flowgate_waiting` | gauge of operations | `limiter` |
/// | `flowgate_wait_seconds` | histogram of seconds | `limiter` |
///
/// Reasons are called as the fields of [`Refusals`]: `over_limit`, `busy`, `never`, `queue_full`, `closed`, `deadline`,
/// `cancelled`, `table_full`.
///
/// The limiter's own counting stays as cheap as it is: nothing is published by an operation, but by whoever calls
/// [`record`](Self::record), every ten seconds, say, or when somebody asks for the metrics. It publishes what has been
/// counted since it did so last, so several limiters of one name add up, and a gauge of theirs is that of the last one.
///
/// A wait is recorded as long as its bucket's longest ([`Waits::buckets`]): never shorter than it was, and longer by a
/// sixteenth at the most.
///
/// ```
/// use flowgate::{MetricsPublisher, Observed, TokenBucket};
///
/// let limiter = Observed::new(TokenBucket::new("100/s".parse()?));
/// let mut publisher = MetricsPublisher::register("uploads");
/// let _ = limiter.try_acquire();
/// publisher.record(&limiter.counts(), &limiter.waits());
/// # Ok::<_, flowgate::QuotaError>(())
/// ```
pub struct MetricsPublisher {
    admitted: Counter,
    units: Counter,
    /// In the order of [`Refusals::by_name`].
    refused: [Counter; 8],
    abandoned: Counter,
    waiting: Gauge,
    wait_seconds: Histogram,
    /// What has been published.
    counts: ObservedCounts,
    waits: Option<Waits>,
}

const ADMITTED: &str = "flowgate_admitted_total";
const UNITS: &str = "flowgate_admitted_units_total";
const REFUSED: &str = "flowgate_refused_total";
const ABANDONED: &str = "flowgate_abandoned_total";
const WAITING: &str = "flowgate_waiting";
const WAIT_SECONDS: &str = "flowgate_wait_seconds";

impl MetricsPublisher {
    /// Describes the metrics to the recorder that is installed now, and registers those of the limiter that is to be
    /// called `limiter`. Without a recorder, nothing will be published.
    pub fn register(limiter: impl Into<SharedString>) -> Self {
        describe();
        let limiter = limiter.into();
        let of = || limiter.clone();
        Self {
            admitted: counter!(ADMITTED, "limiter" => of()),
            units: counter!(UNITS, "limiter" => of()),
            refused: Refusals::default()
                .by_name()
                .map(|(reason, _)| counter!(REFUSED, "limiter" => of(), "reason" => reason)),
            abandoned: counter!(ABANDONED, "limiter" => of()),
            waiting: gauge!(WAITING, "limiter" => of()),
            wait_seconds: histogram!(WAIT_SECONDS, "limiter" => of()),
            counts: ObservedCounts::default(),
            waits: None,
        }
    }

    /// Publishes what has been counted since the last call, or ever if there was none: `counts` and `waits` of one and
    /// the same limiter each time.
    pub fn record(&mut self, counts: &ObservedCounts, waits: &Waits) {
        let new = counts.since(&self.counts);
        self.admitted.increment(new.admitted);
        self.units.increment(new.units);
        for (counter, (_, count)) in self.refused.iter().zip(new.refused.by_name()) {
            counter.increment(count);
        }
        self.abandoned.increment(new.abandoned);
        self.waiting.set(counts.waiting as f64);
        let new = match &self.waits {
            Some(published) => &waits.since(published),
            None => waits,
        };
        let mut so_far = 0;
        for (at_most, up_to) in new.buckets() {
            let n = up_to.wrapping_sub(so_far);
            so_far = up_to;
            let n = usize::try_from(n).unwrap_or(usize::MAX);
            self.wait_seconds.record_many(at_most.as_secs_f64(), n);
        }
        self.counts = *counts;
        self.waits = Some(waits.clone());
    }
}

fn describe() {
    describe_counter!(ADMITTED, Unit::Count, "Operations that were admitted.");
    describe_counter!(UNITS, Unit::Count, "Units that admitted operations took.");
    describe_counter!(REFUSED, Unit::Count, "Operations that were refused.");
    describe_counter!(
        ABANDONED,
        Unit::Count,
        "Waits that were dropped before they were over."
    );
    describe_gauge!(WAITING, Unit::Count, "Operations that wait for their turn.");
    describe_histogram!(
        WAIT_SECONDS,
        Unit::Seconds,
        "How long those waited that were granted a turn."
    );
}

impl fmt::Debug for MetricsPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsPublisher")
            .field("published", &self.counts)
            .finish_non_exhaustive()
    }
}
