//! The traits that all limiters have in common.

use super::reservation::Reservation;
use super::snapshot::{QuotaState, Snapshot};
#[cfg(feature = "std")]
use super::state::unix_now;
use super::state::{LimiterState, LimiterStateError, Reason as StateReason};
use crate::clock::{Clock, Timestamp};
use crate::queue::{Acquire, Asker, WaitQueue};
use crate::quota::policy::Policy;
use crate::quota::{Quota, QuotaError, Quotas, Reason};
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt::Debug;
use core::time::Duration;

pub(crate) mod sealed {
    /// A limit as its queue sees it, for use inside this crate only.
    ///
    /// A trait that cannot be named is not enough: its methods can be called on a type parameter that is bound by
    /// [`Limit`](super::Limit) or [`Limiter`](super::Limiter).
    ///
    /// ```compile_fail,E0616
    /// fn give_back(limit: &impl flowgate::Limit) {
    ///     limit.supply().0.end(1);
    /// }
    /// ```
    #[expect(missing_debug_implementations, reason = "nobody can look at it")]
    pub struct Plumbing<'a>(pub(crate) &'a dyn crate::queue::Supply);

    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a limiter of flowgate",
        note = "limiters are `TokenBucket` and the other types of this crate, by themselves, in an `Arc`, or as `Arc<dyn Limiter>`",
        note = "behind a layer of flowgate-tower, a limiter of your own goes as `CustomLimit`"
    )]
    pub trait Sealed {
        /// Itself, as its queue sees it.
        fn supply(&self) -> Plumbing<'_>;

        /// The limiter itself, or the one inside it, if it is a rate limiter.
        fn limiter(&self) -> Option<&dyn crate::limiter::Limiter> {
            None
        }

        /// The limiter inside this one. It handles the methods of [`Limiter`](super::Limiter) that this one does not have
        /// itself.
        fn inner(&self) -> Option<&dyn crate::limiter::Limiter> {
            None
        }

        /// Visits each limiter that decides: this one, the one inside it, or all inside it.
        fn each_limiter(&self, visit: &mut dyn FnMut(Identity)) {
            visit(match self.limiter() {
                Some(limiter) => Identity::of(limiter),
                None => Identity::of(self.supply().0),
            });
        }
    }

    /// Identifies a limiter, as long as it is not moved.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Identity {
        address: usize,
        /// The key, if the limiter is a table.
        key: Option<[u64; 2]>,
    }

    impl Identity {
        pub(crate) fn of<T: ?Sized>(limiter: &T) -> Self {
            let address = core::ptr::from_ref(limiter).cast::<()>().addr();
            let key = None;
            Self { address, key }
        }

        pub(crate) fn of_key<T>(table: &T, key: [u64; 2]) -> Self {
            let key = Some(key);
            Self {
                key,
                ..Self::of(table)
            }
        }

        /// Reports whether it is a key of this table.
        pub(crate) fn is_key_of<T>(&self, table: &T) -> bool {
            self.key.is_some() && self.address == Self::of(table).address
        }
    }
}

/// A rate limiter or a concurrency limit: a part of a [`Gate`](crate::Gate).
///
/// This trait is sealed: only this crate implements it.
///
/// ```
/// use flowgate::{ConcurrencyLimit, Gate, GateError, Limit, TokenBucket};
///
/// /// The company's budget before a limit of the caller's choice.
/// fn behind_budget(own: impl Limit) -> Result<Gate, GateError> {
///     let budget = TokenBucket::new(flowgate::Quota::per_day(100_000));
///     Gate::builder().limit("budget", budget).limit("own", own).build()
/// }
///
/// let gate = behind_budget(ConcurrencyLimit::new(1))?;
/// let permit = gate.try_acquire()?;
/// let denied = gate.try_acquire().unwrap_err();
/// assert_eq!(gate.name_of(&denied), Some("own"));
/// # drop(permit);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a limit of flowgate",
    note = "limits are the rate limiters of this crate, also in an `Arc`, `ConcurrencyLimit` and `Gate`",
    note = "behind a layer of flowgate-tower, a limiter of your own goes as `CustomLimit`"
)]
pub trait Limit: sealed::Sealed + Any + Send + Sync + Debug {}

impl<L: sealed::Sealed + Any + Send + Sync + Debug> Limit for L {}

/// A shared limit: a member of several gates, or a member that is also used alone.
impl<L: Limiter + ?Sized> sealed::Sealed for Arc<L> {
    fn supply(&self) -> sealed::Plumbing<'_> {
        (**self).supply()
    }

    fn limiter(&self) -> Option<&dyn Limiter> {
        (**self).limiter()
    }

    fn each_limiter(&self, visit: &mut dyn FnMut(sealed::Identity)) {
        (**self).each_limiter(visit);
    }
}

/// Any limiter, for code that works with every type: `&dyn Limiter`, `Arc<dyn Limiter>`.
///
/// The methods make the same decisions as those of the concrete types, which have more methods. Some methods, such as
/// [`peek`](Limiter::peek), are here for all types. The trait is sealed: only this crate implements it, and it may get more
/// methods.
///
/// ```
/// use flowgate::{LeakyBucket, Limiter, ManualClock};
///
/// let limiter = LeakyBucket::builder("10/s burst 3".parse()?).clock(ManualClock::new()).build()?;
/// let limiter: &dyn Limiter = &limiter;
/// limiter.peek()?; // takes nothing
/// limiter.try_acquire_n(2)?;
/// assert_eq!((limiter.available(), limiter.snapshot().limit), (1, 3));
///
/// let later = limiter.try_reserve_n(2).expect("this type can promise a time")?;
/// assert_eq!(later.at().as_nanos(), 100_000_000);
/// let now = limiter.clock().now();
/// assert!(limiter.peek_n_at(now, 1).is_err());
/// assert!(limiter.try_acquire_n_at(later.at() + std::time::Duration::from_millis(100), 1).is_ok());
/// assert!(limiter.queue().is_empty()); // nobody waits in `acquire()`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// use flowgate::{Limiter, TokenBucket};
/// use std::sync::Arc;
///
/// let limiter: Arc<dyn Limiter> = Arc::new(TokenBucket::new("5/s".parse()?));
/// let worker = std::thread::spawn({
///     let limiter = Arc::clone(&limiter);
///     move || (0..10).filter(|_| limiter.try_acquire().is_ok()).count()
/// });
/// assert!(worker.join().unwrap() >= 5);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a rate limiter of flowgate",
    note = "rate limiters are `TokenBucket` and the other types of this crate; a `ConcurrencyLimit` or a `Gate` is none, as it gives permits",
    note = "behind a layer of flowgate-tower, a limiter of your own goes as `CustomLimit`"
)]
pub trait Limiter: sealed::Sealed + Send + Sync + core::fmt::Debug {
    /// Takes one token, or returns why not.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], and takes nothing, if no token is available.
    fn try_acquire(&self) -> Result<(), Denied>;

    /// Takes `n` units, all or none. `n` = 0 succeeds and changes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], and takes nothing, if fewer than `n` units are available.
    fn try_acquire_n(&self, n: u64) -> Result<(), Denied>;

    /// Does the same as [`Limiter::try_acquire_n`], at an explicit timestamp.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`Limiter::try_acquire_n`].
    fn try_acquire_n_at(&self, now: Timestamp, n: u64) -> Result<(), Denied>;

    /// Returns what [`try_acquire`](Self::try_acquire) would return now, and takes nothing.
    ///
    /// The result may be outdated when it is used, because other callers may acquire in between.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`Limiter::try_acquire`].
    fn peek(&self) -> Result<(), Denied> {
        self.peek_n_at(self.clock().now(), self.supply().0.facts().token)
    }

    /// Returns what [`try_acquire_n_at`](Self::try_acquire_n_at) would return, and takes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`Limiter::try_acquire_n`].
    fn peek_n_at(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        let supply = self.supply().0;
        supply.queue().pass(supply, now.as_nanos(), Some(n))?;
        supply.ask(now, n, Asker::Caller { ahead: 0 })
    }

    /// Takes the available units, up to `n`, and returns how many it took.
    fn take_up_to(&self, n: u64) -> u64;

    /// Takes `n` units now, to be used from [`Reservation::at`] on.
    ///
    /// The result is `None` if this type of limiter cannot guarantee a time.
    ///
    /// # Errors
    ///
    /// The inner result is [`Denied`] if `n` can never be granted ([`Denied::is_never`]).
    fn try_reserve_n(&self, n: u64) -> Option<Result<Reservation<'_>, Denied>> {
        self.inner()?.try_reserve_n(n)
    }

    /// Waits for one token, in FIFO order; see [`Acquire`].
    fn acquire(&self) -> Acquire<&dyn Limiter>;

    /// Returns the queue of this limiter's waiters.
    fn queue(&self) -> WaitQueue<'_> {
        WaitQueue::new(self.supply().0)
    }

    /// Returns how many units can be taken now without a debt.
    ///
    /// A limiter whose operations leave a debt ([`PayAfter`](crate::PayAfter)) may let more go
    /// ahead.
    fn available(&self) -> u64 {
        self.snapshot().remaining
    }

    /// Returns limit, available units and time until reset, as a consistent snapshot.
    fn snapshot(&self) -> Snapshot;

    /// Returns the clock by which the limiter decides.
    fn clock(&self) -> &Clock {
        self.supply().0.clock()
    }

    /// Returns the current quota, and how tokens come back.
    ///
    /// The result is `None` if no quota describes this type of limiter.
    fn policy(&self) -> Option<Policy> {
        self.inner()?.policy()
    }

    /// Returns the state of each quota of a limiter with two quotas, as a consistent snapshot.
    ///
    /// The result is `None` for every other limiter. The states are in the order in which the quotas were given, which is the
    /// order that [`Denied::limit`] uses.
    fn quota_states(&self) -> Option<[QuotaState; 2]> {
        self.inner()?.quota_states()
    }

    /// Replaces the quota. A limiter with two quotas then has only this one.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] in the same cases as [`set_quotas`](Self::set_quotas).
    fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        self.set_quotas(quota.into())
    }

    /// Replaces all quotas of the limiter by one or two.
    ///
    /// Each limiter's page states which earlier admissions are kept.
    ///
    /// ```
    /// use flowgate::{Limiter, LimiterConfig};
    ///
    /// let limiter = "token 10/s burst 5; 1000/day".parse::<LimiterConfig>()?.build()?;
    /// limiter.try_acquire_n(3)?;
    /// limiter.set_quotas("20/s burst 9; 5000/day".parse()?)?;
    /// assert_eq!(limiter.snapshot().limit, 9);
    ///
    /// let window = "sliding 100/min".parse::<LimiterConfig>()?.build()?;
    /// assert!(window.set_quotas("20/s; 100/min".parse()?).is_err()); // it takes one
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`], and changes nothing, in these cases:
    ///
    /// - The limiter does not accept the quota.
    /// - There are two quotas, and the limiter is not a [`DualTokenBucket`](crate::DualTokenBucket).
    /// - No quota describes this type of limiter.
    fn set_quotas(&self, quotas: Quotas) -> Result<(), QuotaError> {
        match self.inner() {
            Some(inner) => inner.set_quotas(quotas),
            None => Err(QuotaError::new(Reason::NOT_BY_QUOTA)),
        }
    }

    /// Returns `n` units to the limiter, and reports how many it accepted.
    ///
    /// The newest admitted units then count as never admitted. A limiter accepts 0 units if its type can return units only with
    /// the time at which they were taken.
    fn refund(&self, n: u64) -> u64 {
        self.inner().map_or(0, |inner| inner.refund(n))
    }

    /// Takes `n` units for work that has already been done.
    ///
    /// A limiter that supports a debt takes all `n` units, if the debt may become that large. Otherwise, the limiter takes the
    /// available units, up to `n`.
    ///
    /// ```
    /// # use flowgate::{FixedWindow, Limiter, TokenBucket};
    /// let bucket = TokenBucket::new("5/h".parse()?);
    /// bucket.charge(7);
    /// assert_eq!(bucket.refund(3), 3); // 7 were taken, of 5
    /// assert_eq!(bucket.available(), 1);
    ///
    /// let window = FixedWindow::new("5/h".parse()?)?;
    /// window.charge(7);
    /// assert_eq!(window.refund(3), 3); // 5 were taken
    /// assert_eq!(window.available(), 3);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    fn charge(&self, n: u64) {
        match self.inner() {
            Some(inner) => inner.charge(n),
            None => {
                self.take_up_to(n);
            }
        }
    }

    /// Returns what was taken until now, for [`import_at`](Self::import_at).
    ///
    /// `unix_time` is the time of the wall clock, counted from the Unix epoch.
    /// [`RateLimiter::export`](crate::RateLimiter::export) has the details. The result is `None` if this type of limiter has no
    /// state; [`Keyed::export`](crate::Keyed::export) exports the state of keys.
    ///
    /// Use it for simulations, for tests, and on systems without a wall clock.
    ///
    /// ```
    /// use flowgate::{FixedWindow, Limiter, ManualClock};
    /// use std::time::Duration;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let daily = || FixedWindow::builder("1000/day".parse()?).clock(ManualClock::new()).build();
    /// let before = daily()?;
    /// before.try_acquire_n(1000)?;
    /// let state = before.export_at(500_000 * hour).expect("a window has a state");
    ///
    /// let after = daily()?;
    /// after.import_at(&state, 500_001 * hour)?;
    /// assert_eq!(after.snapshot().reset_after, 23 * hour);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn export_at(&self, unix_time: Duration) -> Option<LimiterState> {
        self.inner()?.export_at(unix_time)
    }

    /// Takes what the exporter of `state` had taken.
    ///
    /// [`RateLimiter::import`](crate::RateLimiter::import) has the details.
    ///
    /// # Errors
    ///
    /// Returns [`LimiterStateError`], and changes nothing, in these cases:
    ///
    /// - The state is of another type of limiter.
    /// - The settings of the two limiters do not fit together.
    /// - A number is out of range.
    /// - This type of limiter has no state.
    fn import_at(
        &self,
        state: &LimiterState,
        unix_time: Duration,
    ) -> Result<(), LimiterStateError> {
        match self.inner() {
            Some(inner) => inner.import_at(state, unix_time),
            None => Err(LimiterStateError::new(StateReason::NotALimiter)),
        }
    }

    /// Does the same as [`export_at`](Self::export_at), at the current time of the wall clock.
    ///
    /// ```
    /// use flowgate::{FixedWindow, Limiter, TokenBucket};
    ///
    /// let of = |[minute, day]: [&str; 2]| -> Result<[Box<dyn Limiter>; 2], flowgate::QuotaError> {
    ///     Ok([Box::new(TokenBucket::new(minute.parse()?)), Box::new(FixedWindow::new(day.parse()?)?)])
    /// };
    /// let before = of(["10/min", "1000/day"])?;
    /// before[1].try_acquire_n(400)?;
    /// let file: Vec<String> =
    ///     before.iter().filter_map(|limiter| Some(limiter.export()?.to_string())).collect();
    /// // … after the restart:
    /// let after = of(["10/min", "1000/day"])?;
    /// for (limiter, state) in after.iter().zip(&file) {
    ///     limiter.import(&state.parse()?)?;
    /// }
    /// assert_eq!(after[1].available(), 600);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    fn export(&self) -> Option<LimiterState> {
        self.export_at(unix_now())
    }

    /// Does the same as [`import_at`](Self::import_at), at the current time of the wall clock.
    ///
    /// # Errors
    ///
    /// Returns [`LimiterStateError`] in the same cases as [`import_at`](Self::import_at).
    #[cfg(feature = "std")]
    fn import(&self, state: &LimiterState) -> Result<(), LimiterStateError> {
        self.import_at(state, unix_now())
    }
}

/// The methods of [`Limiter`] that the type has itself, under the same names.
macro_rules! own_verbs {
    () => {
        fn try_acquire(&self) -> Result<(), Denied> {
            self.try_acquire()
        }

        fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
            self.try_acquire_n(n)
        }

        fn take_up_to(&self, n: u64) -> u64 {
            self.take_up_to(n)
        }

        fn acquire(&self) -> Acquire<&dyn Limiter> {
            Acquire::new(self)
        }
    };
}
pub(crate) use own_verbs;

impl dyn Limiter + '_ {
    /// Waits as [`acquire`](Limiter::acquire) does; the future keeps the limiter alive.
    ///
    /// A spawned task can therefore own it.
    ///
    /// ```
    /// use flowgate::{Limiter, TokenBucket};
    /// use std::sync::Arc;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limiter: Arc<dyn Limiter> = Arc::new(TokenBucket::new("1000/s".parse()?));
    /// let waits: Vec<_> = (0..3).map(|_| tokio::spawn(limiter.acquire_owned())).collect();
    /// for wait in waits {
    ///     wait.await??;
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Arc<Self>> {
        Acquire::new(Arc::clone(self))
    }
}
