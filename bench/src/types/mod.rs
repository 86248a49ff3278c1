//! flowgate's limiters among themselves: what does each promise cost? One file per family, each giving
//! for every type a case with room for all that is asked and a case with room for nothing.
//!
//! Windows are asked with limits that one thread, or two, cannot use up, so that they admit while
//! they roll over as in use; the numbers are in README.md.

use std::time::Duration;

use flowgate::{Clock, Limiter, Quota};
use flowgate_bench::cases::{Case, Traffic};

mod buckets;
mod floor;
mod sometimes;
mod windows;

/// Every case: with room, then full.
pub fn all() -> Vec<Case> {
    // What the clock sets up on its first use is none of the first limiter's bytes.
    std::hint::black_box(Clock::system().now());
    let mut cases = floor::cases();
    cases.extend(buckets::admitting());
    cases.extend(windows::admitting());
    cases.extend(buckets::refusing());
    cases.extend(windows::refusing());
    cases.extend(sometimes::cases());
    cases
}

fn quota(count: u64, period: Duration) -> Quota {
    Quota::new(count, period).expect("the limits fit")
}

/// What a full limiter allows: nothing more while it is measured.
fn per_hour(count: u64) -> Quota {
    quota(count, Duration::from_secs(3_600))
}

/// A limiter that is asked until it says no.
fn filled<L: Limiter>(limiter: L) -> L {
    while through_trait(&limiter).try_acquire().is_ok() {}
    limiter
}

/// For what is not measured: the caller that is shall be the only one of the type's own verb, because
/// the compiler inlines it the more readily.
fn through_trait(limiter: &dyn Limiter) -> &dyn Limiter {
    std::hint::black_box(limiter)
}

/// A limiter asked for one token with the type's own verb, as by a caller that knows the type.
trait Ask: Limiter + 'static {
    fn ask(&self) -> bool;
}

macro_rules! ask_with_try_acquire {
    ($($limiter:ident)*) => {$(
        impl Ask for flowgate::$limiter {
            #[inline(always)]
            fn ask(&self) -> bool {
                self.try_acquire().is_ok()
            }
        }
    )*};
}
ask_with_try_acquire! {
    ApproximateWindow DecayingBucket FixedWindow LeakyBucket PayAfter SegmentedWindow SlidingWindow
    TokenBucket Unlimited WarmUp
}

fn with_room<L: Ask>(subject: &'static str, build: impl FnOnce() -> L) -> Case {
    Case::built(subject, Traffic::Admit, build, L::ask)
}

fn full<L: Ask>(subject: &'static str, build: impl FnOnce() -> L) -> Case {
    Case::built(subject, Traffic::RefuseFull, || filled(build()), L::ask)
}
