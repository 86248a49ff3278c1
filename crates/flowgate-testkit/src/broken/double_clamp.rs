//! Two callers clamp the same excess, each by subtracting it.
//!
//! The refill has raised the allowance above its maximum. A caller computes the excess and subtracts it; so does
//! another that computed the same. The allowance is then too low by the second subtraction, although no request was
//! admitted.
//!
//! [`interleave`](crate::interleave) detects it by trying every schedule of a few steps. Use instead:
//! [`flowgate::TokenBucket`], whose single time needs no separate clamp.

use crate::interleave::Machine;
use crate::promise::TimedGrant;

/// Threads that clamp an allowance with an excess.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::broken::double_clamp::DoubleClamp;
///
/// // A bucket of two has one too many, and two threads subtract it.
/// let mut bucket = DoubleClamp::new(2, 1, 2);
/// for thread in [0, 1, 0, 1] {
///     bucket.step(thread);
/// }
/// assert_eq!(bucket.lost().as_deref(), Some("1 of 2 are lost, and nothing was admitted"));
/// ```
#[derive(Clone, Debug)]
pub struct DoubleClamp {
    most: u64,
    allowance: u64,
    threads: Vec<At>,
}

/// The next step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Look,
    Subtract(u64),
    Done,
}

impl DoubleClamp {
    /// Creates a bucket of `most` with `excess` on top, clamped by `threads` threads.
    pub fn new(most: u64, excess: u64, threads: usize) -> Self {
        Self {
            most,
            allowance: most + excess,
            threads: vec![At::Look; threads],
        }
    }

    /// Returns what is missing although nothing was taken.
    pub fn lost(&self) -> Option<String> {
        let done = self.threads.iter().all(|at| *at == At::Done);
        let lost = self.most.saturating_sub(self.allowance);
        (done && lost > 0)
            .then(|| format!("{lost} of {} are lost, and nothing was admitted", self.most))
    }
}

impl Machine for DoubleClamp {
    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn step(&mut self, thread: usize) -> Option<String> {
        match self.threads[thread] {
            At::Look => {
                let excess = self.allowance.saturating_sub(self.most);
                self.threads[thread] = if excess > 0 {
                    At::Subtract(excess)
                } else {
                    At::Done
                };
                Some(format!(
                    "thread {thread}: sees {}, {excess} too many",
                    self.allowance
                ))
            }
            At::Subtract(excess) => {
                // The mistake: another may have done so.
                self.allowance = self.allowance.wrapping_sub(excess);
                self.threads[thread] = At::Done;
                Some(format!(
                    "thread {thread}: subtracts {excess}, {} now",
                    self.allowance
                ))
            }
            At::Done => None,
        }
    }

    fn grants(&self) -> &[TimedGrant] {
        &[]
    }
}
