//! The state of a limiter that needs more than one number of 64 bits, or parameters that change while it is used: one 128-bit
//! word, changed by compare-and-swap.
//!
//! ```text
//!  127 ································ 16 15 ············ 0
//!  state, 112 bits                         generation
//! ```
//!
//! The limiter defines the meaning of the state. The cell passes the state and the current parameters to a pure step, and swaps
//! the result in if no other thread has changed the word in the meantime.
//!
//! # Changing the parameters
//!
//! The word contains the generation of the current parameters, which are [`Versioned`]. A change holds `changing`, fills the
//! version that is not current, and swaps the word for one of the next generation, with the state re-expressed. A decision
//! commits only if its parameters are still current. A refusal commits nothing; it only needs parameters of one generation.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `word` | every decision | decisions (CAS); changes (CAS) | generation in the word |
//! | `parameters`, version g | decisions of generation g | the change to generation g | `changing`; readers: the tag |
//! | `changing` | changes | changes | itself |
//!
//! A generation has 16 bits. A decision can be suspended between its last check of the tag and its swap. If exactly a multiple
//! of 65,536 changes happens in that time, and they leave the very same state, the decision commits with its old parameters:
//! one operation.

#[cfg(all(test, flowgate_loom))]
mod model;
mod moving_base;

pub(crate) use crate::algorithm::Step;
pub(crate) use moving_base::MovingBase;

use crate::primitive::versioned::Versioned;
use crate::primitive::{AtomicU128, Lock, Ordering, const_unless_loom};
use core::marker::PhantomData;

/// The values that a limiter needs to decide, as `N` words. They are few, because each decision loads them all.
pub(crate) trait Parameters<const N: usize>: Sized {
    /// Returns the words from which [`from_words`](Self::from_words) creates an equal value.
    fn to_words(&self) -> [u64; N];

    fn from_words(words: [u64; N]) -> Self;
}

/// See the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Cell<P, const N: usize> {
    /// The layout is drawn above.
    word: AtomicU128,
    parameters: Versioned<N>,
    changing: Lock<()>,
    decoded: PhantomData<fn() -> P>,
}

const STATE_SHIFT: u32 = 16;
const GENERATION: u128 = (1 << STATE_SHIFT) - 1;

/// The largest state.
pub(crate) const STATE_MAX: u128 = u128::MAX >> STATE_SHIFT;

impl<P: Parameters<N>, const N: usize> Cell<P, N> {
    const_unless_loom! {
        /// Creates a cell with the parameters in `words`. It takes words because a trait's methods cannot be called in a
        /// constant.
        pub(crate) const fn new(words: [u64; N], state: u128) -> Self {
            Self {
                word: AtomicU128::new(state << STATE_SHIFT),
                parameters: Versioned::new(&words),
                changing: Lock::new(()),
                decoded: PhantomData,
            }
        }
    }

    /// The decision: replaces the state by the result of `step`, or returns the reason of its refusal.
    ///
    /// It takes one load and one compare-and-swap; a refusal writes nothing. `step` may run several times.
    #[inline(always)]
    pub(crate) fn decide<R>(&self, step: impl Fn(&P, u128) -> Result<u128, R>) -> Result<(), R> {
        // Acquire: pairs with the Release of the change that made this generation current, through the relaxed swaps of later
        // decisions, which continue its release sequence.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let Some(parameters) = self.parameters_of(word) else {
                word = self.word.load(Ordering::Acquire);
                continue;
            };
            match step(&parameters, word >> STATE_SHIFT) {
                Ok(state) => match self.swap(word, state) {
                    Ok(_) => return Ok(()),
                    Err(current) => word = current,
                },
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// Runs `step` on the state until its outcome can be committed; `step` may run several times.
    pub(crate) fn update<R>(&self, mut step: impl FnMut(&P, u128) -> Step<R>) -> R {
        loop {
            let (parameters, word) = self.seen();
            match step(&parameters, word >> STATE_SHIFT) {
                Step::Stay(told) => return told,
                Step::Move(state, told) => {
                    if self.swap(word, state).is_ok() {
                        return told;
                    }
                }
            }
        }
    }

    /// Returns a consistent snapshot of the current parameters and the state.
    pub(crate) fn view(&self) -> (P, u128) {
        let (parameters, word) = self.seen();
        (parameters, word >> STATE_SHIFT)
    }

    /// Replaces the parameters and the state in one step.
    ///
    /// `change` receives the current ones, and may run several times.
    pub(crate) fn reconfigure<R>(&self, mut change: impl FnMut(&P, u128) -> (P, u128, R)) -> R {
        let _changing = self.changing.lock();
        loop {
            let (old, word) = self.seen();
            let (new, state, told) = change(&old, word >> STATE_SHIFT);
            debug_assert!(state <= STATE_MAX, "a change left a state of over 112 bits");
            let generation = generation(word.wrapping_add(1));
            self.parameters.fill(generation, &new.to_words());
            let new_word = state << STATE_SHIFT | u128::from(generation);
            // Release: pairs with the Acquire loads that then find the version filled.
            let (success, failure) = (Ordering::Release, Ordering::Relaxed);
            let swapped = self
                .word
                .compare_exchange_weak(word, new_word, success, failure);
            if swapped.is_ok() {
                return told;
            }
        }
    }

    fn seen(&self) -> (P, u128) {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if let Some(parameters) = self.parameters_of(word) {
                return (parameters, word);
            }
        }
    }

    /// Returns the parameters of the generation of `word`; `None` if that generation is no longer current.
    #[inline(always)]
    fn parameters_of(&self, word: u128) -> Option<P> {
        let words = self.parameters.load(generation(word))?;
        Some(P::from_words(words))
    }

    /// Replaces the state of `word` by `state`. Returns the present word as an error, if that is another.
    #[inline(always)]
    fn swap(&self, word: u128, state: u128) -> Result<u128, u128> {
        debug_assert!(state <= STATE_MAX, "a step left a state of over 112 bits");
        self.word.compare_exchange_weak(
            word,
            state << STATE_SHIFT | word & GENERATION,
            Ordering::Relaxed,
            Ordering::Acquire,
        )
    }
}

/// Returns the generation of this word.
const fn generation(word: u128) -> u64 {
    (word & GENERATION) as u64
}

// The generation after the last is 0, which must not select the same version.
const _: () = assert!(generation(GENERATION) & 1 == 1);
