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

/// Lets each callsite speak at most **burst + rate · t** times in every span of time t, and counts the events that it
/// leaves out without losing one.
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
/// [`over`](Self::over) a layer is the usual way. As a [`Filter`] by itself it limits and counts, and nobody is told.
///
/// Spans are never left out. Asking whether an event [would be
/// enabled](https://docs.rs/tracing/latest/tracing/macro.enabled.html) takes nothing, and is answered with yes.
///
/// Clones share the limits.
#[derive(Clone, Debug)]
pub struct RateLimitFilter(Arc<Limits>);

impl RateLimitFilter {
    /// So many events for each callsite, on the system's clock.
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

    /// A filter with limits by a field's value, exempt levels, or another clock.
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

    /// Limits a layer, and has it say how many events it was spared: before an event that is heard again comes one of
    /// the same level and target, *similar events were suppressed*, with their number in the field `suppressed`, and,
    /// where limits are by a field, that field.
    ///
    /// Filters of the layer belong outside: [`Telling`] says why.
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

    /// Has a layer say how many events it was spared, and limits nothing: for a layer that this filter is put over
    /// together with others.
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

    /// Has the layers that this filter [tells](Self::telling) say now how many events they were spared: before the program
    /// ends, say. [`flush_on_drop`](Self::flush_on_drop) does that by itself.
    ///
    /// A summary has the level, target, file and line of its callsite, belongs to no span, and names no value of a field.
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
    /// What a filter outside of the layer would leave out is not said, and stays [counted](Self::suppressed). The same holds
    /// for a subscriber that has been dropped, and for one whose layers do not hear of it (those in a `Vec` or an `Option` do
    /// not), unless it is this thread's current one.
    ///
    /// Do not call it from a layer or from what a layer writes to: filters then forget what they have decided of the event
    /// that the layer is handling.
    pub fn flush(&self) {
        self.0.flush(Untold::All);
    }

    /// [`flush`](Self::flush) of those callsites that have fallen [silent](RateLimitFilterBuilder::silence). For a program with
    /// so few events that the next one may be long in coming: call it now and then.
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

    /// [`flush`](Self::flush), when the guard is dropped.
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

    /// Returns a handle to change quota, exemptions, and whether the filter is on, while it is in use.
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

    /// How many events were left out that nobody has been told of yet.
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
    /// Always: an event is counted when there is one.
    fn enabled(&self, _metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _context: &Context<'_, S>) -> bool {
        self.0.admits(event)
    }
}
