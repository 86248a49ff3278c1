use super::{OneWord, Striped};
use crate::fixed_window::FixedWindow;
use crate::leaky_bucket::LeakyBucket;
use crate::limiter::Limiter;
use crate::thread_number::thread_number;
use crate::token_bucket::TokenBucket;
use crate::verdict::Denied;

/// Where tokens come from by the handful: between so many and so many now, or when. Sealed.
///
/// ```
/// use flowgate::{Batch, Denied, Draw, TokenBucket};
///
/// /// Sends all of `lines`, as far as the limit allows, asking it for up to 64 at a time.
/// fn send(lines: &[&str], limit: &impl Draw) -> Result<(), Denied> {
///     let mut batch = Batch::new(limit, 64);
///     lines.iter().try_for_each(|_line| batch.try_acquire())
/// }
///
/// let plain = TokenBucket::new("100/h".parse()?);
/// send(&["a"; 80], &plain)?;
/// let striped = TokenBucket::new("100/h".parse()?).striped();
/// assert!(send(&["a"; 101], &striped).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Draw: Limiter {
    /// Takes at least `min` units, and up to `max` if there are as many. Says how many it was.
    ///
    /// ```
    /// use flowgate::{Draw, TokenBucket};
    ///
    /// let limiter = TokenBucket::new("10/h".parse()?);
    /// assert_eq!(limiter.draw(1, 7), Ok(7));
    /// assert_eq!(limiter.draw(1, 7), Ok(3));
    /// assert!(limiter.draw(1, 7).is_err());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] if there are fewer than `min`; nothing is then taken.
    fn draw(&self, min: u64, max: u64) -> Result<u64, Denied>;
}

macro_rules! draw {
    ($limiter:ty) => {
        impl Draw for $limiter {
            fn draw(&self, min: u64, max: u64) -> Result<u64, Denied> {
                self.draw_now(min, max)
            }
        }
    };
}

draw!(TokenBucket);
draw!(LeakyBucket);
draw!(FixedWindow);

impl<L: OneWord> Draw for Striped<L> {
    fn draw(&self, min: u64, max: u64) -> Result<u64, Denied> {
        let most = max.max(min);
        match self.own(thread_number()).take(most) {
            true => Ok(most),
            false => self.limiter.draw(min, max),
        }
    }
}
