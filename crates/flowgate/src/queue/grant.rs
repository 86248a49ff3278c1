use crate::clock::Timestamp;
use core::time::Duration;

/// What a wait received: the number of units, and the time of the grant.
///
/// ```
/// use flowgate::LeakyBucket;
/// use std::time::Duration;
///
/// let limiter = LeakyBucket::new("1000/s".parse()?);
/// let first = limiter.acquire().block()?;
/// let second = limiter.acquire().block()?;
/// assert_eq!(second.at().saturating_duration_since(first.at()), Duration::from_millis(1));
/// assert!(second.waited() <= Duration::from_millis(1));
/// assert_eq!(second.units(), 1);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    pub(crate) units: u64,
    pub(crate) since_ns: u64,
    pub(crate) at_ns: u64,
}

impl Grant {
    /// Returns the instant of the grant, on the limiter's clock.
    ///
    /// It is somewhat before the caller learns of the grant. For a grant without a wait, it is when the caller read the
    /// clock. If other callers read the clock later and were admitted first, a window counts the grant with theirs.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.at_ns)
    }

    /// Returns the number of units that were granted.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Returns the time from the first poll to [`at`](Self::at).
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.at_ns.saturating_sub(self.since_ns))
    }
}
