use super::Gate;
use crate::limiter::Limiter;
use core::any::Any;
use core::fmt;

/// The limits of a [`Gate`] during a change of several of them.
///
/// [`Gate::configure_all`] passes it to its closure.
pub struct GateLimits<'a>(&'a Gate);

impl Gate {
    /// Changes several of the limits in one step.
    ///
    /// Every decision of the gate uses all of the changes or none of them. Waiters are then served by the new limits; those
    /// that can never be served any more are refused.
    ///
    /// ```
    /// # use flowgate::{ConcurrencyLimit, Gate, TokenBucket};
    /// let gate = Gate::builder()
    ///     .limit("second", TokenBucket::new("10/s".parse()?))
    ///     .limit("day", TokenBucket::new("1000/day".parse()?))
    ///     .limit("slots", ConcurrencyLimit::new(5))
    ///     .build()?;
    /// let quotas = [("second", "50/s".parse()?), ("day", "20000/day".parse()?)];
    /// let are_changed = gate.configure_all(|limits| {
    ///     let slots = limits.get::<ConcurrencyLimit>("slots");
    ///     slots.is_some_and(|slots| slots.set_limit(20).is_ok())
    ///         && quotas.iter().all(|(name, quota)| {
    ///             limits.limiter(name).is_some_and(|limiter| limiter.set_quota(*quota).is_ok())
    ///         })
    /// });
    /// assert!(are_changed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A change that fails does not undo the changes before it. Check quotas that may be refused before you change anything.
    ///
    /// > **Warning:** decisions of the gate wait while `change` runs. A `change` that asks the gate itself for a decision
    /// > never returns.
    pub fn configure_all<R>(&self, change: impl FnOnce(&GateLimits<'_>) -> R) -> R {
        let _change = self.queue.reconfigure(self);
        // Dropped first, as waiters are served by decisions.
        let _taking = self.taking.lock();
        change(&GateLimits(self))
    }
}

impl<'a> GateLimits<'a> {
    /// Returns the limit of this name. `None` if there is none of that name and type.
    pub fn get<L: Any>(&self, name: &str) -> Option<&'a L> {
        let limit: &dyn Any = &*self.0.member(name)?.limit;
        limit.downcast_ref()
    }

    /// Returns the rate limiter of this name, whatever its type. `None` if there is none, or if the limit of that name is not
    /// a rate limiter.
    pub fn limiter(&self, name: &str) -> Option<&'a dyn Limiter> {
        self.0.member(name)?.limit.limiter()
    }
}

impl fmt::Debug for GateLimits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GateLimits").field(self.0).finish()
    }
}
