use crate::token_bucket::TokenBucket;

/// A limiter at an instant of the caller's: the same verbs, with that for the time.
///
/// Made by the limiter's `at`, such as [`TokenBucket::at`].
/// ```
/// use flowgate::{Timestamp, TokenBucket};
/// use std::time::Duration;
///
/// let limiter = TokenBucket::new("10/s burst 1".parse()?);
/// let then = Timestamp::from_nanos(5_000_000_000); // on the caller's own timeline
/// limiter.at(then).try_acquire()?;
/// let denied = limiter.at(then).try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct At<'a, L = TokenBucket> {
    pub(crate) limiter: &'a L,
    pub(crate) now_ns: u64,
}

impl<L> Clone for At<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for At<'_, L> {}
