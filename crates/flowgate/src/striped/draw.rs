use super::plumbing::{Key, Lots};
use crate::limiter::Limiter;
use crate::types::fixed_window::FixedWindow;
use crate::types::leaky_bucket::LeakyBucket;
use crate::types::token_bucket::TokenBucket;
use crate::verdict::Denied;

/// A limiter that a [`Batch`](super::Batch) can be filled from. Sealed.
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
pub trait Draw: Limiter + Lots {}

macro_rules! draw {
    ($limiter:ty) => {
        impl Draw for $limiter {}

        impl Lots for $limiter {
            fn draw(&self, _: Key, min: u64, max: u64) -> Result<u64, Denied> {
                let at = self.at_now();
                let door = || at.pass(Some(max.max(min).min(1)));
                self.engine.draw(at.now_ns, min, max, door)
            }
        }
    };
}

draw!(TokenBucket);
draw!(LeakyBucket);
draw!(FixedWindow);
