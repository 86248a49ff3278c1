use std::time::Duration;

use crate::{Likeness, Phase};

/// How far an [`Investigation`](crate::Investigation) has come: told before each volley.
///
/// ```
/// use flowgate_verify::{Investigation, Phase, Simulated};
///
/// let mut phases = Vec::new();
/// let mut subject = Simulated::new(|_| true.into());
/// let Ok(_) = Investigation::new().run(&mut subject, &mut |progress| {
///     if phases.last() != Some(&progress.phase) {
///         phases.push(progress.phase);
///     }
/// });
/// assert_eq!(phases, [Phase::Hello, Phase::Burst]);
/// ```
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
