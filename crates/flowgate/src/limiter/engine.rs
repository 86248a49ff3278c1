//! [`Engine`]: what decides for a [`RateLimiter`](super::RateLimiter), an algorithm together with its state.
//!
//! An engine knows neither the clock nor the queue. The limiter reads the clock, asks the queue, and passes both answers in: the
//! time as `now_ns`, the queue as `door`, which refuses while waiters come first. An engine asks the door before it decides,
//! unless its own state shows that the door is open.
//!
//! Capabilities are traits of their own, safe as trait objects: [`Reserves`], [`Refunds`], [`Requotas`]. A limiter has the
//! methods of those that its engine implements; [`Limiter`](super::Limiter) finds them at run time through the functions of the
//! same names.

use super::reservation::Booking;
use super::snapshot::{QuotaState, Snapshot};
use super::state::Exports;
use crate::clock::Clock;
use crate::queue::Receipt;
use crate::quota::policy::Policy;
use crate::quota::{Quota, QuotaError};
use crate::verdict::Denied;
use core::fmt;

/// What a caller that supplies a time asks for at that time.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// What is always granted, perhaps in part.
    Any,
    /// One token.
    Token,
    /// So many units.
    Units(u64),
    /// So many units, even as a debt.
    Overdraft(u64),
}

/// What a request asks for. A type, not a value, so that the decision on one token is compiled for that.
pub trait Amount: Copy {
    /// In units, of which a token is `units_per_token`.
    fn units(self, units_per_token: impl Fn() -> u64) -> u64;
}

/// One token.
#[derive(Clone, Copy, Debug)]
pub struct Token;

/// So many units.
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

/// The times that a change is settled by: a change of quota, a refund, a grant that is taken back. Read once the state is known,
/// so that they are not older than the decisions in it.
pub trait Times {
    /// The time of the change.
    fn now_ns(&self) -> u64;

    /// By the clock, the latest time that it has shown anybody; the time of the change, if the caller supplies that.
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

/// What a model tells the time by.
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

    /// How many units one token is.
    #[doc(hidden)]
    fn token(&self) -> u64 {
        1
    }

    /// The most units that one request can take.
    #[doc(hidden)]
    fn limit(&self) -> u64;

    /// Takes without a clock reading, where that is possible now. `is_held` tells whether waiters come first.
    #[doc(hidden)]
    #[inline(always)]
    fn takes_unread(&self, request: Request, is_held: impl Fn() -> bool) -> bool {
        let _ = (request, is_held);
        false
    }

    /// Notes a time that a caller has supplied to decide `request` by.
    #[doc(hidden)]
    #[inline(always)]
    fn supplied(&self, now_ns: u64, request: Request) {
        let _ = (now_ns, request);
    }

    /// Takes `amount`, all or none, as no waiter is ahead.
    #[doc(hidden)]
    fn decide(&self, now_ns: u64, amount: impl Amount) -> Result<(), Denied>;

    /// Takes the available units, up to `n`, as no waiter is ahead; returns how many.
    #[doc(hidden)]
    fn take_most(&self, now_ns: u64, n: u64) -> u64;

    /// Takes one token.
    #[doc(hidden)]
    #[inline(always)]
    fn take_token(&self, now_ns: u64, door: impl Fn() -> Result<(), Denied>) -> Result<(), Denied> {
        door()?;
        self.decide(now_ns, Token)
    }

    /// Takes `n` units, all or none.
    #[doc(hidden)]
    #[inline(always)]
    fn take_units(
        &self,
        now_ns: u64,
        n: u64,
        door: impl Fn() -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        door()?;
        self.decide(now_ns, Units(n))
    }

    /// Takes the available units, up to `n`; returns how many.
    #[doc(hidden)]
    fn take_up_to(&self, now_ns: u64, n: u64, door: impl Fn() -> Result<(), Denied>) -> u64 {
        door().map_or(0, |()| self.take_most(now_ns, n))
    }

    /// How many units can be taken.
    #[doc(hidden)]
    fn available(&self, now_ns: u64, door: impl Fn() -> Result<(), Denied>) -> u64 {
        door().map_or(0, |()| self.snapshot(now_ns).remaining)
    }

    /// Limit, available units and time until reset, as no waiter is ahead.
    #[doc(hidden)]
    fn snapshot(&self, now_ns: u64) -> Snapshot;

    /// The quota, and how units come back; none if no quota describes this type.
    #[doc(hidden)]
    fn policy(&self) -> Option<Policy> {
        let requotas = self.capabilities().requotas?;
        Some(Policy::new(requotas.quota(), false))
    }

    /// How each of two quotas stands, as no waiter is ahead; none if there are not two.
    #[doc(hidden)]
    fn quota_states(&self, now_ns: u64) -> Option<[QuotaState; 2]> {
        let _ = now_ns;
        None
    }

    /// Takes `n` units for what has already been done.
    #[doc(hidden)]
    fn charge(&self, now_ns: u64, n: u64, door: impl Fn() -> Result<(), Denied>) {
        self.take_up_to(now_ns, n, door);
    }

    /// Grants `n` units at the time `at_ns`, which may have passed, to the head of the queue.
    #[doc(hidden)]
    fn grant(&self, at_ns: u64, n: u64) -> Result<(), Denied> {
        self.decide(at_ns, Units(n))
    }

    /// Grants `n` units to a caller that found no waiters, at its own time.
    #[doc(hidden)]
    fn take(&self, now_ns: u64, n: u64) -> Result<(), Denied> {
        self.decide(now_ns, Units(n))
    }

    /// [`grant`](Self::grant) while `level` units are waited for; fills in what can be revoked later.
    #[doc(hidden)]
    fn drain(
        &self,
        at_ns: u64,
        n: u64,
        level: u128,
        receipts: &mut [Receipt],
    ) -> Result<(), Denied> {
        let _ = (level, receipts);
        self.grant(at_ns, n)
    }

    /// What [`grant`](Self::grant) would answer after `ahead` more units. Takes nothing.
    #[doc(hidden)]
    fn delay(&self, at_ns: u64, ahead: u128, n: u64) -> Result<(), Denied>;

    /// What [`take_units`](Self::take_units) would answer with the door open. Takes nothing.
    #[doc(hidden)]
    fn look(&self, now_ns: u64, n: u64) -> Result<(), Denied> {
        self.delay(now_ns, 0, n)
    }

    /// Takes back a grant of `n` units at `at_ns` that nobody used.
    #[doc(hidden)]
    fn take_back(&self, at_ns: u64, n: u64, receipts: &[Receipt], times: &dyn Times);

    /// How many receipts a grant has.
    #[doc(hidden)]
    fn receipts(&self) -> usize {
        0
    }

    /// Has new callers ask at the door from now on, or no longer.
    #[doc(hidden)]
    fn hold(&self, is_held: bool) {
        let _ = is_held;
    }

    /// The engine's own fields for `Debug`, beside the quota.
    #[doc(hidden)]
    fn describe(&self, fields: &mut fmt::DebugStruct<'_, '_>) {
        let _ = fields;
    }

    /// What it can do besides, for code that does not know its type.
    #[doc(hidden)]
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
    }
}

/// What an engine can do besides deciding.
#[derive(Clone, Copy, Default)]
#[expect(missing_debug_implementations, reason = "nobody can look at it")]
pub struct Capabilities<'a> {
    pub(crate) reserves: Option<&'a dyn Reserves>,
    /// Refunds of what was taken at an unknown time.
    pub(crate) refunds: Option<&'a dyn Refunds>,
    pub(crate) requotas: Option<&'a dyn Requotas>,
}

/// Engines that can promise a time: the units are taken now and used later. Sealed.
pub trait Reserves {
    /// Takes `n` units (none: one token) now, to be used at [`Booking::at_ns`], unless that is more than `max_wait_ns` ahead.
    #[doc(hidden)]
    fn reserve(
        &self,
        now_ns: u64,
        n: Option<u64>,
        max_wait_ns: Option<u128>,
    ) -> Result<Booking, Denied>;

    /// Gives back a booking; returns how many units came back.
    #[doc(hidden)]
    fn revoke(&self, booking: &Booking, times: &dyn Times) -> u64;
}

/// Engines that can give back units without being told when they were taken. Sealed.
pub trait Refunds {
    /// Gives back the newest `n` units; returns how many came back.
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
