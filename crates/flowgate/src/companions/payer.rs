//! Acquiring from a limiter that is owned by a reference or an `Arc`: request after request, none of which asks for more than
//! the limiter can grant in one decision.

use crate::clock::Timestamp;
use crate::limiter::Limiter;
use crate::limiter::sealed::Sealed;
use crate::queue::{Grant, Supply, Turn};
use crate::verdict::Denied;
use core::ops::Deref;
use core::task::{Poll, Waker, ready};

/// Holder of a limiter, by a reference or an `Arc`, that acquires from it repeatedly for `WAYS` purposes. Each purpose may wait
/// while the others go on. Dropping the payer leaves the queue.
pub(crate) struct Payer<P: Deref<Target: Limiter>, const WAYS: usize> {
    limiter: P,
    /// The purposes that wait.
    turns: [Option<Turn>; WAYS],
}

/// Units that were granted and are not used yet. Dropping it returns them, except for those that have been refilled since the
/// grant.
pub(crate) struct Unused<'a> {
    supply: &'a dyn Supply,
    at: Timestamp,
    units: u64,
}

impl<P: Deref<Target: Limiter>, const WAYS: usize> Payer<P, WAYS> {
    pub(crate) fn new(limiter: P) -> Self {
        Self {
            limiter,
            turns: [const { None }; WAYS],
        }
    }

    pub(crate) fn limiter(&self) -> &P::Target {
        &self.limiter
    }

    /// Acquires one token.
    #[cfg(feature = "futures")]
    pub(crate) fn poll_token(&mut self, way: usize, waker: &Waker) -> Poll<Result<(), Denied>> {
        let turn = self.turns[way].get_or_insert_with(Turn::new);
        let answer = ready!(turn.poll(self.limiter.supply().0, waker));
        self.turns[way] = None;
        Poll::Ready(answer.map(|_| ()))
    }

    /// Acquires up to `wanted` units, and at least one. `portion` receives the largest amount that the limiter can grant in one
    /// decision, and returns how many units to request. A purpose that is in the queue already has made its request by the
    /// amount at that time.
    pub(crate) fn poll_some(
        &mut self,
        way: usize,
        wanted: u64,
        portion: impl Fn(u64) -> u64,
        waker: &Waker,
    ) -> Poll<Result<Unused<'_>, Denied>> {
        let Self { limiter, turns } = self;
        let (limiter, place) = (&**limiter, &mut turns[way]);
        loop {
            let turn = place.get_or_insert_with(|| {
                let portion = portion(limiter.snapshot().limit).max(1);
                let mut turn = Turn::new();
                turn.units = Some(wanted.min(portion));
                turn
            });
            let answer = ready!(turn.poll(limiter.supply().0, waker));
            let asked = turn.units;
            *place = None;
            match answer {
                Ok(granted) => {
                    return Poll::Ready(Ok(Unused::new(limiter.supply().0, granted)));
                }
                // The limiter can grant less in one decision than at the time of the request.
                Err(denied)
                    if denied.is_never() && asked > Some(limiter.snapshot().limit.max(1)) => {}
                Err(denied) => return Poll::Ready(Err(denied)),
            }
        }
    }

    /// Leaves the queue.
    pub(crate) fn leave(&mut self, way: usize) {
        if let Some(mut turn) = self.turns[way].take() {
            turn.abandon(self.limiter.supply().0);
        }
    }
}

impl<P: Deref<Target: Limiter>, const WAYS: usize> Drop for Payer<P, WAYS> {
    fn drop(&mut self) {
        for way in 0..WAYS {
            self.leave(way);
        }
    }
}

impl<'a> Unused<'a> {
    fn new(supply: &'a dyn Supply, grant: Grant) -> Self {
        Self {
            supply,
            at: grant.at(),
            units: grant.units(),
        }
    }

    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    /// Uses `n` units, or all of them if there are fewer.
    pub(crate) fn use_up(&mut self, n: u64) {
        self.units = self.units.saturating_sub(n);
    }
}

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        if self.units != 0 {
            self.supply.take_back(self.at, self.units, &[]);
        }
    }
}
