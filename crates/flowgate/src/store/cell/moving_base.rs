//! States of a [`Cell`] that count time from a base, so that they take fewer bits than a whole time.
//!
//! The base is one of the parameters. A state that is too far from it to be packed has the base moved, which is a change of
//! parameters like any other and loses nothing. That is rare; the decision itself has no branch for it but the failed packing.

use super::{Cell, Parameters, Step};
use crate::verdict::Denied;

/// Parameters with a base.
pub(crate) trait MovingBase<const N: usize>: Parameters<N> {
    type State: Copy;

    fn unpack(&self, word: u128) -> Self::State;

    /// The bits of `state`; none if it is too far from the base.
    fn pack(&self, state: Self::State) -> Option<u128>;

    /// Takes `n` units at `now_ns`: the new state, if there is one. To be inlined.
    fn take(&self, state: Self::State, now_ns: u64, n: u64) -> Result<Option<Self::State>, Denied>;

    /// The same parameters with the base where `state` fits, and its bits.
    fn rebased(&self, state: Self::State) -> (Self, u128);
}

impl<P: MovingBase<N>, const N: usize> Cell<P, N> {
    /// The decision: takes as many units as `units` says.
    #[inline(always)]
    pub(crate) fn take(&self, now_ns: u64, units: impl Fn(&P) -> u64) -> Result<(), Denied> {
        let decided = self.decide(|parameters, word| {
            match parameters.take(parameters.unpack(word), now_ns, units(parameters)) {
                // A state that the word has no room for is for `take_slowly`, and so is none.
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
    fn take_slowly(&self, now_ns: u64, units: impl Fn(&P) -> u64) -> Result<(), Denied> {
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
