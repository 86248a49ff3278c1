use crate::quota::Quota;

/// A limiter's quota, and how tokens come back, for headers and other descriptions.
///
/// [`Limiter::policy`](crate::Limiter::policy) and [`Keyed::policy`](crate::Keyed::policy) return it.
///
/// ```
/// use flowgate::{FixedWindow, Limiter, TokenBucket};
///
/// let quota = "100/min burst 20".parse()?;
/// let bucket = TokenBucket::new(quota);
/// let policy = bucket.policy().expect("a bucket has a quota");
/// assert_eq!(policy.quota, quota);
/// assert!(policy.is_steady);
///
/// let window = FixedWindow::new("100/min".parse()?)?;
/// assert!(window.policy().is_some_and(|policy| !policy.is_steady));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Policy {
    /// The current quota.
    pub quota: Quota,
    /// Whether one token comes back in each `period / count` of the quota.
    ///
    /// That holds while tokens are missing and there is no debt. If `false`, tokens come back in groups (windows,
    /// [`Refill::Interval`](crate::Refill::Interval)) or at a changing rate.
    pub is_steady: bool,
}

impl Policy {
    pub(crate) const fn new(quota: Quota, is_steady: bool) -> Self {
        Self { quota, is_steady }
    }
}
