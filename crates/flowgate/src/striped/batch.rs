use super::Draw;
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
/// Nobody else can have what it holds, so do not keep one while idle.
pub struct Batch<L>
where
    L: Deref<Target: Draw>,
{
    left: u64,
    /// How many units a token is.
    token: u64,
    size: u64,
    limiter: L,
}

impl<L> Batch<L>
where
    L: Deref<Target: Draw>,
{
    /// Empty, and to be filled with up to `units` at a time. With 0 or 1 it is filled for each operation.
    pub fn new(limiter: L, units: u64) -> Self {
        let token = Sealed::supply(&*limiter).token();
        Self {
            left: 0,
            token,
            size: units,
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
        self.try_acquire_n(self.token)
    }

    /// Takes `n` units, all or none.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the batch has fewer, and the limiter does not have what is missing; nothing is then taken.
    #[inline]
    pub fn try_acquire_n(&mut self, n: u64) -> Result<(), Denied> {
        if self.left < n {
            self.fill(n)?;
        }
        self.left -= n;
        Ok(())
    }

    /// How many units it has.
    pub fn left(&self) -> u64 {
        self.left
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, n: u64) -> Result<(), Denied> {
        let missing = n - self.left;
        let drawn = self.limiter.draw(missing, missing.max(self.size))?;
        // At most a burst more than less than `n`.
        self.left = self.left.saturating_add(drawn);
        Ok(())
    }
}

impl<L> Drop for Batch<L>
where
    L: Deref<Target: Draw>,
{
    fn drop(&mut self) {
        if self.left > 0 {
            self.limiter.put_back(self.left);
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
