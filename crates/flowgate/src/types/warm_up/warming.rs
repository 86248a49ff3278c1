//! The state of a limiter that warms up, and the steps from one to the next.

use super::parameters::{Parameters, WORDS};
use crate::algorithm::warm_up::State;
use crate::primitive::{AtomicU64, Lock};
use crate::queue::Receipt;
use crate::quota::{Quota, QuotaError};
use crate::store::cell::MovingBase as _;
use crate::store::cell::{Cell, Parameters as _};
use crate::verdict::{Denied, Verdict};
use core::time::Duration;

/// A rate that ramps up from cold.
#[derive(Debug)]
pub struct Warming {
    pub(super) cell: Cell<Parameters, WORDS>,
    /// The latest time that a caller has supplied. Nothing is revoked as of an earlier time.
    pub(super) newest_ns: AtomicU64,
    /// The latest start time of a reservation that has to wait. It is raised before the reservation is made.
    pub(super) last_told_ns: AtomicU64,
    pub(super) settings: Lock<Settings>,
    /// State that decisions by `try_acquire` and `reserve` never read.
    last_turn: Lock<Option<Turn>>,
}

/// The current settings, for methods that change them.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) quota: Quota,
    pub(super) warm_up: Duration,
    pub(super) cold_factor: u32,
    /// The time at which everything that was taken at an earlier rate has been paid. None of that is refunded.
    pub(super) earlier_rates_until_ns: u64,
}

/// The last grant to a waiter that may leave before it receives the grant, and what is needed to undo it.
#[derive(Debug)]
struct Turn {
    at_ns: u64,
    units: u64,
    receipt: Receipt,
}

impl Warming {
    /// Cold, with nothing taken.
    pub(super) fn new(
        quota: Quota,
        warm_up: Duration,
        cold_factor: u32,
    ) -> Result<Self, QuotaError> {
        let parameters = Parameters::new(&quota, warm_up, cold_factor)?;
        let (parameters, word) = parameters.rebased(parameters.cold());
        Ok(Self {
            cell: Cell::new(parameters.to_words(), word),
            newest_ns: AtomicU64::new(0),
            last_told_ns: AtomicU64::new(0),
            settings: Lock::new(Settings {
                quota,
                warm_up,
                cold_factor,
                earlier_rates_until_ns: 0,
            }),
            last_turn: Lock::new(None),
        })
    }

    /// Takes `n` units at `now_ns`, and keeps what is needed to undo the grant.
    pub(super) fn take_turn(&self, now_ns: u64, n: u64) -> Verdict {
        let receipt = self.cell.update_state(|parameters, state| {
            match parameters.take(state, now_ns, n) {
                Ok(Some(taken)) => {
                    let receipt = parameters.receipt(state, now_ns, taken);
                    (Some(taken), Ok(Some(receipt)))
                }
                Ok(None) => (None, Ok(None)),
                Err(denied) => (None, Err(denied)),
            }
        })?;
        *self.last_turn.lock() = receipt.map(|receipt| Turn {
            at_ns: now_ns,
            units: n,
            receipt,
        });
        Ok(())
    }

    /// Reduces the grant at `at_ns` by `n` units, if nothing has been granted since.
    pub(super) fn take_out(&self, at_ns: u64, n: u64) {
        let turn = {
            let mut last_turn = self.last_turn.lock();
            last_turn.take_if(|turn| turn.at_ns == at_ns && turn.units >= n)
        };
        if let Some(turn) = turn {
            self.undo(&turn.receipt, turn.units, n);
        }
    }

    /// Undoes `back` of the `n` units of `receipt`, if the state is the one that this grant left. Every grant moves the next
    /// free time forward. Every operation that moves it back either undoes the last grant or begins an epoch, so no grant can
    /// have come in between.
    pub(super) fn undo(&self, receipt: &Receipt, n: u64, back: u64) -> u64 {
        self.cell.update_state(|parameters, state| {
            if parameters.epoch != receipt.epoch || state.next_free != receipt.state {
                return (None, 0);
            }
            let undone = parameters.undone(state, receipt.given_back, n);
            let kept = |undone| parameters.curve.spent(undone, n - back);
            (undone.map(kept), back)
        })
    }
}

impl Parameters {
    /// `after` without its last `n` units, before which `stored` was stored.
    pub(super) fn undone(&self, after: State, stored: u128, n: u64) -> Option<State> {
        let cost = self
            .curve
            .spent(
                State {
                    next_free: 0,
                    stored,
                },
                n,
            )
            .next_free;
        (n > 0).then_some(State {
            next_free: after.next_free.saturating_sub(cost),
            stored,
        })
    }

    #[cold]
    pub(super) fn never(&self, n: u64) -> Denied {
        Denied::never(n, self.burst_units)
    }

    /// The receipt of a grant in `state` at `now_ns`, which has left `taken`.
    pub(super) fn receipt(&self, state: State, now_ns: u64, taken: State) -> Receipt {
        Receipt {
            state: taken.next_free,
            // The store before the grant.
            given_back: self.curve.settled(state, self.now(now_ns)).stored,
            epoch: self.epoch,
            ..Receipt::default()
        }
    }
}
