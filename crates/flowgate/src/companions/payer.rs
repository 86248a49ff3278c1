//! Taking from a limiter that is held, not borrowed: turn after turn, none of which asks for more than can be granted
//! at once.

use crate::clock::Timestamp;
use crate::limiter::Limiter;
use crate::limiter::sealed::Sealed;
use crate::queue::{Grant, Supply, Turn};
use crate::verdict::Denied;
use core::ops::Deref;
use core::task::{Poll, Waker, ready};

/// Somebody who holds a limiter by a reference or an `Arc`, and pays it again and again for `WAYS` things, each of
/// which may wait while the others go on. Leaves the queue when it is dropped.
pub(crate) struct Payer<P, const WAYS: usize>
where
    P: Deref,
    P::Target: Limiter,
{
    limiter: P,
    /// Those that wait.
    turns: [Option<Turn>; WAYS],
}

/// What was granted and has not been used so far: given back when this is dropped, except for what has flowed in again
/// by itself since it was granted.
pub(crate) struct Unused<'a> {
    supply: &'a dyn Supply,
    at: Timestamp,
    units: u64,
}

impl<P, const WAYS: usize> Payer<P, WAYS>
where
    P: Deref,
    P::Target: Limiter,
{
    pub(crate) fn new(limiter: P) -> Self {
        Self {
            limiter,
            turns: [const { None }; WAYS],
        }
    }

    pub(crate) fn limiter(&self) -> &P::Target {
        &self.limiter
    }

    /// Takes one token.
    #[cfg(feature = "futures")]
    pub(crate) fn poll_token(&mut self, way: usize, waker: &Waker) -> Poll<Result<(), Denied>> {
        let turn = self.turns[way].get_or_insert_with(Turn::new);
        let answer = ready!(turn.poll(self.limiter.supply().0, waker));
        self.turns[way] = None;
        Poll::Ready(answer.map(|_| ()))
    }

    /// Takes up to `wanted` units, and one at least: as many at once as `portion` says, told how many the limiter can
    /// grant at once. Who is in the queue already has asked by what it was told then.
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
                    return Poll::Ready(Ok(Unused::new(limiter.supply().0, granted.into())));
                }
                // Less is possible at once than when it asked.
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

impl<P, const WAYS: usize> Drop for Payer<P, WAYS>
where
    P: Deref,
    P::Target: Limiter,
{
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

    /// Uses `n`, or as many as there are.
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
