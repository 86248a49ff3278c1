use super::rule::{self, Rule};
use crate::quota::Quota;
use crate::{ConcurrencyLimit, FixedWindow, LeakyBucket, SegmentedWindow, TokenBucket};

/// The limiters that there can be one of for each key: [`TokenBucket`], [`LeakyBucket`], [`FixedWindow`] and
/// [`SegmentedWindow`] (of one segment). Sealed.
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
pub trait KeyedAlgorithm: sealed::Sealed {}

pub(crate) mod sealed {
    use super::{ConcurrencyLimit, Quota, Rule};

    /// What there can be one of for each key.
    pub trait Kind {
        /// What each is allowed.
        type Allowed: Copy + core::fmt::Debug;
    }

    impl<A: Sealed> Kind for A {
        type Allowed = Quota;
    }

    impl Kind for ConcurrencyLimit {
        type Allowed = u32;
    }

    pub trait Sealed: Sized + 'static {
        /// What it does with a key's state.
        type Rule: Rule;
        /// Its name, as in `Keyed<Name>`.
        const NAME: &'static str;
        /// As [`Policy::is_steady`](crate::Policy::is_steady).
        const IS_STEADY: bool;

        /// The quota as this limiter understands it.
        fn quota(quota: Quota) -> Quota {
            quota
        }
    }
}

impl KeyedAlgorithm for TokenBucket {}
impl KeyedAlgorithm for LeakyBucket {}
impl KeyedAlgorithm for FixedWindow {}
impl KeyedAlgorithm for SegmentedWindow {}

impl sealed::Sealed for TokenBucket {
    type Rule = rule::Bucket;
    const NAME: &'static str = "TokenBucket";
    const IS_STEADY: bool = true;
}

impl sealed::Sealed for LeakyBucket {
    type Rule = rule::Bucket;
    const NAME: &'static str = "LeakyBucket";
    const IS_STEADY: bool = true;

    /// Without a burst of its own, it has one of 1.
    fn quota(quota: Quota) -> Quota {
        quota.with_default_burst(Some(1))
    }
}

impl sealed::Sealed for FixedWindow {
    type Rule = rule::FixedWindow;
    const NAME: &'static str = "FixedWindow";
    const IS_STEADY: bool = false;
}

impl sealed::Sealed for SegmentedWindow {
    type Rule = rule::SegmentedWindow;
    const NAME: &'static str = "SegmentedWindow";
    const IS_STEADY: bool = false;
}
