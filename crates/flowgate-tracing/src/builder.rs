use crate::filter::RateLimitFilter;
use crate::limits::{Limits, Values};
use flowgate::{Clock, KeyedError, Quota};
use tracing_core::Level;

/// Settings of a [`RateLimitFilter`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`by_field`](Self::by_field) | each callsite has a limit |
/// | [`exempt`](Self::exempt) | no level is |
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
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct RateLimitFilterBuilder {
    quota: Quota,
    clock: Clock,
    exempt: Option<Level>,
    field: Option<(&'static str, usize)>,
}

impl RateLimitFilterBuilder {
    pub(crate) fn new(quota: Quota) -> Self {
        Self {
            quota,
            clock: Clock::system(),
            exempt: None,
            field: None,
        }
    }

    /// Each value of the field `name` has a limit of its own, whatever callsites name it, rather than each callsite.
    /// Events without that field are limited by callsite as ever.
    ///
    /// Values are alike if they are printed alike: 7, `"7"` and `%seven` are. They are hashed as they are printed, and
    /// not kept. A [`Keyed`](flowgate::Keyed) limiter for `values` of them decides; with more at once than that, some
    /// are left out in vain and none speaks too often. How many were suppressed is counted in four cells for each
    /// value: a cell is shared with one of the others now and then, and then says the number of both.
    pub fn by_field(mut self, name: &'static str, values: usize) -> Self {
        self.field = Some((name, values));
        self
    }

    /// Events of this level, and of those that are more severe, are never left out, and take no token. For
    /// `Level::WARN`: warnings and errors.
    pub fn exempt(mut self, level: Level) -> Self {
        self.exempt = Some(level);
        self
    }

    /// The clock to decide by.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// The filter.
    ///
    /// # Errors
    ///
    /// [`KeyedError`] if there cannot be a table for so many values of a field.
    pub fn build(self) -> Result<RateLimitFilter, KeyedError> {
        let values = match self.field {
            Some((name, values)) => Some(Values::new(name, values, self.quota, &self.clock)?),
            None => None,
        };
        let limits = Limits::new(self.quota, self.clock, self.exempt, values);
        Ok(RateLimitFilter::of(limits))
    }
}
