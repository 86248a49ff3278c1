//! The operating system's monotonic clock, counted from the first reading in this process.

use super::timestamp::saturating_nanos;
use std::sync::OnceLock;
use std::time::Instant;

static ORIGIN: OnceLock<Instant> = OnceLock::new();

#[inline]
pub(super) fn now_ns() -> u64 {
    let elapsed = ORIGIN.get_or_init(Instant::now).elapsed();
    // 584 years of seconds fit before the product does not.
    elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())
}

/// Returns what this clock reads at `instant`: 0 before its origin, and at most `u64::MAX`.
pub(super) fn ns_at(instant: Instant) -> u64 {
    let origin = *ORIGIN.get_or_init(Instant::now);
    let since = instant.saturating_duration_since(origin);
    saturating_nanos(since)
}
