//! One key, seen from its line.

use super::algorithm::KeyedAlgorithm;
use super::keys::{Asked, Refusal, Who};
use super::names::KeyNames;
use super::rule::Rule;
use super::view::KeyedView;
use crate::clock::{Clock, Timestamp};
use crate::reservation::Receipt;
use crate::room::{Room, Supply};
use crate::verdict::Denied;

/// A key, and the room of those who wait for it.
pub(super) struct KeySupply<'a, A: KeyedAlgorithm, N: KeyNames> {
    pub(super) view: KeyedView<'a, A, N>,
    pub(super) who: Who<'a, N>,
    pub(super) room: &'a Room,
}

impl<A: KeyedAlgorithm, N: KeyNames> KeySupply<'_, A, N> {
    fn asked(&self, now_ns: u64) -> Asked<'_> {
        Asked {
            now_ns,
            clock: None,
            own: self.view.own.as_ref(),
        }
    }

    /// Takes `n` units at `now_ns`, whoever waits.
    pub(super) fn take(&self, now_ns: u64, n: Option<u64>) -> Result<(), Denied> {
        let taken = self
            .view
            .keyed
            .keys
            .take(self.who, self.asked(now_ns), n, true);
        taken.map_err(Refusal::denied)
    }

    /// What [`take`](Self::take) would answer.
    pub(super) fn look(&self, now_ns: u64, n: Option<u64>) -> Result<(), Denied> {
        self.delay_of(now_ns, 0, n)
    }

    fn delay_of(&self, now_ns: u64, ahead: u128, n: Option<u64>) -> Result<(), Denied> {
        let now = super::keys::ticks(now_ns);
        let (terms, state, _) = self.view.keyed.keys.look(self.who, self.asked(now_ns));
        let n = n.unwrap_or(terms.scale);
        let state = A::Rule::behind(state, now, ahead, &terms);
        super::keys::judge::<A::Rule>(state, now, n, &terms).map(drop)
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Supply for KeySupply<'_, A, N> {
    fn room(&self) -> &Room {
        self.room
    }

    fn clock(&self) -> &Clock {
        &self.view.keyed.clock
    }

    fn token(&self) -> u64 {
        self.view.keyed.terms(self.view.own.as_ref()).scale
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.take(at.as_nanos(), Some(n))
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.look(at.as_nanos(), Some(n))
    }

    fn take_back(&self, at: Timestamp, n: u64, _: &Receipt) {
        let now_ns = at.max(self.view.keyed.clock.latest()).as_nanos();
        let _change = self.room.change(self);
        self.view
            .keyed
            .keys
            .give_back(self.who, self.asked(now_ns), n);
    }

    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        self.delay_of(at.as_nanos(), ahead, Some(n))
    }
}
