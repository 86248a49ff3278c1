//! [`Engine`]: an algorithm together with its state, which decides for a [`RateLimiter`](super::RateLimiter).
//!
//! An engine uses neither the clock nor the queue. The limiter reads the clock, asks the queue, and passes both in: the time as
//! `now_ns`, the queue as `door`, which refuses while waiters come first. An engine calls the door before it decides, unless
//! its own state shows that the door is open.
//!
//! Capabilities are separate traits, which work as trait objects: [`Reserves`], [`Refunds`], [`Requotas`]. A limiter has the
//! methods of those that its engine implements. [`Limiter`](super::Limiter) finds them at run time through the functions of the
//! same names.

use super::reservation::{Booked, Booking};
use super::snapshot::{QuotaState, Snapshot};
use super::state::Exports;
use crate::clock::Clock;
use crate::queue::Receipt;
use crate::quota::policy::Policy;
use crate::quota::{Quota, QuotaError, Quotas, Reason};
use crate::verdict::Verdict;
use core::fmt;

/// The request of a caller that supplies a time.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// A request that is always granted, perhaps in part.
    Any,
    /// One token.
    Token,
    /// This number of units.
    Units(u64),
    /// This number of units, even as a debt.
    Overdraft(u64),
}

/// The amount of a request. It is a type, not a value, so that the decision on one token is compiled separately.
pub trait Amount: Copy {
    /// The amount in units; a token is `units_per_token` units.
    fn units(self, units_per_token: impl Fn() -> u64) -> u64;
}

/// One token.
#[derive(Clone, Copy, Debug)]
pub struct Token;

/// A number of units.
#[derive(Clone, Copy, Debug)]
pub struct Units(pub(crate) u64);

impl Amount for Token {
    #[inline(always)]
    fn units(self, units_per_token: impl Fn() -> u64) -> u64 {
        units_per_token()
    }
}

impl Amount for Units {
    #[inline(always)]
    fn units(self, _: impl Fn() -> u64) -> u64 {
        self.0
    }
}

/// The times of a change: a new quota, a refund or a revoked grant.
///
/// They are read once the state is known, so that they are not older than the decisions in it.
pub trait Times {
    /// The time of the change.
    fn now_ns(&self) -> u64;

    /// The latest time that the clock has shown to any thread; the time of the change, if the caller supplies it.
    fn latest_ns(&self) -> u64;

    /// The limiter's clock, if the caller supplies the time.
    fn clock(&self) -> Option<&Clock> {
        None
    }
}

impl Times for Clock {
    fn now_ns(&self) -> u64 {
        self.now().as_nanos()
    }

    fn latest_ns(&self) -> u64 {
        self.latest().as_nanos()
    }
}

/// The clock of a model.
#[cfg(all(test, flowgate_loom))]
impl<F: Fn() -> u64> Times for F {
    fn now_ns(&self) -> u64 {
        self()
    }

    fn latest_ns(&self) -> u64 {
        self()
    }
}

/// A change at a time that the caller supplies, on a limiter with this clock.
pub(crate) struct SuppliedTime<'a> {
    pub(crate) now_ns: u64,
    pub(crate) clock: &'a Clock,
}

impl Times for SuppliedTime<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn latest_ns(&self) -> u64 {
        self.now_ns
    }

    fn clock(&self) -> Option<&Clock> {
        Some(self.clock)
    }
}

/// An algorithm with its state, which decides for a [`RateLimiter`](super::RateLimiter). Sealed.
pub trait Engine: Exports + fmt::Debug + Send + Sync + 'static {
    /// The name of the limiter's type.
    #[doc(hidden)]
    const NAME: &'static str;

    /// The number of units per token.
    #[doc(hidden)]
    fn token(&self) -> u64 {
        1
    }

    /// The most units that one request can take.
    #[doc(hidden)]
    fn limit(&self) -> u64;

    /// Takes without a clock reading, if that is possible now. `is_held` reports whether waiters come first.
    #[doc(hidden)]
    #[inline(always)]
    fn takes_unread(&self, _request: Request, _is_held: impl Fn() -> bool) -> bool {
        false
    }

    /// Notes a time that a caller has supplied to decide `request` by.
    #[doc(hidden)]
    #[inline(always)]
    fn supplied(&self, _now_ns: u64, _request: Request) {}

    /// Takes `amount`, all or none, as no waiter is ahead.
    #[doc(hidden)]
    fn decide(&self, now_ns: u64, amount: impl Amount) -> Verdict;

    /// Takes the available units, up to `n`, as no waiter is ahead; returns how many.
    #[doc(hidden)]
    fn take_most(&self, now_ns: u64, n: u64) -> u64;

    /// Takes one token.
    #[doc(hidden)]
    #[inline(always)]
    fn take_token(&self, now_ns: u64, door: impl Fn() -> Verdict) -> Verdict {
        door()?;
        self.decide(now_ns, Token)
    }

    /// Takes `n` units, all or none.
    #[doc(hidden)]
    #[inline(always)]
    fn take_units(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) -> Verdict {
        if n == 0 {
            return Ok(());
        }
        door()?;
        self.decide(now_ns, Units(n))
    }

    /// Takes the available units, up to `n`; returns how many.
    #[doc(hidden)]
    fn take_up_to(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) -> u64 {
        door().map_or(0, |()| self.take_most(now_ns, n))
    }

    /// How many units can be taken.
    #[doc(hidden)]
    fn available(&self, now_ns: u64, door: impl Fn() -> Verdict) -> u64 {
        door().map_or(0, |()| self.snapshot(now_ns).remaining)
    }

    /// Limit, available units and time until reset, as no waiter is ahead.
    #[doc(hidden)]
    fn snapshot(&self, now_ns: u64) -> Snapshot;

    /// The quota, and how units come back; `None` if no quota describes this type.
    #[doc(hidden)]
    fn policy(&self) -> Option<Policy> {
        let requotas = self.capabilities().requotas?;
        Some(Policy::new(requotas.quota(), false))
    }

    /// The state of each of two quotas, without waiters ahead; `None` if there are not two.
    #[doc(hidden)]
    fn quota_states(&self, _now_ns: u64) -> Option<[QuotaState; 2]> {
        None
    }

    /// Replaces all quotas.
    #[doc(hidden)]
    fn set_quotas(&self, quotas: Quotas, times: &dyn Times) -> Result<(), QuotaError> {
        match self.capabilities().requotas {
            Some(requotas) => requotas.set_quota(quotas.only()?, times),
            None => Err(QuotaError::new(Reason::NOT_BY_QUOTA)),
        }
    }

    /// Takes `n` units for work that has already been done.
    #[doc(hidden)]
    fn charge(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) {
        self.take_up_to(now_ns, n, door);
    }

    /// Grants `n` units at the time `at_ns`, which may have passed, to the head of the queue.
    #[doc(hidden)]
    fn grant(&self, at_ns: u64, n: u64) -> Verdict {
        self.decide(at_ns, Units(n))
    }

    /// Grants `n` units to a caller that found no waiters, at its own time.
    #[doc(hidden)]
    fn take(&self, now_ns: u64, n: u64) -> Verdict {
        self.decide(now_ns, Units(n))
    }

    /// [`grant`](Self::grant) while `level` units are waited for; fills in what can be revoked later.
    #[doc(hidden)]
    fn drain(&self, at_ns: u64, n: u64, _level: u128, _receipts: &mut [Receipt]) -> Verdict {
        self.grant(at_ns, n)
    }

    /// The result of [`grant`](Self::grant) after `ahead` more units. Takes nothing.
    #[doc(hidden)]
    fn delay(&self, at_ns: u64, ahead: u128, n: u64) -> Verdict;

    /// The result of [`take_units`](Self::take_units) with the door open. Takes nothing.
    #[doc(hidden)]
    fn look(&self, now_ns: u64, n: u64) -> Verdict {
        self.delay(now_ns, 0, n)
    }

    /// Revokes a grant of `n` units at `at_ns` that no waiter used.
    #[doc(hidden)]
    fn take_back(&self, at_ns: u64, n: u64, receipts: &[Receipt], times: &dyn Times);

    /// How many receipts a grant has.
    #[doc(hidden)]
    fn receipts(&self) -> usize {
        0
    }

    /// Makes new callers ask at the door from now on, or no longer.
    #[doc(hidden)]
    fn hold(&self, _is_held: bool) {}

    /// The engine's own fields for `Debug`, beside the quota.
    #[doc(hidden)]
    fn describe(&self, _fields: &mut fmt::DebugStruct<'_, '_>) {}

    /// The other capabilities of the engine, for code that does not have its type.
    #[doc(hidden)]
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
    }
}

/// The capabilities of an engine beside deciding.
#[derive(Clone, Copy, Default)]
#[expect(missing_debug_implementations, reason = "nobody can look at it")]
pub struct Capabilities<'a> {
    pub(crate) reserves: Option<&'a dyn Reserves>,
    /// Refunds of units that were taken at an unknown time.
    pub(crate) refunds: Option<&'a dyn Refunds>,
    pub(crate) requotas: Option<&'a dyn Requotas>,
}

impl<'a> Capabilities<'a> {
    pub(crate) fn reserves(self, by: &'a dyn Reserves) -> Self {
        let reserves = Some(by);
        Self { reserves, ..self }
    }

    pub(crate) fn refunds(self, by: &'a dyn Refunds) -> Self {
        let refunds = Some(by);
        Self { refunds, ..self }
    }

    pub(crate) fn requotas(self, by: &'a dyn Requotas) -> Self {
        let requotas = Some(by);
        Self { requotas, ..self }
    }
}

/// Engines that can guarantee a time: the units are taken now and used later. Sealed.
pub trait Reserves {
    /// Takes `n` units (`None`: one token) now, for use at [`Booking::at_ns`], unless that is more than `max_wait_ns` ahead.
    #[doc(hidden)]
    fn reserve(&self, now_ns: u64, n: Option<u64>, max_wait_ns: Option<u128>) -> Booked;

    /// Cancels a booking, and reports how many units came back.
    #[doc(hidden)]
    fn revoke(&self, booking: &Booking, times: &dyn Times) -> u64;
}

/// Engines that can return units without the time at which they were taken. Sealed.
pub trait Refunds {
    /// Returns the newest `n` units to the engine, and reports how many came back.
    #[doc(hidden)]
    fn refund(&self, n: u64, times: &dyn Times) -> u64;
}

/// Engines whose quota can be read and replaced. Sealed.
pub trait Requotas {
    /// The current quota.
    #[doc(hidden)]
    fn quota(&self) -> Quota;

    /// Replaces the quota.
    #[doc(hidden)]
    fn set_quota(&self, quota: Quota, times: &dyn Times) -> Result<(), QuotaError>;
}
