//! What not every limiter can, so that it is not in [`Limiter`]: a quota to tell, refunds, charges afterwards.

use flowgate::{
    ApproximateWindow, FixedWindow, Gate, LeakyBucket, Limiter, Observed, PayAfter, Quota,
    SegmentedWindow, SlidingWindow, TokenBucket, WarmUp,
};
use std::any::Any;

/// Calls `$what` with a gate's limiter of whichever type it is of.
macro_rules! first_of {
    ($gate:ident.$verb:ident($name:ident), $what:ident) => {
        first_of!($gate.$verb($name), $what: TokenBucket LeakyBucket SlidingWindow FixedWindow
            SegmentedWindow ApproximateWindow WarmUp PayAfter)
    };
    ($gate:ident.$verb:ident($name:ident), $what:ident: $($limiter:ident)*) => {
        None$(
            .or_else(|| $gate.$verb($name, |limiter: &$limiter| $what(limiter)))
            .or_else(|| $gate.$verb($name, |limiter: &Observed<$limiter>| $what(limiter.get_ref())))
        )*
    };
}

/// What those limiters can that have a quota.
pub(super) trait Rate: Limiter {
    fn quota(&self) -> Quota;

    fn refund(&self, n: u64) -> u64;

    /// Takes `n` units for what has already been done: as a debt where there is such a thing, or else what there is
    /// of them.
    fn charge(&self, n: u64);
}

macro_rules! rate {
    ($limiter:ident as $verbs:ident, $self:ident, $n:ident => $charge:expr) => {
        impl Rate for $limiter {
            fn quota(&self) -> Quota {
                $verbs::quota(self)
            }

            fn refund(&self, n: u64) -> u64 {
                $verbs::refund(self, n)
            }

            fn charge(&self, $n: u64) {
                let $self = self;
                let _ = $charge;
            }
        }
    };
}

rate!(TokenBucket as TokenBucket, bucket, n => overdraw(bucket, n));
rate!(LeakyBucket as TokenBucket, bucket, n => overdraw(bucket, n));
rate!(FixedWindow as FixedWindow, window, n => window.take_up_to(n));
rate!(SlidingWindow as SlidingWindow, window, n => window.take_up_to(n));
rate!(SegmentedWindow as SegmentedWindow, window, n => window.take_up_to(n));
rate!(ApproximateWindow as ApproximateWindow, window, n => window.take_up_to(n));
rate!(WarmUp as WarmUp, bucket, n => bucket.take_up_to(n));
// The next one pays, so it has to be let through first: there is no debt after the fact.
rate!(PayAfter as PayAfter, bucket, n => bucket.try_acquire_n(n));

/// All of it as a debt; if that is more than the bucket may owe, as much as there is.
fn overdraw(bucket: &TokenBucket, n: u64) {
    if bucket.overdraw(n).is_err() {
        bucket.take_up_to(n);
    }
}

/// `limiter` as one that has a quota, if it does.
pub(super) fn rate(limiter: &dyn Limiter) -> Option<&dyn Rate> {
    fn find<L: Rate + Any>(limiter: &dyn Any) -> Option<&dyn Rate> {
        if let Some(limiter) = limiter.downcast_ref::<L>() {
            return Some(limiter);
        }
        let observed = limiter.downcast_ref::<Observed<L>>()?;
        Some(observed.get_ref())
    }
    let any: &dyn Any = limiter;
    find::<TokenBucket>(any)
        .or_else(|| find::<LeakyBucket>(any))
        .or_else(|| find::<SlidingWindow>(any))
        .or_else(|| find::<FixedWindow>(any))
        .or_else(|| find::<SegmentedWindow>(any))
        .or_else(|| find::<ApproximateWindow>(any))
        .or_else(|| find::<WarmUp>(any))
        .or_else(|| find::<PayAfter>(any))
}

/// Looks at the limiter called `name` of `gate`, if it has a quota.
pub(super) fn inspect<R>(gate: &Gate, name: &str, look: impl Fn(&dyn Rate) -> R) -> Option<R> {
    first_of!(gate.inspect(name), look)
}

/// Changes the limiter called `name` of `gate`, if it has a quota.
pub(super) fn configure<R>(gate: &Gate, name: &str, change: impl Fn(&dyn Rate) -> R) -> Option<R> {
    first_of!(gate.configure(name), change)
}
