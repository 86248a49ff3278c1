//! The methods that only permits of a [`ConcurrencyLimit`] have.

use super::ConcurrencyLimit;
use crate::concurrency::permit::Permit;
use alloc::sync::Arc;
use core::ops::Deref;

/// A [`Permit`] that keeps its limit alive, so it can move into another task.
///
/// ```
/// use flowgate::ConcurrencyLimit;
/// use std::sync::Arc;
///
/// let limit = Arc::new(ConcurrencyLimit::new(2));
/// let permit = limit.try_acquire_owned()?;
/// let worker = std::thread::spawn(move || {
///     // … work …
///     drop(permit);
/// });
/// worker.join().unwrap();
/// assert_eq!(limit.in_flight(), 0);
/// # Ok::<(), flowgate::Denied>(())
/// ```
pub type OwnedPermit<L = ConcurrencyLimit> = Permit<Arc<L>>;

impl<P: Deref<Target = ConcurrencyLimit>> Permit<P> {
    /// Never returns its permits: the limit becomes smaller by their number.
    ///
    /// A waiter that asks for more than the remaining limit is refused. If nothing remains, the limit of 0 is a pause, and
    /// waiters keep waiting. [`set_limit`](ConcurrencyLimit::set_limit) sets another limit, whatever was forgotten.
    ///
    /// ```
    /// # use flowgate::ConcurrencyLimit;
    /// let limit = ConcurrencyLimit::new(5);
    /// limit.try_acquire_n(2)?.forget();
    /// assert_eq!((limit.limit(), limit.in_flight(), limit.available()), (3, 0, 3));
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    pub fn forget(mut self) {
        let n = core::mem::take(&mut self.n);
        self.limiter().forget(n);
    }
}
