//! The state of a bucket, and what is told of it.

use super::refund_log::{self, Ledger};
use crate::primitive::{AtomicU64, AtomicU128, Lock, Ordering, const_unless_loom};
use crate::quota::Quota;
use crate::store::word::{self, Parameters, Word};
use core::marker::PhantomData;

/// A bucket of tokens, as `M` uses it.
#[derive(Debug)]
pub struct Bucket<M> {
    pub(crate) word: Word<word::TokenBucket>,
    /// The latest time that a caller has supplied to decide by; see [`settled_ns`](Self::settled_ns).
    pub(super) newest_ns: AtomicU64,
    /// See [`largest_told`](Self::largest_told).
    largest_told: [AtomicU64; 2],
    /// The latest time that a reservation has been told to wait for; 0: none. Raised before it is made, lowered
    /// when the last one is cancelled.
    pub(super) last_told_ns: AtomicU64,
    /// Ticks ever given back out of order; written by the holder of `ledger`, after the word.
    pub(super) given_back: AtomicU128,
    pub(super) ledger: Lock<Ledger>,
    /// By how much faster it may flow out to a queue that is full; 1: not at all.
    pub(crate) drain_up_to: u64,
    pub(super) mode: PhantomData<M>,
}

/// How a bucket is used.
pub trait Mode: core::fmt::Debug + Send + Sync + 'static {
    /// The name of the limiter's type.
    #[doc(hidden)]
    const NAME: &'static str;
    /// Whether every request may leave a debt for the next one.
    #[doc(hidden)]
    const PAYS_AFTER: bool = false;
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
}

impl Mode for Debts {
    const NAME: &'static str = "PayAfter";
    const PAYS_AFTER: bool = true;
}

/// Modes in which a request leaves a debt only if it asks for that.
pub trait PaysBefore: Mode {}

impl PaysBefore for Tokens {}
impl PaysBefore for Drops {}

impl<M> Bucket<M> {
    const_unless_loom! {
        /// A full bucket, for which a quota that sets no burst stands for `default_burst` tokens, or for its count.
        pub(crate) const fn new(quota: Quota, default_burst: Option<u64>) -> Self {
            let quota = quota.with_default_burst(default_burst);
            let parameters = Parameters::new(&quota, refund_log::default_debt(&quota));
            Self {
                word: Word::new(parameters),
                newest_ns: AtomicU64::new(0),
                largest_told: [AtomicU64::new(0), AtomicU64::new(0)],
                last_told_ns: AtomicU64::new(0),
                given_back: AtomicU128::new(0),
                ledger: Lock::new(Ledger::new(quota, default_burst)),
                drain_up_to: 1,
                mode: PhantomData,
            }
        }
    }

    /// The same bucket, used otherwise.
    pub(super) fn used_as<N>(self) -> Bucket<N> {
        Bucket {
            word: self.word,
            newest_ns: self.newest_ns,
            largest_told: self.largest_told,
            last_told_ns: self.last_told_ns,
            given_back: self.given_back,
            ledger: self.ledger,
            drain_up_to: self.drain_up_to,
            mode: PhantomData,
        }
    }

    /// The largest amount that a reservation has been told to wait for, in units of `epoch`, the current one or that
    /// before. Raised before the reservation is made; lowered only where an epoch begins.
    #[inline]
    pub(super) fn largest_told(&self, epoch: u64) -> &AtomicU64 {
        &self.largest_told[(epoch % 2) as usize]
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

    /// What reservations have raised `told` to, all of those that are in a state that was read before.
    ///
    /// Not a load: the word moves without publishing what was written before. A reservation that raises this
    /// afterwards learns that the word has moved on, and fails.
    pub(super) fn seen(told: &AtomicU64) -> u64 {
        told.fetch_max(0, Ordering::AcqRel)
    }
}
