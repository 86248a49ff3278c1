use crate::builder::{RateLimitFilterBuilder, SILENCE};
use crate::flush::FlushGuard;
use crate::limits::{Limits, Untold};
use crate::live::FilterControls;
use crate::telling::Telling;
use flowgate::{Clock, Quota};
use std::sync::Arc;
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter, Layer};

/// A filter that lets each callsite log at most **burst + rate × t** events.
///
/// The bound holds in every interval of length *t*. The filter counts all events that it leaves out.
///
/// ```
/// use flowgate::ManualClock;
/// use flowgate_tracing::RateLimitFilter;
/// use std::time::Duration;
/// use tracing_subscriber::prelude::*;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: RateLimitFilter::new(quota)
/// let limit = RateLimitFilter::builder("1/min".parse()?).clock(&time).build()?;
/// let subscriber = tracing_subscriber::registry()
///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
///
/// tracing::subscriber::with_default(subscriber, || {
///     for _ in 0..3 {
///         tracing::info!("cache miss");
///         time.advance(Duration::from_secs(1));
///     }
///     assert_eq!(limit.suppressed(), 2);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Usually the filter is put [`over`](Self::over) a layer. As a [`Filter`] by itself, it limits and counts, and reports
/// nothing.
///
/// Spans are never left out. A call that checks whether an event [would be
/// enabled](https://docs.rs/tracing/latest/tracing/macro.enabled.html) takes nothing, and returns true.
///
/// Clones share the limits.
#[derive(Clone, Debug)]
pub struct RateLimitFilter(Arc<Limits>);

impl RateLimitFilter {
    /// Creates a filter with this quota for each callsite, on the system's clock.
    ///
    /// ```
    /// use flowgate_tracing::RateLimitFilter;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let limit = RateLimitFilter::new("2/h".parse()?);
    /// let log = tracing_subscriber::registry()
    ///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
    /// tracing::subscriber::with_default(log, || {
    ///     for _ in 0..5 {
    ///         tracing::info!("cache miss"); // twice
    ///         tracing::info!("cache hit"); // twice: another callsite
    ///     }
    /// });
    /// assert_eq!(limit.suppressed(), 6);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self::of(Limits::new(quota, Clock::system(), None, None, SILENCE))
    }

    /// Returns a builder for limits by a field's value, exempt levels, or another clock.
    ///
    /// ```
    /// # use flowgate_tracing::RateLimitFilter;
    /// use tracing_core::Level;
    ///
    /// let limit = RateLimitFilter::builder("5/min burst 10".parse()?).exempt(Level::ERROR).build()?;
    /// assert_eq!(limit.suppressed(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(quota: Quota) -> RateLimitFilterBuilder {
        RateLimitFilterBuilder::new(quota)
    }

    pub(crate) fn of(limits: Limits) -> Self {
        Self(Arc::new(limits))
    }

    /// Limits a layer, and reports in its log how many events were suppressed.
    ///
    /// Before an event that is logged again, the layer receives a summary event of the same level and target: *similar
    /// events were suppressed*. The field `suppressed` contains their number. If the limits are by a field, the summary
    /// also has that field.
    ///
    /// Put filters of the layer outside of the returned layer; [`Telling`] explains why.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_tracing::RateLimitFilter;
    /// use std::io::Write;
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// use tracing_subscriber::prelude::*;
    ///
    /// /// A log that can be read here.
    /// #[derive(Clone, Default)]
    /// struct Log(Arc<Mutex<Vec<u8>>>);
    ///
    /// impl Write for Log {
    ///     fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
    ///         self.0.lock().expect("nobody panics").write(bytes)
    ///     }
    ///
    ///     fn flush(&mut self) -> std::io::Result<()> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let (log, time) = (Log::default(), ManualClock::new());
    /// let writer = log.clone();
    /// let lines = tracing_subscriber::fmt::layer()
    ///     .with_writer(move || writer.clone())
    ///     .without_time()
    ///     .with_target(false);
    /// let limit = RateLimitFilter::builder("1/min".parse()?).clock(&time).build()?;
    /// let subscriber = tracing_subscriber::registry().with(limit.over(lines));
    /// tracing::subscriber::with_default(subscriber, || {
    ///     for attempt in 0..4 {
    ///         tracing::info!(attempt, "connection refused");
    ///         time.advance(Duration::from_secs(20));
    ///     }
    /// });
    /// let text = String::from_utf8(log.0.lock().expect("nobody panics").clone())?;
    /// let heard: Vec<_> = text.lines().map(str::trim_start).collect();
    /// assert_eq!(heard, [
    ///     "INFO connection refused attempt=0",
    ///     "INFO similar events were suppressed suppressed=2",
    ///     "INFO connection refused attempt=3",
    /// ]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn over<L, S>(self, layer: L) -> Filtered<Telling<L>, Self, S>
    where
        L: Layer<S>,
        S: Subscriber,
    {
        self.telling(layer).with_filter(self)
    }

    /// Reports suppressed events in the log of a layer, without limiting it.
    ///
    /// Use it for a layer that has this filter together with others.
    ///
    /// ```
    /// use flowgate_tracing::RateLimitFilter;
    /// use tracing_subscriber::filter::{FilterExt, LevelFilter};
    /// use tracing_subscriber::prelude::*;
    ///
    /// let limit = RateLimitFilter::new("1/h".parse()?);
    /// let layer = limit
    ///     .telling(tracing_subscriber::fmt::layer())
    ///     .with_filter(LevelFilter::INFO.and(limit.clone()));
    /// tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
    ///     for _ in 0..3 {
    ///         tracing::info!("cache miss");
    ///         tracing::debug!("looked up"); // nobody wants to hear it, so it was not suppressed
    ///     }
    /// });
    /// assert_eq!(limit.suppressed(), 2);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn telling<L>(&self, layer: L) -> Telling<L> {
        Telling::new(layer, Arc::clone(&self.0))
    }

    /// Reports now how many events were suppressed, in all layers that [report](Self::telling).
    ///
    /// Call it before the program ends, for example. [`flush_on_drop`](Self::flush_on_drop) calls it automatically.
    ///
    /// A summary has the level, target, file and line of its callsite. It belongs to no span, and contains no value of a
    /// field.
    ///
    /// ```
    /// use flowgate_tracing::RateLimitFilter;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let limit = RateLimitFilter::new("1/h".parse()?);
    /// let log = tracing_subscriber::registry()
    ///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
    /// tracing::subscriber::with_default(log, || {
    ///     for _ in 0..10 {
    ///         tracing::info!("cache miss");
    ///     }
    ///     assert_eq!(limit.suppressed(), 9);
    ///     limit.flush(); // INFO similar events were suppressed suppressed=9
    ///     assert_eq!(limit.suppressed(), 0);
    /// });
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// Some summaries are not reported, and stay [counted](Self::suppressed):
    ///
    /// - summaries that a filter outside of the layer would leave out;
    /// - those of a subscriber that has been dropped;
    /// - those of a subscriber whose layers do not receive its registration, such as layers in a `Vec` or an `Option`,
    ///   unless it is the current subscriber of this thread.
    ///
    /// Do not call this method from a layer, or from the writer of a layer: filters then forget their decisions about the
    /// event that the layer is handling.
    pub fn flush(&self) {
        self.0.flush(Untold::All);
    }

    /// Calls [`flush`](Self::flush) for the callsites that have become [silent](RateLimitFilterBuilder::silence).
    ///
    /// Call it from time to time in a program with so few events that the next one may come late.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_tracing::RateLimitFilter;
    /// use std::time::Duration;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let time = ManualClock::new();
    /// let limit = RateLimitFilter::builder("1/h".parse()?).clock(&time).build()?;
    /// let log = tracing_subscriber::registry()
    ///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
    /// tracing::subscriber::with_default(log, || {
    ///     for _ in 0..10 {
    ///         tracing::info!("cache miss");
    ///     }
    ///     for _ in 0..3 {
    ///         limit.flush_silent(); // every minute, in a thread or a task
    ///         time.advance(Duration::from_secs(60));
    ///     }
    /// });
    /// assert_eq!(limit.suppressed(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush_silent(&self) {
        self.0.flush(Untold::OfSilent);
    }

    /// Returns a guard that calls [`flush`](Self::flush) when it is dropped.
    ///
    /// ```
    /// use flowgate_tracing::RateLimitFilter;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let limit = RateLimitFilter::new("1/h".parse()?);
    /// let _flush = limit.flush_on_drop(); // as long as `main` runs
    /// tracing_subscriber::registry()
    ///     .with(limit.over(tracing_subscriber::fmt::layer()))
    ///     .init();
    /// for _ in 0..10 {
    ///     tracing::info!("cache miss");
    /// }
    /// // INFO similar events were suppressed suppressed=9
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn flush_on_drop(&self) -> FlushGuard {
        FlushGuard::new(self.clone())
    }

    /// Returns a handle to change the filter while it is in use.
    ///
    /// It changes the quota and the exempt level, and turns the filter off and on.
    ///
    /// ```
    /// # use flowgate_tracing::RateLimitFilter;
    /// let controls = RateLimitFilter::new("1/h".parse()?).controls();
    /// controls.set_quota("5/min".parse()?)?;
    /// assert_eq!(controls.quota().to_string(), "5/min");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn controls(&self) -> FilterControls {
        FilterControls(Arc::clone(&self.0))
    }

    /// Returns how many suppressed events have not been reported yet.
    ///
    /// ```
    /// use flowgate_tracing::RateLimitFilter;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let limit = RateLimitFilter::new("1/h".parse()?);
    /// let log = tracing_subscriber::registry()
    ///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
    /// tracing::subscriber::with_default(log, || {
    ///     for _ in 0..10 {
    ///         tracing::info!("cache miss");
    ///     }
    /// });
    /// assert_eq!(limit.suppressed(), 9);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn suppressed(&self) -> u64 {
        self.0.suppressed()
    }
}

impl<S> Filter<S> for RateLimitFilter {
    /// Always true: an event is counted when it occurs.
    fn enabled(&self, _metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _context: &Context<'_, S>) -> bool {
        self.0.admits(event)
    }
}
