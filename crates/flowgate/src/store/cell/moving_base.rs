//! States of a [`Cell`] that count time from a base, so that they take fewer bits than a whole time.
//!
//! The base is one of the parameters. If a state is too far from the base to be packed, the base moves. This is a change of
//! parameters like any other, and loses nothing. It is rare: apart from the failed packing, the decision has no branch for it.

use super::{Cell, Parameters, Step};
use crate::verdict::{Denied, Verdict};

/// Parameters with a base.
pub(crate) trait MovingBase<const N: usize>: Parameters<N> {
    type State: Copy;

    fn unpack(&self, word: u128) -> Self::State;

    /// Returns the bits of `state`; `None` if the state is too far from the base.
    fn pack(&self, state: Self::State) -> Option<u128>;

    /// Takes `n` units at `now_ns`, and returns the new state, if there is one. To be inlined.
    fn take(&self, state: Self::State, now_ns: u64, n: u64) -> Result<Option<Self::State>, Denied>;

    /// Returns the same parameters with a base at which `state` fits, and its bits.
    fn rebased(&self, state: Self::State) -> (Self, u128);
}

impl<P: MovingBase<N>, const N: usize> Cell<P, N> {
    /// The decision: takes the number of units that `units` returns.
    #[inline(always)]
    pub(crate) fn take(&self, now_ns: u64, units: impl Fn(&P) -> u64) -> Verdict {
        let decided = self.decide(|parameters, word| {
            match parameters.take(parameters.unpack(word), now_ns, units(parameters)) {
                // `take_slowly` decides if the word has no room for the state, or if there is no state.
                Ok(Some(state)) => parameters.pack(state).ok_or(None),
                Ok(None) => Err(None),
                Err(denied) => Err(Some(denied)),
            }
        });
        match decided {
            Ok(()) => Ok(()),
            Err(Some(denied)) => Err(denied),
            Err(None) => self.take_slowly(now_ns, units),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_slowly(&self, now_ns: u64, units: impl Fn(&P) -> u64) -> Verdict {
        self.update_state(|parameters, state| {
            match parameters.take(state, now_ns, units(parameters)) {
                Ok(next) => (next, Ok(())),
                Err(denied) => (None, Err(denied)),
            }
        })
    }

    /// Puts the state that `step` returns in place, if it returns one, and returns the rest. `step` may run several times.
    pub(crate) fn update_state<R>(
        &self,
        step: impl Fn(&P, P::State) -> (Option<P::State>, R),
    ) -> R {
        let in_place =
            self.update(
                |parameters, word| match step(parameters, parameters.unpack(word)) {
                    (None, told) => Step::Stay(Some(told)),
                    (Some(state), told) => match parameters.pack(state) {
                        Some(word) => Step::Move(word, Some(told)),
                        None => Step::Stay(None),
                    },
                },
            );
        in_place.unwrap_or_else(|| {
            self.reconfigure(|parameters, word| {
                let state = parameters.unpack(word);
                let (moved, told) = step(parameters, state);
                let (rebased, word) = parameters.rebased(moved.unwrap_or(state));
                (rebased, word, told)
            })
        })
    }

    /// [`view`](Self::view) with the state unpacked.
    pub(crate) fn view_state(&self) -> (P, P::State) {
        let (parameters, word) = self.view();
        let state = parameters.unpack(word);
        (parameters, state)
    }

    /// [`reconfigure`](Self::reconfigure) with a base for the new state.
    pub(crate) fn reconfigure_state<R>(
        &self,
        mut change: impl FnMut(&P, P::State) -> (P, P::State, R),
    ) -> R {
        self.reconfigure(|parameters, word| {
            let (new, state, told) = change(parameters, parameters.unpack(word));
            let (rebased, word) = new.rebased(state);
            (rebased, word, told)
        })
    }
}
