//! Times of a run: nanoseconds in 64 bits, for 584 years.

use std::time::Duration;

/// The nanoseconds of a duration, and no more than there can be.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
