//! The data that a word needs from the first change of its parameters on.

use super::cold;
use super::layout::Narrow;
use super::parameters::Parameters;
use super::past::Past;
use super::shared::Stripes;
use crate::primitive::Lock;
use crate::primitive::versioned::Versioned;

/// Nearly all limiters keep the parameters that they were built with, so this is made at the first change.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) cold: Versioned<{ cold::WORDS }, { Narrow::GENERATION_SHIFT }>,
    pub(super) config: Lock<Config>,
    pub(super) stripes: Option<Stripes>,
}

/// The current parameters, for threads that change them.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) generation: u64,
    pub(super) parameters: Parameters,
    /// For times before [`Parameters::since_ns`]; `None` while that is 0.
    pub(super) past: Option<Past>,
}

impl Changes {
    /// In generation 0.
    pub(super) fn new(parameters: Parameters) -> Self {
        Self {
            cold: Versioned::new(&cold::words(&parameters)),
            config: Lock::new(Config {
                generation: 0,
                parameters,
                past: None,
            }),
            stripes: None,
        }
    }
}
