//! Times of a run: nanoseconds in 64 bits, for 584 years.

use std::time::Duration;

/// The nanoseconds of a duration, and no more than there can be.
pub(crate) fn nanos(duration: Duration) -> u64 {
    let whole_ns = duration.as_secs().saturating_mul(1_000_000_000);
    whole_ns.saturating_add(duration.subsec_nanos().into())
}

/// The earlier of two times, each of which may never come.
pub(crate) fn earlier(one_ns: Option<u64>, other_ns: Option<u64>) -> Option<u64> {
    match (one_ns, other_ns) {
        (Some(one_ns), Some(other_ns)) => Some(one_ns.min(other_ns)),
        _ => one_ns.or(other_ns),
    }
}
