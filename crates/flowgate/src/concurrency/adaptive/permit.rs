//! What an adaptive limit grants, and how a call ended.

use super::AdaptiveLimit;
use crate::clock::Clock;
use crate::concurrency::adaptive::algorithm::Adapt;
use crate::queue::{Acquirable, Turn};
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
use core::task::{Poll, Waker};

/// How a call ended, as far as a limit is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// The service did its work. The latency counts.
    Success,
    /// The service was overloaded: a timeout, a refusal, a full queue.
    Overload,
    /// The call says nothing about the service's load, such as an invalid request or a hit of a cache.
    Ignore,
}

/// What a permit remembers of its call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub(super) n: u64,
    /// `None`: it is not measured.
    pub(super) began_ns: Option<u64>,
    /// How many cuts there had been.
    pub(super) epoch: u64,
}

/// A limit that learns from the outcomes of calls.
pub trait Learns {
    fn end(&self, call: Call, outcome: CallOutcome);
}

/// The right to run a call, and the duty to report how it ended.
///
/// `P` is the pointer to the [`AdaptiveLimit`]: a reference, or an [`Arc`] ([`OwnedAdaptivePermit`]). A permit that is dropped without
/// [`finish`](Self::finish) counts as [`CallOutcome::Ignore`].
///
/// ```
/// use flowgate::{AdaptiveLimit, Gradient, CallOutcome};
///
/// let limit = AdaptiveLimit::new(Gradient::default());
/// let permit = limit.try_acquire()?;
/// let response = Ok::<u32, ()>(7);
/// permit.finish(match response {
///     Ok(_) => CallOutcome::Success,
///     Err(_) => CallOutcome::Overload,
/// });
/// assert_eq!(limit.in_flight(), 0);
/// # Ok::<(), flowgate::Denied>(())
/// ```
#[must_use = "a permit that is dropped is returned"]
pub struct AdaptivePermit<P>
where
    P: Deref<Target: Learns>,
{
    limit: P,
    call: Call,
    outcome: CallOutcome,
}

/// An [`AdaptivePermit`] that keeps its limit alive, so it can move into another task.
pub type OwnedAdaptivePermit<A> = AdaptivePermit<Arc<AdaptiveLimit<A>>>;

impl<P> AdaptivePermit<P>
where
    P: Deref<Target: Learns>,
{
    #[inline(always)]
    pub(super) fn new(limit: P, call: Call) -> Self {
        Self {
            limit,
            call,
            outcome: CallOutcome::Ignore,
        }
    }

    /// Returns the permit, and reports how the call ended.
    #[inline]
    pub fn finish(mut self, outcome: CallOutcome) {
        self.outcome = outcome;
    }

    /// Returns the number of permits that it holds.
    pub fn units(&self) -> u64 {
        self.call.n
    }

    /// Returns the limit that granted the permit.
    pub fn limit(&self) -> &P::Target {
        &self.limit
    }
}

impl<P> Drop for AdaptivePermit<P>
where
    P: Deref<Target: Learns>,
{
    #[inline]
    fn drop(&mut self) {
        self.limit.end(self.call, self.outcome);
    }
}

impl<P> fmt::Debug for AdaptivePermit<P>
where
    P: Deref<Target: Learns>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptivePermit")
            .field("units", &self.call.n)
            .finish_non_exhaustive()
    }
}

/// What [`Acquire`](crate::Acquire) waits for at an [`AdaptiveLimit`].
///
/// `P` is the pointer to the limit.
#[derive(Clone, Copy, Debug)]
pub struct AdaptivePermits<P>(pub(super) P);

impl<P, A> Acquirable for AdaptivePermits<P>
where
    P: Deref<Target = AdaptiveLimit<A>> + Clone,
    A: Adapt + ?Sized,
{
    type Granted = AdaptivePermit<P>;

    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<AdaptivePermit<P>, Denied>> {
        turn.poll(self.0.permits(), waker).map_ok(|granted| {
            let call = self.0.begin(granted.units);
            AdaptivePermit::new(self.0.clone(), call)
        })
    }

    fn abandon(&mut self, turn: &mut Turn) {
        turn.abandon(self.0.permits());
    }

    fn clock_of_deadlines(&self) -> &Clock {
        self.0.clock()
    }
}
