use crate::token_bucket::TokenBucket;

/// A limiter at an instant of the caller's: the same verbs, with that for the time.
///
/// Made by the limiter's `at`, such as [`TokenBucket::at`].
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
