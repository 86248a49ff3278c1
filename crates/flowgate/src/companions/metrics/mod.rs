//! [`MetricsPublisher`] and [`AdaptiveMetrics`]: what limiters count, for the crate `metrics`.

mod adaptive;

pub use adaptive::AdaptiveMetrics;

use crate::companions::observed::{ObservedCounts, Refusals, Waits};
use ::metrics::{
    Counter, Gauge, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};
use core::fmt;

/// Publisher of an [`Observed`](crate::Observed) limiter's counts, through the crate [`metrics`](::metrics).
///
/// It uses the facade of `metrics` 0.24, and so every recorder that the program installs.
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
/// The values of `reason` are the field names of [`Refusals`]: `over_limit`, `busy`, `never`, `queue_full`, `closed`,
/// `deadline`, `cancelled`, `table_full`.
///
/// Operations of the limiter publish nothing, so they cost no more than before. The program publishes by calling
/// [`record`](Self::record), for example every 10 s, or when a server asks for the metrics. Each call publishes what has been
/// counted since the previous call. So several limiters with one name add up; only their gauge is that of the last one.
///
/// A wait is recorded as the longest length of its bucket ([`Waits::buckets`]). It is never shorter than the real wait, and
/// longer by at most 1/16.
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
    refused: [Counter; 9],
    abandoned: Counter,
    waiting: Gauge,
    wait_seconds: Histogram,
    /// Counts that have been published.
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
    /// Describes and registers the metrics of the limiter with the name `limiter`.
    ///
    /// They go to the recorder that is installed now. Without a recorder, nothing is published.
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

    /// Publishes the counts since the last call, or all counts in the first call.
    ///
    /// Pass `counts` and `waits` of the same limiter in every call.
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
    describe_waiting();
    describe_histogram!(
        WAIT_SECONDS,
        Unit::Seconds,
        "How long those waited that were granted a turn."
    );
}

fn describe_waiting() {
    describe_gauge!(WAITING, Unit::Count, "Operations that wait for their turn.");
}

impl fmt::Debug for MetricsPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsPublisher")
            .field("published", &self.counts)
            .finish_non_exhaustive()
    }
}
