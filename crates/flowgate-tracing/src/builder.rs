use crate::filter::RateLimitFilter;
use crate::limits::{LimitOf, Limits, Values};
use flowgate::{Clock, ImmediateLimit, KeyedError, Quota};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tracing_core::{Level, Metadata};

/// The silence unless another one is set.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

/// A builder for a [`RateLimitFilter`] with other settings than the defaults.
///
/// | setting | default |
/// |---|---|
/// | [`by_field`](Self::by_field) | each callsite has a limit |
/// | [`limit_of`](Self::limit_of) | every callsite has a limit of the quota |
/// | [`exempt`](Self::exempt) | no level |
/// | [`silence`](Self::silence) | 1 min |
/// | [`clock`](Self::clock) | [`Clock::system`] |
///
/// ```
/// use flowgate::ManualClock;
/// use flowgate_tracing::RateLimitFilter;
/// use tracing_core::Level;
/// use tracing_subscriber::prelude::*;
///
/// let limit = RateLimitFilter::builder("1/min".parse()?)
///     .by_field("peer", 1000)
///     .exempt(Level::ERROR)
///     .clock(ManualClock::new())
///     .build()?;
/// let log = tracing_subscriber::registry()
///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
/// tracing::subscriber::with_default(log, || {
///     for peer in ["a", "a", "b", "a"] {
///         tracing::info!(peer, "slow"); // once for each peer
///         tracing::error!(peer, "gone"); // always
///     }
/// });
/// assert_eq!(limit.suppressed(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct RateLimitFilterBuilder {
    quota: Quota,
    clock: Clock,
    exempt: Option<Level>,
    field: Option<(&'static str, usize)>,
    limit_of: Option<Arc<LimitOf>>,
    silence: Duration,
}

impl RateLimitFilterBuilder {
    pub(crate) fn new(quota: Quota) -> Self {
        Self {
            quota,
            clock: Clock::system(),
            exempt: None,
            field: None,
            limit_of: None,
            silence: SILENCE,
        }
    }

    /// Limits each value of the field `name` separately, instead of each callsite.
    ///
    /// All callsites with the field share the limits of its values. Events without the field are limited by callsite.
    ///
    /// Two values are the same if they are printed alike: 7, `"7"` and `%seven`. The filter stores hashes of the values,
    /// and not the values. It uses a [`Keyed`](flowgate::Keyed) limiter with a capacity of `values`. If more values are
    /// active, some events are suppressed needlessly, but no value exceeds its limit.
    ///
    /// The filter counts suppressed events in four cells for each value. Occasionally two values share a cell, and a
    /// summary then reports the number of both.
    ///
    /// ```
    /// use flowgate_tracing::RateLimitFilter;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let limit = RateLimitFilter::builder("1/h".parse()?).by_field("peer", 1000).build()?;
    /// let log = tracing_subscriber::registry()
    ///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
    /// tracing::subscriber::with_default(log, || {
    ///     for peer in ["192.0.2.7", "192.0.2.8"] {
    ///         tracing::info!(peer, "connected"); // heard, of either
    ///         tracing::info!(peer, "gone"); // the value has spoken, whatever the callsite
    ///     }
    /// });
    /// assert_eq!(limit.suppressed(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_field(mut self, name: &'static str, values: usize) -> Self {
        self.field = Some((name, values));
        self
    }

    /// Chooses the limit of each callsite.
    ///
    /// The function is called once for each callsite, at its first event that is limited by callsite. It returns any limit
    /// that decides without waiting, or `None` for a limit of the filter's quota. It must not log.
    ///
    /// Callsites can share a limit. A limit that the function returns keeps its own clock, and
    /// [`FilterControls::set_quota`](crate::FilterControls::set_quota) does not change it.
    ///
    /// ```
    /// use flowgate::{ImmediateLimit, TokenBucket};
    /// use flowgate_tracing::RateLimitFilter;
    /// use std::sync::Arc;
    /// use tracing_core::Level;
    /// use tracing_subscriber::prelude::*;
    ///
    /// // All lines of level DEBUG together: 2 per hour. Every other line: 1 per hour.
    /// let debug: Arc<dyn ImmediateLimit> = Arc::new(TokenBucket::new("2/h".parse()?));
    /// let limit = RateLimitFilter::builder("1/h".parse()?)
    ///     .limit_of(move |callsite| (*callsite.level() == Level::DEBUG).then(|| Arc::clone(&debug)))
    ///     .build()?;
    /// let log = tracing_subscriber::registry()
    ///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
    /// tracing::subscriber::with_default(log, || {
    ///     for _ in 0..2 {
    ///         tracing::debug!("cache miss"); // twice
    ///         tracing::info!("started"); // once
    ///     }
    ///     tracing::debug!("cache hit"); // not at all: nothing is left for level DEBUG
    /// });
    /// assert_eq!(limit.suppressed(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limit_of(
        mut self,
        limit: impl Fn(&'static Metadata<'static>) -> Option<Arc<dyn ImmediateLimit>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.limit_of = Some(Arc::new(limit));
        self
    }

    /// Exempts events of this level and of the more severe levels.
    ///
    /// They are never left out, and take no token. For `Level::WARN`, these are warnings and errors.
    ///
    /// ```
    /// use flowgate_tracing::RateLimitFilter;
    /// use tracing_core::Level;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let limit = RateLimitFilter::builder("1/h".parse()?).exempt(Level::WARN).build()?;
    /// let log = tracing_subscriber::registry()
    ///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
    /// tracing::subscriber::with_default(log, || {
    ///     for _ in 0..3 {
    ///         tracing::error!("disk full"); // all three are heard, and the next
    ///         tracing::warn!("disk nearly full");
    ///         tracing::info!("disk checked"); // once
    ///     }
    /// });
    /// assert_eq!(limit.suppressed(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn exempt(mut self, level: Level) -> Self {
        self.exempt = Some(level);
        self
    }

    /// Sets after how long without an event a callsite counts as silent (default: 1 minute).
    ///
    /// The next event that is logged, of any callsite, reports what was suppressed of a silent callsite. A callsite is
    /// silent if none of its events was left out during this time; the filter notices after at most twice this time. A
    /// [value](Self::by_field) is silent if its events would have been logged for this time, but none came. Its suppressed
    /// events then count as those of their callsite.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_tracing::RateLimitFilter;
    /// use std::time::Duration;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let time = ManualClock::new();
    /// let limit = RateLimitFilter::builder("1/day".parse()?)
    ///     .silence(Duration::from_secs(10))
    ///     .clock(&time)
    ///     .build()?;
    /// let log = tracing_subscriber::registry()
    ///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
    /// tracing::subscriber::with_default(log, || {
    ///     for _ in 0..100 {
    ///         tracing::warn!("connection refused");
    ///     }
    ///     time.advance(Duration::from_secs(10));
    ///     tracing::info!("started");
    ///     time.advance(Duration::from_secs(10));
    ///     tracing::info!("listening");
    ///     // Here the log says "WARN similar events were suppressed suppressed=99".
    ///     assert_eq!(limit.suppressed(), 0);
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Sets the clock (default: [`Clock::system`]).
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_tracing::RateLimitFilter;
    /// use std::time::Duration;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let time = ManualClock::new();
    /// let limit = RateLimitFilter::builder("1/min".parse()?).clock(&time).build()?;
    /// let log = tracing_subscriber::registry()
    ///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
    /// tracing::subscriber::with_default(log, || {
    ///     for _ in 0..3 {
    ///         tracing::info!("cache miss"); // once a minute: each is heard
    ///         time.advance(Duration::from_secs(60));
    ///     }
    /// });
    /// assert_eq!(limit.suppressed(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Builds the filter.
    ///
    /// ```
    /// # use flowgate_tracing::RateLimitFilter;
    /// let limit = RateLimitFilter::builder("1/min".parse()?).build()?;
    /// assert_eq!(limit.suppressed(), 0);
    ///
    /// let too_many = RateLimitFilter::builder("1/min".parse()?).by_field("peer", usize::MAX);
    /// assert!(too_many.build().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] if there cannot be a table for the given number of values of a field.
    pub fn build(self) -> Result<RateLimitFilter, KeyedError> {
        let values = match self.field {
            Some((name, values)) => Some(Values::new(name, values, self.quota, &self.clock)?),
            None => None,
        };
        let limits = Limits::new(self.quota, self.clock, self.exempt, values, self.silence);
        Ok(RateLimitFilter::of(limits.with_limit_of(self.limit_of)))
    }
}

impl fmt::Debug for RateLimitFilterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitFilterBuilder")
            .field("quota", &self.quota)
            .field("clock", &self.clock)
            .field("exempt", &self.exempt)
            .field("field", &self.field)
            .field("silence", &self.silence)
            .finish_non_exhaustive()
    }
}
