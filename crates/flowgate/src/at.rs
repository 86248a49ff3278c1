use crate::clock::Timestamp;
use crate::token_bucket::TokenBucket;
use core::marker::PhantomData;

/// A limiter at an instant of the caller's: the same verbs, with that for the time.
///
/// Made by the limiter's `at`, such as [`TokenBucket::at`].
///
/// ```
/// use flowgate::{Timestamp, TokenBucket};
/// use std::time::Duration;
///
/// let limiter = TokenBucket::new("10/s burst 3".parse()?);
/// let then = Timestamp::from_nanos(5_000_000_000); // on the caller's own timeline
/// let second = Duration::from_secs(1);
/// limiter.at(then).try_acquire_n(3)?;
/// let denied = limiter.at(then).try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
///
/// assert_eq!(limiter.at(then).refund(1), 1);
/// assert_eq!(limiter.at(then).take_up_to(5), 1);
/// assert_eq!(limiter.at(then).reserve()?.at(), then + Duration::from_millis(100));
/// assert!(limiter.at(then).reserve_within(Duration::from_millis(199)).is_err());
/// assert_eq!(limiter.at(then).snapshot().reset_after, Duration::from_millis(400));
///
/// limiter.at(then + second).overdraw(5)?; // two into debt
/// assert_eq!(limiter.at(then + second).available(), 0);
/// limiter.at(then + second).set_quota("1/s burst 3".parse()?);
/// assert_eq!(limiter.at(then + 4 * second).available(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct At<'a, L = TokenBucket, T = Supplied> {
    pub(crate) limiter: &'a L,
    pub(crate) now_ns: u64,
    time: PhantomData<T>,
}

/// Where an instant comes from.
pub trait Origin {
    /// From the caller, and not from the limiter's clock.
    const IS_SUPPLIED: bool;
}

/// An instant that the caller has supplied.
#[derive(Debug)]
pub struct Supplied;

/// An instant that has been read from the limiter's clock.
#[derive(Debug)]
pub struct Read;

impl Origin for Supplied {
    const IS_SUPPLIED: bool = true;
}

impl Origin for Read {
    const IS_SUPPLIED: bool = false;
}

impl<'a, L> At<'a, L> {
    /// At an instant of the caller's.
    pub(crate) const fn supplied(limiter: &'a L, now: Timestamp) -> Self {
        Self::read(limiter, now.as_nanos())
    }
}

impl<'a, L, T> At<'a, L, T> {
    /// At an instant that the limiter's clock has told, where `T` tells them apart.
    #[inline(always)]
    pub(crate) const fn read(limiter: &'a L, now_ns: u64) -> Self {
        Self {
            limiter,
            now_ns,
            time: PhantomData,
        }
    }

    /// Another limiter at the same instant.
    pub(crate) const fn of<M>(self, limiter: &'a M) -> At<'a, M, T> {
        At::read(limiter, self.now_ns)
    }
}

impl<L, T> Clone for At<'_, L, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, T> Copy for At<'_, L, T> {}
