use crate::quota::Quota;

/// What a limiter allows, as it would say it to those who ask: its quota, and how what was taken comes back. Made by
/// [`Limiter::policy`](crate::Limiter::policy) and [`Keyed::policy`](crate::Keyed::policy).
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
    /// The quota in force.
    pub quota: Quota,
    /// Whether a token comes back in each `period / count` of the quota, as long as some are missing and nothing is
    /// owed. If not, they come in lots (windows, [`Refill::Interval`](crate::Refill::Interval)) or at a changing rate.
    pub is_steady: bool,
}

impl Policy {
    pub(crate) const fn new(quota: Quota, is_steady: bool) -> Self {
        Self { quota, is_steady }
    }
}
