use super::Draw;
use super::plumbing::{Key, Lots};
use crate::clock::Timestamp;
use crate::limiter::Limiter;
use crate::limiter::sealed::Sealed;
use crate::verdict::Denied;
use core::fmt;
use core::ops::Deref;

/// Tokens for one owner, **acquired in batches and spent without an atomic operation**.
///
/// Dropping the batch returns the remaining tokens.
///
/// ```
/// use flowgate::{Batch, ManualClock, TokenBucket};
///
/// let limiter =
///     TokenBucket::builder("1000/s burst 100".parse()?).clock(ManualClock::new()).build()?;
/// let mut batch = Batch::new(&limiter, 64); // or an `Arc`
/// for _ in 0..10 {
///     batch.try_acquire()?;
/// }
/// assert_eq!((batch.left(), limiter.available()), (54, 36));
/// drop(batch);
/// assert_eq!(limiter.available(), 90);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Tokens in a batch count as admitted when they were taken from the limiter. So in a short interval, the operations that
/// really happen can exceed the bound by as many as the batches hold. A [`Striped`](crate::Striped) limiter does not exceed it.
///
/// No other caller can use the tokens in a batch, so do not keep one while idle. Tokens that have been refilled since the batch
/// was filled are not returned a second time. To ensure that, a batch that is kept for long returns fewer tokens than it could.
pub struct Batch<L: Deref<Target: Draw>> {
    left: u64,
    /// Units per token when the batch was last filled.
    token: u64,
    size: u64,
    /// When the oldest of the remaining tokens were taken.
    since: Timestamp,
    limiter: L,
}

impl<L: Deref<Target: Draw>> Batch<L> {
    /// Creates an empty batch, which takes up to `units` units at a time.
    ///
    /// With 0 or 1, the batch asks the limiter for each operation.
    pub fn new(limiter: L, units: u64) -> Self {
        Self {
            left: 0,
            token: limiter.supply().0.facts().token,
            size: units,
            since: Timestamp::ORIGIN,
            limiter,
        }
    }

    /// Acquires one token.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], and takes nothing, if the batch is empty and the limiter has no token.
    #[inline]
    pub fn try_acquire(&mut self) -> Result<(), Denied> {
        if self.left < self.token {
            return self.fill_and_take(None);
        }
        self.left -= self.token;
        Ok(())
    }

    /// Acquires `n` units, all or none, in the units of the last fill.
    ///
    /// ```
    /// # use flowgate::{Batch, TokenBucket};
    /// let limiter = TokenBucket::new("100/h".parse()?);
    /// let mut batch = Batch::new(&limiter, 64);
    /// batch.try_acquire_n(10)?;
    /// assert_eq!((batch.left(), limiter.available()), (54, 36));
    /// batch.try_acquire_n(70)?; // with what the limiter has
    /// assert!(batch.try_acquire_n(50).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], and takes nothing, if the batch has fewer units and the limiter does not have the rest.
    #[inline]
    pub fn try_acquire_n(&mut self, n: u64) -> Result<(), Denied> {
        if self.left < n {
            return self.fill_and_take(Some(n));
        }
        self.left -= n;
        Ok(())
    }

    /// Returns the number of units in the batch.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Fills the batch, and takes `units` units from it, or one token if `None`.
    #[cold]
    #[inline(never)]
    fn fill_and_take(&mut self, units: Option<u64>) -> Result<(), Denied> {
        self.restate();
        let n = units.unwrap_or(self.token);
        let missing = n.saturating_sub(self.left);
        if missing > 0 {
            // Before they are taken, so that the batch never returns too many.
            let now = self.limiter.clock().now();
            let drawn = self
                .limiter
                .draw(Key::new(), missing, missing.max(self.size))?;
            if self.left == 0 {
                self.since = now;
            }
            // At most a burst more than less than `n`.
            self.left = self.left.saturating_add(drawn);
        }
        self.left -= n;
        Ok(())
    }

    /// Restates the remaining units in the limiter's current units.
    fn restate(&mut self) {
        let token = self.limiter.supply().0.facts().token;
        if token != self.token {
            let left = u128::from(self.left) * u128::from(token) / u128::from(self.token);
            self.left = u64::try_from(left).unwrap_or(u64::MAX);
            self.token = token;
        }
    }
}

impl<L: Deref<Target: Draw>> Drop for Batch<L> {
    fn drop(&mut self) {
        self.restate();
        if self.left > 0 {
            let supply = self.limiter.supply().0;
            supply.take_back(self.since, self.left, &[]);
        }
    }
}

impl<L: Deref<Target: Draw> + fmt::Debug> fmt::Debug for Batch<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("left", &self.left)
            .field("size", &self.size)
            .field("limiter", &self.limiter)
            .finish()
    }
}
