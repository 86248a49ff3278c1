//! [`ImmediateLimit`]: what a caller that cannot wait needs of a limiter.

use crate::gate::Gate;
use crate::limiter::Limiter;
use crate::quota::{Quota, QuotaError, Reason};
use crate::verdict::Denied;
use alloc::sync::Arc;

/// A limiter that decides without waiting: a rate limiter, a [`Gate`], or one of your own.
///
/// Code that cannot wait takes it: the samplers, processors and exporters of flowgate-otel, and the filter of
/// flowgate-tracing. Every [`Limiter`] is one, also in an [`Arc`], so that several parts of a program can share a limit.
///
/// Implement it for an algorithm that this library does not have. [`decide`](Self::decide) must not block: the caller is in
/// the middle of a request. If the state is in a database, decide by a copy that another task keeps up to date. Behind a
/// layer of flowgate-tower, which can wait, use its `CustomLimit`.
///
/// A [`Gate`] returns its concurrency permits immediately, because nothing holds them.
///
/// # Examples
///
/// Every other operation, if a budget that the program shares has a token for it:
///
/// ```
/// use flowgate::{Denied, ImmediateLimit, Limiter, TokenBucket};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// struct EveryOther {
///     calls: AtomicU64,
///     budget: Arc<dyn Limiter>,
/// }
///
/// impl ImmediateLimit for EveryOther {
///     fn decide(&self) -> Result<(), Denied> {
///         match self.calls.fetch_add(1, Ordering::Relaxed) % 2 {
///             0 => self.budget.try_acquire(),
///             _ => Err(Denied::busy()),
///         }
///     }
/// }
///
/// let budget = Arc::new(TokenBucket::new("2/h".parse()?));
/// let half = EveryOther { calls: AtomicU64::new(0), budget: budget.clone() };
/// let admitted = [(); 6].map(|()| half.decide().is_ok());
/// assert_eq!(admitted, [true, false, true, false, false, false]);
/// assert!(budget.decide().is_err()); // nothing is left of the budget
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not decide without waiting",
    note = "use a rate limiter or a `Gate` of flowgate, also in an `Arc`, or implement `ImmediateLimit` for your own"
)]
pub trait ImmediateLimit: Send + Sync {
    /// Decides whether to admit an operation, which takes one token.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], made by one of its constructors, if the operation is not admitted.
    fn decide(&self) -> Result<(), Denied>;

    /// Returns the current quota (default: none).
    fn current_quota(&self) -> Option<Quota> {
        None
    }

    /// Replaces the quota (default: returns an error).
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`], and changes nothing, if the limiter has no quota, or does not accept this one.
    fn replace_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        let _ = quota;
        Err(QuotaError::new(Reason::NOT_BY_QUOTA))
    }
}

impl<L: Limiter + ?Sized> ImmediateLimit for L {
    fn decide(&self) -> Result<(), Denied> {
        self.try_acquire()
    }

    fn current_quota(&self) -> Option<Quota> {
        Some(self.policy()?.quota)
    }

    fn replace_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        self.set_quota(quota)
    }
}

impl ImmediateLimit for Gate {
    fn decide(&self) -> Result<(), Denied> {
        self.try_acquire().map(drop)
    }
}

impl<L: ImmediateLimit + ?Sized> ImmediateLimit for Arc<L> {
    fn decide(&self) -> Result<(), Denied> {
        (**self).decide()
    }

    fn current_quota(&self) -> Option<Quota> {
        (**self).current_quota()
    }

    fn replace_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        (**self).replace_quota(quota)
    }
}
