//! [`RetryBudget`]: how many retries a client may make.
//!
//! # State
//!
//! The balance and its time are one 128-bit word, and every operation is one compare-and-swap on it. `balance` has the pure
//! steps.
//!
//! # Change of settings
//!
//! The settings are three words, each replaced by itself. A change first credits what has accrued by now at the old settings,
//! and then stores the new one. An operation reads the clock first, then the settings, and then the balance:
//!
//! - If it has read the new setting, it also reads the balance that the change has settled: the setting was stored after
//!   that, with Release, and is read with Acquire.
//! - If it has read the old setting, the clock was read before the change, so the old setting applied until then.
//!
//! # Other implementations
//!
//! - Finagle's `RetryBudget` and tower's `TpsBudget` count deposits per request, in ten slots of a time to live.
//! - gRPC's retry throttling (gRFC A6) and the AWS SDKs have a bounded bucket that responses fill, and no minimum.
//!
//! This one is a bounded bucket with a minimum.

mod balance;
mod builder;
#[cfg(all(test, flowgate_loom))]
mod model;

pub use builder::RetryBudgetBuilder;

use crate::clock::Clock;
use crate::primitive::{AtomicU64, AtomicU128, Ordering};
use crate::quota::QuotaError;
use crate::verdict::Denied;
use balance::{Balance, RETRY, Terms};
use core::fmt;

/// Budget of retries: **a share of the requests**, and a minimum per second.
///
/// A limit of three attempts per request triples the load of a backend that fails. A budget bounds the retries of all requests
/// together: while few requests fail, every failure can be retried, and during an outage hardly any is.
///
/// ```
/// use flowgate::{ManualClock, RetryBudget};
///
/// let time = ManualClock::new();
/// let budget = RetryBudget::builder().capacity(10).clock(&time).build()?;
/// assert_eq!(budget.balance(), 10); // it begins full
///
/// // An outage: 1,000 requests fail, and their clients would like to retry each of them.
/// let retries = (0..1_000).filter(|_| budget.try_withdraw().is_ok()).count();
/// assert_eq!(retries, 10);
///
/// // Ten requests that succeed pay for one retry.
/// (0..10).for_each(|_| budget.deposit());
/// assert!(budget.try_withdraw().is_ok());
/// assert!(budget.try_withdraw().is_err());
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Guarantees
///
/// - **Never exceeds the budget.** In any interval of *t* seconds with *n* deposits, at most
///   `capacity` + `min_per_second` · *t* + `share_permille` / 1000 · *n* retries are granted, on any number of threads.
/// - **Never refuses needlessly.** A retry is granted if the balance has at least one. The balance is computed in exact
///   integers. The refusal reports the exact time after which a retry is granted without any deposit.
/// - **Safe under clock anomalies.** While the clock shows an earlier time than before, nothing is added.
///
/// # What to deposit for
///
/// Call [`deposit`](Self::deposit) for each request that succeeds. A backend that fails all requests is then retried
/// `min_per_second` times per second in total. If you call it for every request, whether it succeeds or not, the load grows by
/// `share_permille` during an outage.
///
/// # What to retry
///
/// The budget does not know what may be repeated. Retry only what the server has refused before doing anything, or what has the
/// same effect when it is done twice.
///
/// # Performance
///
/// Each operation takes a reading of the clock and a compare-and-swap, and no lock if the budget
/// [is lock-free](Self::is_lock_free). No memory is allocated.
pub struct RetryBudget {
    balance: AtomicU128,
    share_permille: AtomicU64,
    min_per_second: AtomicU64,
    capacity: AtomicU64,
    clock: Clock,
}

impl RetryBudget {
    /// Returns a builder with the default settings.
    pub const fn builder() -> RetryBudgetBuilder {
        RetryBudgetBuilder::new()
    }

    fn with(share_permille: u64, min_per_second: u64, capacity: u64, clock: Clock) -> Self {
        let full = Balance {
            at_ns: clock.now().as_nanos(),
            parts: capacity * RETRY,
        };
        Self {
            balance: AtomicU128::new(full.pack()),
            share_permille: AtomicU64::new(share_permille),
            min_per_second: AtomicU64::new(min_per_second),
            capacity: AtomicU64::new(capacity),
            clock,
        }
    }

    /// Adds the share of one request to the balance, up to the capacity.
    #[inline]
    pub fn deposit(&self) {
        let _ = self.change(|balance, terms| Ok(balance.after_deposit(terms)));
    }

    /// Takes one retry from the balance.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if the balance has less than one retry. [`retry_after`](Denied::retry_after) is the exact time until
    /// it has one without any deposit. With a `min_per_second` of 0 there is no such time, and
    /// [`is_busy`](Denied::is_busy) is true.
    ///
    /// ```
    /// use flowgate::{ManualClock, RetryBudget};
    /// use std::time::Duration;
    ///
    /// let budget = RetryBudget::builder().capacity(1).clock(ManualClock::new()).build()?;
    /// assert!(budget.try_withdraw().is_ok());
    /// let denied = budget.try_withdraw().unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn try_withdraw(&self) -> Result<(), Denied> {
        self.change(Balance::after_retry)
            .map_err(|wait| match wait {
                Some(wait_ns) => Denied::later(wait_ns.into(), 1),
                None => Denied::busy(),
            })
    }

    /// Returns the number of retries that would be granted now.
    pub fn balance(&self) -> u64 {
        let now_ns = self.clock.now().as_nanos();
        let terms = self.terms();
        self.load().at(now_ns, terms).parts / RETRY
    }

    /// Sets the retries that each deposit adds, in per mille: 0 to 1000.
    ///
    /// Earlier deposits keep their value.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if the value is out of range.
    ///
    /// ```
    /// # use flowgate::{ManualClock, RetryBudget};
    /// let budget = RetryBudget::builder().capacity(1).clock(ManualClock::new()).build()?;
    /// budget.try_withdraw().expect("it begins full");
    /// budget.set_share_permille(1000)?;
    /// budget.deposit();
    /// assert_eq!(budget.balance(), 1);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn set_share_permille(&self, permille: u32) -> Result<(), QuotaError> {
        let permille = builder::share_permille(permille)?;
        self.set(&self.share_permille, permille);
        Ok(())
    }

    /// Sets the retries per second without any deposit, 0 to 1,000,000.
    ///
    /// What has accrued by now is credited at the old rate.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if the value is out of range.
    pub fn set_min_per_second(&self, retries: u32) -> Result<(), QuotaError> {
        let retries = builder::min_per_second(retries)?;
        self.set(&self.min_per_second, retries);
        Ok(())
    }

    /// Sets the most retries that the budget saves up, 1 to 1,000,000,000. A larger balance is cut.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if the value is out of range.
    pub fn set_capacity(&self, retries: u32) -> Result<(), QuotaError> {
        let retries = builder::capacity(retries)?;
        self.set(&self.capacity, retries);
        Ok(())
    }

    /// Returns the clock that measures the seconds.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns whether operations take no lock on this machine.
    ///
    /// The result is `false` if the processor has no 128-bit compare-and-swap. The balance is then as exact, under a lock.
    pub fn is_lock_free(&self) -> bool {
        AtomicU128::is_lock_free()
    }

    /// See the module, for the order.
    fn set(&self, setting: &AtomicU64, value: u64) {
        let _ = self.change(|balance, _| Ok(balance));
        setting.store(value, Ordering::Release);
    }

    fn terms(&self) -> Terms {
        Terms {
            share_permille: self.share_permille.load(Ordering::Acquire),
            min_per_second: self.min_per_second.load(Ordering::Acquire),
            capacity: self.capacity.load(Ordering::Acquire),
        }
    }

    fn load(&self) -> Balance {
        Balance::unpack(self.balance.load(Ordering::Acquire))
    }

    /// Replaces the balance by what `to` makes of the balance now.
    #[inline]
    fn change(
        &self,
        to: impl Fn(Balance, Terms) -> Result<Balance, Option<u64>>,
    ) -> Result<(), Option<u64>> {
        let now_ns = self.clock.now().as_nanos();
        loop {
            let terms = self.terms();
            let old = self.load();
            let now = old.at(now_ns, terms);
            let behind_ns = now.at_ns - now_ns;
            let new = to(now, terms).map_err(|wait| wait.map(|ns| ns.saturating_add(behind_ns)))?;
            let swapped = self.balance.compare_exchange_weak(
                old.pack(),
                new.pack(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if swapped.is_ok() {
                return Ok(());
            }
        }
    }
}

/// A budget with the default settings. See [`RetryBudgetBuilder`].
impl Default for RetryBudget {
    fn default() -> Self {
        match Self::builder().build() {
            Ok(budget) => budget,
            Err(_) => unreachable!("the default settings are within their ranges"),
        }
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = self.terms();
        f.debug_struct("RetryBudget")
            .field("balance", &(self.load().parts / RETRY))
            .field("capacity", &terms.capacity)
            .field("min_per_second", &terms.min_per_second)
            .field("share_permille", &terms.share_permille)
            .field("clock", &self.clock)
            .finish()
    }
}
