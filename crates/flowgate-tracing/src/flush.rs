use crate::filter::RateLimitFilter;

/// A guard that [reports](RateLimitFilter::flush) a filter's suppressed events when it is dropped.
///
/// [`RateLimitFilter::flush_on_drop`] makes it.
///
/// ```
/// use flowgate_tracing::{FlushGuard, RateLimitFilter};
///
/// let limit = RateLimitFilter::new("5/min burst 10".parse()?);
/// let guard: FlushGuard = limit.flush_on_drop();
/// drop(guard); // nothing was suppressed, so nothing is said
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Debug)]
#[must_use = "dropped immediately, it flushes immediately"]
pub struct FlushGuard(RateLimitFilter);

impl FlushGuard {
    pub(crate) fn new(filter: RateLimitFilter) -> Self {
        Self(filter)
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        self.0.flush();
    }
}
