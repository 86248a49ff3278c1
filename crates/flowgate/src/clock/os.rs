//! The operating system's monotonic clock, counted from the first reading in this process.

use std::sync::OnceLock;
use std::time::Instant;

static ORIGIN: OnceLock<Instant> = OnceLock::new();

#[inline]
pub(super) fn now_ns() -> u64 {
    let elapsed = ORIGIN.get_or_init(Instant::now).elapsed();
    // 584 years of seconds fit before the product does not.
    elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())
}
