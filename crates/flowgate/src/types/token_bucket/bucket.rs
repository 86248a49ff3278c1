//! The state of a bucket, and what is told of it.

use super::refund_log::{Ledger, RefundLog};
use crate::primitive::{AtomicU64, Lazy, Ordering, const_unless_loom};
use crate::quota::Quota;
use crate::store::word::{self, Parameters, Word};
use alloc::boxed::Box;
use core::marker::PhantomData;

/// A bucket of tokens, as `M` uses it.
#[derive(Debug)]
#[repr(C)]
pub struct Bucket<M> {
    /// First, so that the word and what most decisions go by share a cache line.
    pub(crate) word: Word<word::TokenBucket>,
    /// The latest time that a caller has supplied to decide by; see [`settled_ns`](Self::settled_ns).
    pub(super) newest_ns: AtomicU64,
    /// The quota until `log` is made, and what that is made of.
    pub(super) first_quota: Quota,
    /// See [`log`](Self::log).
    log: Lazy<Box<RefundLog>>,
    mode: PhantomData<M>,
}

/// How a bucket is used.
pub trait Mode: core::fmt::Debug + Send + Sync + 'static {
    /// The name of the limiter's type.
    #[doc(hidden)]
    const NAME: &'static str;
    /// Whether every request may leave a debt for the next one.
    #[doc(hidden)]
    const PAYS_AFTER: bool = false;
    /// What a quota that sets no burst stands for; none: its count.
    #[doc(hidden)]
    const DEFAULT_BURST: Option<u64> = None;
}

/// Tokens are there before they are taken, up to a burst.
#[derive(Debug)]
pub struct Tokens;

/// As [`Tokens`], with a burst of 1 unless slack is set.
#[derive(Debug)]
pub struct Drops;

/// A request may leave a debt for the next one.
#[derive(Debug)]
pub struct Debts;

impl Mode for Tokens {
    const NAME: &'static str = "TokenBucket";
}

impl Mode for Drops {
    const NAME: &'static str = "LeakyBucket";
    const DEFAULT_BURST: Option<u64> = Some(1);
}

impl Mode for Debts {
    const NAME: &'static str = "PayAfter";
    const PAYS_AFTER: bool = true;
}

/// Modes in which a request leaves a debt only if it asks for that.
pub trait PaysBefore: Mode {}

impl PaysBefore for Tokens {}
impl PaysBefore for Drops {}

impl<M: Mode> Bucket<M> {
    const_unless_loom! {
        /// A full bucket.
        #[cfg(any(feature = "std", test))]
        pub(crate) const fn new(quota: Quota) -> Self {
            let quota = quota.with_default_burst(M::DEFAULT_BURST);
            let parameters = Parameters::new(&quota, quota.burst_units());
            let bucket = Self::over(Word::new(parameters), quota);
            // Loom does not explore the making.
            #[cfg(flowgate_loom)]
            bucket.log();
            bucket
        }
    }

    const_unless_loom! {
        const fn over(word: Word<word::TokenBucket>, first_quota: Quota) -> Self {
            Self {
                word,
                newest_ns: AtomicU64::new(0),
                first_quota,
                log: Lazy::new(),
                mode: PhantomData,
            }
        }
    }

    /// A bucket in the state `tat`.
    pub(super) fn built(
        parameters: Parameters,
        tat: u128,
        ledger: Ledger,
        drain_up_to: u64,
    ) -> Self {
        let bucket = Self::over(Word::built(parameters, tat), ledger.quota);
        // Loom does not explore the making.
        if cfg!(flowgate_loom) || drain_up_to != 1 || !ledger.is_default(M::DEFAULT_BURST) {
            bucket
                .log
                .get_or_make(|| Box::new(RefundLog::new(ledger, drain_up_to)));
        }
        bucket
    }

    /// The same bucket, used otherwise.
    pub(super) fn used_as<N>(self) -> Bucket<N> {
        Bucket {
            word: self.word,
            newest_ns: self.newest_ns,
            first_quota: self.first_quota,
            log: self.log,
            mode: PhantomData,
        }
    }

    /// Returns what only few buckets need. It is made when something is first given back, a reservation is first told to wait, or the
    /// quota is first changed.
    #[inline]
    pub(super) fn log(&self) -> &RefundLog {
        self.log.get_or_make(|| {
            let ledger = Ledger::new(self.first_quota, M::DEFAULT_BURST);
            Box::new(RefundLog::new(ledger, 1))
        })
    }

    /// [`log`](Self::log), if it has been made. If not, nothing has been noted there.
    #[inline]
    pub(super) fn made_log(&self) -> Option<&RefundLog> {
        self.log.get().map(|log| &**log)
    }

    /// By how much faster it may flow out to a queue that is full; 1: not at all.
    pub(super) fn drain_up_to(&self) -> u64 {
        self.made_log().map_or(1, |log| log.drain_up_to)
    }

    /// The latest time that a caller has supplied and that anything in the state `tat` was decided by, or the last change of
    /// quota, or `now_ns`, whichever is later. Changes of quota and what is given back are settled no earlier, so that nothing
    /// that flowed in until then does so twice.
    ///
    /// Every grant leaves a state that is later than its own time. So by a time beyond the state nothing has been granted, and
    /// it does not count. (In intervals, a state does not tell that.)
    #[inline(always)]
    pub(super) fn settled_ns(&self, now_ns: u64, parameters: &Parameters, tat: u128) -> u64 {
        let now_ns = now_ns.max(parameters.since_ns);
        let newest_ns = self.newest_ns.load(Ordering::Acquire);
        if newest_ns <= now_ns || parameters.interval_ns != 0 {
            return now_ns.max(newest_ns);
        }
        let decided_ns = tat.div_ceil(u128::from(parameters.ticks_per_ns));
        // At most the newest.
        now_ns.max(decided_ns.min(newest_ns.into()) as u64)
    }
}
