//! The limiter, seen from its line.

use super::WarmUp;
use super::parameters::Parameters;
use crate::algorithm::warm_up::State;
use crate::clock::{Clock, Timestamp};
use crate::limiter::reservation::Receipt;
use crate::room::{Room, Supply};
use crate::verdict::Denied;

/// What was last granted to somebody who may leave before they know, and what has to be known to undo it.
#[derive(Debug)]
pub(super) struct Turn {
    at_ns: u64,
    units: u64,
    receipt: Receipt,
}

impl Supply for WarmUp {
    fn room(&self) -> &Room {
        &self.room
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn token(&self) -> u64 {
        self.cell.view().0.units_per_token
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let now_ns = at.as_nanos();
        let receipt = self.update(
            |parameters, state| match parameters.take(state, now_ns, n) {
                Ok(Some(taken)) => {
                    let receipt = parameters.receipt(state, now_ns, taken);
                    (Some(taken), Ok(Some(receipt)))
                }
                Ok(None) => (None, Ok(None)),
                Err(denied) => (None, Err(denied)),
            },
        )?;
        *self.last_turn.lock() = receipt.map(|receipt| Turn {
            at_ns: now_ns,
            units: n,
            receipt,
        });
        Ok(())
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let (parameters, word) = self.cell.view();
        let taken = parameters.take(parameters.unpack(word), at.as_nanos(), n);
        taken.map(|_| ())
    }

    fn take_back(&self, at: Timestamp, n: u64, _: &[Receipt]) {
        self.take_back_of(at, n);
    }

    /// Exactly if nobody is ahead. Otherwise as if those ahead were served as one: not longer than it takes, and
    /// shorter only by what is rounded up for each of them, to a tick and to a nanosecond.
    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        let (parameters, word) = self.cell.view();
        let state = parameters.unpack(word);
        let alone = parameters.take(state, at.as_nanos(), n).map(|_| ());
        if ahead == 0 || alone.is_err_and(|denied| denied.is_never()) {
            return alone;
        }
        let now = parameters.now(at.as_nanos());
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        let settled = parameters.curve.settled(state, now);
        let next_free = parameters.curve.spent(settled, ahead).next_free;
        if parameters.ns(next_free) > u128::from(u64::MAX) {
            return Err(Denied::too_late());
        }
        // Everything costs something.
        Err(Denied::later(next_free - now, parameters.ticks_per_ns))
    }
}

impl WarmUp {
    /// Has the grant at `at` be of `n` units less, if nothing has been granted since.
    fn take_back_of(&self, at: Timestamp, n: u64) {
        let turn = {
            let mut last_turn = self.last_turn.lock();
            last_turn.take_if(|turn| turn.at_ns == at.as_nanos() && turn.units >= n)
        };
        if let Some(turn) = turn {
            self.undo(&turn.receipt, turn.units, n);
        }
    }
}

impl Parameters {
    /// Of taking something from `state` at `now_ns`, which has left `taken`.
    fn receipt(&self, state: State, now_ns: u64, taken: State) -> Receipt {
        Receipt {
            state: taken.next_free,
            // What was stored before.
            given_back: self.curve.settled(state, self.now(now_ns)).stored,
            epoch: self.epoch,
            ..Receipt::default()
        }
    }
}
