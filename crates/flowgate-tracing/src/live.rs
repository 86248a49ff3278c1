//! What can be changed while events come.

use crate::limits::Limits;
use flowgate::{KeyedError, Quota};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use tracing_core::{Level, Metadata};

/// The settings that can be changed.
pub(crate) struct Live {
    is_off: AtomicBool,
    /// The exempt level that the filter was built with, and the one that has been set since, as [`severity`]; 0: none.
    built_exempt: u8,
    exempt: AtomicU8,
}

/// All levels, from the most severe on.
const LEVELS: [Level; 5] = [
    Level::ERROR,
    Level::WARN,
    Level::INFO,
    Level::DEBUG,
    Level::TRACE,
];

/// From 1, the more severe, the less.
fn severity(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

impl Live {
    pub(crate) fn new(exempt: Option<Level>) -> Self {
        Self {
            is_off: AtomicBool::new(false),
            built_exempt: exempt.as_ref().map_or(0, severity),
            exempt: AtomicU8::new(0),
        }
    }

    /// Whether the limits do not apply to this event.
    #[inline]
    pub(crate) fn exempts(&self, metadata: &Metadata<'_>) -> bool {
        self.is_off.load(Ordering::Relaxed) || self.is_exempt_level(metadata)
    }

    /// Whether they do not because of its level.
    #[inline]
    pub(crate) fn is_exempt_level(&self, metadata: &Metadata<'_>) -> bool {
        let exempt = self.exempt.load(Ordering::Relaxed).max(self.built_exempt);
        exempt != 0 && severity(metadata.level()) <= exempt
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exempt = self.exempt.load(Ordering::Relaxed).max(self.built_exempt);
        f.debug_struct("Live")
            .field("is_off", &self.is_off.load(Ordering::Relaxed))
            .field("exempt", &level(exempt))
            .finish()
    }
}

fn level(severity: u8) -> Option<Level> {
    LEVELS.get(usize::from(severity).checked_sub(1)?).copied()
}

/// Changes a filter's settings while it is in use; made by [`RateLimitFilter::controls`](crate::RateLimitFilter::controls).
///
/// A change applies to the events that come after it, in all clones of the filter.
///
/// ```
/// use flowgate_tracing::RateLimitFilter;
/// use tracing_core::Level;
/// use tracing_subscriber::prelude::*;
///
/// let limit = RateLimitFilter::new("1/h".parse()?);
/// let controls = limit.controls(); // for the task that reloads the configuration
/// let log = tracing_subscriber::registry()
///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
/// tracing::subscriber::with_default(log, || {
///     let speak = || {
///         for _ in 0..3 {
///             tracing::warn!("slow");
///         }
///     };
///     speak(); // once
///     controls.set_exempt(Some(Level::WARN));
///     speak(); // three times
///     controls.set_exempt(None);
///     controls.set_enabled(false);
///     speak(); // three times
///     controls.set_enabled(true);
///     speak(); // not at all
/// });
/// controls.set_quota("5/min burst 10".parse()?)?;
/// assert_eq!(controls.quota().to_string(), "5/min burst 10");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FilterControls(pub(crate) Arc<Limits>);

impl FilterControls {
    /// Replaces the quota of all callsites and of all values of the field. Tokens that were taken stay taken.
    ///
    /// It does not change limits that [the program gave](crate::RateLimitFilterBuilder::limit_of).
    ///
    /// ```
    /// # use flowgate_tracing::RateLimitFilter;
    /// let controls = RateLimitFilter::new("1/h".parse()?).controls();
    /// controls.set_quota("60/h".parse()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`], and changes nothing, if limits are [by a field](crate::RateLimitFilterBuilder::by_field) and
    /// the table of its values cannot keep this quota.
    pub fn set_quota(&self, quota: Quota) -> Result<(), KeyedError> {
        self.0.set_quota(quota)
    }

    /// Returns the quota.
    pub fn quota(&self) -> Quota {
        self.0.quota()
    }

    /// Turns the filter on or off. While it is off, every event is logged without taking a token.
    ///
    /// ```
    /// # use flowgate_tracing::RateLimitFilter;
    /// let controls = RateLimitFilter::new("1/h".parse()?).controls();
    /// controls.set_enabled(false); // while somebody looks for an error
    /// assert!(!controls.is_enabled());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn set_enabled(&self, is_enabled: bool) {
        self.0.live.is_off.store(!is_enabled, Ordering::Relaxed);
    }

    /// Returns whether the filter is on.
    pub fn is_enabled(&self) -> bool {
        !self.0.live.is_off.load(Ordering::Relaxed)
    }

    /// Exempts events of this level, and of those that are more severe. `None`: no level, except the one that the filter
    /// [was built with](crate::RateLimitFilterBuilder::exempt), which stays.
    ///
    /// ```
    /// # use flowgate_tracing::RateLimitFilter;
    /// # use tracing_core::Level;
    /// let controls = RateLimitFilter::new("1/h".parse()?).controls();
    /// controls.set_exempt(Some(Level::ERROR));
    /// assert_eq!(controls.exempt(), Some(Level::ERROR));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn set_exempt(&self, level: Option<Level>) {
        let severity = level.as_ref().map_or(0, severity);
        self.0.live.exempt.store(severity, Ordering::Relaxed);
    }

    /// Returns the least severe level that is exempt, with all that are more severe.
    pub fn exempt(&self) -> Option<Level> {
        let live = &self.0.live;
        level(live.exempt.load(Ordering::Relaxed).max(live.built_exempt))
    }
}

impl fmt::Debug for FilterControls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterControls")
            .field("quota", &self.quota())
            .field("is_enabled", &self.is_enabled())
            .field("exempt", &self.exempt())
            .finish()
    }
}
