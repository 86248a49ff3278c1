use super::Draw;
use super::plumbing::{Key, Lots};
use crate::clock::Timestamp;
use crate::limiter::Limiter;
use crate::limiter::sealed::Sealed;
use crate::verdict::Denied;
use core::fmt;
use core::ops::Deref;

/// **Tokens for one owner, taken by the handful and spent without an atomic operation.** What is left when it is
/// dropped goes back.
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
/// What it holds counts as admitted when it was taken from the limiter. So whoever looks at what is done may see as
/// many operations more in a short time as batches hold; a [`Striped`](crate::Striped) limiter does not let that
/// happen.
///
/// Nobody else can have what it holds, so do not keep one while idle. What has flowed in again since it was taken is
/// not given back a second time; to be sure of that, a batch that is kept for long gives back less than it could.
pub struct Batch<L>
where
    L: Deref<Target: Draw>,
{
    left: u64,
    /// How many units a token was when it was last filled.
    token: u64,
    size: u64,
    /// When the oldest of what is left was taken.
    since: Timestamp,
    limiter: L,
}

impl<L> Batch<L>
where
    L: Deref<Target: Draw>,
{
    /// Empty, and to be filled with up to `units` at a time. With 0 or 1 it is filled for each operation.
    pub fn new(limiter: L, units: u64) -> Self {
        Self {
            left: 0,
            token: limiter.supply().0.facts().token,
            size: units,
            since: Timestamp::ORIGIN,
            limiter,
        }
    }

    /// Takes one token, or says why not.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the batch is empty and the limiter has none; nothing is then taken.
    #[inline]
    pub fn try_acquire(&mut self) -> Result<(), Denied> {
        if self.left < self.token {
            return self.fill_and_take(None);
        }
        self.left -= self.token;
        Ok(())
    }

    /// Takes `n` units, all or none: units as they were when the batch was last filled.
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
    /// [`Denied`] if the batch has fewer, and the limiter does not have what is missing; nothing is then taken.
    #[inline]
    pub fn try_acquire_n(&mut self, n: u64) -> Result<(), Denied> {
        if self.left < n {
            return self.fill_and_take(Some(n));
        }
        self.left -= n;
        Ok(())
    }

    /// How many units it has.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// So many units, or a token.
    #[cold]
    #[inline(never)]
    fn fill_and_take(&mut self, units: Option<u64>) -> Result<(), Denied> {
        self.restate();
        let n = units.unwrap_or(self.token);
        let missing = n.saturating_sub(self.left);
        if missing > 0 {
            // Before they are taken: what is given back then is not too much.
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

    /// What is left, in units as they are now.
    fn restate(&mut self) {
        let token = self.limiter.supply().0.facts().token;
        if token != self.token {
            let left = u128::from(self.left) * u128::from(token) / u128::from(self.token);
            self.left = u64::try_from(left).unwrap_or(u64::MAX);
            self.token = token;
        }
    }
}

impl<L> Drop for Batch<L>
where
    L: Deref<Target: Draw>,
{
    fn drop(&mut self) {
        self.restate();
        if self.left > 0 {
            let supply = self.limiter.supply().0;
            supply.take_back(self.since, self.left, &[]);
        }
    }
}

impl<L> fmt::Debug for Batch<L>
where
    L: Deref<Target: Draw> + fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("left", &self.left)
            .field("size", &self.size)
            .field("limiter", &self.limiter)
            .finish()
    }
}
