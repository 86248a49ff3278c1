use std::time::Duration;

use crate::{DetectedAlgorithm, Phase};

/// Progress of an [`Investigation`](crate::Investigation), reported before each batch.
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
pub struct ProbeProgress<'a> {
    /// Phase of the next batch.
    pub phase: Phase,
    /// Number of requests sent so far.
    pub requests: u64,
    /// Time since the investigation began.
    pub elapsed: Duration,
    /// Detected algorithm so far, once there is one.
    pub guess: Option<&'a DetectedAlgorithm>,
}
