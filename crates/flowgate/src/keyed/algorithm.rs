use super::rule::{self, Rule};
use crate::concurrency::limit::ConcurrencyLimit;
use crate::quota::{Quota, Quotas};
use crate::types::dual_token_bucket::DualTokenBucket;
use crate::types::fixed_window::FixedWindow;
use crate::types::leaky_bucket::LeakyBucket;
use crate::types::segmented_window::SegmentedWindow;
use crate::types::token_bucket::TokenBucket;
use crate::types::unlimited::Unlimited;

/// A limiter type that [`Keyed`](super::Keyed) can keep for each key. Sealed.
///
/// It is implemented for [`TokenBucket`], [`LeakyBucket`], [`DualTokenBucket`], [`FixedWindow`], [`SegmentedWindow`] (with one
/// segment) and [`Unlimited`].
///
/// The associated type `Quota` is the type of each key's quota: [`Quotas`] for a [`DualTokenBucket`], and [`Quota`] for the others.
/// Code that calls [`Keyed::quota`](super::Keyed::quota), [`set_quota`](super::Keyed::set_quota), [`with`](super::Keyed::with) or
/// [`policy`](super::Keyed::policy) needs the bound `KeyedAlgorithm<Quota = Quota>`.
///
/// ```
/// use flowgate::{Keyed, KeyedAlgorithm};
///
/// /// Who is nearest to the limit, of whichever kind.
/// fn busiest<A: KeyedAlgorithm>(limits: &Keyed<A>) -> Option<String> {
///     let usage = limits.most_used(1).pop()?;
///     Some(format!("{}: {} left", usage.id, usage.snapshot.remaining))
/// }
///
/// let limits = Keyed::fixed_window("10/min".parse()?).capacity(100)?;
/// assert_eq!(busiest(&limits), None);
/// limits.try_acquire_n("alice", 9)?;
/// assert!(busiest(&limits).unwrap().ends_with(": 1 left"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "there is no `Keyed<{Self}>`",
    note = "there can be a `TokenBucket`, `LeakyBucket`, `DualTokenBucket`, `FixedWindow` or `SegmentedWindow` for each key",
    note = "permits for each key are a `KeyedConcurrencyLimit`"
)]
pub trait KeyedAlgorithm: sealed::Sealed {}

pub(crate) mod sealed {
    use super::{ConcurrencyLimit, Quota, Quotas, Rule};
    use core::fmt::Debug;

    /// A limiter type of which each key can have one.
    pub trait Kind {
        /// The quota or limit of each key.
        type Allowed: Copy + Debug;
    }

    impl<A: Sealed> Kind for A {
        type Allowed = A::Quota;
    }

    impl Kind for ConcurrencyLimit {
        type Allowed = u32;
    }

    #[diagnostic::on_unimplemented(
        message = "there is no `Keyed<{Self}>`",
        note = "there can be a `TokenBucket`, `LeakyBucket`, `DualTokenBucket`, `FixedWindow` or `SegmentedWindow` for each key",
        note = "permits for each key are a `KeyedConcurrencyLimit`"
    )]
    pub trait Sealed: Sized + 'static {
        /// The quota of each key.
        type Quota: Copy + Debug + From<Quota> + Into<Quotas> + Send + Sync;
        /// The algorithm that changes the state of a key.
        type Rule: Rule<Quota = Self::Quota>;
        /// The name of the limiter type, as in `Keyed<Name>`.
        const NAME: &'static str;
        /// The value of [`Policy::is_steady`](crate::Policy::is_steady).
        const IS_STEADY: bool;

        /// Returns the quota as this limiter uses it.
        fn quota(quota: Self::Quota) -> Self::Quota {
            quota
        }

        /// Returns the quota if a decision follows from one.
        fn only(quota: Self::Quota) -> Option<Quota> {
            quota.into().only().ok()
        }
    }
}

impl KeyedAlgorithm for TokenBucket {}
impl KeyedAlgorithm for LeakyBucket {}
impl KeyedAlgorithm for DualTokenBucket {}
impl KeyedAlgorithm for FixedWindow {}
impl KeyedAlgorithm for SegmentedWindow {}
impl KeyedAlgorithm for Unlimited {}

impl sealed::Sealed for TokenBucket {
    type Quota = Quota;
    type Rule = rule::Bucket;
    const NAME: &'static str = "TokenBucket";
    const IS_STEADY: bool = true;
}

impl sealed::Sealed for LeakyBucket {
    type Quota = Quota;
    type Rule = rule::Bucket;
    const NAME: &'static str = "LeakyBucket";
    const IS_STEADY: bool = true;

    /// A quota without an explicit burst has a burst of 1.
    fn quota(quota: Quota) -> Quota {
        quota.with_default_burst(Some(1))
    }
}

impl sealed::Sealed for DualTokenBucket {
    type Quota = Quotas;
    type Rule = rule::Dual;
    const NAME: &'static str = "DualTokenBucket";
    const IS_STEADY: bool = true;
}

impl sealed::Sealed for FixedWindow {
    type Quota = Quota;
    type Rule = rule::FixedWindow;
    const NAME: &'static str = "FixedWindow";
    const IS_STEADY: bool = false;
}

impl sealed::Sealed for SegmentedWindow {
    type Quota = Quota;
    type Rule = rule::SegmentedWindow;
    const NAME: &'static str = "SegmentedWindow";
    const IS_STEADY: bool = false;
}

/// Admits everything, whatever the quota.
impl sealed::Sealed for Unlimited {
    type Quota = Quota;
    type Rule = rule::NoLimit;
    const NAME: &'static str = "Unlimited";
    const IS_STEADY: bool = true;

    fn only(_: Quota) -> Option<Quota> {
        None
    }
}
