use std::time::Duration;

use crate::{Likeness, Phase};

/// How far an [`Investigation`](crate::Investigation) has come: told before each volley.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// What the volley is to find out.
    pub phase: Phase,
    /// How many requests have been made.
    pub requests: u64,
    /// How long it has taken.
    pub elapsed: Duration,
    /// What it looks like so far, once there is a guess.
    pub guess: Option<&'a Likeness>,
}
