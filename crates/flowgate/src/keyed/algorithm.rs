use super::rule::{self, Rule};
use crate::quota::Quota;
use crate::{FixedWindow, LeakyBucket, SegmentedWindow, TokenBucket};

/// The limiters that there can be one of for each key: [`TokenBucket`], [`LeakyBucket`], [`FixedWindow`] and
/// [`SegmentedWindow`] (of one segment). Sealed.
pub trait KeyedAlgorithm: sealed::Sealed {}

pub(crate) mod sealed {
    use super::{Quota, Rule};

    pub trait Sealed: Sized + 'static {
        /// What it does with a key's state.
        type Rule: Rule;
        /// Its name, as in `Keyed<Name>`.
        const NAME: &'static str;

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
}

impl sealed::Sealed for LeakyBucket {
    type Rule = rule::Bucket;
    const NAME: &'static str = "LeakyBucket";

    /// Without a burst of its own, it has one of 1.
    fn quota(quota: Quota) -> Quota {
        quota.with_default_burst(Some(1))
    }
}

impl sealed::Sealed for FixedWindow {
    type Rule = rule::FixedWindow;
    const NAME: &'static str = "FixedWindow";
}

impl sealed::Sealed for SegmentedWindow {
    type Rule = rule::SegmentedWindow;
    const NAME: &'static str = "SegmentedWindow";
}
