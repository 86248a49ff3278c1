//! The state of a bucket, and its modes.

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
    /// First, so that the word and the parameters that most decisions use share a cache line.
    pub(crate) word: Word<word::TokenBucket>,
    /// The latest time that a caller has supplied to decide by; see [`settled_ns`](Self::settled_ns).
    pub(super) newest_ns: AtomicU64,
    /// The quota until `log` is made, which then starts with it.
    pub(super) first_quota: Quota,
    /// See [`log`](Self::log).
    log: Lazy<Box<RefundLog>>,
    mode: PhantomData<M>,
}

/// The mode of a bucket: whether operations may leave a debt.
pub trait Mode: core::fmt::Debug + Send + Sync + 'static {
    /// The name of the limiter's type.
    #[doc(hidden)]
    const NAME: &'static str;
    /// Whether every request may leave a debt for the next one.
    #[doc(hidden)]
    const PAYS_AFTER: bool = false;
    /// The burst of a quota that sets none; `None`: its count.
    #[doc(hidden)]
    const DEFAULT_BURST: Option<u64> = None;
}

/// Tokens are available before they are taken, up to a burst.
#[derive(Debug)]
pub struct Tokens;

/// Like [`Tokens`], with a burst of 1 unless slack is set.
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

    /// The same bucket in another mode.
    pub(super) fn used_as<N>(self) -> Bucket<N> {
        Bucket {
            word: self.word,
            newest_ns: self.newest_ns,
            first_quota: self.first_quota,
            log: self.log,
            mode: PhantomData,
        }
    }

    /// Returns the state that only few buckets need. It is made when units are first returned, when a reservation first has to
    /// wait, or when the quota is first changed.
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

    /// The largest factor by which a full queue flows out faster; 1: not faster.
    pub(super) fn drain_up_to(&self) -> u64 {
        self.made_log().map_or(1, |log| log.drain_up_to)
    }

    /// The time at which changes of quota and refunds are computed. It is the latest of three times: `now_ns`, the last change
    /// of quota, and the latest time that a caller has supplied for a decision in the state `tat`. With an earlier time, tokens
    /// that flowed in until then would flow in twice.
    ///
    /// Every grant leaves a state that is later than its own time. So nothing has been granted at a supplied time beyond the
    /// state, and such a time does not count. (With intervals, a state does not show that.)
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
